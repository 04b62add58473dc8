"""The launchers that can be installed, and what a launcher's variables must not say. Their tables of variables are in
tests/trainer/launch."""

import signal

import pytest

from command import LAUNCHER_VARIABLES, MAIN, TINY, Background, free_port, load_json, run, sha256, wait_until
from slurm_machine import SlurmMachine

GENTLE = (*TINY, "--lr=0.0005", "--max_steps=3", "--batch_size=8", "--init_timeout=30")


@pytest.mark.parametrize("pods", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}])
def test_an_address_that_does_not_resolve_is_named_with_what_was_seen(few_images, run_dir, pods):
    env = pods | {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "29500"}
    outcome = run(*GENTLE, f"--data_dir={few_images}", "--init_timeout=2", f"--run_dir={run_dir}", env=env,
                  check=4 if pods else 2, timeout=30)  # rank 0's pod may be started again
    assert "'no-such-host.invalid' does not resolve" in outcome.stderr
    assert "seen: RANK=1, WORLD_SIZE=2, MASTER_ADDR=no-such-host.invalid, MASTER_PORT=29500" in outcome.stderr


def test_no_launcher_around_the_tests_reaches_their_programs():
    assert {"RANK", "LOCAL_", "MASTER_", "PET_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "AWS_", "TORCHELASTIC_"} <= {*LAUNCHER_VARIABLES}


@pytest.fixture(scope="module")
def weights(few_images, module_dir):
    """Returns the weights' hash after a run on two ranks of our own launcher. Every other launcher of two ranks must
    reach it."""
    run(*GENTLE, f"--data_dir={few_images}", "--nproc_per_node=2", f"--run_dir={module_dir / 'ours'}")
    return sha256(module_dir / "ours" / "model.safetensors")


def assert_same_run(run_dir, weights):
    assert load_json(run_dir / "result.json")["world_size"] == 2
    assert sha256(run_dir / "model.safetensors") == weights


def test_mpirun_without_a_master_address(mpirun, few_images, run_dir, weights):
    with Background(*mpirun[1:], "-n", 2, MAIN, *GENTLE, f"--data_dir={few_images}", f"--run_dir={run_dir}",
                    program=mpirun[0]) as training:
        training.wait_for_line("step 1/")
        assert not list(run_dir.glob(".rank0-*"))
        outcome = training.wait()
    assert outcome.code == 0 and "\x1b" not in outcome.stdout, outcome  # lines, although the ranks' output is a pty
    assert_same_run(run_dir, weights)


def test_mpirun_where_rank_0_cannot_start(mpirun, tmp_path, few_images):
    """Each rank says what is wrong, and none waits long."""
    (tmp_path / "run").write_text("a file", encoding="utf-8")
    outcome = run(*mpirun[1:], "-n", 2, MAIN, *GENTLE, f"--data_dir={few_images}", f"--run_dir={tmp_path / 'run'}",
                  "--init_timeout=2", program=mpirun[0], check=None, timeout=30)
    assert outcome.code != 0
    assert "cannot create the run directory" in outcome.stderr + outcome.stdout


def test_mpirun_with_rank_0_on_another_host(two_hosts, mpirun, few_images, run_dir, weights, tmp_path):
    """Nobody gives rank 0's address, which is not on the host where mpirun was called. The hosts share a file
    system."""
    local, remote = two_hosts.addresses
    flags = (MAIN, *GENTLE, f"--data_dir={few_images}", f"--run_dir={run_dir}")
    run(*two_hosts.at(0)[1:], *mpirun, "--mca", "plm_rsh_agent",
        f"{two_hosts.ssh(tmp_path / 'ssh')} -o StrictHostKeyChecking=accept-new", "--mca", "oob_tcp_if_include", "cable", "-x", "OMP_NUM_THREADS",
        "-n", 1, "--host", remote, *flags, ":", "-n", 1, "--host", local, *flags, program=two_hosts.at(0)[0])
    assert_same_run(run_dir, weights)
    assert " on host host1" in (run_dir / "lock").read_text(encoding="utf-8")  # rank 0 held it


@pytest.fixture(scope="module")
def slurm():
    with SlurmMachine() as machine:
        yield machine


def test_srun(slurm, few_images, run_dir, weights):
    """One task, which starts its ranks. A task for each rank: clusters/test_slurm_scripts.py."""
    run("-N1", "-n1", "-c2", MAIN, *GENTLE, "--nproc_per_node=2", f"--data_dir={few_images}", f"--run_dir={run_dir}", program="srun",
        env=slurm.environment)
    assert_same_run(run_dir, weights)


def test_two_pods(few_images, run_dir, weights):
    """As in Kubeflow Trainer, with a node launcher in each pod; here both are on this machine."""
    env = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": free_port()}
    flags = (*GENTLE, "--max_restarts=1", f"--data_dir={few_images}", f"--run_dir={run_dir}")
    pods = [Background(*flags, env={**{k: str(v) for k, v in env.items()}, "PET_NODE_RANK": str(node)})
            for node in (1, 0)]
    with pods[0], pods[1]:
        outcomes = [pod.wait() for pod in pods]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert_same_run(run_dir, weights)


def test_torchrun(torchrun, few_images, run_dir, weights):
    outcome = run("--no-python", "--nproc-per-node", "2", "--master-port", free_port(), MAIN, *GENTLE, f"--data_dir={few_images}",
                  f"--run_dir={run_dir}", program=torchrun, threads=None)
    assert outcome.last_line.startswith("val_top1=")
    assert_same_run(run_dir, weights)


def test_ranks_that_are_named(few_images, run_dir, weights):
    """Timeouts that exceed every clock mean for ever."""
    flags = (*GENTLE, f"--data_dir={few_images}", f"--run_dir={run_dir}", "--comm_timeout=1e10", "--init_timeout=1e300", "--world_size=2",
             "--master_addr=127.0.0.1", f"--master_port={free_port()}")
    with Background(*flags, "--rank=1") as second, Background(*flags, "--rank=0") as first:
        outcomes = first.wait(), second.wait()
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert outcomes[0].last_line.startswith("val_top1=") and outcomes[1].stdout == ""  # only one rank prints
    assert_same_run(run_dir, weights)


@pytest.mark.fault(7, "torchrun's agent is killed", "its ranks end")
def test_ranks_end_with_torchruns_agent(torchrun, few_images, run_dir):
    with Background("--no-python", "--nproc-per-node", "2", "--master-port", free_port(), MAIN, *TINY, "--epochs=1000",
                    f"--data_dir={few_images}", f"--run_dir={run_dir}", program=torchrun, threads=None) as training:
        training.wait_for_line("step 1/")
        assert len(training.family()) == 3
        training.process.send_signal(signal.SIGKILL)
        wait_until(lambda: not training.family(), "the end of all ranks", 2)
