"""Tests docker/entrypoint.sh with the real programs: how it uses variables, what it refuses, and whole Batch jobs."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from command import BUILD, ROOT, TINY, Background, load_json, make_program, run, wait_until
from two_hosts import SwitchedHosts

ENTRY = ROOT / "docker" / "entrypoint.sh"
PROGRAMS = {"PATH": f"{BUILD.resolve() / 'bin'}:{os.environ['PATH']}"}
PLAN = ("--dry_run", "--log_format=json", "--model=resnet18", "--image_size=32")


def enter(*arguments, env=None, check=0, **options):
    return run(*arguments, program=ENTRY, env=PROGRAMS | (env or {}), check=check, **options)


def plan(*arguments, env=None) -> dict:
    return json.loads(enter(*PLAN, *arguments, env=env).stdout)


def test_variables_of_the_walk_throughs(few_images, tmp_path):
    env = {"JOB_DIR": few_images, "SCRATCH_DIR": tmp_path, "BATCH_SIZE": "5", "MPI_GPUS": "6",
           "AWS_BATCH_JOB_ID": "6d2f#1", "AWS_BATCH_JOB_NODE_INDEX": "1", "AWS_BATCH_JOB_NUM_NODES": "3",
           "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0", "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.1"}
    env = {name: str(value) for name, value in env.items()}
    seen = plan(env=env)
    assert (seen["launcher"], seen["world_size"], seen["spawns"]) == ("aws_batch", 6, 2)
    assert (seen["batch_size"], seen["train_samples"]) == (5, 40)
    # Given flags override the environment.
    assert plan("--batch_size=3", env=env)["batch_size"] == 3
    assert plan("--recipe=resnet50_digits", env=env)["batch_size"] == 5, "which overrides a recipe"
    outcome = enter(*PLAN, env=env)
    assert f"--run_dir={tmp_path}/dtrain-6d2f " in outcome.stderr


def test_parameters_of_a_job_definition(few_images):
    """Every parameter has a value; `default` stands for the recipe's."""
    recipe = ROOT / "docker" / ".." / "scripts" / "recipes" / "resnet50_digits.flags"
    given = ("--data_dir", str(few_images), "--batch_size", "8")
    words = ("--recipe", "resnet50_digits", *given, "--lr", "default", "--seed", "default")
    seen, wanted = plan(*words, "--epochs", "default"), plan(f"--flagfile={recipe}", *given)
    assert (seen["lr_peak"], seen["total_steps"]) == (wanted["lr_peak"], wanted["total_steps"])
    assert plan(*words, "--epochs", "10")["total_steps"] == 2 * wanted["total_steps"]
    assert enter("echo", *words, "--", "default").lines == [f"--flagfile={recipe} {' '.join(given)} -- default"]


def test_data_programs_get_the_data_only(few_images, tmp_path):
    env = {"DATA_DIR": str(few_images), "RUN_DIR": str(tmp_path / "run"), "BATCH_SIZE": "4"}
    line = enter("dtrain_data", "inspect", "--limit=1", f"--index_dir={tmp_path}", env=env).lines[0]
    assert json.loads(line)["index"] == 0
    assert not (tmp_path / "run").exists()
    assert "--nonsense" in enter("dtrain_bench", "collective", "--nonsense", env={"GPUS": "2"}, check=2).stderr


def test_sagemaker_says_flags_in_a_file(few_images, tmp_path):
    (tmp_path / "input" / "config").mkdir(parents=True)
    (tmp_path / "input" / "data").mkdir()
    (tmp_path / "input" / "data" / "training").symlink_to(few_images)
    chosen = {"dry_run": "true", "log_format": "json", "model": "resnet18", "image_size": "32", "lr": "0.25", "mean": "0.5, 0.5,0.5",
              "_tuning_objective_metric": "val_top1"}
    file, env = tmp_path / "input" / "config" / "hyperparameters.json", {"SAGEMAKER_DIR": str(tmp_path)}
    file.write_text(json.dumps(chosen | {"print_config": "true"}), encoding="utf-8")
    assert json.loads(enter("train", env=env).stdout)["nproc_per_node"] == "auto"
    file.write_text(json.dumps(chosen), encoding="utf-8")
    seen = json.loads(enter("train", env=env).stdout)
    assert (seen["lr_peak"], seen["train_samples"]) == (0.25, 40)
    (tmp_path / "more.flags").write_text("--lr=9\n--epochs=7\n", encoding="utf-8")
    file.write_text(json.dumps(chosen | {"flagfile": str(tmp_path / "more.flags"), "print_config": "true"}), encoding="utf-8")
    seen = json.loads(enter("train", env=env).stdout)
    assert (seen["lr"], seen["epochs"]) == (0.25, 7), "what a file says is changed by what stands beside it, before and behind"
    text = "é 🦊 \\u00e9 \\\\ \" / {}\t, \"a\": \"b"
    for dumped in (json.dumps(chosen | {"labels": text}, indent=2), json.dumps(chosen | {"labels": text}, ensure_ascii=False).replace("/", "\\/")):
        file.write_text(dumped, encoding="utf-8")
        said = enter("train", env=env | {"LC_ALL": "C"}, check=3).stderr
        assert f"cannot open {text}: No such file" in json.loads(said.splitlines()[-1])["message"]
    file.write_text('{"recipe": "no_such", "lr": "default"}', encoding="utf-8")
    assert "no recipe 'no_such'" in enter("train", env=env, check=2).stderr
    for wrong in ('{"a": 1}', '["a"]', '{"a": "b" "c": "d"}', '{"a": "b\\x"}', '{"a": "b'):
        file.write_text(wrong, encoding="utf-8")
        assert "is no JSON object of names and texts, at " in enter("train", env=env, check=2).stderr


def test_what_does_not_train_needs_no_run_directory(tmp_path):
    """Nor is one made; a run may be another user's."""
    env = {"RUN_DIR": str(tmp_path / "run"), "DATA_DIR": "/nowhere", "LEAST_GBPS": "0", "MASTER_PORT": "tcp://10.0.0.1:80"}
    for flag in ("--help", "--version", "--list_models"):
        assert enter(flag, env=env).stdout
    said = enter("dtrain_data", "tokenize", f"--output={tmp_path / 'tokens'}", env=env, check=None).stderr
    assert "does not apply" not in said
    env["DATA_DIR"] = str(tmp_path)
    (tmp_path / "data").write_text("", encoding="utf-8")
    enter("--doctor", *PLAN[1:], env=env, check=None)
    enter("--mode=eval", env=env, check=None)
    assert not (tmp_path / "run").exists()


def test_other_commands_are_run_as_they_are(tmp_path):
    assert enter("echo", "p3", env={"EFA_DEVICES": "0"}).lines == ["p3"]  # an instance type without EFA
    assert enter("echo", "--batch_size", env={"BATCH_SIZE": "nonsense"}).lines == ["--batch_size"]
    # With data that cannot be written, dtrain_main gets an --index_dir in the run directory. torchrun has no such flag.
    words = [f"--data_dir={tmp_path / 'data'}", f"--run_dir={tmp_path}"]
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data").chmod(0o555)
    assert run("--bounding-set=-dac_override", ENTRY, "echo", *words, program="setpriv", env=PROGRAMS).lines == [" ".join(words)]


REFUSED = {
    "nothing": ((), {}, 2, "nothing to run"),
    "an unknown program": (("dtrain_mian",), {}, 2, "no program 'dtrain_mian'"),
    "an unknown recipe": (("--recipe", "no_such"), {}, 2, "no recipe 'no_such'"),
    "a batch size that is none": (("--dry_run",), {"BATCH_SIZE": "12x"}, 2, "BATCH_SIZE is '12x'"),
    "GPUs that are none": (("--dry_run",), {"GPUS": "all"}, 2, "GPUS is 'all'"),
    "GPUs that nodes cannot share": (("--dry_run",), {"GPUS": "5", "AWS_BATCH_JOB_NUM_NODES": "2"}, 2, "shared evenly"),
    "no mount": (("--dry_run",), {"MOUNT": "/nowhere", "MOUNT_TIMEOUT": "1"}, 5, "not mounted after 1 s"),
    "a volume without its file system": (("--dry_run",), {"MOUNT": "/", "MOUNT_TYPE": "lustre", "MOUNT_TIMEOUT": "1"}, 5,
                                         "not mounted as lustre after 1 s"),
    "no data": (("--dry_run",), {"DATA_DIR": "/nowhere"}, 3, "does not exist"),
    "no data by flag": (("--dry_run", "--data-dir", "/nowhere"), {"DATA_DIR": "/"}, 3, "/nowhere does not exist"),
    "a run directory that cannot be": (("--max_steps=1",), {"RUN_DIR": "/proc/run"}, 5, "cannot be created"),
    "no EFA devices": (("--dry_run",), {"EFA_DEVICES": "64"}, 2, "EFA_DEVICES asks for 64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_started(name):
    arguments, env, code, text = REFUSED[name]
    outcome = enter(*arguments, env=env, check=code, timeout=20)
    assert text in outcome.stderr and "what to do:" in outcome.stderr


# A node of EKS, where containers inherit containerd's 8 MiB, and Docker; in KiB.
MEMLOCK = {"EKS as it comes": ("8192", True, 2, "baseRuntimeSpec"), "Docker as it comes": ("64", False, 2, "--ulimit memlock=-1:-1"),
           "limited, but enough": (str(6 << 20), True, 0, "warning: the memory that may be locked is limited"),
           "unlimited": ("unlimited", True, 0, "")}


@pytest.mark.parametrize("name", MEMLOCK)
def test_memory_that_may_be_locked_with_efa(name, tmp_path):
    limit, kubernetes, code, text = MEMLOCK[name]
    (tmp_path / "uverbs0").touch()
    env = {"INFINIBAND_DIR": str(tmp_path), "BASH_FUNC_ulimit%%": f"() {{ echo {limit}; }}"}
    env |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} if kubernetes else {}
    outcome = run("--bounding-set=-ipc_lock", ENTRY, "echo", program="setpriv", env=PROGRAMS | env, check=code)
    assert text in outcome.stderr and ("warning" in outcome.stderr) == (name == "limited, but enough")
    assert ("--ulimit" in outcome.stderr) == (name == "Docker as it comes")  # Kubernetes has no such word


def test_an_empty_data_folder_is_refused(tmp_path):
    assert "is empty" in enter("--dry_run", env={"DATA_DIR": str(tmp_path)}, check=3).stderr
    (tmp_path / "train").mkdir()
    tmp_path.chmod(0o300)
    rights = "--bounding-set=-dac_override,-dac_read_search"
    assert "cannot be read by user 0" in run(rights, ENTRY, "--dry_run", program="setpriv", env=PROGRAMS | {"DATA_DIR": str(tmp_path)}, check=3).stderr
    tmp_path.chmod(0o700)


def test_a_stop_reaches_process_1(few_images, run_dir):
    """In a container, the entry point is process 1, which ignores signals without a handler."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("process namespaces need root and unshare")
    with Background("--pid", "--fork", "--kill-child", ENTRY, *TINY, "--epochs=1000",
                    program="unshare", env=PROGRAMS | {"DATA_DIR": str(few_images), "RUN_DIR": str(run_dir)}) as container:
        container.wait_for_line("step 1/")
        os.kill(container.children()[0], signal.SIGTERM)
        assert container.wait(30).code == 75
    assert (run_dir / "latest").exists()


def test_kubernetes_hears_of_a_rank_that_stands_still_on_each_machine(run_dir, two_hosts):
    """Also of one that is not the first."""
    def node(number: int) -> Background:
        words = (*two_hosts.at(number), ENTRY, "--data_format=synthetic", *TINY, "--epochs=1000")
        return Background(*words[1:], program=words[0], env=PROGRAMS | {
            "METRICS_PORT": "9401", "RUN_DIR": str(run_dir), "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(number),
            "PET_MASTER_ADDR": two_hosts.addresses[0], "PET_MASTER_PORT": "29500"})

    def health(number: int, **options):
        program, *words = two_hosts.at(number)
        return run(*words, "curl", "-sS", "--max-time", "2", "http://127.0.0.1:9401/healthz", program=program, **options)

    with node(0) as first, node(1) as second:
        first.wait_for_line("step 1/")
        for number in (0, 1):
            assert health(number).stdout.startswith("after step ")
        os.kill(second.pid, signal.SIGSTOP)
        wait_until(lambda: "timed out" in health(1, check=None).stderr, "silence")
        os.kill(second.pid, signal.SIGCONT)
        assert health(1).stdout.startswith("after step ")


@pytest.mark.parametrize("waits", ["for the mount", "for the measurement"])
def test_a_stop_before_the_start_is_not_waited_out(waits, tmp_path):
    bench = tmp_path / "dtrain_bench"
    make_program(bench, "#!/bin/sh\necho measuring >&2\nexec sleep 600\n")
    env = {"PATH": f"{tmp_path}:{PROGRAMS['PATH']}"} | ({"MOUNT": "/nowhere"} if waits == "for the mount" else {"LEAST_GBPS": "0"})
    with Background("dtrain_main", program=ENTRY, env=env) as container:
        wait_until(lambda: ("waiting up to" if waits == "for the mount" else "measuring") in container.stderr_so_far, "the entry point to wait")
        container.process.send_signal(signal.SIGTERM)
        assert container.wait(10).code == 75


ASKED = ("dtrain_main", "nvidia-smi", "fi_info", "ls")


@pytest.mark.parametrize("slow", ASKED)
def test_a_stop_while_a_program_is_asked(slow, tmp_path):
    """A node's first nvidia-smi takes seconds, and so does the first load of LibTorch. Batch would never try a 2 again."""
    for name in ASKED:
        make_program(tmp_path / name, "#!/bin/sh\n" + f"touch {tmp_path}/asked\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done\n" * (name == slow))
    (tmp_path / "uverbs0").touch()
    env = {"PATH": f"{tmp_path}:{PROGRAMS['PATH']}", "INFINIBAND_DIR": str(tmp_path), "EFA_DEVICES": "1",
           "DATA_DIR": str(tmp_path), "BASH_FUNC_ulimit%%": "() { echo unlimited; }"}
    with Background("dtrain_main", program=ENTRY, env=env) as container:
        wait_until((tmp_path / "asked").exists, slow)
        container.process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert container.wait(10).code == 75


def test_the_token_is_in_no_command_line():
    given = enter("bash", "--run_token", "secret", "-c", "echo $DTRAIN_RUN_TOKEN; tr '\\0' ' ' </proc/$$/cmdline").stdout
    assert given.startswith("secret\n") and given.count("secret") == 1
    assert enter("bash", "--run-token=a=b", "-c", "echo $DTRAIN_RUN_TOKEN $#", "0", "--lr=default").lines == ["a=b 0"]
    assert enter("bash", "--run_token", "default", "-c", "echo ${DTRAIN_RUN_TOKEN-none}").lines == ["none"]


def test_a_machine_with_a_slow_network_is_found_before_the_start(tmp_path):
    """Of three hosts one gets a tenth of the others' speed."""
    bench = tmp_path / "dtrain_bench"
    make_program(bench, f'#!/bin/sh\nexec "{BUILD.resolve()}/bin/dtrain_bench" "$@" --max_bytes=256K --steps=2\n')
    words = (ENTRY, "dtrain_bench", "collective", "--operation=all_reduce", "--backend=gloo")
    env = {"PATH": f"{tmp_path}:{PROGRAMS['PATH']}", "LEAST_GBPS": "0", "SLOW_SECONDS": "0", "PET_NNODES": "3", "PET_NPROC_PER_NODE": "1",
           "PET_MASTER_ADDR": SwitchedHosts.addresses[0]}

    def codes() -> list[int]:
        started = [subprocess.Popen([*network.at(rank), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    env=os.environ | env | {"PET_NODE_RANK": str(rank), "SLOW_FILE": str(tmp_path / f"slow-{rank}")})
                   for rank in range(3)]
        return [one.wait(120) for one in started]

    with SwitchedHosts(200) as network:
        assert codes() == [0, 0, 0]
        network.limit(1, 20)
        assert codes() == [4, 4, 4]
        network.limit(1, 200)
        env["LEAST_GBPS"] = "100"
        assert codes() == [2, 2, 2]  # none of them reaches it: not one machine's fault
    assert [path.name for path in tmp_path.glob("slow-*")] == ["slow-1"]
    assert (tmp_path / "slow-1").read_text(encoding="utf-8").startswith("the network of machine 1 is slow: at best 0.0")


# ---- A multi-node job of AWS Batch, on two hosts of this machine -----------------------------------------------------

STEPS = 9


class BatchJob:
    """One attempt: the main node, which is not told its own address, and a child. Both run the entry point."""

    def __init__(self, hosts, attempt, *flags, env):
        self._nodes = []
        for node in (0, 1):
            batch = {"AWS_BATCH_JOB_ID": f"6d2f1c7e#{node}", "AWS_BATCH_JOB_ATTEMPT": str(attempt), "AWS_BATCH_JQ_NAME": "queue",
                     "AWS_BATCH_CE_NAME": "environment", "AWS_BATCH_JOB_NODE_INDEX": str(node),
                     "AWS_BATCH_JOB_NUM_NODES": "2", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0"}
            if node != 0:
                batch["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = hosts.addresses[0]
            enter_at = hosts.at(node)
            self._nodes.append(Background(*enter_at[1:], ENTRY, *flags, program=enter_at[0], env=PROGRAMS | env | batch))

    def __enter__(self):
        return self._nodes

    def __exit__(self, *_):
        for node in self._nodes:
            node.__exit__()


def test_a_batch_job_on_two_nodes(few_images, tmp_path, two_hosts):
    """The job loses its child, is tried again, is stopped and resumes. With which bits: faults/test_partition.py."""
    flags = (*TINY, "--lr=0.0005", "--batch_size=8", f"--max_steps={STEPS}", "--save_every_epochs=0.3", "--comm_timeout=30")
    env = {"DATA_DIR": str(few_images), "SCRATCH_DIR": str(tmp_path), "GPUS": "2"}
    run_dir = tmp_path / "dtrain-6d2f1c7e"
    with BatchJob(two_hosts, 1, *flags, env=env) as (main, child):
        main.wait_for_line("step 3/")
        for pid in child.family():
            os.kill(pid, signal.SIGKILL)
        assert main.wait().code == 4  # the retry strategy tries again after this code
    with BatchJob(two_hosts, 2, *flags, env=env) as (main, child):
        main.wait_for_line("step 5/")
        main.process.send_signal(signal.SIGTERM)  # Batch sends it to the container's first process
        stopped = main.wait(), child.wait()
    assert [outcome.code for outcome in stopped] == [75, 75], stopped
    assert "Batch job 6d2f1c7e#0, attempt 2, node 0 of 2" in stopped[0].stderr
    with BatchJob(two_hosts, 3, *flags, env=env) as (main, child):
        done = main.wait(), child.wait()
    assert [outcome.code for outcome in done] == [0, 0], done
    assert "resuming from" in done[0].stderr
    assert load_json(run_dir / "result.json")["world_size"] == 2
    assert not list(run_dir.glob(".lock-probe*"))
