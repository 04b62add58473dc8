"""Compares images/s and memory of dtrain, PyTorch eager and torch.compile, which take turns in one run."""

import os
import statistics
from pathlib import Path

from programs import Failed, Machine, backend
from rows import Row

TIMED_SECONDS = 5
WARMUP_STEPS = 10
SMALL_BATCH = 64
# Options that may change the speed of a step. The faster choice is the default.
SWITCHES = {
    "without graphs": ("--cuda_graphs=off",),
    "ten algorithms": ("--cudnn_benchmark_limit=10",),
}


def sizes(smoke: bool) -> dict:
    if smoke:
        return {"model": "resnet18", "image_size": 32, "num_classes": 10}
    return {"model": "resnet50", "image_size": 224, "num_classes": 1000}


def size_flags(smoke: bool) -> list[str]:
    return [f"--{name}={value}" for name, value in sizes(smoke).items()]


def plan(smoke: bool) -> list[str]:
    """Returns the flags for the duration of both sides."""
    return ["--warmup=1", "--steps=2"] if smoke else [f"--warmup={WARMUP_STEPS}", "--steps=10", f"--seconds={TIMED_SECONDS}"]


def make_images(machine: Machine, smoke: bool) -> Path:
    """Makes JPEGs of the size of ImageNet's in 10 classes: smooth shapes with noise, which compress like
    photographs."""
    import numpy
    from PIL import Image

    folder = machine.folder / "images"
    if folder.exists():
        return folder
    random = numpy.random.default_rng(0)
    width, height = (80, 60) if smoke else (500, 375)
    for number in range(20 if smoke else 512):
        target = folder / "train" / f"class{number % 10}"
        target.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=numpy.uint8))
        pixels = numpy.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=numpy.int16)
        noisy = (pixels + random.integers(-12, 13, pixels.shape)).clip(0, 255).astype(numpy.uint8)
        Image.fromarray(noisy).save(target / f"{number}.jpg", quality=90)
    return folder


def our_synthetic(arguments, machine: Machine, precision: str, batch_size: int, *flags: str) -> dict:
    return machine.bench("step", *size_flags(arguments.smoke), f"--batch_size={batch_size}", f"--precision={precision}",
                         *plan(arguments.smoke), "--nesterov", "--momentum=0.9", backend(machine.device), *flags)


def window(points: list[dict], warmup: int) -> list[dict]:
    """Returns the lines after the warm-up."""
    return [point for point in points if point["step"] > warmup]


def our_decoded(arguments, machine: Machine, precision: str, batch_size: int, *flags: str) -> dict:
    """Returns the speed after the warm-up, over as many lines of the log as fill the time."""
    images = make_images(machine, arguments.smoke)
    warmup, interval, seconds = (1, 1, 0) if arguments.smoke else (WARMUP_STEPS, 10, TIMED_SECONDS)
    run_dir = machine.folder / f"decoded-{len(list(machine.folder.iterdir()))}"
    size = sizes(arguments.smoke)

    def spent(points: list[dict]) -> float:
        return sum(point["step_seconds"] * interval for point in window(points, warmup))

    points = machine.train_until(
        run_dir, lambda points: len(window(points, warmup)) >= 2 and spent(points) >= seconds, f"--model={size['model']}",
        f"--image_size={size['image_size']}", f"--data_dir={images}", f"--batch_size={batch_size}",
        f"--precision={precision}", "--max_steps=1000000", "--epochs=1000000", f"--log_interval={interval}", "--lr=0.01",
        *flags)
    timed = window(points, warmup)
    return {"images_per_second": batch_size * interval * len(timed) / spent(points), "steps": interval * len(timed),
            "waited_for_data": sum(point["data_seconds"] for point in timed) * interval / spent(points)}


def their(arguments, machine: Machine, precision: str, batch_size: int, *flags: str) -> dict:
    return machine.peer(*size_flags(arguments.smoke), f"--precision={precision}", f"--batch_size={batch_size}",
                        *plan(arguments.smoke), f"--workers={len(os.sched_getaffinity(0))}", *flags)


def contenders(arguments, machine: Machine, data: str, precision: str, batch_size: int) -> dict:
    """Returns the contenders by name. Compiling takes a minute on a CPU and is left out of the smoke test."""
    where = (arguments, machine, precision, batch_size)
    if data == "synthetic":
        found = {"dtrain": lambda: our_synthetic(*where)}
        source: tuple[str, ...] = ()
    else:
        found = {"dtrain": lambda: our_decoded(*where)}
        source = (f"--data_dir={make_images(machine, arguments.smoke) / 'train'}",)
    found["eager"] = lambda: their(*where, *source)
    if not arguments.smoke:
        mode = "reduce-overhead" if batch_size <= SMALL_BATCH else "default"
        found[f"compile {mode}"] = lambda: their(*where, f"--compile={mode}", *source)
    return found


def compare(makers: dict, rounds: int, unit: str = "images") -> dict:
    """Measures each contender in turn, `rounds` times. Returns the medians, their spread, and ours over the best of the
    others."""
    results: dict[str, list] = {name: [] for name in makers}
    errors = []
    for _ in range(rounds):
        for name, make in makers.items():
            try:
                results[name].append(make())
            except (Failed, KeyError, OSError) as error:
                errors.append(f"{name}: {error}")
    speeds = {name: statistics.median(one[f"{unit}_per_second"] for one in some) for name, some in results.items() if some}
    memory = {name: max(one["peak_memory_mib"] for one in some) for name, some in results.items()
              if some and "peak_memory_mib" in some[0]}
    row = {f"{unit}_per_second": speeds, "peak_memory_mib": memory, "rounds": results, "ok": not errors}
    ours = max((speed for name, speed in speeds.items() if name.startswith("dtrain")), default=0)
    others = [speed for name, speed in speeds.items() if not name.startswith("dtrain")]
    text = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items()) + f" {unit}/s"
    if ours and others:
        row["ratio_to_best_peer"] = ours / max(others)
        text += f", ratio {row['ratio_to_best_peer']:.2f}"
    if memory:
        text += "; peak " + ", ".join(f"{name} {value:.0f}" for name, value in memory.items()) + " MiB"
    return row | {"text": text + "".join(f"; NOT OK {error}" for error in errors[:2])}


def comparison(arguments, machine: Machine, data: str, precision: str, batch_size: int) -> Row:
    makers = contenders(arguments, machine, data, precision, batch_size)
    return Row(f"{data} {precision} batch {batch_size}", 0 if arguments.smoke else 20 * len(makers) * arguments.rounds,
               lambda: compare(makers, arguments.rounds))


def switch(arguments, machine: Machine, name: str, batch_size: int) -> Row:
    where = (arguments, machine, arguments.precisions[0], batch_size)
    makers = {"dtrain": lambda: our_synthetic(*where),
              f"dtrain {name}": lambda: our_synthetic(*where, *SWITCHES[name])}
    return Row(f"{name}, {where[2]} batch {where[3]}", 0 if arguments.smoke else 60,
               lambda: compare(makers, arguments.rounds))


def autotuned(arguments, machine: Machine) -> Row:
    """Runs only once, because choosing the kernels takes minutes."""
    where = (arguments, machine, arguments.precisions[0], arguments.batch_sizes[0])
    makers = {"dtrain": lambda: our_synthetic(*where),
              "compile max-autotune": lambda: their(*where, "--compile=max-autotune-no-cudagraphs")}
    return Row(f"max-autotune, {where[2]} batch {where[3]}", 200, lambda: compare(makers, 1))


def rows(arguments, machine: Machine):
    make_images(machine, arguments.smoke)
    first, others = arguments.precisions[0], arguments.precisions[1:]
    for batch_size in arguments.batch_sizes:
        if not (arguments.smoke and "first" in arguments.parts):  # that part has tried it
            yield comparison(arguments, machine, "synthetic", first, batch_size)
        yield comparison(arguments, machine, "decoded", first, batch_size)
    if machine.on_gpu:
        for name in SWITCHES:
            yield switch(arguments, machine, name, arguments.batch_sizes[0])
        if len(arguments.batch_sizes) > 1:  # with small batches the host may be the bottleneck
            yield switch(arguments, machine, "without graphs", arguments.batch_sizes[-1])
    for precision in others:
        for batch_size in arguments.batch_sizes:
            for data in ("synthetic", "decoded"):
                yield comparison(arguments, machine, data, precision, batch_size)
    if not arguments.smoke:
        yield autotuned(arguments, machine)
