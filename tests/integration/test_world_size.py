"""A run resumes on more or fewer ranks than before, with the same samples in the same global batches."""

import os

import pytest

from command import TINY, load_json, losses, run

WORLDS = (4, 2, 1, 3, 4) if os.environ.get("DTRAIN_LONG_TESTS") == "1" else (3, 1, 2)  # ranks in each step


def flags_of(data, world: int) -> tuple:
    """48 samples per step in micro-batches of 4, with as many micro-steps as needed. The weights do not change, so that
    the losses depend only on the samples: rounding, which differs, would grow from step to step."""
    ranks = (f"--nproc_per_node={world}",) if world > 1 else ()
    return (*TINY, f"--data_dir={data}", "--lr=0", "--image_size=16", "--global_batch_size=48", "--batch_size=4",
            f"--max_steps={len(WORLDS)}", *ranks)


def test_ranks_may_come_and_go(few_images, tmp_path, run_dir):
    run(*flags_of(few_images, 1), f"--run_dir={tmp_path / 'one'}")
    expected = losses(tmp_path / "one")
    for until, world in enumerate(WORLDS, 1):
        run(*flags_of(few_images, world), f"--run_dir={run_dir}", "--limit_train_steps=1")
        result = load_json(run_dir / "result.json")
        assert (result["step"], result["world_size"]) == (until, world)
    found = losses(run_dir)
    assert [step for step, _ in found] == [step for step, _ in expected]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in expected], rel=1e-5)
    run(*flags_of(few_images, 1), "--seed=1", f"--run_dir={tmp_path / 'other'}")
    other = [loss for _, loss in losses(tmp_path / "other")]
    assert max(abs(a / b - 1) for (_, a), b in zip(expected, other)) > 2e-2


def test_a_world_that_does_not_divide_the_global_batch_is_refused(few_images, run_dir):
    outcome = run(*flags_of(few_images, 5), f"--run_dir={run_dir}", check=2)
    assert "--global_batch_size" in outcome.stderr and "48" in outcome.stderr


def test_a_run_keeps_its_global_batch_when_only_the_batch_per_rank_is_given(few_images, tmp_path, run_dir):
    """2 → 1 → 1 → 3 → 4 ranks with one command, as an elastic launcher starts it."""
    flags = (*TINY[:2], *TINY[3:], f"--data_dir={few_images}", "--batch_size=6", "--max_steps=8", f"--run_dir={run_dir}",
             "--limit_train_steps=1")
    outcomes = [run(*flags, *((f"--nproc_per_node={ranks}",) if ranks > 1 else ())) for ranks in (2, 1, 1, 3, 4)]
    kept = "the run's global batch of 12 is kept on "
    found = ["1 rank: --batch_size=6 --grad_accum_steps=2"] * 2 + [
        "3 ranks: --batch_size=4 --grad_accum_steps=1", "4 ranks: --batch_size=3 --grad_accum_steps=1"]
    assert kept not in outcomes[0].stderr
    for outcome, words in zip(outcomes[1:], found, strict=True):
        assert kept + words in outcome.stderr, outcome
    assert load_json(run_dir / "result.json")["step"] == 5 and load_json(run_dir / "config.json")["global_batch_size"] == 12
    assert "global_batch_size = 12" in run(*flags, "--nproc_per_node=5", check=2).stderr
    assert "global_batch_size = 12" in run(*flags, "--batch_size=8", check=2).stderr  # a change that somebody typed
