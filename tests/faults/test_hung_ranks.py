"""Rows 4, 5 and 25 of the faults: all ranks name a rank that hangs; below the timeout, or if only the clock says that
time has passed, the run continues."""

import signal
import urllib.error
import urllib.request

import pytest

from command import Background, free_port, load_json, losses, run, sha256, wait_until
from conftest import STEPS
from ranks import FLAGS, Ranks, stop

TIMEOUT = 4
BOUND = TIMEOUT + 2


@pytest.mark.fault(4, "SIGSTOP to a rank", "the others name it and end within --comm_timeout + 2 s")
@pytest.mark.parametrize("hung", [0, 1])
def test_a_stopped_rank_is_named_by_all_others(few_images, run_dir, hung):
    """Rank 0 serves store and control plane, so the others must notice by themselves that it hangs."""
    with Ranks(f"--data_dir={few_images}", "--epochs=1000", "--save_every_epochs=0", f"--comm_timeout={TIMEOUT}",
               f"--run_dir={run_dir}", world=3) as ranks:
        ranks[0].wait_for_line("step 2/")
        since = stop(ranks[hung])
        others = [rank for rank in range(3) if rank != hung]
        outcomes = ranks.outcomes(since, BOUND, others)
        for outcome in outcomes.values():
            assert outcome.code == 4, outcomes
            assert f"rank {hung} has not answered for" in outcome.stderr and "after step " in outcome.stderr, outcomes
            assert (", host " if hung else ", reached at 127.0.0.1:") in outcome.stderr, outcomes
            assert f"rank {hung} holds up the others" in outcome.stderr or outcome is not outcomes[others[0]], outcomes
        ranks.signal(hung, signal.SIGCONT)
        assert ranks[hung].wait().code == 4
    error = load_json(run_dir / "error.json")
    assert error["exit_code"] == 4 and f"rank {hung} has not answered for" in error["message"]


def health(port: int) -> tuple[int | None, str]:
    """Asks as Kubernetes' kubelet does. Returns the status and the text; None if there is no answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:  # refused
        return None, ""


@pytest.mark.fault(4, "the data's file system hangs, and nobody waits for the only rank", "/healthz says so after --comm_timeout")
def test_a_loader_that_hangs(few_images, run_dir, bad_disk):
    port = free_port()
    hanging = bad_disk(".jpg", BAD_CALLS="open", BAD_MILLISECONDS=300_000, BAD_AFTER=200)
    with Background(*FLAGS, f"--data_dir={few_images}", "--epochs=1000", "--comm_timeout=2", f"--metrics_port={port}",
                    f"--run_dir={run_dir}", env=hanging):
        wait_until(lambda: health(port)[0] == 200, "the start")
        wait_until(lambda: health(port)[0] == 503, "a rank that stands still")
        status, text = health(port)
        assert status == 503 and "waiting for data, for " in text


@pytest.mark.fault(5, "a rank stops for a while and goes on", "the straggler is named; the same bits")
@pytest.mark.parametrize("slow", [0, 1])
def test_a_stall_below_the_timeout(few_images, undisturbed, run_dir, slow):
    with Ranks(f"--data_dir={few_images}", f"--max_steps={STEPS}", f"--run_dir={run_dir}") as ranks:
        ranks[0].wait_for_line("step 3/")
        stop(ranks[slow])
        # The other one reports it before three seconds are over.
        wait_until(lambda: f"rank {slow} holds up the others" in ranks[1 - slow].stderr_so_far, "the warning")
        ranks.signal(slow, signal.SIGCONT)
        outcomes = {rank: process.wait() for rank, process in ranks.processes.items()}
    assert [outcome.code for outcome in outcomes.values()] == [0, 0], outcomes
    assert outcomes[1 - slow].stderr.count(f"rank {slow} holds up the others") == 1, outcomes
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()


@pytest.mark.fault(25, "the wall clock jumps by an hour, to and fro", "the same bits; no rank is given up")
def test_a_clock_that_jumps(few_images, undisturbed, run_dir, preloaded):
    run(*FLAGS, f"--data_dir={few_images}", f"--max_steps={STEPS}", "--nproc_per_node=2", "--save_every_seconds=0.1",
        f"--run_dir={run_dir}", env=preloaded("faults/jumping_clock.c"))
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()
