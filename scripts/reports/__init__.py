"""The parts of scripts/report.py."""
