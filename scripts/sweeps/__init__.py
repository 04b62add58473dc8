"""The parts of scripts/sweep.py."""
