"""Memory, threads and files that are refused: the exit code says which, the message says what to do, and nothing
hangs."""

import json
import time

import pytest

from command import BENCH, DATA, MAIN, TINY, load_json, run

SYNTHETIC = ("--data_format=synthetic", "--num_classes=4", "--max_steps=2")


def limited(limits: str, *command, check: int, **options):
    """Runs with limits of `ulimit`: -v (address space) in KiB, -s (stack, so of each thread) in KiB, -f (file) in
    KiB."""
    script = "".join(f"ulimit {limit.strip()}; " for limit in limits.split(",")) + 'exec "$@"'
    return run("-c", script, "bash", *command, program="/bin/bash", check=check, **options)


@pytest.mark.fault(23, "no memory, at the start or later", "exit 7")
@pytest.mark.parametrize("limits, flags", [
    ("-v 3000000", ("--batch_size=4096", "--image_size=64")),  # the model's memory, in LibTorch's allocator
    ("-v 3000000", ("--batch_size=200000", "--image_size=96")),  # the loader's memory, in its threads
    ("-v 1000000", ("--model=resnet152", "--optimizer=adam")),  # from the start
])
def test_no_memory(run_dir, limits, flags):
    outcome = limited(limits, MAIN, *TINY, *SYNTHETIC, *flags, f"--run_dir={run_dir}", check=7)
    assert "lower --batch_size" in outcome.stderr or "ulimit" in outcome.stderr, outcome
    assert load_json(run_dir / "error.json")["kind"] == "out_of_memory"


def test_no_memory_for_libraries():
    """Their initialisers run before main. If the libraries cannot even be mapped, the dynamic loader ends the program."""
    def tried(kib: int):
        outcome = limited(f"-v {kib}", MAIN, "--help", check=None)
        assert outcome.code in (127, 7, 0), outcome
        return outcome

    too_little, enough = 160_000, 200_000
    while (outcome := tried(enough)).code == 127:
        too_little, enough = enough, enough * 5 // 4
    while outcome.code != 7:
        middle = (too_little + enough) // 2
        outcome = tried(middle)
        too_little, enough = (too_little, middle) if outcome.code == 0 else (middle, enough)
    assert "too little memory to load" in outcome.stderr and "ulimit -v" in outcome.stderr


def test_no_threads_for_openmp(run_dir):
    """libgomp itself ends the process, with 1."""
    outcome = limited(f"-s {3 << 20}, -v {6 << 20}", MAIN, *TINY, *SYNTHETIC, f"--run_dir={run_dir}", check=7, threads=3)
    assert "thread" in outcome.stderr and "ulimit -u" in outcome.stderr, outcome


@pytest.mark.fault(24, "each thread of a rank once cannot be started", "exit 7 on all ranks; nobody waits")
@pytest.mark.parametrize("ranks, limits", [(1, (0, 1, 2, 9)), (2, range(9))])
def test_one_thread_more_each_time(preloaded, tmp_path, ranks, limits):
    """Each thread (the control plane's, the store's, Gloo's, the writer of checkpoints, readers, decoders) is once the
    first that a rank may not start. None of the ranks waits for another."""
    for most in limits:
        began = time.monotonic()
        outcome = run(*TINY, *SYNTHETIC, "--batch_size=8", "--workers=2", f"--nproc_per_node={ranks}", "--comm_timeout=60",
                      "--init_timeout=60", f"--run_dir={tmp_path / str(most)}", check=None,
                      env=preloaded("faults/no_thread.c", MOST_THREADS=most))
        assert outcome.code == 7 and "thread" in outcome.stderr and "ulimit -u" in outcome.stderr, f"{most}: {outcome}"
        assert time.monotonic() - began < 55, f"{most}: waited for --comm_timeout"


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_a_bench_without_its_threads(preloaded, most):
    """OpenMP would end the process with 1, and LibTorch's own pool would wait for ever."""
    outcome = run("step", "--model=resnet18", "--image_size=32", "--batch_size=8", "--num_classes=4", "--steps=1", "--threads=4",
                  program=BENCH, env=preloaded("faults/no_thread.c", MOST_THREADS=most), check=7, timeout=60)
    assert "thread could not be started" in outcome.stderr, outcome


@pytest.mark.fault(11, "files may not be so large (ulimit -f)", "exit 5")
@pytest.mark.parametrize("kib", [0, 20, 8000])  # nothing, logs, no checkpoint
def test_files_that_may_not_be_so_large(run_dir, kib):
    outcome = limited(f"-f {kib}", MAIN, *TINY, *SYNTHETIC, f"--run_dir={run_dir}", check=5)
    assert "File too large" in outcome.stderr and "ulimit -f" in outcome.stderr, outcome


@pytest.mark.parametrize("command", [
    (MAIN, "--help"), (MAIN, *SYNTHETIC, "--print_config"), (MAIN, *SYNTHETIC, "--dry_run"), (DATA, "--version")])
def test_an_answer_that_does_not_arrive(command):
    outcome = run("-c", '"$@" > /dev/full', "bash", *command, program="/bin/bash", check=5)
    assert "stdout" in outcome.stderr


@pytest.mark.parametrize("flags", ["--help", "--list_models"])
def test_an_answer_of_which_the_beginning_is_enough(flags):
    assert not run("-o", "pipefail", "-c", f'"$0" {flags} | head -1 > /dev/null', MAIN, program="/bin/bash").stderr


def test_streams_that_the_caller_has_closed(run_dir, few_images):
    """No file of the run gets the number of a stream, and what is printed with it."""
    run("-c", '"$@" <&- >&- 2>&-', "bash", MAIN, *TINY, f"--data_dir={few_images}", "--nproc_per_node=2", "--max_steps=1",
        f"--run_dir={run_dir}", program="/bin/bash")
    for line in (run_dir / "metrics.jsonl").read_text().splitlines():
        json.loads(line)


def test_an_evaluation_that_nobody_hears_of(run_dir, few_images):
    """An evaluation's only result is its line; a training also has its files."""
    full = ("-c", '"$@" > /dev/full', "bash", MAIN, f"--run_dir={run_dir}", f"--data_dir={few_images}")
    run(*full, *TINY, "--max_steps=1", program="/bin/bash")
    outcome = run(*full, "--mode=eval", program="/bin/bash", check=5)
    assert "cannot write to stdout" in outcome.stderr and "the program that reads it" in outcome.stderr, outcome
