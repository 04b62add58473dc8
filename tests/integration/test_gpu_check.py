"""Tests scripts/gpu_check without a GPU: its reading of traces on a made-up one, and all of it with --smoke."""

import gzip
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from command import MAIN, ROOT

torch = pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("transformers", reason="scripts/setup.sh --tests installs it")

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


def rows_of(report):
    return {(row["part"], row["name"]): row for row in report["rows"]}


def test_smoke(tmp_path):
    out = tmp_path / "report.json"
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([ROOT / "scripts" / "gpu_check.sh", "--device=cpu", "--smoke", f"--bin={MAIN.parent}",
                           f"--out={out}", "--precisions=fp32"],
                          capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    rows = rows_of(report)
    assert all(row.get("ok") or row["left_out"] for row in rows.values())
    parity = rows["parity", "fp32"]
    assert len(parity["dtrain_losses"]) == len(parity["torch_losses"]) == 10
    assert len(set(parity["dtrain_losses"])) == 10
    assert parity["difference"] <= parity["allowed"] < 1e-3
    assert parity["torch_difference"] > 0  # PyTorch's own algorithms differed
    assert parity["movement_difference"] < 0.05
    for name in (("first", "step, fp32 batch 4"), ("speed", "decoded fp32 batch 4")):
        row = rows[name]
        assert row["images_per_second"].keys() == {"dtrain", "eager"} and row["ratio_to_best_peer"] > 0
    beside, padding = rows["text", "fp32 batch 2"], rows["text", "half of it padding, fp32 batch 2"]
    assert beside["tokens_per_second"].keys() == {"dtrain", "eager"} and beside["ratio_to_best_peer"] > 0
    assert all(speed > 0 for speed in padding["tokens_per_second"].values())
    first_losses = [run["loss"] for runs in padding["rounds"].values() for run in runs]
    assert len(first_losses) == 2 and all(3 < loss < 6 for loss in first_losses)  # ln 100 is 4.6
    assert 0 < rows["first", "start to first step"]["seconds_to_first_step"]["dtrain"] < 60
    trace = rows["first", "what a step consists of"]
    assert trace["steps"] == 5 and any("conv" in entry["name"] for entry in trace["top"])
    with gzip.open(trace["trace"], "rt", encoding="utf-8") as kept:
        assert json.load(kept)["traceEvents"]
    assert rows["decode", "1 threads"]["result"]["images_per_second"] > 0
    assert rows["faults", "killed and resumed"]["text"] == "the same bits"
    assert rows["faults", "steps that are not finite"]["ok"]
    assert rows["faults", "out of memory"]["left_out"] == "no GPU"
    assert "SMOKE" in done.stdout and "ratio" in done.stdout


@pytest.mark.parametrize(("flaw", "ok"), [(0, True), (1e-3, False)])
def test_losses_that_differ_are_no_parity(scripts, tmp_path, monkeypatch, flaw, ok):
    import parity

    def training(machine, size, precision):
        weights = programs.read_safetensors(machine.folder / "weights.safetensors")
        data = programs.read_safetensors(machine.folder / "parity.safetensors")
        losses, state = parity.torch_training(weights, data, size, precision, "cpu", "deterministic")
        return losses[:-1] + [losses[-1] * (1 + flaw)], state

    programs = scripts[0]
    monkeypatch.setattr(parity, "dtrain_training", training)
    torch.set_num_threads(1)  # several threads wait for each other by spinning if cores are shared
    result = parity.check(machine_in(programs, tmp_path, "cpu"), parity.sizes(True), "fp32")
    assert result["ok"] is ok
    assert result["difference"] == pytest.approx(flaw, abs=1e-9)


def machine_in(programs, folder, device, minutes=5):
    return programs.Machine(SimpleNamespace(bin=folder, device=device, minutes=minutes), folder)


def program_that(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("script", "message"), [
    ("exit 0", "printed nothing instead of a JSON object"),
    ("echo no object", "its last line is not a JSON object: no object"),
    ("echo '{\"device\": \"cpu\"}'", "it ran on cpu, which is not a GPU"),
    ("echo '{}'", "it ran on nothing, which is not a GPU"),
    ("echo it broke >&2; exit 7", "ended with 7: it broke"),
    ("echo stuck >&2; sleep 100 & sleep 100", "did not end in 1 s: stuck"),
])
def test_what_a_bench_may_do_wrong_is_said(scripts, tmp_path, script, message):
    program_that(tmp_path, "dtrain_bench", script)
    machine = machine_in(scripts[0], tmp_path, "cuda")
    with pytest.raises(scripts[0].Failed, match=message):
        machine.bench("step", timeout=1)


@pytest.mark.parametrize(("device", "complaint"), [("cuda:0", None), ("cpu (2 threads), 1 rank", "it ran on cpu,")])
def test_a_training_on_the_cpu_is_no_gpus(scripts, tmp_path, device, complaint):
    program_that(tmp_path, "dtrain_main", f"echo 'dtrain: resnet50'; echo '  device         {device}'")
    machine = machine_in(scripts[0], tmp_path, "cuda")
    if complaint is None:
        machine.train(tmp_path / "run")
    else:
        with pytest.raises(scripts[0].Failed, match=complaint):
            machine.train(tmp_path / "run")


def test_a_training_that_is_too_slow_is_ended(scripts, tmp_path):
    program_that(tmp_path, "dtrain_main", "echo it hangs; sleep 100")
    with pytest.raises(scripts[0].Failed, match="was too slow: it hangs"):
        machine_in(scripts[0], tmp_path, "cpu").train_until(tmp_path / "run", lambda points: False, timeout=1)


def test_rows_are_written_one_by_one_and_the_time_is_kept(scripts, tmp_path):
    import rows

    seen = []

    def look():
        seen.append(json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"])
        return {"text": "fine"}

    def breaks():
        raise ValueError("it broke")

    def lacks():
        raise scripts[0].LeftOut("there is none")

    report = rows.Report(tmp_path / "out.json", {})
    machine = machine_in(scripts[0], tmp_path, "cpu", minutes=1)
    report.run_part("part", [rows.Row("a", 0, look), rows.Row("b", 0, breaks), rows.Row("c", 0, look),
                             rows.Row("d", 40, look), rows.Row("e", 0, lacks)], machine, 0.5)
    assert [len(some) for some in seen] == [0, 2]
    a, b, c, d, e = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert a["ok"] and c["ok"] and not b["ok"] and b["text"] == "ValueError: it broke"
    assert d["left_out"].startswith("no time") and e["left_out"] == "there is none"
    assert not report.ok()
    none = rows.Report(tmp_path / "none.json", {})
    none.run_part("part", [rows.Row("d", 100, look)], machine, 1)
    assert not none.ok()  # nothing was looked at


def run_main(monkeypatch, tmp_path, *flags):
    import main

    monkeypatch.setattr(sys, "argv", ["gpu_check", f"--out={tmp_path / 'report.json'}", *flags])
    return main.main()


def test_a_program_that_fails_is_quoted_and_ends_with_1(scripts, tmp_path, monkeypatch, capsys):
    program_that(tmp_path, "dtrain_main", "echo it broke >&2; exit 7")
    code = run_main(monkeypatch, tmp_path, "--device=cpu", "--smoke", f"--bin={tmp_path}", "--precisions=fp32",
                    "--parts=first")
    assert code == 1
    rows = rows_of(json.loads((tmp_path / "report.json").read_text(encoding="utf-8")))
    assert rows["first", "own tests"]["left_out"] == "no GPU"
    assert "ended with 7: it broke" in rows["first", "start to first step"]["text"]
    assert capsys.readouterr().out.count("NOT OK") >= 3


def test_on_a_gpu_own_tests_must_be_there_and_find_it(scripts, tmp_path):
    import first

    machine = SimpleNamespace(bin=tmp_path, on_gpu=True,
                              run=lambda *_, **__: scripts[0].Ended(code=77, stdout="skipped: no GPU", stderr="", began=0))
    with pytest.raises(scripts[0].Failed, match="no gpu_test beside"):
        first.own_tests(machine)
    program_that(tmp_path, "gpu_test", "exit 77")
    assert not first.own_tests(machine)["ok"]


@pytest.mark.parametrize("tool", [None, "exit 9", "echo No devices were found"])
def test_without_a_gpu_it_refuses(scripts, tmp_path, monkeypatch, capsys, tool):
    if tool is not None:
        program_that(tmp_path, "nvidia-smi", tool)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_main(monkeypatch, tmp_path, f"--bin={MAIN.parent}") == 2
    assert "nvidia-smi finds no GPU" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_pytorch_cannot_use_is_refused(scripts, tmp_path, monkeypatch, capsys):
    program_that(tmp_path, "nvidia-smi", "echo GPU 0: NVIDIA H100")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run_main(monkeypatch, tmp_path, f"--bin={MAIN.parent}") == 2
    assert "PyTorch finds no GPU" in capsys.readouterr().err
