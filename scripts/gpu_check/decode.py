"""Measures loading alone, with images decoded by the CPU and by the GPU: images/s, how many images the GPU left to the
CPU, and the gain of more threads and heaps."""

import os

import speed
from programs import Machine, last_json
from rows import Row


def measure(arguments, machine: Machine, where: str, *flags: str, env: dict | None = None) -> dict:
    timed = ["--warmup=1", "--steps=2"] if arguments.smoke else ["--warmup=5", f"--seconds={speed.TIMED_SECONDS}"]
    size = speed.sizes(arguments.smoke)["image_size"]
    # With --decode=cpu nothing of it runs on a GPU.
    result = machine.run(machine.bin / "dtrain_bench", "loader",
                         f"--data_dir={speed.make_images(machine, arguments.smoke)}", f"--decode={where}",
                         f"--image_size={size}", f"--batch_size={arguments.batch_sizes[0]}", *timed, *flags, "--json", env=env)
    found = last_json(result.stdout)
    if where == "gpu":
        machine.require_device(found.get("device", "nothing"))
    return found


def by_the_gpu(arguments, machine: Machine) -> dict:
    """Files like these are what the GPU is for, so it must have decoded nearly all of them."""
    one = measure(arguments, machine, "gpu")
    all_images = one["batches"] * one["batch_size"]
    return {"ok": one["decoded_on_gpu"] >= 0.99 * all_images, "result": one,
            "text": f"{one['images_per_second']:.0f} images/s, {one['decoded_on_cpu']} of {all_images} left to the CPU"}


def by_the_cpu(arguments, machine: Machine, workers: int, heaps: int = 0) -> dict:
    env = {"MALLOC_ARENA_MAX": str(heaps)} if heaps else None
    one = measure(arguments, machine, "cpu", f"--workers={workers}", env=env)
    return {"result": one, "text": f"{one['images_per_second']:.0f} images/s, {one['resident_mib'][-1]:.0f} MiB"}


def worker_counts(cores: int) -> list[int]:
    """Returns 1, 2, 4 … up to the number of cores, and twice that number."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return sorted({*counts, cores, 2 * cores}, reverse=True)


def rows(arguments, machine: Machine):
    seconds = 0 if arguments.smoke else 12
    if machine.on_gpu:
        for number in range(arguments.rounds):
            yield Row(f"by the GPU, round {number + 1}", seconds, lambda: by_the_gpu(arguments, machine))
    cores = len(os.sched_getaffinity(0))
    for workers in [1] if arguments.smoke else worker_counts(cores):
        yield Row(f"by the CPU, {workers} threads", seconds,
                  lambda workers=workers: by_the_cpu(arguments, machine, workers))
    for heaps in [2] if arguments.smoke else sorted({2, cores}):
        yield Row(f"by the CPU, {cores} threads, {heaps} heaps", seconds,
                  lambda heaps=heaps: by_the_cpu(arguments, machine, cores, heaps))
