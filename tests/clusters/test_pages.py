"""Types the steps of docs/parallelcluster.md and docs/machines.md on the cluster's machines, as `ubuntu` on machines whose /fsx is a new
file system, that is, belongs to root: on a real Slurm of one machine, and over a real ssh on two hosts.

Stand-ins: apt-get, EFA's tools and the installation of LibTorch are scripts here; the programs are those of this build; the recipes are
tiny trainings; several nodes of Slurm are one, eight tasks two."""

import os
import re
import runpy
import shlex
import shutil
import subprocess

import pytest

from command import BUILD, ROOT, TINY, load_json, metrics, wait_until
from own_root import USER, OwnRoot
from slurm_machine import SlurmMachine
from text_data import write_tokenizer
from tools import tracked
from two_hosts import TwoHosts

HOME = f"/home/{USER}"
NODE = ROOT / "scripts" / "aws" / "parallelcluster" / "node.sh"
TRAIN = (*TINY, "--lr=0.0005", "--batch_size=8", "--max_steps=2", "--init_timeout=30")
TEXT = ("--model=roberta_tiny", "--data_format=tokens", "--batch_size=2", "--tokens_per_sample=32", "--max_steps=2", "--eval_every_epochs=0")


def steps(page: str, place: str) -> list[str]:
    """Returns what the page has typed at this place, in the order of its steps."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    sections = re.findall(r"^## \d+\. [^\n]*\(([^\n]+)\)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(sections) == 8
    return ["".join(re.findall(r"^```sh\n(.*?)^```", body, re.MULTILINE | re.DOTALL)) for where, body in sections if where == place]


def small(commands: str) -> str:
    return re.sub(r"--nodes=\d+", "--nodes=1", commands.replace("--ntasks-per-node=8", "--ntasks-per-node=2"))


# Installs LibTorch as a link to this machine's.
PYTHON = """[ "$*" != "-m pip --version" ] || exit 0
case "$*" in *"pip install"*) ;; *) exec /usr/bin/python3 "$@" ;; esac
for word in "$@"; do case $word in --target=*) mkdir "${word#*=}"; ln -s PACKAGES/torch PACKAGES/nvidia "${word#*=}" ;; esac; done"""


class Machine(OwnRoot):
    """An instance of EC2."""

    def furnish(self) -> None:
        packages = next((ROOT / ".venv" / "lib").glob("python3*/site-packages/torch")).parent
        self.program("python3", PYTHON.replace("PACKAGES", str(packages)))
        self.as_root("install -m 4755 /usr/bin/setpriv /usr/local/bin/as-root")
        self.program("sudo", 'exec as-root --reuid=0 --regid=0 --clear-groups env -i PATH="$PATH" HOME=/root "$@"')

    def program(self, name: str, script: str, folder: str = "/usr/local/bin") -> None:
        self.as_root(f"mkdir -p {folder}; printf '#!/bin/bash\\n%s\\n' {shlex.quote(script)} >{folder}/{name}; chmod 755 {folder}/{name}")

    def as_root(self, script: str) -> None:
        done = self.bash(script, user="root")
        assert done.returncode == 0, done

    def put_data(self, few_images) -> None:
        """Makes what FSx makes of the bucket: folders of root."""
        self.as_root(f"mkdir -p /fsx/data/text; cp -r {few_images} /fsx/data/imagenet; chmod -R go+rX /fsx/data; "
                     "for file in train valid; do seq -f 'The number %g is a word.' 600 >/fsx/data/text/$file.txt; done")
        write_tokenizer(self.path / "fsx" / "data" / "text")

    def put_source(self) -> None:
        """Puts the source where the page's `tar -x` puts it, and makes of it what a test can run."""
        listed = "\0".join(str(path.relative_to(ROOT)) for path in tracked("scripts", "cmake", "docs/notices.md", "LICENSE"))
        source = subprocess.run(["tar", "-C", ROOT, "-c", "--null", "-T", "-", "--transform=s,^,dtrain/,"], input=listed.encode(),
                                capture_output=True, check=True).stdout
        subprocess.run([*self.enter, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "tar", "-x", "-C", HOME],
                       input=source, check=True)
        tree = self.path / HOME[1:] / "dtrain"
        for name in ("setup.sh", "build.sh"):
            (tree / "scripts" / name).write_text("#!/bin/sh\necho \"would run $0 here\"\n", encoding="utf-8")
        for recipe, flags in (("resnet50_90ep", TRAIN), ("roberta_large_aws", TEXT)):
            (tree / "scripts" / "recipes" / f"{recipe}.flags").write_text("\n".join(flags), encoding="utf-8")
        sbatch = tree / "scripts" / "aws" / "parallelcluster" / "train.sbatch"
        sbatch.write_text(small(sbatch.read_text(encoding="utf-8")), encoding="utf-8")
        self.as_root(f"cd {HOME}/dtrain; mkdir -p build/release .venv; mount --bind {BUILD.resolve()} build/release; "
                     f"mount --bind {ROOT}/.venv .venv")


def test_folders_belong_to_everybody_whoever_was_there_first():
    with OwnRoot() as machine:
        assert "Permission denied" in machine.bash("mkdir /fsx/results").stderr
        machine.bash("install -d -o 10001 -g 10001 /fsx/results/of-a-container /fsx/data", user="root")
        for _ in range(2):
            assert machine.bash(f"{NODE} head", user="root").returncode == 0
        done = machine.bash("mkdir /fsx/dtrain /fsx/data/mine /fsx/results/mine; rmdir /fsx/results/of-a-container")
        assert "mkdir" not in done.stderr and "Operation not permitted" in done.stderr, done
        machine.bash("umount /fsx", user="root")
        done = machine.bash(f"{NODE} head", user="root")
        assert done.returncode == 1 and "no file system is mounted on /fsx" in done.stderr


def test_the_head_node_of_a_parallelcluster(few_images):
    with Machine() as machine, SlurmMachine(machine.enter) as slurm:
        machine.put_data(few_images)
        machine.put_source()
        machine.as_root(f"{NODE} head")  # as OnNodeConfigured of cluster.yaml
        programs, data, *trainings = steps("parallelcluster.md", "head node")
        typed = small("".join([programs, data, "cd\n", programs, data, *trainings]))  # both come again, with a newer bundle
        done = machine.bash("set -v\n" + typed.replace("squeue\n", "while squeue -h | grep -q .; do sleep 0.2; done\n"),
                            environment=slurm.environment, timeout=300)
        assert done.returncode == 0 and done.stdout.count("LibTorch 2.11") == 2 and "is there" in done.stdout, done
        assert "2 of 2 ranks met" in done.stdout and "==> At most 72 hours of p4d.24xlarge" in done.stdout, done
        results = machine.path / "fsx" / "results"
        for run in ("resnet50", "roberta-large"):
            assert load_json(results / run / "result.json")["world_size"] == 2 and len(metrics(results / run, "train")) == 2


# A Lustre client is there once it is installed; what is mounted is a folder of this machine.
CLIENT = "/run/client"
MOUNT = f"""[ "$*" = /fsx ] || exec /usr/bin/mount "$@"
[ -e {CLIENT} ] || {{ echo "mount: /fsx: unknown filesystem type 'lustre'." >&2; exit 32; }}
[ "$(grep -c ' /fsx lustre ' /etc/fstab)" = 1 ] && grep -q '^new@tcp:/x /fsx' /etc/fstab || exit 32
mkdir -p /.own/fsx; exec /usr/bin/mount --bind /.own/fsx /fsx"""


class Instance(Machine):
    """A machine that instances.sh has started, from an image whose machine had another file system."""

    def furnish(self) -> None:
        super().furnish()
        self.as_root("echo 'old@tcp:/y /fsx lustre relatime,flock,_netdev,nofail 0 0' >>/etc/fstab; "
                     "printf 'ID=ubuntu\\nVERSION_ID=\"22.04\"\\n' >/etc/os-release.new; mv /etc/os-release.new /etc/os-release")
        self.program("mount", MOUNT)
        self.program("modprobe", f"[ -e {CLIENT} ]")
        self.program("nvidia-smi", "echo 'GPU 0: NVIDIA A100 (UUID: GPU-0)'")
        self.program("curl", '[[ "$*" != *efa-installer* ]] && echo a key')
        self.program("gpg", "cat >/dev/null")
        self.program("apt-cache", "true")
        self.program("apt-get", f'echo "apt-get $*"; case "$*" in *lustre-client-modules-"$(uname -r)"*) touch {CLIENT} ;; esac')
        self.program("fi_info", "echo 'provider: efa'", "/opt/amazon/efa/bin")
        self.program("mpirun", 'exec /usr/bin/mpirun "$@"', "/opt/amazon/openmpi/bin")
        self.as_root("mkdir -p /etc/apt/sources.list.d /etc/security/limits.d")

    def boot(self) -> None:
        """Runs the user data, without its pauses."""
        data = runpy.run_path(str(ROOT / "scripts" / "aws" / "cloudformation" / "instances.py"))["USER_DATA"]
        self.as_root("sleep() { :; }\n" + data.format(source="new@tcp:/x"))


def test_a_machine_image_is_checked_before_anything_is_installed():
    with Instance() as machine:
        def image() -> subprocess.CompletedProcess:
            return machine.bash(f"{ROOT}/scripts/ssh/machine_image.sh", user="root")

        assert "this needs root" in machine.bash(f"{ROOT}/scripts/ssh/machine_image.sh").stderr
        for name, text in (("nvidia-smi", "NVIDIA's driver does not run here"), ("apt-cache", "no Lustre client for the kernel"),
                           ("fi_info", "aws-efa-installer-1.51.0.tar.gz cannot be fetched")):
            folder = "/opt/amazon/efa/bin" if name == "fi_info" else "/usr/local/bin"
            machine.as_root(f"mv {folder}/{name} /run; ln -s /bin/false {folder}/{name}")
            done = image()
            assert done.returncode == 2 and text in done.stderr and "what to do:" in done.stderr and "install" not in done.stdout, done
            machine.as_root(f"mv /run/{name} {folder}/{name}")
        for installs in (1, 0):
            done = image()
            assert done.returncode == 0 and "Ready" in done.stdout and done.stdout.count("apt-get install") == installs, done


def start_sshd(machine: Machine, hosts: TwoHosts, folder) -> list[subprocess.Popen]:
    machine.as_root("mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/of_the_host")
    done = machine.bash("mkdir -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/mine.pem; cp .ssh/mine.pem.pub .ssh/authorized_keys")
    assert done.returncode == 0, done
    daemons = []
    for host, address in enumerate(hosts.addresses):
        with open(folder / f"sshd-{host}", "wb") as log:
            daemons.append(subprocess.Popen([*hosts.at(host), *machine.enter, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h",
                                             "/etc/ssh/of_the_host", "-o", "UsePAM=no"], stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        probe = f"exec 3<>/dev/tcp/{address}/22"
        wait_until(lambda probe=probe: machine.bash(probe, enter=tuple(hosts.at(0))).returncode == 0, f"sshd of {address}", 20)
    return daemons


def test_machines_by_hand(few_images, tmp_path):
    if not os.path.exists("/usr/sbin/sshd") or shutil.which("mpirun") is None:
        pytest.skip("sshd or mpirun is not installed (scripts/setup.sh --tests)")
    prepare, *train = steps("machines.md", "first machine")
    with TwoHosts() as hosts, Instance() as machine:
        daemons = start_sshd(machine, hosts, tmp_path)
        try:
            machine.boot()  # has no client yet
            machine.put_source()
            done = machine.bash("set -v\n" + prepare, timeout=120)
            assert done.returncode == 0 and "apt-get install" in done.stdout and "LibTorch 2.11 is in /fsx/dtrain/python" in done.stdout, done
            machine.put_data(few_images)
            machine.boot()  # of its image
            (machine.path / HOME[1:] / "dtrain" / "hosts").write_text("".join(f"{address} slots=1\n" for address in hosts.addresses))
            agent = 'eval "$(ssh-agent)"; trap "ssh-agent -k" EXIT; ssh-add -q .ssh/mine.pem\n'
            done = machine.bash(agent + "set -v\n" + "".join(train), enter=tuple(hosts.at(0)), environment={"SAVE_SECONDS": "3"}, timeout=300)
            assert done.returncode == 0 and "2 of 2 ranks met" in done.stdout, done
            for host, address in enumerate(hosts.addresses):
                assert f"{address}: /fsx is a mountpoint" in done.stdout and f"{address}: 1\n" in done.stdout
        finally:
            for daemon in daemons:
                daemon.kill()
                daemon.wait()
        run = machine.path / "fsx" / "results" / "resnet50"
        assert load_json(run / "result.json")["world_size"] == 2 and len(metrics(run, "train")) == 2
