#!/usr/bin/env python3
"""Compares the training step of dtrain with PyTorch's, on the CPU, in one run.

    .venv/bin/python scripts/peers/step_compare.py [--image_size=96 --batch_size=32 --steps=10 --rounds=3] [--json]

Both train ResNet-50 (dtrain's; torchvision's) on synthetic images: the same batch, threads, memory format and number
of warm-up and timed steps; cross entropy, SGD with Nesterov momentum. The rounds alternate (dtrain, PyTorch, dtrain …),
so that what else the machine does hits both; each round is a fresh process. The figure is the median of the rounds;
the ratio is dtrain / PyTorch, above 1 where dtrain is faster. Needs `scripts/setup.sh --tests` and `scripts/build.sh`.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "build" / "release" / "bin" / "dtrain_bench"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="a name that both dtrain and torchvision know")
    parser.add_argument("--image_size", type=int, default=96, help="pixels")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_classes", type=int, default=1000)
    parser.add_argument("--channels_last", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=10, help="timed steps a round")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--bench", type=Path, default=BENCH, help="dtrain_bench to measure")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--peer_round", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def torch_round(arguments: argparse.Namespace) -> dict:
    """One round of the peer, in this process: what a plain PyTorch training script does a step."""
    import torch
    import torchvision

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    memory_format = torch.channels_last if arguments.channels_last else torch.contiguous_format
    model = getattr(torchvision.models, arguments.model)(num_classes=arguments.num_classes)
    model = model.to(memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    criterion = torch.nn.CrossEntropyLoss()
    size = arguments.image_size
    images = torch.randn(arguments.batch_size, 3, size, size).contiguous(memory_format=memory_format)
    labels = torch.randint(arguments.num_classes, (arguments.batch_size,))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(arguments.warmup):
        step()
    began = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    seconds = time.perf_counter() - began
    return {
        "images_per_second": arguments.batch_size * arguments.steps / seconds,
        "step_milliseconds": 1000 * seconds / arguments.steps,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }


def dtrain_command(arguments: argparse.Namespace) -> list[str]:
    return [
        str(arguments.bench), "step", f"--model={arguments.model}", f"--image_size={arguments.image_size}",
        f"--batch_size={arguments.batch_size}", f"--num_classes={arguments.num_classes}",
        f"--channels_last={str(arguments.channels_last).lower()}", f"--precision={arguments.precision}",
        f"--steps={arguments.steps}", f"--warmup={arguments.warmup}", f"--threads={arguments.threads}", "--json",
    ]


def peer_command(arguments: argparse.Namespace) -> list[str]:
    names = ("model", "image_size", "batch_size", "num_classes", "precision", "steps", "warmup", "threads")
    return [sys.executable, str(Path(__file__).resolve()), "--peer_round",
            "--channels_last" if arguments.channels_last else "--no-channels_last",
            *(f"--{name}={getattr(arguments, name)}" for name in names)]


def run_round(command: list[str], threads: int) -> dict:
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0 or not lines:
        sys.exit(f"error: '{shlex.join(command)}' ended with {result.returncode}; see its message above.")
    return json.loads(lines[-1])


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure(arguments: argparse.Namespace) -> dict:
    commands = {"dtrain": dtrain_command(arguments), "PyTorch": peer_command(arguments)}
    rounds: dict[str, list[dict]] = {name: [] for name in commands}
    for number in range(1, arguments.rounds + 1):
        for name, command in commands.items():
            rounds[name].append(run_round(command, arguments.threads))
            print(f"    round {number} of {arguments.rounds}: {name} "
                  f"{rounds[name][-1]['images_per_second']:.2f} images/s", file=sys.stderr, flush=True)
    speeds = {name: [one["images_per_second"] for one in results] for name, results in rounds.items()}
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    return {
        "dtrain_images_per_second": medians["dtrain"],
        "torch_images_per_second": medians["PyTorch"],
        "ratio": medians["dtrain"] / medians["PyTorch"],
        "rounds": speeds,
        "threads": arguments.threads,
        "processor": processor(),
        "torch": rounds["PyTorch"][0]["torch"],
        "torchvision": rounds["PyTorch"][0]["torchvision"],
        "python": platform.python_version(),
        "command": shlex.join(["scripts/peers/step_compare.py", *sys.argv[1:]]),
        "dtrain_command": shlex.join(commands["dtrain"]),
    }


def print_table(result: dict, arguments: argparse.Namespace) -> None:
    layout = "channels_last" if arguments.channels_last else "contiguous"
    print(f"{arguments.model}, {arguments.image_size} px, batch {arguments.batch_size}, {arguments.precision}, "
          f"{layout}, {arguments.warmup} + {arguments.steps} steps a round")
    print(f"{'':10} {'images/s':>10} {'ms/step':>10}   rounds")
    for name, key in (("dtrain", "dtrain_images_per_second"), ("PyTorch", "torch_images_per_second")):
        rounds = " ".join(f"{value:.2f}" for value in result["rounds"][name])
        print(f"{name:10} {result[key]:10.2f} {1000 * arguments.batch_size / result[key]:10.1f}   {rounds}")
    print(f"{'ratio':10} {result['ratio']:10.3f}")
    print(f"{result['threads']} threads of {result['processor']}; torch {result['torch']}, torchvision "
          f"{result['torchvision']}, Python {result['python']}")
    print(result["command"])


def main() -> None:
    arguments = parse_arguments()
    if arguments.peer_round:
        print(json.dumps(torch_round(arguments)))
        return
    if not arguments.bench.exists():
        sys.exit(f"error: {arguments.bench} does not exist. Build it: scripts/build.sh --target=dtrain_bench")
    if subprocess.run([sys.executable, "-c", "import torch, torchvision"], capture_output=True).returncode != 0:
        sys.exit("error: this Python has no torch or torchvision. Run scripts/setup.sh --tests, then this script with "
                 ".venv/bin/python.")
    result = measure(arguments)
    print_table(result, arguments)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
