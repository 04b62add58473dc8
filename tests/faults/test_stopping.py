"""Row 3 of the faults: when any rank is asked to stop, whatever the ranks are doing, all save and exit with 75."""

import os
import re
import signal
import time

import pytest

from command import MAIN, Background, losses, run, sha256, wait_until
from conftest import STEPS
from ranks import FLAGS, Ranks, free_port

BOUND = 5  # seconds
MARGIN = 10  # for a busy machine


def stopped_at(outcomes) -> int:
    steps = {int(re.search(r"stopped at step (\d+) after a clean save", outcome.stderr).group(1))
             for outcome in outcomes.values()}
    assert {outcome.code for outcome in outcomes.values()} == {75}, outcomes
    assert len(steps) == 1, outcomes
    return steps.pop()


@pytest.mark.fault(3, "SIGTERM or SIGUSR1 to one rank or all while they train",
                   "they agree on a step, save and exit 75; the same bits")
@pytest.mark.parametrize("asked, number", [((1,), signal.SIGUSR1), ((0, 1), signal.SIGTERM)])
def test_during_training(few_images, undisturbed, run_dir, asked, number):
    flags = (f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0", f"--run_dir={run_dir}")
    with Ranks(*flags) as ranks:
        ranks[0].wait_for_line("step 2/")
        since = [ranks.signal(rank, number) for rank in asked][-1]
        outcomes = ranks.outcomes(since, BOUND)
    step = stopped_at(outcomes)
    assert 2 <= step < STEPS
    assert (run_dir / "latest").read_text(encoding="utf-8") == f"checkpoints/step-{step:09}\n"
    assert not list(run_dir.glob("error*"))  # a stop is no failure
    assert f"run it again with --run_dir={run_dir} to go on" in outcomes[0].stderr, outcomes
    run(*FLAGS, *flags, "--nproc_per_node=2")
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()


@pytest.mark.parametrize("slurm", [False, True])
def test_the_end_of_the_time(few_images, run_dir, slurm):
    """Slurm's end is ten seconds away: the run stops in the middle of that."""
    limit = [] if slurm else ["--max_hours=0.001"]
    env = {"SLURM_JOB_END_TIME": str(int(time.time()) + 10)} if slurm else {}
    flags = (*FLAGS, f"--data_dir={few_images}", "--epochs=100000", "--save_every_epochs=0", f"--run_dir={run_dir}")
    ended = run(*flags, *limit, env=env, check=75)
    step = stopped_at({0: ended})
    assert "saves and stops with 75 after" in ended.stderr and not (run_dir / "error.json").exists()
    again = run(*flags, "--limit_train_steps=1", "--max_hours=0", env=env)
    assert f"step-{step:09}" in again.stderr, again


@pytest.mark.fault(3, "SIGTERM during an evaluation", "exit 75")
def test_during_evaluation(slow_to_evaluate, run_dir):
    """The evaluation is broken off, and repeated when the run resumes. The numbers are those of an undisturbed run."""
    flags = (f"--data_dir={slow_to_evaluate}", "--max_steps=3", "--eval_every_epochs=1", "--save_every_epochs=0")
    with Ranks(*flags, f"--run_dir={run_dir}") as ranks:
        ranks[0].wait_for_line("epoch 1 took")  # its evaluation follows
        outcomes = ranks.outcomes(ranks.signal(1, signal.SIGTERM), BOUND)
    assert stopped_at(outcomes) == 3
    assert "validation step" not in outcomes[0].stdout
    again = run(*FLAGS, *flags, "--nproc_per_node=2", f"--run_dir={run_dir}")
    assert again.last_line.startswith("val_top1=")
    assert not again.step_lines


@pytest.mark.fault(3, "SIGTERM during a save", "exit 75; the same bits")
def test_while_saving(few_images, undisturbed, run_dir):
    flags = (f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0.3", f"--run_dir={run_dir}")
    with Ranks(*flags) as ranks:
        wait_until(lambda: list(run_dir.glob("checkpoints/tmp.*")), "a save under way")
        stopped_at(ranks.outcomes(ranks.signal(1, signal.SIGTERM), BOUND))
    run(*FLAGS, *flags, "--nproc_per_node=2")
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()


def test_a_run_directory_that_nobody_chose_is_in_the_hint(few_images, tmp_path):
    """The same command would begin a new run."""
    main = MAIN.resolve()
    with Background("-c", f'cd "{tmp_path}" && exec "$@"', "bash", main, *FLAGS, f"--data_dir={few_images}", "--epochs=1000",
                    "--save_every_epochs=0", program="/bin/bash") as training:
        training.wait_for_line("step 1/")
        os.kill(training.pid, signal.SIGTERM)
        outcome = training.wait()
    assert outcome.code == 75, outcome
    hint, = re.findall(r"run it again with (--run_dir=\S+) to go on", outcome.stderr)
    again = run(*FLAGS, f"--data_dir={few_images}", hint, "--epochs=1000", "--limit_train_steps=1", "--save_every_epochs=0",
                program=main, cwd=tmp_path)
    assert "resuming from" in again.stderr, again
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_while_thousands_of_ranks_do_not_come(run_dir):
    """A signal ends the waiting, and the list of missing ranks is short. A million ranks would need more descriptors
    than there are."""
    flags = (*FLAGS, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", "--rank=0", "--master_addr=127.0.0.1",
             f"--master_port={free_port()}", f"--run_dir={run_dir}")
    with Background(*flags, "--world_size=3000", "--init_timeout=1000") as waiting:
        wait_until((run_dir / "lock").exists, "rank 0 at its run directory")
        os.kill(waiting.pid, signal.SIGTERM)
        since = time.monotonic()
        outcome = waiting.wait()
        assert time.monotonic() - since < BOUND + MARGIN
    assert outcome.code == 75 and "stopped before the training began" in outcome.stderr, outcome
    few = run(*flags, "--world_size=3000", "--init_timeout=1", check=4)
    assert "1-2999 not there" in few.stderr and len(few.stderr) < 10_000, few
    many = run(*flags, "--world_size=1000000", "--init_timeout=1", check=None)
    assert many.code in (2, 4) and len(many.stderr) < 10_000, many


@pytest.mark.fault(3, "a second signal", "exit at once")
def test_a_second_signal_ends_at_once(slow_to_evaluate, run_dir):
    """One rank is in the middle of a step that lasts longer than the test would wait."""
    flags = (*FLAGS, f"--data_dir={slow_to_evaluate}", "--batch_size=40", "--image_size=320", f"--run_dir={run_dir}")
    with Background(*flags) as training:
        wait_until((run_dir / "config.json").exists, "the start of the training")
        os.kill(training.pid, signal.SIGTERM)
        status = f"/proc/{training.pid}/status"
        term = 1 << (signal.SIGTERM - 1)
        wait_until(lambda: not any(term & int(mask, 16) for mask in re.findall(r"Pnd:\s*(\w+)", open(status, encoding="ascii").read())),
                   "the first signal's arrival")
        os.kill(training.pid, signal.SIGTERM)
        since = time.monotonic()
        assert training.wait().code == -signal.SIGTERM
        assert time.monotonic() - since < BOUND + MARGIN
