"""Runs the sbatch files of scripts/aws/parallelcluster on a real Slurm of one machine."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from command import ROOT, TINY, Background, load_json, make_program, metrics, run, wait_until
from slurm_machine import SlurmMachine
from tools import assert_secret_starts, make_bundle

FOLDER = ROOT / "scripts" / "aws" / "parallelcluster"
# Two tasks of one machine, in place of 64.
SMALL = ("--nodes=1", "--ntasks-per-node=2", "--time=10")
FLAGS = (*TINY, "--lr=0.0005", "--batch_size=8", "--init_timeout=30", "--save_every_epochs=0.3")


class Cluster:
    def __init__(self, machine, data, folder):
        self.folder = folder
        self._environment = machine.environment | {"DTRAIN": str(make_bundle(folder / "bundle")), "DATA_DIR": str(data)}

    def command(self, *arguments, check=True, **variables) -> str:
        program, *flags = arguments
        return run(*flags, program=program, env=self._environment | variables, check=0 if check else None, cwd=self.folder).stdout

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
    job = cluster.submit("train.sbatch", *FLAGS, "--epochs=1000", RUN_DIR=str(run_dir))
    wait_until(lambda: (run_dir / "metrics.jsonl").exists() and len(metrics(run_dir, "train")) >= 2, "two steps", 90)
    cluster.command("scancel", "--signal=USR1", job)  # as --signal does, and slurmctld before a preemption
    wait_until(lambda: cluster.job(job).get("Restarts") == "1", "the requeue", 90)
    assert (run_dir / "latest").exists()
    cluster.command("scancel", job)  # the requeued job would wait for two minutes now
    step = metrics(run_dir, "train")[-1]["step"]
    again = cluster.submit("train.sbatch", *FLAGS, f"--max_steps={step + 2}", RUN_DIR=str(run_dir))
    assert cluster.wait_for(again, "COMPLETED", "FAILED")["ExitCode"] == "0:0", cluster.logs()
    assert "resuming from" in cluster.logs()
    assert load_json(run_dir / "result.json")["world_size"] == 2


def test_the_cost_of_a_job_is_said_before_it_starts(cluster, run_dir):
    def submit(*options, check=True, **variables) -> str:
        return cluster.command(FOLDER / "submit.sh", *SMALL, f"--output={cluster.folder / 'log-%j'}", *options, FOLDER / "train.sbatch",
                               *FLAGS, "--max_steps=1", check=check, RUN_DIR=str(run_dir), **variables)

    said, job = submit("--time=1-12:30:00").splitlines()
    assert "At most 36 hours of p4d.24xlarge (1 × 36.5 h × 1 attempts): $790 at " in said
    cluster.command("scancel", job)
    cluster.wait_for(job, "CANCELLED")
    for options, variables, said in ((("--time=300", "--array=1-7:2,9%2"), {"MOST_DOLLARS": "100"}, "(5 jobs × 1 × 5 h"), (("--time=UNLIMITED",), {}, "")):
        assert said in submit(*options, check=False, **variables)
        assert not cluster.command("squeue", "-h").strip()


def test_a_job_ends_with_the_root_causes_code(cluster, tmp_path, run_dir):
    job = cluster.submit("train.sbatch", *FLAGS, "--lr=-1", RUN_DIR=str(run_dir))
    assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "2:0", cluster.logs()
    run_dir.mkdir(exist_ok=True)
    (run_dir / "error.json").write_text('{"exit_code": 6}', encoding="utf-8")  # of an earlier attempt
    job = cluster.submit("train.sbatch", *FLAGS, "--lrr=1", RUN_DIR=str(run_dir))
    assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "2:0", cluster.logs()
    (tmp_path / "empty").mkdir()
    job = cluster.submit("train.sbatch", *FLAGS, RUN_DIR=str(run_dir), DATA_DIR=str(tmp_path / "empty"))
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


def test_each_start_has_a_secret_that_nobody_else_sees(cluster):
    def start(bundle: Path) -> str:
        # Only what is named here comes into the job, and by default to its tasks.
        job = cluster.submit("train.sbatch", "--lr=1", RUN_DIR="/run", DTRAIN=str(bundle), options=("--export=PATH,DATA_DIR,DTRAIN,RUN_DIR",))
        assert cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"] == "0:0", cluster.logs()
        return cluster.logs() + str(cluster.job(job))

    assert_secret_starts(cluster.folder, "$SLURM_PROCID", start)


def test_what_cannot_train_starts_nothing(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    bundle = make_bundle(tmp_path / "bundle", "#!/bin/sh\necho no PyTorch was found >&2; exit 2\n")
    make_program(tmp_path / "srun", "#!/bin/sh\necho Usage: srun\n")
    job = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "1", "RUN_DIR": str(tmp_path / "run"), "DATA_DIR": str(tmp_path / "data"),
           "DTRAIN": str(bundle)}
    for change, flags, code, text in (
            ({"SLURM_JOB_ID": ""}, ["--lr=1"], 2, "this is not a Slurm job"), ({}, [], 2, "there are no flags"),
            ({"RUN_DIR": "/scratch/run"}, ["--lr=1"], 2, "on this node's own disk"), ({"DATA_DIR": "/none"}, ["--lr=1"], 3, "no data in /none"),
            ({"IMAGE": "/fsx/dtrain.sqsh"}, ["--lr=1"], 2, "Pyxis is off"), ({"DTRAIN": str(tmp_path)}, ["--lr=1"], 2, "is not a bundle"),
            ({}, ["--lr=1"], 2, f"scripts/ssh/install_libtorch.sh {bundle}")):
        said = run(*flags, program=FOLDER / "train.sbatch", env=job | change, check=code).stderr
        assert text in said and "what to do:" in said, said


SRUN = """#!/bin/bash
[ -e FOLDER/long ] || exit 75
trap 'exit 75' USR1
echo $$ >FOLDER/pid
while true; do sleep 0.05; done
"""
# Its configuration is longer than a pipe holds.
SCONTROL = """#!/bin/bash
[ "$1" = show ] || exec echo "$@" >>FOLDER/called
echo "RequeueExit             = 75"
for i in {1..9000}; do echo "Option$i = value"; done
"""


def test_when_a_job_is_put_back_into_the_queue(tmp_path):
    """Slurm does it, if it is set up so, and not with a trial that a sweep has pruned, whose tasks this script tells to save."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("scancel", '#!/bin/sh\necho "$@" >>FOLDER/called\nkill -USR1 $(cat FOLDER/pid)\n')):
        make_program(tmp_path / name, text.replace("FOLDER", str(tmp_path)))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "9", "RUN_DIR": str(tmp_path / "run"), "DATA_DIR": str(tmp_path),
           "DTRAIN": str(make_bundle(tmp_path / "bundle", "#!/bin/sh\n"))}
    run("--lr=1", program=FOLDER / "train.sbatch", env=env, check=75)
    assert not (tmp_path / "called").exists()
    (tmp_path / "long").touch()
    make_program(tmp_path / "scontrol", SCONTROL.replace("FOLDER", str(tmp_path)).replace("75", "(null)"))
    with Background("--lr=1", program=FOLDER / "train.sbatch",
                    env=env | {"IN_SWEEP": "1", "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "3"}) as trial:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the tasks")
        trial.process.send_signal(signal.SIGTERM)
        assert trial.wait(20).code == 75
    assert (tmp_path / "called").read_text(encoding="utf-8") == "--signal=USR1 9_3\n"
