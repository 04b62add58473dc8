"""Tests scripts/gpu_check without a GPU: its parts on made-up peers and programs, and all of it with --smoke."""

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


def test_a_contest_ends_with_its_time_and_compares_with_the_best(scripts, tmp_path):
    import compare

    machine = machine_in(scripts[0], tmp_path, "cpu")
    calls = []

    def speed(name, value):
        calls.append(name)
        if len(calls) == 4:
            machine.begin_part(0)  # the time of the part is up
        return {"images_per_second": value, "peak_memory_mib": 5}

    makers = {name: lambda name=name, value=value: speed(name, value) for name, value in
              (("dtrain", 90), ("eager", 50), ("compile default", 60))}
    row = compare.compare(machine, makers, 3, "images")
    assert calls == ["dtrain", "eager", "compile default", "dtrain"]
    assert row["ok"] and row["ratio_to_best_peer"] == pytest.approx(1.5)

    def late():
        return {"images_per_second": 1.0 if machine.limit(60) else 0.0}

    with pytest.raises(scripts[0].NoTime):
        compare.compare(machine, {"dtrain": late, "eager": late}, 1, "images")
    machine.begin_part(1)
    machine.run = lambda *_, **__: 1 / 0
    failed = compare.compare(machine, {"dtrain": late, "eager": lambda: {}["no speed"]}, 2, "images")
    assert not failed["ok"] and "NOT OK eager" in failed["text"] and failed["images_per_second"] == {"dtrain": 1.0}


def test_jpegs_are_compared_with_the_faster_mode(scripts, tmp_path, monkeypatch):
    import compare
    from workloads import RESNET50, Case

    machine = machine_in(scripts[0], tmp_path, "cpu")
    speeds = {"eager": 1, "default": 3, "reduce-overhead": 2}
    machine.ask = lambda request: {"images_per_second": speeds[request["mode"]]}
    monkeypatch.setattr(compare, "our_synthetic", lambda *_: {"images_per_second": 4})
    contest = compare.Contest(machine, 1)
    assert contest.compare(Case(RESNET50, 64))["ratio_to_best_peer"] == pytest.approx(4 / 3)
    assert list(contest.contenders(Case(RESNET50, 64, decoded=True))) == ["dtrain", "eager", "compile default"]
    assert len(contest.contenders(Case(RESNET50, 256, decoded=True))) == 4  # unknown which is the faster one


def peer_that(scripts, monkeypatch, tmp_path, program):
    import peers

    (tmp_path / "peer.py").write_text(program, encoding="utf-8")
    monkeypatch.setattr(peers, "PROGRAM", tmp_path / "peer.py")
    return machine_in(scripts[0], tmp_path, "cpu")


def test_a_peer_stays_until_a_fresh_one_is_asked_for(scripts, tmp_path, monkeypatch):
    machine = peer_that(scripts, monkeypatch, tmp_path, "import json, os, sys\nfor line in sys.stdin:\n"
                        "    print(json.dumps({'device': 'cpu', 'pid': os.getpid()}), flush=True)\n")
    first, again = machine.ask({}), machine.ask({})
    assert first == again
    fresh = machine.ask({}, fresh=True)
    assert fresh["pid"] != first["pid"] and fresh["began"] > first["began"]
    machine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(fresh["pid"], 0)


@pytest.mark.parametrize(("program", "message"), [
    ("import sys; sys.stdin.readline(); sys.exit('it broke')", "peer.py failed at .*: it broke"),
    ("import sys; sys.exit('it did not begin')", "peer.py failed at .*: it did not begin"),
    ("import time; time.sleep(100)", "did not answer in 1 s"),
])
def test_what_a_peer_may_do_wrong_is_said(scripts, tmp_path, monkeypatch, program, message):
    machine = peer_that(scripts, monkeypatch, tmp_path, program)
    with pytest.raises(scripts[0].Failed, match=message):
        machine.ask({"mode": "eager"}, timeout=1 if "sleep" in program else 20)
    assert not machine.peer_process.alive()


def test_safetensors_come_back(scripts, tmp_path):
    from safetensors.torch import load_file

    tensors = {"a": torch.randn(3, 2), "b": torch.arange(5), "c": torch.randn(4).bfloat16(), "d": torch.tensor(2.5)}
    scripts[0].write_safetensors(tmp_path / "x.safetensors", tensors)
    for read in (scripts[0].read_safetensors(tmp_path / "x.safetensors"), load_file(tmp_path / "x.safetensors")):
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def rows_of(report):
    return {(row["part"], row["name"]): row for row in report["rows"]}


@pytest.fixture
def parity(scripts, monkeypatch):
    """The part of that name, which trains with PyTorch once in each way for all tests."""
    import parity

    train = parity.torch_training

    def torch_training(weights, data, size, precision, device, way):
        if way not in TRAININGS:
            torch.set_num_threads(1)  # several threads wait for each other by spinning if cores are shared
            TRAININGS[way] = train(weights, data, size, precision, device, way)
        return TRAININGS[way]

    monkeypatch.setattr(parity, "torch_training", torch_training)
    return parity


TRAININGS: dict = {}


def test_smoke(parity, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code = run_main(monkeypatch, tmp_path, "--device=cpu", "--smoke", f"--bin={MAIN.parent}", "--precisions=fp32")
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    out = tmp_path / "report.json"
    report = json.loads(out.read_text(encoding="utf-8"))
    rows = rows_of(report)
    assert all(row.get("ok") or row["left_out"] for row in rows.values())
    trained = rows["parity", "fp32"]
    assert len(trained["dtrain_losses"]) == len(trained["torch_losses"]) == len(set(trained["dtrain_losses"])) == 4
    assert trained["difference"] <= trained["allowed"] < 1e-3
    assert trained["torch_difference"] > 0  # PyTorch's own algorithms differed
    assert trained["movement_difference"] < 0.05
    decoded = rows["speed", "tiny images fp32 4 JPEGs"]
    assert decoded["images_per_second"].keys() == {"dtrain", "eager"} and decoded["ratio_to_best_peer"] > 0
    beside, padding = rows["text", "tiny text fp32 2 x 16"], rows["text", "half of it padding, tiny text fp32 2 x 16"]
    assert beside["tokens_per_second"].keys() == {"dtrain", "eager"} and beside["ratio_to_best_peer"] > 0
    assert all(speed > 0 for speed in padding["tokens_per_second"].values())
    first_losses = [run["loss"] for runs in padding["rounds"].values() for run in runs]
    assert len(first_losses) == 2 and all(3 < loss < 6 for loss in first_losses)  # ln 100 is 4.6
    start = rows["first", "start to first step, tiny images fp32 4"]["seconds_to_first_step"]
    assert 0 < start["dtrain"] < 60 and 0 < start["eager"] < 60
    for case in ("tiny images fp32 4", "tiny text fp32 2 x 16"):
        step = rows["first", f"step, {case}"]
        assert step["result"]["step_milliseconds"] > 0 and "roof" not in step["result"]  # for GPUs
        assert rows["first", f"trace, {case}"]["steps"] == 3
    trace = rows["first", "trace, tiny images fp32 4"]
    assert any("conv" in entry["name"] for entry in trace["top"])
    with gzip.open(trace["trace"], "rt", encoding="utf-8") as kept:
        assert json.load(kept)["traceEvents"]
    assert rows["decode", "1 threads"]["result"]["images_per_second"] > 0
    assert rows["faults", "killed and resumed"]["text"] == "the same bits"
    assert rows["faults", "steps that are not finite"]["ok"]
    assert rows["faults", "out of memory"]["left_out"] == "no GPU"
    assert "SMOKE" in printed.out and "ratio" in printed.out


def test_the_command_passes_its_flags_on(tmp_path):
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / "scripts" / "gpu_check.sh", "--parts=first,last", f"--out={tmp_path / 'report.json'}"],
                          capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 2 and "--parts has ['last']" in done.stderr


@pytest.mark.parametrize(("flaw", "ok"), [(0, True), (1e-3, False)])
def test_losses_that_differ_are_no_parity(scripts, parity, tmp_path, monkeypatch, flaw, ok):
    def training(machine, size, precision):
        losses, state = parity.torch_training({}, {}, size, precision, "cpu", "deterministic")
        return losses[:-1] + [losses[-1] * (1 + flaw)], state

    monkeypatch.setattr(parity, "dtrain_training", training)
    result = parity.check(machine_in(scripts[0], tmp_path, "cpu"), parity.sizes(True), "fp32")
    assert result["ok"] is ok
    assert result["difference"] == pytest.approx(flaw, abs=1e-9)


def machine_in(programs, folder, device, minutes=5):
    return programs.Machine(SimpleNamespace(bin=folder, device=device, minutes=minutes, smoke=False), folder)


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
    from processes import LeftOut

    seen = []

    def look():
        seen.append(json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"])
        return {"text": "fine"}

    def breaks():
        raise ValueError("it broke")

    def lacks():
        raise LeftOut("there is none")

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
    code = run_main(monkeypatch, tmp_path, "--device=cpu", "--smoke", f"--bin={tmp_path}", "--parts=faults,decode")
    assert code == 1
    rows = rows_of(json.loads((tmp_path / "report.json").read_text(encoding="utf-8")))
    assert rows["faults", "out of memory"]["left_out"] == "no GPU"
    assert "ended with 7: it broke" in rows["faults", "steps that are not finite"]["text"]
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: runs where there is none")
def test_a_gpu_that_pytorch_cannot_use_is_refused(scripts, tmp_path, monkeypatch, capsys):
    program_that(tmp_path, "nvidia-smi", "echo GPU 0: NVIDIA H100")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run_main(monkeypatch, tmp_path, f"--bin={MAIN.parent}") == 2
    assert "PyTorch finds no GPU" in capsys.readouterr().err
