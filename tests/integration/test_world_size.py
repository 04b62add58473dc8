"""A run resumes on more or fewer ranks than before, with the same samples in the same global batches."""

import os

import pytest

from command import TINY_RESNET, load_json, losses, run

# Ranks in each step. Twice one rank: what the first resumed run has kept is kept again.
WORLDS = (3, 1, 1, 2, 4) if os.environ.get("DTRAIN_LONG_TESTS") == "1" else (3, 1, 1, 2)
BATCH = {1: "--batch_size=4 --grad_accum_steps=3", 2: "--batch_size=3 --grad_accum_steps=2",
         4: "--batch_size=3 --grad_accum_steps=1"}  # of the global batch of the first step, 12


def flags_of(data, *flags) -> tuple:
    """The weights do not change, so that the losses depend only on the samples, and on which of them are normalised
    together: rounding, which differs, would grow from step to step."""
    tiny = (flag for flag in TINY_RESNET if not flag.startswith(("--batch_size", "--lr")))
    return (*tiny, "--lr=0", f"--data_dir={data}", "--image_size=16", "--batch_size=4", f"--max_steps={len(WORLDS) + 1}",
            *flags)


def alone(data, folder, *flags) -> list:
    """The losses of one rank."""
    run(*flags_of(data, f"--run_dir={folder}", "--global_batch_size=12", f"--limit_train_steps={len(WORLDS)}", *flags))
    return losses(folder)


def test_ranks_may_come_and_go(few_images, tmp_path, run_dir):
    """One command, which does not name the global batch, starts all runs, as an elastic launcher does."""
    expected, other = alone(few_images, tmp_path / "one"), alone(few_images, tmp_path / "other", "--seed=1")
    assert max(abs(a / b - 1) for (_, a), (_, b) in zip(expected, other)) > 2e-2
    flags = flags_of(few_images, f"--run_dir={run_dir}", "--limit_train_steps=1")
    for until, world in enumerate(WORLDS, 1):
        ranks = (f"--nproc_per_node={world}",) if world > 1 else ()
        outcome = run(*flags, *ranks)
        if until == 1:
            assert "global batch of 12 is kept" not in outcome.stderr
        else:
            kept = f"the run's global batch of 12 is kept on {world} rank{'s' * (world > 1)}: {BATCH[world]}"
            assert kept in outcome.stderr, outcome
        result = load_json(run_dir / "result.json")
        assert (result["step"], result["world_size"]) == (until, world)
    assert load_json(run_dir / "config.json")["global_batch_size"] == 12
    found = losses(run_dir)
    assert [step for step, _ in found] == [step for step, _ in expected]
    batches_of_four = slice(0, 3)
    assert [loss for _, loss in found[batches_of_four]] == pytest.approx(
        [loss for _, loss in expected[batches_of_four]], rel=1e-5)
    assert "global_batch_size = 12" in run(*flags, "--nproc_per_node=5", check=2).stderr
    assert "global_batch_size = 12" in run(*flags, "--batch_size=5", check=2).stderr  # a change that somebody typed
