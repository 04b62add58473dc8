"""Runs of earlier versions go on with this one (docs/runs.md, Versions): tests/testdata/runs has a small one of each, with
its data, its flags, and the losses that the version itself reached in the next steps (of 0.1.0 those that later versions
reach, which draw dropout on a CPU in another way). Of a new version: the four steps that
run.flags give, without the files that name the machine, and then two more."""

import json
import shutil

import pytest

from command import ROOT, change_state, losses, metrics, run

RUNS = sorted((ROOT / "tests" / "testdata" / "runs").iterdir())


@pytest.fixture(params=RUNS, ids=lambda folder: folder.name)
def kept(request, tmp_path):
    shutil.copytree(request.param, tmp_path / "kept")
    return tmp_path / "kept"


def flags(kept):
    return (f"--flagfile={kept / 'run.flags'}", f"--data_dir={kept / 'data'}", f"--model_config={kept / 'config.json'}", f"--run_dir={kept / 'run'}")


def test_a_run_goes_on(kept):
    before, expected = losses(kept / "run"), json.loads((kept / "next_losses.json").read_text(encoding="utf-8"))
    done = run(*flags(kept), f"--max_steps={len(before) + len(expected)}", check=0)
    assert "resuming from" in done.stderr
    now = losses(kept / "run")
    assert now[:len(before)] == before
    assert [loss for _, loss in now[len(before):]] == pytest.approx(expected, rel=1e-4)
    run("--mode=eval", f"--data_dir={kept / 'data'}", f"--run_dir={kept / 'run'}")
    assert metrics(kept / "run", "val")


def test_a_refusal_names_the_version(kept):
    checkpoint = next((kept / "run" / "checkpoints").iterdir())
    change_state(checkpoint, lambda state: state.update(written_by="9.9.0 abcdef"))
    seed = run(*flags(kept), "--seed=77", "--max_steps=9", check=2).stderr
    assert "seed = " in seed and "written by dtrain 9.9.0 abcdef, this is " in seed and "use the same value" in seed
    change_state(checkpoint, lambda state: state["progress"].pop("step"))
    damaged = run(*flags(kept), "--max_steps=9", check=5).stderr
    assert "go on with the version that wrote it" in damaged and "anew" not in damaged
