#!/usr/bin/env python3
"""Compares the speed of dtrain's loader with DALI (CPU) and torchvision, in one run on the same files.

    .venv/bin/python scripts/dev/peers/loader_compare.py [--images=600 --seconds=4 --rounds=3] [--threads=1,2]

All make the same: JPEG photographs (photos.py) → random-resized-crop to 224, antialiased, and flip → batches of 64,
once as uint8 NHWC and once as normalised float32. dtrain-packed and dali-packed read the same photographs from what
`dtrain_data pack --output_format=webdataset --seek_points` writes. Each round is a fresh process held to as many cores as threads; the
peers take turns, so that what else the machine does hits all; the figure is the best round. Images per second of
processor time are shown as well: on a shared machine they are the steadier figure.

The peers live in a Python environment of their own, build/peers (DALI from PyPI; torch and torchvision from .venv: run
scripts/setup.sh --tests first). If DALI cannot be installed it is left out, which is said.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from photos import make_photos

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "build" / "release" / "bin" / "dtrain_bench"
DATA = BENCH.with_name("dtrain_data")
PEERS = ROOT / "build" / "peers"
DALI = "nvidia-dali-cuda120==2.4.0"
NAMES = ("dtrain", "dtrain-packed", "dali", "dali-packed", "torchvision-pillow", "torchvision-tensor")
SIZE, BATCH = 224, 64
MOST_STARTUP_SECONDS = 90
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "photos", help="folder for the photographs, which are made there")
    parser.add_argument("--seconds", type=float, default=4, help="seconds per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, e.g. 1,2")
    parser.add_argument("--pixels", default="uint8,float32")
    parser.add_argument("--peers", default=",".join(NAMES))
    parser.add_argument("--round", nargs=3, metavar=("PEER", "THREADS", "PIXELS"), help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- One round of a peer, in a process of its own ------------------------------------------------------------------


def packed_photos(arguments) -> Path:
    output = arguments.data / f"packed-{arguments.images}"
    subprocess.run([DATA, "pack", f"--data_dir={arguments.data}", "--data_format=imagefolder", f"--output={output}",
                    "--output_format=webdataset", "--seek_points", "--split=train", "--shards=4"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return output


def dali_batches(arguments, threads: int, pixels: str, is_packed: bool):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
    def pipeline():
        if is_packed:
            shards = sorted(map(str, packed_photos(arguments).glob("train-*.tar")))
            jpegs, labels = fn.readers.webdataset(paths=shards, ext=["jpg", "cls"], random_shuffle=True, name="reader")
        else:
            jpegs, labels = fn.readers.file(file_root=str(arguments.data / "train"), random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB,
                                               random_aspect_ratio=[3 / 4, 4 / 3], random_area=[0.08, 1.0])
        images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        mirror = fn.random.coin_flip()
        if pixels == "uint8":
            return fn.flip(images, horizontal=mirror), labels
        return fn.crop_mirror_normalize(images, mirror=mirror, dtype=types.FLOAT, output_layout="CHW",
                                        mean=[255 * m for m in MEAN], std=[255 * s for s in STD]), labels

    built = pipeline()
    built.build()
    while True:
        built.run()
        yield BATCH


def torchvision_batches(arguments, threads: int, pixels: str, decode_to_tensor: bool):
    import torch
    from torchvision import io
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    steps = [v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]
    if not decode_to_tensor:
        steps.append(v2.PILToTensor())
    if pixels == "float32":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    loader = (lambda path: io.decode_jpeg(io.read_file(path))) if decode_to_tensor else None
    folder = ImageFolder(arguments.data / "train", v2.Compose(steps), **({"loader": loader} if loader else {}))
    torch.set_num_threads(1)
    # With one process, the main process loads; more processes are workers, as users run it.
    batches = torch.utils.data.DataLoader(folder, BATCH, shuffle=True, drop_last=True,
                                          num_workers=0 if threads == 1 else threads,
                                          persistent_workers=threads > 1)
    while True:
        for images, _ in batches:
            yield len(images)


def peer_round(arguments) -> dict:
    peer, threads, pixels = arguments.round[0], int(arguments.round[1]), arguments.round[2]
    if peer.startswith("dali"):
        batches = dali_batches(arguments, threads, pixels, peer == "dali-packed")
    else:
        batches = torchvision_batches(arguments, threads, pixels, peer == "torchvision-tensor")
    for _ in range(3):
        next(batches)
    images, began, processor_began = 0, time.perf_counter(), processor_seconds()
    while time.perf_counter() - began < arguments.seconds:
        images += next(batches)
    seconds = time.perf_counter() - began
    # The time of worker processes is known only when they have ended.
    processor = processor_seconds() - processor_began if threads == 1 or not peer.startswith("torchvision") else None
    return {"images_per_second": images / seconds,
            "images_per_processor_second": images / processor if processor else None}


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# ---- All rounds ----------------------------------------------------------------------------------------------------


def held_to(cores: int):
    available = sorted(os.sched_getaffinity(0))[:cores]
    return lambda: os.sched_setaffinity(0, available)


def dtrain_round(data: Path, threads: int, pixels: str, steps: int) -> dict:
    command = [BENCH, "loader", f"--data_dir={data}", f"--workers={threads}", f"--batch_size={BATCH}",
               f"--image_size={SIZE}", f"--pixels={pixels}", "--warmup=3", f"--steps={steps}", "--threads=1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=held_to(threads))
    return json.loads(done.stdout.splitlines()[-1])


def run_round(arguments, peer: str, threads: int, pixels: str) -> dict:
    if peer.startswith("dtrain"):
        data = packed_photos(arguments) if peer == "dtrain-packed" else arguments.data
        speed = dtrain_round(data, threads, pixels, 10)["images_per_second"]
        return dtrain_round(data, threads, pixels, max(10, int(speed * arguments.seconds / BATCH)))
    command = [PEERS / "bin" / "python", __file__, "--round", peer, str(threads), pixels, f"--data={arguments.data}",
               f"--images={arguments.images}", f"--seconds={arguments.seconds}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=held_to(threads),
                              timeout=arguments.seconds + MOST_STARTUP_SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"not done {MOST_STARTUP_SECONDS} s after its time"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def make_environment(peers: list[str]) -> None:
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        own = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                             capture_output=True, text=True, check=True).stdout.strip()
        (Path(own) / "dtrain.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    users = [name for name in peers if name.startswith("dali")]
    found = subprocess.run([python, "-c", "import nvidia.dali"], capture_output=True, check=False).returncode == 0
    if users and not found and subprocess.run([python, "-m", "pip", "install", "--quiet", DALI], check=False).returncode != 0:
        print("DALI could not be installed (see above) and is left out", file=sys.stderr)
        peers[:] = [name for name in peers if name not in users]


def print_table(results: dict) -> None:
    for setting, peers in results.items():
        ours = [peers.get(name, {}).get("images_per_second", 0) for name in ("dtrain", "dtrain-packed")]
        print(f"\n{setting}\n{'':20} {'images/s':>10} {'dtrain is':>10} {'packed is':>10} {'per CPU second':>15}   rounds")
        for peer, figures in peers.items():
            if "error" in figures:
                print(f"{peer:20} {figures['error'][:90]}")
                continue
            ratios = " ".join(f"{own / figures['images_per_second']:9.2f}x" for own in ours)
            per_cpu = figures["images_per_processor_second"]
            rounds = " ".join(f"{value:.0f}" for value in figures["rounds"])
            print(f"{peer:20} {figures['images_per_second']:10.0f} {ratios} {per_cpu or 0:15.0f}   {rounds}")


def measure(arguments, peers: list[str]) -> dict:
    results = {}
    for threads in map(int, arguments.threads.split(",")):
        for pixels in arguments.pixels.split(","):
            rounds: dict[str, list[dict]] = {peer: [] for peer in peers}
            for _ in range(arguments.rounds):
                for peer in peers:
                    rounds[peer].append(run_round(arguments, peer, threads, pixels))
                    print(f"{threads} {pixels} {peer}: {rounds[peer][-1].get('images_per_second', 'failed')}",
                          file=sys.stderr, flush=True)
            setting = results[f"{threads} thread{'s' if threads > 1 else ''}, {pixels}"] = {}
            for peer, done in rounds.items():
                good = [one for one in done if "error" not in one]
                if not good:
                    setting[peer] = done[-1]
                    continue
                per_cpu = [one["images_per_processor_second"] for one in good if one.get("images_per_processor_second")]
                speeds = [one["images_per_second"] for one in good]
                setting[peer] = {"images_per_second": max(speeds), "rounds": speeds,
                                 "images_per_processor_second": max(per_cpu, default=None)}
    return results


def main() -> None:
    arguments = parse_arguments()
    if arguments.round:
        print(json.dumps(peer_round(arguments)))
        return
    if not BENCH.exists():
        sys.exit(f"error: {BENCH} does not exist. Build it: scripts/build.sh --target=dtrain_bench")
    peers = arguments.peers.split(",")
    make_photos(arguments.data, arguments.images)
    make_environment(peers)
    print_table(measure(arguments, peers))
    machine = dtrain_round(arguments.data, 1, "uint8", 1)
    print(f"\n{machine['cpu']}, {len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}")
    print(shlex.join(["scripts/dev/peers/loader_compare.py", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
