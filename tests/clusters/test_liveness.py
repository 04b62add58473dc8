"""Tests how Kubernetes asks whether a container's training goes on: ranks that train or are stopped.
tests/faults/test_hung_ranks.py has a file system that hangs."""

import os
import signal

from command import BUILD, ROOT, TINY, Background, free_port, run, wait_until
from probe import probe
from two_hosts import TwoHosts

ENTRY = ROOT / "docker" / "entrypoint.sh"
PROGRAMS = {"PATH": f"{BUILD.resolve() / 'bin'}:{os.environ['PATH']}"}
FLAGS = ("--data_format=synthetic", *TINY, "--epochs=1000")


def test_a_rank_that_trains_and_one_that_is_stopped(run_dir):
    port = free_port()
    env = PROGRAMS | {"METRICS_PORT": str(port), "RUN_DIR": str(run_dir), "GPUS": "2"}
    with Background(*FLAGS, program=ENTRY, env=env) as pod:
        pod.wait_for_line("step 1/")
        status, text = probe(port)
        assert status == 200 and text.startswith("after step ")
        first = pod.children()[0]
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: probe(port, seconds=1) == (None, ""), "silence")
        os.kill(first, signal.SIGCONT)
        assert probe(port)[0] == 200


def test_each_of_two_machines_answers(run_dir):
    with TwoHosts() as hosts:
        def node(number: int) -> Background:
            words = (*hosts.at(number), ENTRY, *FLAGS)
            return Background(*words[1:], program=words[0], env=PROGRAMS | {
                "METRICS_PORT": "9401", "RUN_DIR": str(run_dir), "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(number),
                "PET_MASTER_ADDR": hosts.addresses[0], "PET_MASTER_PORT": "29500"})

        with node(0) as first, node(1) as second:
            first.wait_for_line("step 1/")
            asked = ("curl", "-sS", "--max-time", "2", "http://127.0.0.1:9401/healthz")
            for number in (0, 1):
                ask = hosts.at(number)
                assert run(*ask[1:], *asked, program=ask[0]).stdout.startswith("after step ")
            os.kill(second.pid, signal.SIGSTOP)
            wait_until(lambda: "timed out" in run(*ask[1:], *asked, program=ask[0], check=None).stderr, "silence")
