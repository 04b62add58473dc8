"""--on_event: what the command hears, that training does not depend on it, and the adapters with stubs of their libraries."""

import json
import sys
import time

import pytest

from command import ROOT, TINY, load_lines, metrics, run

STUB = """
import json, sys

class Calls:
    def __getattr__(self, name):
        def note(*values, **named):
            print(json.dumps([name, values, named]), file=open({log!r}, "a"))
            return self
        return self if name == "summary" else note

sys.modules[__name__] = Calls()
"""


def test_the_command_hears_the_whole_run(few_images, run_dir, tmp_path):
    heard = tmp_path / "heard"
    outcome = run(*TINY, f"--data_dir={few_images}", "--max_steps=5", "--eval_every_epochs=1", "--save_every_steps=2",
                  f"--run_dir={run_dir}", f"--on_event=echo started; cat > {heard}", "--nproc_per_node=2", "--backend=gloo")
    events = load_lines(heard)
    assert events[0]["kind"] == "start" and events[0]["step"] == 0 and events[0]["config"]["model"] == "efficientnet_b0"
    assert events[0]["run_dir"] == str(run_dir)
    assert [event for event in events if event["kind"] in ("train", "val", "epoch")] == metrics(run_dir)
    saved = [event["step"] for event in events if event["kind"] == "checkpoint"]
    assert saved[-1] == 5 and saved == sorted(set(saved)) and str(run_dir) in events[-2].get("path", str(run_dir))
    assert events[-1]["kind"] == "end" and events[-1]["finished"] and events[-1]["dropped"] == 0
    assert events[-1]["result"]["step"] == 5
    assert outcome.last_line.startswith("val_top1=") and "started" not in outcome.stdout and "started" in outcome.stderr
    # The run goes on where it was.
    run(*TINY, f"--data_dir={few_images}", "--max_steps=6", "--eval_every_epochs=1", f"--run_dir={run_dir}",
        f"--on_event=cat > {heard}", "--batch_size=8", "--nproc_per_node=2", "--backend=gloo", "--global_batch_size=32")
    assert load_lines(heard)[0]["step"] == 5


def test_a_command_that_fails_or_hangs_changes_nothing(few_images, tmp_path):
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=3")
    alone = run(*flags, f"--run_dir={tmp_path / 'alone'}").last_line
    outcome = run(*flags, f"--run_dir={tmp_path / 'none'}", "--on_event=/nowhere/command")
    assert outcome.last_line == alone and outcome.stderr.count("the command reads no more") == 1
    start = time.monotonic()
    outcome = run(*flags, f"--run_dir={tmp_path / 'hangs'}", "--on_event=exec sleep 100")
    assert outcome.last_line == alone and "has not finished within 5 s" in outcome.stderr
    assert time.monotonic() - start < 60
    failed = run(*flags[:-1], "--max_steps=0", f"--run_dir={tmp_path / 'x'}", f"--on_event=cat > {tmp_path / 'heard'}", check=2)
    assert "--max_steps" in failed.stderr and not (tmp_path / "heard").exists()


EVENTS = [
    {"kind": "start", "step": 0, "epoch": 0.0, "run_dir": "runs/a", "config": {"model": "resnet18", "lr": 0.1, "mean": [1, 2]}},
    {"kind": "train", "step": 1, "epoch": 0.5, "loss": 2.5, "lr": 0.1, "time": 1.5},
    {"kind": "val", "step": 2, "epoch": 1.0, "top1": 50.0, "loss": None},
    {"kind": "val", "step": 2, "epoch": 1.0, "split": "test", "top1": 40.0},
    {"kind": "checkpoint", "step": 2, "path": "runs/a/checkpoints/step-000000002"},
    {"kind": "end", "finished": True, "dropped": 0, "result": {"val_top1": 50.0, "step": 2}},
]


def calls_of(script: str, module: str, folder, lines: list[str]) -> list:
    log = folder / "calls"
    log.unlink(missing_ok=True)
    (folder / f"{module}.py").write_text(STUB.format(log=str(log)), encoding="utf-8")
    run(ROOT / "scripts" / script, program=sys.executable, text="\n".join(lines) + "\n", env={"PYTHONPATH": str(folder)})
    return load_lines(log)


@pytest.fixture
def lines() -> list[str]:
    return ["no JSON", *map(json.dumps, EVENTS)]


def test_weights_and_biases_gets_them(tmp_path, lines):
    calls = calls_of("events_to_wandb.py", "wandb", tmp_path, lines)
    assert [call[0] for call in calls] == ["init", "log", "log", "log", "update", "finish"]
    assert calls[0][2]["config"] == EVENTS[0]["config"] and calls[0][2]["resume"] == "allow"
    assert calls[1] == ["log", [{"train/loss": 2.5, "train/lr": 0.1, "train/epoch": 0.5, "epoch": 0.5}], {"step": 1}]
    assert calls[2][1][0]["val/top1"] == 50 and "val/loss" not in calls[2][1][0] and calls[3][1][0]["val_test/top1"] == 40
    assert calls[4][1] == [{"val_top1": 50.0, "step": 2}] and calls[5][2] == {"exit_code": 0}
    assert calls_of("events_to_wandb.py", "wandb", tmp_path, lines[:3])[-1] == ["finish", [], {"exit_code": 1}]  # killed


def test_a_training_that_begins_anew_is_another_run_of_weights_and_biases(tmp_path):
    """wandb leaves out the steps of a run that it has already."""
    attempts = tmp_path / "run" / "attempts"
    attempts.mkdir(parents=True)

    def identity_after(name: str) -> str:
        (attempts / name).write_text(name, encoding="utf-8")
        start = json.dumps({**EVENTS[0], "run_dir": str(attempts.parent)})
        return calls_of("events_to_wandb.py", "wandb", tmp_path, [start])[0][2]["id"]

    first = identity_after("001-from-step-000000000.json")
    assert identity_after("002-from-step-000000005.json") == first != identity_after("003-from-step-000000000.json")


def test_mlflow_gets_them(tmp_path, lines):
    calls = calls_of("events_to_mlflow.py", "mlflow", tmp_path, lines)
    assert [call[0] for call in calls] == ["start_run", "set_tag", "log_params", "log_metrics", "log_metrics", "log_metrics",
                                           "log_metrics", "end_run"]
    assert calls[2][1] == [{"model": "resnet18", "lr": "0.1", "mean": "[1, 2]"}]
    assert calls[3][1:] == [[{"train/loss": 2.5, "train/lr": 0.1, "train/epoch": 0.5}], {"step": 1}]
    assert calls[-1][1] == ["FINISHED"]
    assert calls_of("events_to_mlflow.py", "mlflow", tmp_path, lines[:3])[-1][1] == ["FAILED"]


def test_what_a_library_refuses_is_said_in_its_words(tmp_path, lines):
    """As MLflow 3.17 does with a folder of files as its store."""
    (tmp_path / "mlflow.py").write_text("class MlflowException(Exception): pass\n"
                                        "def start_run(**_): raise MlflowException('no files')\n", encoding="utf-8")
    script = (ROOT / "scripts" / "events_to_mlflow.py",)
    said = run(*script, program=sys.executable, text="\n".join(lines), env={"PYTHONPATH": str(tmp_path)}, check=2).stderr
    assert said.startswith("error: mlflow: no files\n") and "bug" not in said
    (tmp_path / "requests.py").write_text("class ConnectionError(OSError): pass\n", encoding="utf-8")  # of a library that it uses
    (tmp_path / "mlflow.py").write_text("import requests\ndef start_run(**_): raise requests.ConnectionError('no route')\n", encoding="utf-8")
    said = run(*script, program=sys.executable, text="\n".join(lines), env={"PYTHONPATH": str(tmp_path)}, check=2).stderr
    assert said.startswith("error: mlflow: no route\n")


@pytest.mark.parametrize("name", sorted(path.stem.removeprefix("events_to_") for path in (ROOT / "scripts").glob("events_to_*.py")))
def test_a_missing_library_is_said(name):
    outcome = run("-S", "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); sys.argv = ['x']; "
                  f"import runpy; runpy.run_path({str(ROOT / 'scripts' / f'events_to_{name}.py')!r}, run_name='__main__')",
                  program=sys.executable, check=2)
    assert f"pip install {name}" in outcome.stderr
