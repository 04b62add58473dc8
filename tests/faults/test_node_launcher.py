"""The node launcher's rows of FAULTS: its ranks are killed, the launcher itself is killed, or the ranks crash again and
again."""

import os
import re
import signal
import time

import pytest

from command import TINY, Background, free_port, load_json, metrics, run, sha256, wait_until

TRAINING = (*TINY, "--lr=0.0005", "--batch_size=8", "--nproc_per_node=2", "--init_timeout=30")
MARGIN = 10  # seconds, for a busy machine


def test_a_killed_rank_is_started_again_and_the_run_is_the_same(few_images, tmp_path):
    """A restart resumes from the run's own checkpoints, even if the run began with --resume=none."""
    flags = (*TRAINING, "--epochs=4", "--resume=none", f"--data_dir={few_images}")
    run(*flags, f"--run_dir={tmp_path / 'undisturbed'}")
    with Background(*flags, "--max_restarts=2", "--clear_log", f"--run_dir={tmp_path / 'run'}") as training:
        wait_until((tmp_path / "run" / "latest").exists, "the first checkpoint")
        ranks, killed = training.children(), time.time()
        os.kill(ranks[1], signal.SIGKILL)
        wait_until(lambda: not set(ranks) & set(training.children()), "the end of all ranks", 1 + MARGIN)
        outcome = training.wait()
    assert outcome.code == 0, outcome
    resumed = int(re.search(r"resuming from .*/step-(\d+)", outcome.stderr).group(1))
    again = next(point["time"] for point in metrics(tmp_path / "run", "train") if point["step"] == resumed + 1) - killed
    print(f"\nmeasured: the first step was done again {again:.2f} s after the kill (bound: 1.5 s)")
    assert again < 1.5 + MARGIN
    assert "restart 1 of at most 2" in outcome.stderr
    assert "resuming from" in outcome.stderr
    assert not (tmp_path / "run" / "error.json").exists()
    assert sha256(tmp_path / "run" / "model.safetensors") == sha256(tmp_path / "undisturbed" / "model.safetensors")
    assert [point["step"] for point in metrics(tmp_path / "run", "train")] == list(range(1, 11))  # --clear_log has an effect only in the first attempt


def test_no_machine_tries_again_what_would_fail_again_on_another_one(few_images, tmp_path, run_dir):
    flags = (*TRAINING, "--nproc_per_node=1", "--init_timeout=5", "--max_steps=2", "--max_restarts=10", f"--run_dir={run_dir}",
             "--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}")
    with Background(*flags, "--node_rank=0", f"--data_dir={few_images}") as first, Background(*flags, "--node_rank=1", f"--data_dir={tmp_path}") as second:
        outcomes = first.wait(), second.wait()
    assert [outcome.code for outcome in outcomes] == [4, 3], outcomes
    for outcome in outcomes:
        assert "not started again: exit code 3 would only occur again" in outcome.stderr, outcome
    assert load_json(run_dir / "error.json")["exit_code"] == 3  # the cause, and what to do about it


def test_a_killed_rank_is_named(few_images, run_dir):
    """Another one than rank 0: test_killed_ranks.py."""
    with Background(*TRAINING, "--epochs=1000", f"--data_dir={few_images}", f"--run_dir={run_dir}") as training:
        training.wait_for_line("step 2/")
        ranks = training.children()
        os.kill(ranks[0], signal.SIGKILL)
        began = time.monotonic()
        outcome = training.wait()
        assert time.monotonic() - began < 2 + MARGIN, outcome
        assert not training.family()
    assert outcome.code == 4, outcome
    assert "on rank 0 of 2" in outcome.stderr and "killed by signal 9" in outcome.stderr
    error = load_json(run_dir / "error.json")
    assert (error["rank"], error["exit_code"]) == (0, 4) and error["step"] >= 2
    assert "killed by signal 9" in error["message"]
    assert "on rank 1 of 2" in (run_dir / "logs" / "rank-1.log").read_text(encoding="utf-8")
    assert "on rank 1 of 2" not in outcome.stderr


def test_a_killed_evaluation_says_nothing_in_the_run(few_images, run_dir):
    run(*TRAINING, "--max_steps=1", f"--data_dir={few_images}", f"--run_dir={run_dir}")
    with Background("--mode=eval", "--nproc_per_node=2", f"--data_dir={few_images}", f"--run_dir={run_dir}") as evaluation:
        wait_until(lambda: len(evaluation.children()) == 2, "both ranks")
        os.kill(evaluation.children()[1], signal.SIGKILL)
        outcome = evaluation.wait()
    assert outcome.code == 4 and "killed by signal 9" in outcome.stderr, outcome
    assert "rank-1.log" not in outcome.stderr and not (run_dir / "error.json").exists()


@pytest.mark.fault(7, "the node launcher is killed", "its ranks end within 2 s")
def test_the_ranks_end_with_their_launcher(few_images, run_dir):
    with Background(*TRAINING, "--epochs=1000", "--max_restarts=5", f"--data_dir={few_images}",
                    f"--run_dir={run_dir}") as training:
        training.wait_for_line("step 1/")
        assert len(training.family()) == 3
        training.process.kill()
        wait_until(lambda: not training.family(), "the end of all ranks", 2 + MARGIN)


@pytest.mark.fault(27, "a fault at the same step again and again", "ends after 3 restarts and names the step")
def test_a_crash_loop_without_progress_ends_and_names_the_step(few_images, run_dir):
    """Rank 0 dies in the middle of its only checkpoint, every time."""
    outcome = run(*TRAINING, "--max_steps=3", "--save_every_epochs=0", "--max_restarts=10", f"--data_dir={few_images}",
                  f"--run_dir={run_dir}", env={"DTRAIN_CRASH_AT": "32"}, check=4)
    assert outcome.stderr.count("starting the local ranks again") == 3
    assert "3 restarts in a row made no progress; the run ends at step 3" in outcome.stderr
    error = load_json(run_dir / "error.json")
    assert (error["rank"], error["step"], error["exit_code"]) == (0, 3, 4)
    assert "at step 3" in error["message"]
