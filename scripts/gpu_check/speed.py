"""images/s, memory and time to the first step: ours, PyTorch eager and torch.compile, alternating in one run."""

import os
import statistics
import sys
from pathlib import Path

import programs

PEER = Path(__file__).resolve().parent / "peer.py"


def sizes(smoke: bool) -> dict:
    if smoke:
        return {"model": "resnet18", "image_size": 32, "num_classes": 10}
    return {"model": "resnet50", "image_size": 224, "num_classes": 1000}


def steps(smoke: bool) -> tuple[int, int]:
    return (1, 2) if smoke else (10, 30)


def workers() -> int:
    return len(os.sched_getaffinity(0))


def make_images(folder: Path, smoke: bool) -> Path:
    """JPEGs of the size of ImageNet's, each of 10 classes: smooth shapes with noise, which compress like photographs."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(0)
    width, height = (80, 60) if smoke else (500, 375)
    for number in range(20 if smoke else 512):
        target = folder / "images" / "train" / f"class{number % 10}"
        target.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=numpy.uint8))
        pixels = numpy.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=numpy.int16)
        noisy = (pixels + random.integers(-12, 13, pixels.shape)).clip(0, 255).astype(numpy.uint8)
        Image.fromarray(noisy).save(target / f"{number}.jpg", quality=90)
    return folder / "images"


def peer(arguments, precision: str, batch_size: int, *flags: str, plan: tuple[int, int] | None = None):
    warmup, timed = plan or steps(arguments.smoke)
    size = [f"--{name}={value}" for name, value in sizes(arguments.smoke).items()]
    stdout, began = programs.run(Path(sys.executable), str(PEER), *size, f"--device={arguments.device}",
                                 f"--precision={precision}", f"--batch_size={batch_size}", f"--warmup={warmup}",
                                 f"--steps={timed}", f"--workers={workers()}", *flags)
    return programs.last_json(stdout) | {"began": began}


def our_synthetic(arguments, precision: str, batch_size: int, _folder: Path) -> dict:
    warmup, timed = steps(arguments.smoke)
    size = [f"--{name}={value}" for name, value in sizes(arguments.smoke).items()]
    stdout, _ = programs.run(arguments.bin / "dtrain_bench", "step", *size, f"--batch_size={batch_size}",
                             f"--precision={precision}", f"--warmup={warmup}", f"--steps={timed}", "--nesterov",
                             "--momentum=0.9", "--json", programs.backend(arguments.device))
    return programs.last_json(stdout)


def our_decoded(arguments, precision: str, batch_size: int, folder: Path) -> dict:
    """The speed between two lines of the log, the warm-up's and the last one's."""
    warmup, timed = steps(arguments.smoke)
    run_dir = folder / f"decoded-{precision}-{batch_size}-{len(list(folder.iterdir()))}"
    size = sizes(arguments.smoke)
    programs.run(arguments.bin / "dtrain_main", f"--model={size['model']}", f"--image_size={size['image_size']}",
                 f"--data_dir={folder / 'images'}", f"--batch_size={batch_size}", f"--precision={precision}",
                 f"--max_steps={warmup + timed}", "--epochs=1000000", "--log_interval=1", f"--run_dir={run_dir}",
                 "--save_every_epochs=0", "--lr=0.01", programs.backend(arguments.device))
    points = programs.metrics(run_dir, "train")[warmup:]
    seconds = sum(point["step_seconds"] for point in points)
    return {"images_per_second": batch_size * len(points) / seconds,
            "waited_for_data": sum(point["data_seconds"] for point in points) / seconds}


def candidates(arguments, folder: Path) -> dict:
    """Of each kind of data: who is measured, by name."""
    def eager(*where):
        return lambda precision, batch: peer(arguments, precision, batch, *where)

    def compiled(*where):
        return lambda precision, batch: peer(arguments, precision, batch, "--compile", *where)

    images = f"--data_dir={folder / 'images' / 'train'}"
    kinds = {
        "synthetic": {"dtrain": lambda precision, batch: our_synthetic(arguments, precision, batch, folder),
                      "eager": eager(), "compile": compiled()},
        "decoded": {"dtrain": lambda precision, batch: our_decoded(arguments, precision, batch, folder),
                    "eager": eager(images), "compile": compiled(images)},
    }
    if arguments.smoke:  # compiling takes a minute on a CPU, and is PyTorch's affair
        for kind in kinds.values():
            del kind["compile"]
    return kinds


def measure(make, precision: str, batch_size: int) -> dict:
    try:
        return make(precision, batch_size)
    except (RuntimeError, ValueError, KeyError) as error:
        return {"error": str(error)[-1500:]}


def row_of(kind: str, precision: str, batch_size: int, rounds: dict) -> dict:
    row = {"data": kind, "precision": precision, "batch_size": batch_size, "rounds": rounds, "images_per_second": {},
           "peak_memory_mib": {}}
    for name, results in rounds.items():
        speeds = [one["images_per_second"] for one in results if "error" not in one]
        if speeds:
            row["images_per_second"][name] = statistics.median(speeds)
        memory = [one["peak_memory_mib"] for one in results if "peak_memory_mib" in one]
        if memory:
            row["peak_memory_mib"][name] = max(memory)
    others = [speed for name, speed in row["images_per_second"].items() if name != "dtrain"]
    if "dtrain" in row["images_per_second"] and others:
        row["ratio_to_best_peer"] = row["images_per_second"]["dtrain"] / max(others)
    row["ok"] = len(row["images_per_second"]) == len(rounds)
    return row


def text_of(row: dict) -> str:
    def figures(key: str, unit: str) -> str:
        return ", ".join(f"{name} {value:.0f}" for name, value in row[key].items()) + f" {unit}"

    text = f"{row['data']} {row['precision']} batch {row['batch_size']}: {figures('images_per_second', 'images/s')}"
    if "ratio_to_best_peer" in row:
        text += f", ratio {row['ratio_to_best_peer']:.2f}"
    if row["peak_memory_mib"]:
        text += f"; peak {figures('peak_memory_mib', 'MiB')}"
    errors = [f"{name}: {one['error']}" for name, results in row["rounds"].items() for one in results if "error" in one]
    return text + "".join(f"\n    NOT OK {error}" for error in errors[:2])


def check(arguments, folder: Path) -> dict:
    make_images(folder, arguments.smoke)
    rows = []
    for kind, contenders in candidates(arguments, folder).items():
        for precision in arguments.precisions:
            for batch_size in arguments.batch_sizes:
                rounds: dict[str, list] = {name: [] for name in contenders}
                for _ in range(arguments.rounds):
                    for name, make in contenders.items():
                        rounds[name].append(measure(make, precision, batch_size))
                rows.append(row_of(kind, precision, batch_size, rounds))
                print("    " + text_of(rows[-1]), file=sys.stderr, flush=True)
    return {"ok": all(row["ok"] for row in rows), "rows": rows, "summary": [text_of(row) for row in rows]}


def our_start(arguments, folder: Path, number: int) -> float:
    run_dir = folder / f"start-{number}"
    size = [f"--{name}={value}" for name, value in sizes(arguments.smoke).items()]
    _, began = programs.run(arguments.bin / "dtrain_main", *size, "--data_format=synthetic", "--max_steps=1",
                            f"--batch_size={arguments.batch_sizes[0]}", "--log_interval=1", f"--run_dir={run_dir}",
                            "--save_every_epochs=0", programs.backend(arguments.device))
    return programs.metrics(run_dir, "train")[0]["time"] - began


def check_start(arguments, folder: Path) -> dict:
    """Seconds from the start of the process to the end of its first step (fp32, synthetic data)."""
    seconds: dict[str, list] = {"dtrain": [], "eager": []}
    for number in range(arguments.rounds):
        seconds["dtrain"].append(our_start(arguments, folder, number))
        result = peer(arguments, "fp32", arguments.batch_sizes[0], plan=(0, 1))
        seconds["eager"].append(result["first_step_time"] - result["began"])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {"ok": True, "seconds_to_first_step": medians, "rounds": seconds,
            "summary": [", ".join(f"{name} {value:.2f} s" for name, value in medians.items())]}
