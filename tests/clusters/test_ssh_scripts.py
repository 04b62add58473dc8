"""Runs scripts/ssh on two hosts of this machine, with a program that enters their namespaces in place of ssh."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from command import MAIN, ROOT, TINY, Background, load_json, make_program, metrics, run, wait_until
from tools import assert_secret_starts, make_bundle

SSH = ROOT / "scripts" / "ssh"
FLAGS = (*TINY, "--lr=0.0005", "--batch_size=8", "--init_timeout=30", "--save_every_epochs=0")


@pytest.fixture
def cluster(two_hosts, tmp_path):
    """Returns the environment in which the scripts find two hosts and a bundle, and the words with which a command on the first
    host begins."""
    hosts = tmp_path / "hosts"
    hosts.write_text("# two machines\n" + "".join(f"{address} slots=1\n" for address in two_hosts.addresses), encoding="utf-8")
    variables = {"HOSTS": str(hosts), "PATH": f"{two_hosts.ssh(tmp_path / 'ssh').parent}:{os.environ['PATH']}",
                 "DTRAIN": str(make_bundle(tmp_path / "bundle")), "MPI_INTERFACE": "cable", "SAVE_SECONDS": "3"}
    return variables, two_hosts.at(0)


def at_first(cluster, script: str, *arguments, check: int = 0):
    variables, (program, *enter) = cluster
    return run(*enter, SSH / script, *arguments, program=program, env=variables, check=check)


@pytest.mark.usefixtures("mpirun")
def test_mpirun_trains_saves_when_it_is_told_to_stop_and_goes_on(cluster, few_images, tmp_path):
    flags = (*FLAGS, f"--data_dir={few_images}", f"--run_dir={tmp_path / 'run'}", "--max_steps=24")
    variables, enter = cluster
    with Background(*enter, SSH / "train.sh", *flags, program="setsid", env=variables) as training:
        log = tmp_path / "run" / "metrics.jsonl"
        wait_until(lambda: log.exists() and metrics(tmp_path / "run", "train"), "a step")
        os.killpg(training.process.pid, signal.SIGINT)  # ^C
        stopped = training.wait()
    assert stopped.code == 75, stopped
    assert "resuming from" in str(at_first(cluster, "train.sh", *flags))
    assert load_json(tmp_path / "run" / "result.json")["world_size"] == 2


def test_a_command_on_all_hosts(cluster):
    assert sorted(at_first(cluster, "runclust", "hostname").lines) == ["10.31.7.1: host0", "10.31.7.2: host1"]
    assert at_first(cluster, "runclust", "test $(hostname) = host0 || exit 7", check=7)


def test_each_start_has_a_secret_that_nobody_else_sees(cluster, tmp_path):
    def start(bundle) -> str:
        return str(at_first((cluster[0] | {"DTRAIN": str(bundle)}, cluster[1]), "train.sh", "--run_dir=/run", "--lr=1"))

    assert_secret_starts(tmp_path, "$(hostname | tail -c 2)", start)


BAD_HOSTS = {
    "no file": (None, "cannot be read"),
    "nobody": ("# none\n", "names no host"),
    "no number": ("a slots=many\n", "line 1"),
    "a command for a name": ("a slots=1\n$(reboot) slots=1\n", "line 2"),
    "an option for a name": ("-oProxyCommand=x slots=1\n", "line 1"),
    "a host twice": ("a slots=1\nb slots=1\na slots=2\n", "a is listed twice"),
}


@pytest.mark.parametrize("name", BAD_HOSTS)
def test_bad_hosts_files_start_nothing(name, tmp_path):
    content, text = BAD_HOSTS[name]
    if content is not None:
        (tmp_path / "hosts").write_text(content, encoding="utf-8")
    outcome = run("true", program=SSH / "runclust", env={"HOSTS": str(tmp_path / "hosts"), "REMOTE_SHELL": "false"}, check=2)
    assert text in outcome.stderr and "what to do:" in outcome.stderr


PIP = """#!/bin/bash
[ "$3" = --version ] && exit 0
printf '%s\\n' "$@" >"$CALLED"
for word in "$@"; do case $word in --target=*) target=${word#--target=} ;; esac; done
mkdir -p "$target/torch/lib" && touch "$target/torch/lib/libtorch_cpu.so"
echo "__version__ = '2.11.0+cu130'" >"$target/torch/version.py"
"""


def test_a_bundle_gets_the_libtorch_that_it_names(tmp_path):
    """On a machine without PyTorch, the programs find what install_libtorch.sh has put beside them."""
    bundle = tmp_path / "bundle"
    for folder in ("bin", "libexec"):
        (bundle / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "bundle_launcher.sh", bundle / "bin" / "dtrain_main")
    (bundle / "libexec" / "dtrain_main").write_text("#!/bin/sh\necho $LD_LIBRARY_PATH\n", encoding="utf-8")
    (bundle / "BUNDLE.txt").write_text("dtrain 0.1.0 1234567\nLibTorch 2.11\nbuilt on X\n", encoding="utf-8")
    (tmp_path / "python3").write_text(PIP, encoding="utf-8")
    for program in (bundle / "bin" / "dtrain_main", bundle / "libexec" / "dtrain_main", tmp_path / "python3"):
        program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLED": str(tmp_path / "called"), "DTRAIN_TORCH_DIR": ""}

    def call(*command) -> subprocess.CompletedProcess:
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert "no PyTorch was found" in call(bundle / "bin" / "dtrain_main").stderr
    for index in ("https://index", "https://index", ""):
        done = call(SSH / "install_libtorch.sh", bundle, *([index] if index else []))
        assert done.returncode == 0, done.stderr
        assert ("to have that of https://index, rm -r" in done.stdout) == ("is there" in done.stdout and index != "")
    assert done.stdout == "LibTorch 2.11.0+cu130 is there\n"
    # pip takes the platforms that are named only: torch's wheels and CUDA's are of several.
    assert {"torch==2.11.*", "--index-url=https://index", "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_27_x86_64",
            "--platform=manylinux2014_x86_64"} <= set((tmp_path / "called").read_text().splitlines())
    (tmp_path / "dt").symlink_to(bundle / "bin" / "dtrain_main")
    for name in (bundle / "bin" / "dtrain_main", tmp_path / "dt"):
        assert f"{bundle}/python/torch/lib" in call(name).stdout
    (bundle / "BUNDLE.txt").unlink()
    assert "is not a bundle" in call(SSH / "install_libtorch.sh", bundle).stderr


def test_efas_installer_must_be_signed_by_aws(tmp_path):
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    home, source, target = tmp_path / "gpg", tmp_path / "source", tmp_path / "target"
    for folder in (home, source, target):
        folder.mkdir(mode=0o700)
    (tmp_path / "aws-efa-installer").mkdir()
    archive = source / "aws-efa-installer-1.2.3.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", archive, "aws-efa-installer"], check=True)

    def gpg(*arguments) -> str:
        return subprocess.run(["gpg", "--batch", "--quiet", "--homedir", home, *arguments], check=True, capture_output=True, text=True).stdout

    gpg("--passphrase", "", "--quick-generate-key", "somebody", "ed25519", "sign", "never")
    (source / "aws-efa-installer.key").write_text(gpg("--armor", "--export"), encoding="utf-8")
    gpg("--detach-sign", "--output", f"{archive}.sig", archive)
    env = {"EFA_SOURCE": f"file://{source}"}
    refused = run("1.2.3", target, program=SSH / "fetch_efa.sh", env=env, check=2)
    assert "is not signed by AWS's key" in refused.stderr and not list(target.iterdir())
    # The same, if this somebody were AWS.
    fingerprint = next(line.split(":")[9] for line in gpg("--with-colons", "--list-keys").splitlines() if line.startswith("fpr"))
    (tmp_path / "fetch").write_text((SSH / "fetch_efa.sh").read_text().replace("4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC", fingerprint))
    run(tmp_path / "fetch", "1.2.3", target, program="bash", env=env)
    assert [path.name for path in target.iterdir()] == ["aws-efa-installer"]


MPIRUN = """#!/bin/bash
trap 'echo save >>"$TOLD"' USR1
trap 'exit 75' USR2
echo $$ >"$TOLD"
while true; do sleep 0.05; done
"""


def alone(tmp_path, mpirun: str) -> dict[str, str]:
    """Returns the environment in which train.sh finds this machine alone, and a script in place of mpirun."""
    for name, content in (("bin/dtrain_main", f'#!/bin/sh\nexec {MAIN} "$@"\n'), ("scripts/with_notices.sh", "#!/bin/sh\n"), ("path/mpirun", mpirun),
                          ("shell", '#!/bin/sh\nshift\nexec sh -c "$1"\n')):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        make_program(tmp_path / name, content)
    (tmp_path / "hosts").write_text("localhost slots=2\n", encoding="utf-8")
    return {"HOSTS": str(tmp_path / "hosts"), "DTRAIN": str(tmp_path), "REMOTE_SHELL": str(tmp_path / "shell"),
            "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"}


def test_the_code_is_that_of_the_cause(tmp_path):
    """A victim's 4 reaches mpirun first. The error.json of an earlier start says nothing; rank 0 removes it, and may itself be killed."""
    mpirun = '#!/bin/sh\ncase $CAUSE in "") ;; killed) rm "$REPORT" ;; *) echo "{\\"exit_code\\": $CAUSE}" >"$REPORT" ;; esac\nexit 4\n'
    env, report = alone(tmp_path, mpirun), tmp_path / "a b" / "error.json"
    report.parent.mkdir()
    (tmp_path / "flags").write_text(f"--run_dir={report.parent}\n--data_format=synthetic\n", encoding="utf-8")
    for words in ([f"--run_dir={report.parent}", "--data_format=synthetic"], [f"--flagfile={tmp_path / 'flags'}"]):
        for cause, code in (("5", 5), ("", 4), ("killed", 4)):
            run(*words, program=SSH / "train.sh", env=env | {"CAUSE": cause, "REPORT": str(report)}, check=code)


@pytest.mark.parametrize(("kinds", "saves"), [("HUP HUP", 1), ("TERM INT", 1), ("INT INT", 2)])
def test_signals_reach_the_ranks(kinds, saves, tmp_path):
    told = tmp_path / "told"
    env = alone(tmp_path, MPIRUN) | {"TOLD": str(told)}
    with Background("--run_dir=/run", program=SSH / "train.sh", env=env) as training:
        wait_until(told.exists, "mpirun")

        def has_handled_it() -> bool:
            status = Path(f"/proc/{training.process.pid}/status").read_text(encoding="utf-8")
            return "\nState:\tS" in status and f"\nShdPnd:\t{0:016}\n" in status

        for number, kind in enumerate(kinds.split()):
            training.process.send_signal(getattr(signal, f"SIG{kind}"))
            wait_until(has_handled_it, "the script's trap")
            if number < saves:
                wait_until(lambda count=number + 1: told.read_text().count("save") == count, "a save")
        os.kill(int(told.read_text().split()[0]), signal.SIGUSR2)
        assert training.wait().code == 75
    assert told.read_text().count("save") == saves


def test_training_without_what_it_needs(tmp_path):
    def refused(*flags, **variables):
        return run(*flags, program=SSH / "train.sh", env={"HOSTS": str(tmp_path / "hosts"), **variables}, check=2).stderr

    assert "no --run_dir" in refused("--data_dir=x")
    (tmp_path / "flags").write_text("--run_dir=x\n", encoding="utf-8")
    for words in (["--run_dir=x"], ["--run-dir", "x"], [f"--flagfile={tmp_path / 'flags'}"], ["--flagfile", tmp_path / "flags"]):
        assert "cannot be read" in refused(*words)
    assert "no --run_dir" in refused("--labels=a--run_dir=x")
    (tmp_path / "hosts").write_text("a slots=1\n", encoding="utf-8")
    assert "does not run on all machines" in refused("--run_dir=x", REMOTE_SHELL="false")
