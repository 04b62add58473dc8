"""scripts/gpu_check, tried without a GPU: its reading of traces on a made-up one, and all of it with --smoke."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from command import MAIN, ROOT

torch = pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")

FOLDER = ROOT / "scripts" / "gpu_check"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import programs
    import trace_report

    return programs, trace_report


def event(name, category, start, duration, thread=1):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, "pid": 9, "tid": thread}


STEP = event("train_step 8", "user_annotation", 100, 100)
BACKWARD = event("autograd::engine", "cpu_op", 150, 40, thread=2)


@pytest.mark.parametrize(("wait", "place"), [
    (event("cudaStreamSynchronize", "cuda_runtime", 120, 5), "aten::item"),
    (event("cudaStreamSynchronize", "cuda_runtime", 160, 5, thread=2), "autograd::engine"),  # in the backward pass
    (event("cudaMemcpy", "cuda_runtime", 190, 5), "outside of operators"),
    (event("cudaStreamSynchronize", "cuda_runtime", 205, 5), None),      # after the step
    (event("cudaHostAlloc", "cuda_runtime", 120, 5, thread=3), None),    # a thread of the loader
    (event("cudaMemcpyAsync", "cuda_runtime", 120, 5), None),            # does not wait
    (event("cudaStreamSynchronize", "gpu_memcpy", 120, 5), None),        # a name on the GPU's timeline
])
def test_a_wait_is_found_where_it_is_one(scripts, wait, place):
    operators = [event("aten::to", "cpu_op", 119, 3), event("aten::item", "cpu_op", 118, 20), BACKWARD]
    waits = scripts[1].host_waits([STEP, *operators, wait])
    assert [one["in"] for one in waits] == ([] if place is None else [place])


def test_kernels_are_added_up_by_name(scripts):
    kernels = [event("conv", "kernel", 110, 30), event("conv", "kernel", 150, 50), event("relu", "kernel", 145, 20),
               event("copy", "gpu_memcpy", 100, 7)]
    report = scripts[1].summarize([STEP, *kernels, event("aten::conv2d", "cpu_op", 105, 500)])
    assert [(entry["name"], entry["microseconds"], entry["calls"]) for entry in report["top"]] == [
        ("conv", 80, 2), ("relu", 20, 1)]
    assert report["top"][0]["share"] == pytest.approx(0.8)
    assert (report["steps"], report["gpu_busy_microseconds"], report["step_microseconds"]) == (1, 107, 100)


def test_safetensors_come_back(scripts, tmp_path):
    from safetensors.torch import load_file

    tensors = {"a": torch.randn(3, 2), "b": torch.arange(5), "c": torch.randn(4).bfloat16(), "d": torch.tensor(2.5)}
    scripts[0].write_safetensors(tmp_path / "x.safetensors", tensors)
    for read in (scripts[0].read_safetensors(tmp_path / "x.safetensors"), load_file(tmp_path / "x.safetensors")):
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_smoke(tmp_path):
    out = tmp_path / "report.json"
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([ROOT / "scripts" / "gpu_check.sh", "--device=cpu", "--smoke", f"--bin={MAIN.parent}",
                           f"--out={out}", "--precisions=fp32", "--parts=parity,decode,speed,start,profile"],
                          capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    parity = report["parity"]["precisions"]["fp32"]
    assert len(parity["dtrain_losses"]) == len(parity["torch_losses"]) == 10
    assert len(set(parity["dtrain_losses"])) == 10
    assert parity["difference"] <= parity["allowed"] < 1e-3
    assert parity["movement_difference"] < 0.05
    (loaded,) = report["decode"]["rounds"]["cpu"]
    assert loaded["images_per_second"] > 0 and "decoded_on_gpu" not in loaded
    assert [row["data"] for row in report["speed"]["rows"]] == ["synthetic", "decoded"]
    for row in report["speed"]["rows"]:
        assert row["images_per_second"].keys() == {"dtrain", "eager"} and row["ratio_to_best_peer"] > 0
    assert 0 < report["start"]["seconds_to_first_step"]["dtrain"] < 60
    assert report["profile"]["steps"] == 5
    assert any("conv" in entry["name"] for entry in report["profile"]["top"])
    assert "SMOKE" in done.stdout and "ratio" in done.stdout


@pytest.mark.parametrize(("flaw", "ok"), [(0, True), (1e-3, False)])
def test_losses_that_differ_are_no_parity(scripts, tmp_path, monkeypatch, flaw, ok):
    import parity

    def training(arguments, folder, size, precision):
        weights = programs.read_safetensors(folder / "weights.safetensors")
        data = programs.read_safetensors(folder / "parity.safetensors")
        losses, state = parity.torch_training(weights, data, size, precision, "cpu", torch.channels_last)
        return losses[:-1] + [losses[-1] * (1 + flaw)], state

    programs = scripts[0]
    monkeypatch.setattr(parity, "dtrain_training", training)
    arguments = SimpleNamespace(smoke=True, device="cpu", precisions=["fp32"])
    result = parity.check(arguments, tmp_path)
    assert result["ok"] is ok
    assert result["precisions"]["fp32"]["difference"] == pytest.approx(flaw, abs=1e-9)


def run_main(monkeypatch, tmp_path, *flags):
    import main

    monkeypatch.setattr(sys, "argv", ["gpu_check", f"--out={tmp_path / 'report.json'}", *flags])
    return main.main()


def test_a_program_that_fails_is_quoted_and_ends_with_1(scripts, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dtrain_main").write_text("#!/bin/sh\necho it broke >&2\nexit 7\n", encoding="utf-8")
    (folder / "dtrain_main").chmod(0o755)
    code = run_main(monkeypatch, tmp_path, "--device=cpu", "--smoke", f"--bin={folder}", "--precisions=fp32",
                    "--parts=tests,profile")
    assert code == 1
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert "no gpu_test beside" in report["tests"]["error"]
    assert "ended with 7: it broke" in report["profile"]["error"]
    assert capsys.readouterr().out.count("NOT OK") == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_refuses(scripts, tmp_path, monkeypatch, capsys):
    assert run_main(monkeypatch, tmp_path, f"--bin={MAIN.parent}") == 2
    assert "finds no GPU" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()
