"""Row 1 of the faults: kill -9 of any rank at any moment; the others end within a second, and the run goes on as if
nothing had happened. A handful of kills here, 1,000 with DTRAIN_LONG_TESTS=1; DTRAIN_KILL_SEED repeats one."""

import os
import random
import signal
import subprocess

import pytest

from command import load_json, losses, run, sha256, wait_until
from conftest import STEPS
from ranks import FLAGS, Ranks

LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"
SEED = int(os.environ.get("DTRAIN_KILL_SEED", "1"))
RUNS, KILLS_A_RUN = (100, 10) if LONG else (1, 3)


def flags_of(few_images, run_dir) -> tuple:
    return f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0.3", "--init_timeout=8", f"--run_dir={run_dir}"


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_the_dead_rank_is_named_by_all_others(few_images, run_dir, victim):
    with Ranks(f"--data_dir={few_images}", "--epochs=1000", "--save_every_epochs=0", f"--run_dir={run_dir}",
               world=3) as ranks:
        ranks[0].wait_for_line("step 2/")
        since = ranks.signal(victim, signal.SIGKILL)
        outcomes = ranks.outcomes(since, 1, [rank for rank in range(3) if rank != victim])
    for outcome in outcomes.values():
        assert outcome.code == 4, outcomes
        assert f"rank {victim} " in outcome.stderr and "is gone" in outcome.stderr, outcomes
        assert outcome.stderr.count("dtrain failed") == 1, outcomes
    assert f"rank {victim} " in load_json(run_dir / "error.json")["message"]


@pytest.mark.parametrize("number", range(RUNS))
def test_seeded_kills(few_images, undisturbed, run_dir, number):
    """The moment: a random time after a random sign of life."""
    dice = random.Random(f"{SEED} {number}")
    flags = flags_of(few_images, run_dir)
    for kill in range(KILLS_A_RUN):
        with Ranks(*flags) as ranks:
            first = ranks[0].process
            signs = [lambda: True, (run_dir / "lock").exists, (run_dir / "config.json").exists,
                     lambda: list(run_dir.glob("checkpoints/tmp.*")), lambda: (run_dir / "metrics.jsonl").exists()]
            sign, victim = dice.choice(signs), dice.randrange(2)
            wait_until(lambda: sign() or first.poll() is not None, "a sign of life")
            try:
                ranks[victim].process.wait(timeout=dice.uniform(0, 0.6))
            except subprocess.TimeoutExpired:  # still running, as it should be
                pass
            ended = ranks[victim].process.poll() is not None
            ranks[victim].process.kill()
            outcomes = {rank: process.wait() for rank, process in ranks.processes.items()}
        if not ended:
            assert outcomes[1 - victim].code in (4, 0), (kill, outcomes)
    run(*FLAGS, *flags, "--nproc_per_node=2")
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed


def test_a_root_cause_keeps_error_json(few_images, run_dir):
    """Rank 1 cannot read its data: the others are its victims, and say so."""
    with Ranks(f"--run_dir={run_dir}", own={0: (f"--data_dir={few_images}",),
                                            1: ("--data_dir=/no/such/folder",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, 20)
    assert (outcomes[0].code, outcomes[1].code) == (4, 3), outcomes
    assert "rank 1 " in outcomes[0].stderr and "failed (exit code 3)" in outcomes[0].stderr, outcomes
    error = load_json(run_dir / "error.json")
    assert (error["rank"], error["exit_code"]) == (1, 3)
