"""Row 6 of the faults: the network between two hosts fails. Both sides end in time and name what they lost. When the
network is back, the same command resumes as if nothing had happened."""

import socket
import time
from pathlib import Path

import pytest

from command import MAIN, Background, load_json, losses, sha256, wait_until
from conftest import STEPS
from matrix import measured
from ranks import FLAGS, free_port
from two_hosts import TwoHosts

COMM_TIMEOUT = 3
INIT_TIMEOUT = 6
LATE = 2  # seconds after a timeout
MARGIN = 10  # for a busy machine


@pytest.fixture(scope="module")
def hosts():
    with TwoHosts() as two_hosts:
        yield two_hosts


class Pair:
    """Runs the same command on both hosts, one rank each."""

    def __init__(self, hosts: TwoHosts, *flags, nodes: int = 2, env: dict | None = None):
        """`env` has the variables of host 0."""
        self._processes = [
            Background(*hosts.at(node)[1:], MAIN, *FLAGS, f"--comm_timeout={COMM_TIMEOUT}", f"--nnodes={nodes}",
                       f"--node_rank={node}", "--nproc_per_node=1", f"--master_addr={hosts.addresses[0]}", *flags,
                       program=hosts.at(node)[0], env=None if node else env)
            for node in range(2)
        ]

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *error) -> None:
        for process in self._processes:
            process.__exit__(*error)

    def __getitem__(self, host: int) -> Background:
        return self._processes[host]

    def connections(self) -> int:
        """Returns the established connections from host 1, as host 0's kernel lists them."""
        remote = socket.inet_aton(TwoHosts.addresses[1])[::-1].hex().upper()
        lines = [line.split() for line in Path(f"/proc/{self[0].pid}/net/tcp").read_text(encoding="ascii").splitlines()]
        return sum(line[2].startswith(f"{remote}:") and line[3] == "01" for line in lines)

    def outcomes(self) -> list:
        return [process.wait() for process in self._processes]

    def outcomes_after(self, since: float, bound: float) -> list:
        found = self.outcomes()
        seconds = time.monotonic() - since
        print(f"\nmeasured: both ended {seconds:.2f} s after the partition (bound: {bound} s)")
        measured(seconds)
        assert seconds < bound + MARGIN, found
        return found


@pytest.mark.fault(6, "the network between two hosts is cut while they train", "both end within --comm_timeout + 2 s; the same bits")
@pytest.mark.parametrize("pulled", [0, 1])
def test_a_partition_during_training(hosts, few_images, undisturbed, run_dir, pulled):
    flags = (f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0.3", f"--run_dir={run_dir}",
             f"--master_port={free_port()}")
    with Pair(hosts, *flags) as pair:
        pair[0].wait_for_line("step 3/")
        since = time.monotonic()
        hosts.pull_cable(pulled)
        outcomes = pair.outcomes_after(since, COMM_TIMEOUT + LATE)
    hosts.plug_cable(pulled)
    for host, outcome in enumerate(outcomes):
        assert outcome.code == 4, outcomes
        assert f"rank {1 - host} has not answered for" in outcome.stderr and "after step " in outcome.stderr, outcomes
        assert "network" in outcome.stderr, outcomes
    reports = [load_json(path) for path in run_dir.glob("error*.json")]
    assert {(report["exit_code"], report["rank"]) for report in reports} == {(4, 0), (4, 1)}
    for report in reports:
        assert f"rank {1 - report['rank']} has not answered for" in report["message"] and report["step"] >= 3
    with Pair(hosts, *flags) as pair:
        again = pair.outcomes()
    assert [outcome.code for outcome in again] == [0, 0], again
    assert "resuming from" in again[0].stderr
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()


@pytest.mark.fault(6, "rank 0's host vanishes with its network while a save is being written",
                   "the other rank ends within --comm_timeout + 2 s; the same bits")
def test_rank_zeros_host_vanishes_while_it_saves(hosts, few_images, undisturbed, run_dir, bad_disk):
    """A rank that saves may take its time, but it must be heard."""
    flags = (f"--data_dir={few_images}", f"--max_steps={STEPS}", "--save_every_epochs=0.3", f"--run_dir={run_dir}",
             f"--master_port={free_port()}")
    hanging = bad_disk("optimizer.safetensors", BAD_CALLS="fsync", BAD_MILLISECONDS=60_000)
    with Pair(hosts, *flags, env=hanging) as pair:
        wait_until(lambda: any(run_dir.glob("checkpoints/tmp.*/optimizer.safetensors")), "a save")
        since = time.monotonic()
        hosts.pull_cable(0)
        pair[0].process.kill()
        outcome = pair[1].wait()
        measured(time.monotonic() - since)
    hosts.plug_cable(0)
    assert outcome.code == 4 and "rank 0 has not answered for" in outcome.stderr, outcome
    assert time.monotonic() - since < COMM_TIMEOUT + LATE + MARGIN
    assert any(run_dir.glob("checkpoints/tmp.*"))
    with Pair(hosts, *flags) as pair:
        again = pair.outcomes()
    assert [outcome.code for outcome in again] == [0, 0], again
    assert not any(run_dir.glob("checkpoints/tmp.*"))
    assert (sha256(run_dir / "model.safetensors"), losses(run_dir)) == undisturbed()


@pytest.mark.fault(6, "the network is cut while the ranks meet", "both end within --init_timeout + 2 s")
def test_a_partition_while_the_ranks_meet(hosts, few_images, run_dir):
    """Rank 1 has joined, and a third rank is awaited."""
    with Pair(hosts, f"--data_dir={few_images}", f"--init_timeout={INIT_TIMEOUT}", f"--master_port={free_port()}",
              f"--run_dir={run_dir}", nodes=3) as pair:
        began = time.monotonic()
        # To the control server and then, after it is admitted, to the store.
        wait_until(lambda: pair.connections() >= 2, "rank 1 at rank 0")
        hosts.pull_cable(0)
        outcomes = pair.outcomes_after(began, INIT_TIMEOUT + LATE)
    hosts.plug_cable(0)
    assert [outcome.code for outcome in outcomes] == [4, 4], outcomes
    assert "waiting for 2 of 3 ranks: 2 not there; 1 does not answer" in outcomes[0].stderr, outcomes
    assert "rank 0 has not answered for" in outcomes[1].stderr, outcomes


def test_no_network_from_the_start(hosts, few_images, run_dir):
    """The network comes up while the ranks look for each other, and the run starts normally."""
    hosts.pull_cable(1)
    with Pair(hosts, f"--data_dir={few_images}", "--max_steps=2", f"--master_port={free_port()}",
              f"--run_dir={run_dir}") as pair:
        wait_until((run_dir / "lock").exists, "rank 0 at its run directory")
        hosts.plug_cable(1)
        outcomes = pair.outcomes()
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
