"""Row 1 of the faults: after a kill -9 of any rank at any moment, the others end within a second, and the run resumes
as if nothing had happened. There are 6 kills here, and 1,000 with DTRAIN_LONG_TESTS=1; DTRAIN_KILLS sets their number,
and DTRAIN_KILL_SEED their seed."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from command import DEADLINE, load_json, run, wait_until, weights_and_losses
from matrix import measured, tried
from ranks import Ranks
from text_data import TEXT, make_tokens

SEED = int(os.environ.get("DTRAIN_KILL_SEED", "1"))
KILLS = int(os.environ.get("DTRAIN_KILLS", "1000" if os.environ.get("DTRAIN_LONG_TESTS") == "1" else "6"))
KILLS_A_RUN = min(10, (KILLS + 1) // 2)
WORLDS = (1, 2, 3, 5)
BOUND = 1  # seconds from a kill to the end of the others, once all ranks have met
INIT_TIMEOUT = 6
MARGIN = 10  # for a busy machine
ELASTIC = ("--deterministic=elastic", "--elastic_shards=5", "--global_batch_size=11", "--max_steps=12", "--log_interval=1",
           "--save_every_epochs=0", "--save_every_steps=2", "--eval_every_epochs=0", "--ema_decay=0.9", "--clip_norm=0.1",
           "--epochs=1000", "--comm_timeout=30", f"--init_timeout={INIT_TIMEOUT}")


@pytest.mark.fault(1, "rank 0, 1 or 2 of three is killed while it trains", "the others name it and end within 1 s")
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


def test_with_json_a_victim_ends_with_a_line_of_it(few_images, run_dir):
    with Ranks(f"--data_dir={few_images}", "--epochs=1000", "--save_every_epochs=0", "--log_format=json",
               f"--run_dir={run_dir}") as ranks:
        ranks[0].wait_for_line('"kind":"train","step":2')
        outcome = ranks.outcomes(ranks.signal(1, signal.SIGKILL), 1, [0])[0]
    assert json.loads(outcome.stderr.splitlines()[-1])["kind"] == "peer_lost", outcome


class Life:
    """One start of a run on `world` ranks, which ends when one of them is killed: either rank 0, in the middle of a save
    (at its `operation`-th write, sync, close or rename), or any rank at a random time after a sign of life."""

    SIGNS = ("lock", "config.json", "metrics.jsonl", "checkpoints", "checkpoints/step-*")

    def __init__(self, dice):
        self.world = dice.choice(WORLDS)
        self.operation = int(math.exp(dice.uniform(0, math.log(400)))) if dice.random() < 0.5 else None
        self.victim = 0 if self.operation else dice.randrange(self.world)
        self.sign, self.delay = dice.choice(self.SIGNS), dice.uniform(0, 0.5)

    def __str__(self) -> str:
        when = f"at operation {self.operation}" if self.operation else f"{self.delay:.2f} s after {self.sign}"
        return f"rank {self.victim} of {self.world} {when}"

    def wait(self, ranks: Ranks, run_dir, began: float) -> None:
        def shows(pattern: str) -> bool:  # written by this start, not by an earlier one
            try:
                return any(path.stat().st_mtime >= began for path in run_dir.glob(pattern))
            except FileNotFoundError:  # removed meanwhile; look again
                return False

        process = ranks[self.victim].process
        try:
            if self.operation is None:
                wait_until(lambda: shows(self.sign) or process.poll() is not None, "a sign of life")
            process.wait(timeout=DEADLINE if self.operation else self.delay)
        except subprocess.TimeoutExpired:  # still running, as it should be
            assert self.operation is None, "neither killed nor finished"
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def live(self, flags, run_dir) -> bool:
        """Returns whether the rank was killed; otherwise the run was finished before."""
        began = time.time()
        with Ranks(*flags, base=(), world=self.world,
                   env={"DTRAIN_CRASH_AT": str(self.operation)} if self.operation else None) as ranks:
            self.wait(ranks, run_dir, began)
            since = time.monotonic()
            if ranks[self.victim].wait().code != -signal.SIGKILL:
                return False
            for survivor in (ranks[rank].wait() for rank in range(self.world) if rank != self.victim):
                seconds, met = time.monotonic() - since, "is gone" in survivor.stderr
                assert survivor.code in (0, 4), survivor  # 0: it had left the run already
                assert seconds < (BOUND if met else INIT_TIMEOUT + 2) + MARGIN, (seconds, survivor)
                if met:
                    measured(seconds)
        return True


@pytest.fixture(scope="module")
def tasks(few_images, module_dir) -> list[tuple]:
    """The flags of an image run and of a text run, and the outcome of each where nothing disturbs it."""
    data = make_tokens(module_dir, train=TEXT)
    images = ("--model=efficientnet_b0", "--image_size=32", "--optimizer=lamb", "--lr=0.01", "--mixup=0.2", "--cutmix=1",
              f"--data_dir={few_images}")
    text = ("--model=roberta_tiny", "--tokens_per_sample=32", "--optimizer=adam", "--lr=0.002", "--dropout=0.1",
            "--attention_dropout=0.1", "--precision=bf16", f"--data_dir={data}")
    found = []
    for number, flags in enumerate((images, text)):
        flags = (*flags, *ELASTIC)
        run(*flags, f"--run_dir={module_dir / str(number)}", "--nproc_per_node=2")
        found.append((flags, weights_and_losses(module_dir / str(number))))
    return found


@pytest.mark.fault(1, "killed at random ranks (of 1, 2, 3 or 5), steps and moments of a save, images and text by turns",
                   "the others end within 1 s, or --init_timeout while they meet; the same bits")
@pytest.mark.parametrize("first", range(0, KILLS, KILLS_A_RUN))
def test_seeded_kills(tasks, run_dir, first):
    flags, expected = tasks[first // KILLS_A_RUN % 2]
    flags = (*flags, f"--run_dir={run_dir}")
    dice, kills, wanted = random.Random(f"{SEED} {first}"), 0, min(KILLS_A_RUN, KILLS - first)
    while kills < wanted:
        life = Life(dice)
        killed = life.live(flags, run_dir)
        print(f"kill {SEED}/{first + kills}: {life}{'' if killed else ': the run was finished before'}", flush=True)
        kills += killed
        if (run_dir / "result.json").exists():
            assert weights_and_losses(run_dir) == expected, life
            shutil.rmtree(run_dir)
    run(*flags, f"--nproc_per_node={dice.choice(WORLDS)}", "--init_timeout=60")
    assert weights_and_losses(run_dir) == expected
    tried(kills)


def test_a_root_cause_keeps_error_json(few_images, run_dir):
    """Rank 1 cannot read its data. The others are its victims and say so."""
    with Ranks(f"--run_dir={run_dir}", own={0: (f"--data_dir={few_images}",),
                                            1: ("--data_dir=/no/such/folder",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, 20)
    assert (outcomes[0].code, outcomes[1].code) == (4, 3), outcomes
    assert "rank 1 " in outcomes[0].stderr and "failed (exit code 3)" in outcomes[0].stderr, outcomes
    error = load_json(run_dir / "error.json")
    assert (error["rank"], error["exit_code"]) == (1, 3)
