"""Row 26 of the faults, under torchrun with --nnodes=1:3: a node is lost, and later one is added. Each time, torchrun
starts the ranks again. They resume from the last checkpoint, with as many micro-steps as the global batch needs, and
see the same samples in the same order."""

import os
from pathlib import Path

import pytest

from command import DEADLINE, MAIN, TINY_RESNET, Background, losses, metrics, run, wait_until
from ranks import free_port

# A node that was heard from 5 s ago counts as alive. With less time, a busy node would be given up.
# The last call is as long as a second agent may take to start beside other tests.
RENDEZVOUS = "last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=5,join_timeout=60"


def flags_of(data) -> tuple:
    """The weights do not change, so the losses depend only on the samples (see integration/test_ranks.py)."""
    return (*TINY_RESNET, f"--data_dir={data}", "--lr=0", "--global_batch_size=24", "--batch_size=4", "--epochs=1000",
            "--save_every_epochs=0.3", "--comm_timeout=20", "--init_timeout=30")


class Nodes:
    """torchrun agents of one job, each a node with one rank. torchrun orders them by address, so the first has rank
    0."""

    def __init__(self, torchrun: Path, *command, agent_store: bool):
        self._torchrun, self._command, self._port, self._count = torchrun, command, free_port(), 0
        # torchrun cannot add nodes while its agents share a store with the ranks; see docs/distributed.md.
        self._environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0" if agent_store else "1"}

    def add(self, keeps_store: bool = False) -> Background:
        self._count += 1
        return Background("--no-python", "--nnodes=1:3", "--nproc-per-node=1", "--max-restarts=3",
                          "--monitor-interval=0.1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._port}",
                          "--rdzv-id=job", f"--rdzv-conf=is_host={int(keeps_store)},{RENDEZVOUS}",
                          f"--local-addr=127.0.0.{self._count}", *self._command, program=self._torchrun,
                          env=self._environment, threads=None)


def step_of(run_dir) -> int:
    points = metrics(run_dir, "train") if (run_dir / "metrics.jsonl").exists() else []
    return points[-1]["step"] if points else 0


def assert_same_samples(run_dir, few_images, alone) -> None:
    """The samples are those of a single undisturbed rank. It takes the steps of three ranks, so it has more time."""
    found = losses(run_dir)
    run(*flags_of(few_images), f"--max_steps={len(found)}", "--save_every_epochs=0", f"--run_dir={alone}", timeout=3 * DEADLINE)
    expected = losses(alone)
    assert [step for step, _ in found] == [step for step, _ in expected]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in expected], rel=1e-5)


def wait_for_steps(run_dir, count: int) -> None:
    target = step_of(run_dir) + count
    wait_until(lambda: step_of(run_dir) >= target, f"step {target}")


@pytest.mark.fault(26, "three nodes under torchrun, then two, then three", "the same samples in the same order")
def test_a_lost_node_and_a_new_one(torchrun, few_images, run_dir, tmp_path):
    """The lost node has rank 0, so the ranks meet at another address then."""
    nodes = Nodes(torchrun, MAIN, *flags_of(few_images), f"--run_dir={run_dir}", agent_store=False)
    with nodes.add() as first, nodes.add(keeps_store=True) as second, nodes.add():
        first.wait_for_line("3 ranks")
        wait_for_steps(run_dir, 3)
        first.process.kill()
        second.wait_for_line("2 ranks")
        with nodes.add():
            second.wait_for_line("3 ranks")
            wait_for_steps(run_dir, 2)
    assert_same_samples(run_dir, few_images, tmp_path / "alone")


@pytest.mark.skipif(os.environ.get("DTRAIN_LONG_TESTS") != "1", reason="ten seconds: DTRAIN_LONG_TESTS=1")
def test_a_lost_node_with_torchruns_own_store(torchrun, few_images, run_dir, tmp_path):
    """As above, with the store of torchrun's agent. It outlives the ranks, so its entries are old."""
    nodes = Nodes(torchrun, MAIN, *flags_of(few_images), f"--run_dir={run_dir}", agent_store=True)
    with nodes.add(keeps_store=True) as first, nodes.add() as second:
        assert "2 ranks" in first.wait_for_line("device")
        wait_for_steps(run_dir, 3)
        second.process.kill()
        assert "1 rank" in first.wait_for_line("device")
        wait_for_steps(run_dir, 2)
    assert_same_samples(run_dir, few_images, tmp_path / "alone")
