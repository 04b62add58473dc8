"""Runs the sbatch files of scripts/aws/parallelcluster on a real Slurm of one machine."""

import os
import re
import subprocess
import sys

import pytest

from command import BUILD, ROOT, TINY, environment, load_json, metrics, wait_until
from slurm_machine import SlurmMachine

FOLDER = ROOT / "scripts" / "aws" / "parallelcluster"
# The resources of the machine of the tests, in place of a p4d's.
SMALL = ("--partition=test", "--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=0", "--cpus-per-task=1", "--time=10")
FLAGS = (*TINY, "--lr=0.0005", "--batch_size=8", "--init_timeout=30", "--save_every_epochs=0.3")


class Cluster:
    def __init__(self, machine, data, folder):
        self.folder = folder
        self._environment = environment(machine.environment | {
            "DTRAIN": str(BUILD.resolve()), "DATA_DIR": str(data), "DTRAIN_SCRIPTS": str(FOLDER)})

    def command(self, *arguments, check=True, **variables) -> str:
        done = subprocess.run([str(argument) for argument in arguments], env=self._environment | variables, check=False,
                              capture_output=True, text=True, timeout=60, cwd=self.folder)
        assert done.returncode == 0 or not check, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def submit(self, script: str, *arguments, options=(), **variables) -> str:
        log = self.folder / "log-%j-%a"
        text = self.command("sbatch", "--parsable", *SMALL, f"--output={log}", *options, FOLDER / script, *arguments,
                            **variables)
        return text.strip()

    def job(self, number: str) -> dict:
        text = self.command("scontrol", "--oneliner", "show", "job", number, check=False)
        return dict(re.findall(r"(\w+)=(\S+)", text))

    def wait_for(self, number: str, *states: str) -> dict:
        wait_until(lambda: self.job(number).get("JobState") in states, f"job {number}: {states}", 90)
        return self.job(number)

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log-*")))


@pytest.fixture(scope="module")
def machine():
    with SlurmMachine() as machine:
        yield machine


@pytest.fixture
def cluster(machine, few_images, tmp_path):
    cluster = Cluster(machine, few_images, tmp_path)
    yield cluster
    cluster.command("scancel", "--user", str(os.geteuid()), "--signal=KILL", check=False)
    cluster.command("scancel", "--user", str(os.geteuid()), check=False)
    wait_until(lambda: not cluster.command("squeue", "-h").strip(), "an empty queue", 60)


def test_a_preempted_job_saves_goes_back_into_the_queue_and_is_gone_on_with(cluster, run_dir):
    job = cluster.submit("resnet50.sbatch", *FLAGS, "--epochs=1000", RUN_DIR=str(run_dir))
    wait_until(lambda: (run_dir / "metrics.jsonl").exists() and len(metrics(run_dir, "train")) >= 2, "two steps", 90)
    cluster.command("scancel", "--signal=USR1", job)  # as --signal does, and slurmctld before a preemption
    wait_until(lambda: cluster.job(job).get("Restarts") == "1", "the requeue", 90)
    assert (run_dir / "latest").exists()
    cluster.command("scancel", job)  # the requeued job would wait for two minutes now
    step = metrics(run_dir, "train")[-1]["step"]
    again = cluster.submit("resnet50.sbatch", *FLAGS, f"--max_steps={step + 2}", RUN_DIR=str(run_dir))
    assert cluster.wait_for(again, "COMPLETED", "FAILED")["ExitCode"] == "0:0", cluster.logs()
    assert "resuming from" in cluster.logs()
    assert load_json(run_dir / "result.json")["world_size"] == 2


def test_the_cost_of_a_job_is_said_before_it_starts(cluster, run_dir):
    def submit(*options, check=True, **variables) -> str:
        return cluster.command(FOLDER / "submit.sh", *SMALL, f"--output={cluster.folder / 'log-%j'}", *options, FOLDER / "resnet50.sbatch",
                               *FLAGS, "--max_steps=1", check=check, RUN_DIR=str(run_dir), **variables)

    said, job = submit("--time=1-12:30:00").splitlines()
    assert "At most 36 hours of p4d.24xlarge (1 × 36.5 h × 1 attempts): $790 at " in said
    assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "0:0", cluster.logs()
    for options, variables, said in ((("--time=300", "--array=1-7:2,9%2"), {"MOST_DOLLARS": "100"}, "(5 jobs × 1 × 5 h"), (("--time=UNLIMITED",), {}, "")):
        assert said in submit(*options, check=False, **variables)
        assert not cluster.command("squeue", "-h").strip()


def test_a_job_ends_with_the_root_causes_code(cluster, tmp_path, run_dir):
    job = cluster.submit("roberta_large.sbatch", *FLAGS, "--lr=-1", RUN_DIR=str(run_dir))
    assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "2:0", cluster.logs()
    (tmp_path / "empty").mkdir()
    job = cluster.submit("roberta_large.sbatch", RUN_DIR=str(run_dir), DATA_DIR=str(tmp_path / "empty"))
    assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "3:0", cluster.logs()
    assert "there is no data in" in cluster.logs()


def test_a_sweep_is_an_array(cluster, tmp_path):
    pytest.importorskip("optuna", reason="scripts/setup.sh --tests installs it")
    space = tmp_path / "space.yaml"
    space.write_text("metric: val_top1\nflags:\n  lr: [0.001, 0.002]\n", encoding="utf-8")
    cluster.submit("sweep.sbatch", space, *(flag for flag in FLAGS if not flag.startswith("--lr")), "--max_steps=1",
                   options=("--array=0-1%1",), SWEEP_DIR=str(tmp_path / "sweep"), SWEEP_SAMPLER="grid",
                   SWEEP_PYTHON=sys.executable)
    results = [tmp_path / "sweep" / f"trial-{number:04}" for number in (0, 1)]
    wait_until(lambda: all((result / "result.json").exists() for result in results), "two results", 90)
    assert [load_json(result / "config.json")["lr"] for result in results] == [0.001, 0.002]
    wait_until(lambda: "2 trials: 2 finished" in cluster.logs(), "the summary", 60)


def test_what_cannot_train_starts_nothing(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    (tmp_path / "bin").mkdir()
    for path, content in ((tmp_path / "srun", "echo Usage: srun"), (tmp_path / "bin" / "dtrain_main", "echo no PyTorch was found >&2; exit 2")):
        path.write_text(f"#!/bin/sh\n{content}\n", encoding="utf-8")
        path.chmod(0o755)
    job = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "1", "RUN_DIR": str(tmp_path / "run"), "DATA_DIR": str(tmp_path / "data"),
           "DTRAIN": str(tmp_path)}
    for change, text in (({"SLURM_JOB_ID": ""}, "this is not a Slurm job"), ({"RUN_DIR": "/scratch/run"}, "on this node's own disk"),
                         ({"IMAGE": "/fsx/dtrain.sqsh"}, "Pyxis is off"), ({}, f"scripts/ssh/install_libtorch.sh {tmp_path}")):
        done = subprocess.run([FOLDER / "train.sh"], env=job | change, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and text in done.stderr, done.stderr
