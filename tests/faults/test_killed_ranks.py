"""Row 1 of the faults: after a kill -9 of any rank at any moment, the others end within a second, and the run resumes
as if nothing had happened. There are a handful of kills here, and 1,000 with DTRAIN_LONG_TESTS=1; DTRAIN_KILLS sets
their number, and DTRAIN_KILL_SEED their seed."""

import os
import random
import signal
import subprocess
import time

import pytest

from command import load_json, losses, run, sha256, wait_until
from conftest import STEPS
from ranks import FLAGS, Ranks

SEED = int(os.environ.get("DTRAIN_KILL_SEED", "1"))
KILLS = int(os.environ.get("DTRAIN_KILLS", "1000" if os.environ.get("DTRAIN_LONG_TESTS") == "1" else "3"))
KILLS_A_RUN = 5
BOUND = 1  # seconds from a kill to the end of the others, once all ranks have met
INIT_TIMEOUT = 3
MARGIN = 10  # for a busy machine


def flags_of(few_images, run_dir) -> tuple:
    return (f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0.3",
            f"--init_timeout={INIT_TIMEOUT}", f"--run_dir={run_dir}")


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
        assert ("host " if victim else ", reached at 127.0.0.1:") in outcome.stderr, outcomes
        assert outcome.stderr.count("dtrain failed") == 1, outcomes
    assert f"rank {victim} " in load_json(run_dir / "error.json")["message"]


def kill_at_random(flags, run_dir, world: int, dice) -> str:
    """Kills a rank at a random time after a random sign of life. Returns what happened."""
    began = time.time()

    def written(pattern: str) -> bool:  # written by this attempt, not by an earlier one
        try:
            return any(path.stat().st_mtime >= began for path in run_dir.glob(pattern))
        except FileNotFoundError:  # removed meanwhile; look again
            return False

    pattern = dice.choice(["lock", "config.json", "metrics.jsonl", "checkpoints", "checkpoints/step-*"])
    with Ranks(*flags, world=world) as ranks:
        first = ranks[0].process
        victim, delay = dice.randrange(world), dice.uniform(0, 0.5)
        wait_until(lambda: written(pattern) or first.poll() is not None, "a sign of life")
        try:
            ranks[victim].process.wait(timeout=delay)
        except subprocess.TimeoutExpired:  # still running, as it should be
            pass
        if ranks[victim].process.poll() is not None:
            return "had ended"
        since = ranks.signal(victim, signal.SIGKILL)
        survivor = ranks[(victim + 1) % world].wait()
        seconds = time.monotonic() - since
    if survivor.code == 0:  # it had left the run already
        return "came too late"
    assert survivor.code == 4, survivor
    met = "is gone" in survivor.stderr
    assert seconds < (BOUND if met else INIT_TIMEOUT + 2) + MARGIN, (seconds, survivor)
    return f"rank {victim} after {pattern} {'missed' if met else 'awaited'} for {seconds:.2f} s"


@pytest.mark.parametrize("first", range(0, KILLS, KILLS_A_RUN))
def test_seeded_kills(few_images, undisturbed, run_dir, first):
    world = (3, 2)[first // KILLS_A_RUN % 2]
    flags = flags_of(few_images, run_dir)
    for kill in range(first, min(first + KILLS_A_RUN, KILLS)):
        print(f"kill {SEED}/{kill}:", kill_at_random(flags, run_dir, world, random.Random(f"{SEED} {kill}")), flush=True)
    run(*FLAGS, *flags, f"--nproc_per_node={world}", "--init_timeout=30")
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed(world)


def test_a_root_cause_keeps_error_json(few_images, run_dir):
    """Rank 1 cannot read its data. The others are its victims and say so."""
    with Ranks(f"--run_dir={run_dir}", own={0: (f"--data_dir={few_images}",),
                                            1: ("--data_dir=/no/such/folder",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, 20)
    assert (outcomes[0].code, outcomes[1].code) == (4, 3), outcomes
    assert "rank 1 " in outcomes[0].stderr and "failed (exit code 3)" in outcomes[0].stderr, outcomes
    error = load_json(run_dir / "error.json")
    assert (error["rank"], error["exit_code"]) == (1, 3)
