"""A Slurm of one machine for tests, which says that it has a p4d's cores and GPUs: munged, slurmctld and slurmd from a folder of
their own, without systemd or cgroups."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from command import wait_until

DAEMONS = ("munged", "slurmctld", "slurmd")
START_SECONDS = 30

CONFIGURATION = """
ClusterName=dtrain
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={machine_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
GresTypes=gpu
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=48 Gres=gpu:8 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES State=UP
"""


def program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class SlurmMachine:
    """In the `with` block, srun and sbatch work with `environment`. `enter` are words with which the daemons begin (own_root.py)."""

    def __init__(self, enter: list[str] | None = None):
        missing = [name for name in (*DAEMONS, "srun") if program(name) is None]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)} (scripts/setup.sh --tests)")
        if os.geteuid() != 0:
            pytest.skip("Slurm's daemons need root to start other users' tasks")
        self._folder = Path(tempfile.mkdtemp(prefix="dtrain-slurm-"))
        self._folder.chmod(0o755)  # munge refuses a socket that others cannot reach
        self._daemons = []
        self._enter = enter or []
        self.environment = {"SLURM_CONF": str(self._folder / "slurm.conf")}

    def __enter__(self) -> "SlurmMachine":
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_all(self) -> None:
        folder = self._folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        controller_port, machine_port = free_ports(2)
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=folder,
                                 controller_port=controller_port, machine_port=machine_port), encoding="utf-8")
        for number in range(8):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-7]\n", encoding="utf-8")
        # The version is named, because slurmd finds it out only if one is mounted. No cgroup is used.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n", encoding="utf-8")
        self._start("munged", "--foreground", f"--key-file={key}", f"--socket={folder}/munge.socket",
                    f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munged.file", f"--seed-file={folder}/seed")
        wait_until((folder / "munge.socket").exists, f"munged\n{self._logs()}", START_SECONDS)
        self._start("slurmctld", "-D", "-i")
        self._start("slurmd", "-D")
        try:
            wait_until(self._is_idle, "an idle machine", START_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"Slurm did not start: {error}\n{self._logs()}") from None

    def _start(self, name: str, *arguments) -> None:
        with open(self._folder / f"{name}.log", "wb") as log:
            self._daemons.append(subprocess.Popen([*self._enter, program(name), *arguments], stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL, env=os.environ | self.environment))

    def _is_idle(self) -> bool:
        ended = [daemon.args[0] for daemon in self._daemons if daemon.poll() is not None]
        assert not ended, f"{ended} ended"
        state = subprocess.run([program("sinfo"), "-h", "-o", "%T"], capture_output=True, text=True, check=False,
                               env=os.environ | self.environment)
        return state.stdout.strip() == "idle"

    def _logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self._folder.glob("*.log")))
