"""Measures loading alone: images/s, and the gain of more threads and heaps."""

import os

import inputs
from programs import Machine, last_json
from rows import Row
from workloads import RESNET50, Case, cases


def loading(arguments, machine: Machine, workers: int, heaps: int = 0) -> dict:
    timed = ["--warmup=1", "--steps=2"] if arguments.smoke else ["--warmup=20", "--seconds=5"]
    case = cases(arguments.smoke, Case(RESNET50, 64))[0]
    result = machine.run(machine.bin / "dtrain_bench", "loader",
                         f"--data_dir={inputs.make_images(machine, arguments.smoke)}",
                         f"--image_size={case.workload.image_size}", f"--batch_size={case.batch_size}",
                         f"--workers={workers}", *timed, "--json",
                         env={"MALLOC_ARENA_MAX": str(heaps)} if heaps else None)
    one = last_json(result.stdout)
    return {"result": one, "text": f"{one['images_per_second']:.0f} images/s, {one['resident_mib'][-1]:.0f} MiB"}


def worker_counts(cores: int) -> list[int]:
    """Returns 1, 2, 4 … up to the number of cores, and twice that number."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return sorted({*counts, cores, 2 * cores}, reverse=True)


def rows(arguments, machine: Machine):
    seconds = 0 if arguments.smoke else 12
    cores = len(os.sched_getaffinity(0))
    for workers in [1] if arguments.smoke else worker_counts(cores):
        yield Row(f"{workers} threads", seconds, lambda workers=workers: loading(arguments, machine, workers))
    for heaps in [2] if arguments.smoke else sorted({2, cores}):
        yield Row(f"{cores} threads, {heaps} heaps", seconds,
                  lambda heaps=heaps: loading(arguments, machine, cores, heaps))
