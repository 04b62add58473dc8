"""The measuring scripts of scripts/dev run: on tiny sizes, on this machine, and on what they must refuse."""

import os
import sys

import pytest

from command import MAIN, ROOT, load_json, make_program, run

DEV = ROOT / "scripts" / "dev"


def gpu_check(tmp_path, *flags, **options):
    report = tmp_path / "report.json"
    outcome = run(DEV / "gpu_check" / "main.py", "--device=cpu", "--smoke", f"--out={report}", *flags, program=sys.executable,
                  **options)
    return outcome, {(row["part"], row["name"]): row for row in load_json(report)["rows"]}


def test_gpu_check_in_small(tmp_path):
    """On the CPU. In the short mode it trains and compares nothing with PyTorch, which tests/interop/test_torch_parity.py does."""
    pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")
    parts = "first,speed,text,parity,faults" if os.environ.get("DTRAIN_LONG_TESTS") == "1" else "faults"
    outcome, rows = gpu_check(tmp_path, f"--bin={MAIN.parent}", "--precisions=fp32", f"--parts={parts}", timeout=600)
    assert all(row.get("ok") or row["left_out"] for row in rows.values()), outcome
    assert "SMOKE" in outcome.stdout
    if "first" in parts:
        trained = rows["parity", "fp32"]
        assert len(trained["dtrain_losses"]) == len(trained["torch_losses"]) == len(set(trained["dtrain_losses"])) == 4
        assert 0 <= trained["difference"] <= trained["allowed"] < 1e-3
        assert rows["speed", "tiny images fp32 4 JPEGs"]["images_per_second"].keys() == {"dtrain", "eager"} and "ratio" in outcome.stdout
        trace = rows["first", "trace, tiny images fp32 4"]
        assert trace["steps"] == 3 and any("conv" in entry["name"] for entry in trace["top"])
    assert rows["faults", "killed and resumed"]["text"] == "the same bits"
    assert rows["faults", "out of memory"]["left_out"] == "no GPU"


def test_gpu_check_quotes_a_program_that_fails(tmp_path):
    pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")
    program = tmp_path / "dtrain_main"
    make_program(program, "#!/bin/sh\necho it broke >&2; exit 7\n")
    outcome, rows = gpu_check(tmp_path, f"--bin={tmp_path}", "--parts=faults", check=1)
    assert "ended with 7: it broke" in rows["faults", "steps that are not finite"]["text"] and "NOT OK" in outcome.stdout
