#!/usr/bin/env python3
"""Compares the training step of dtrain with PyTorch's, on the CPU, in one run.

    .venv/bin/python scripts/peers/step_compare.py [--image_size=96 --batch_size=32 --steps=10 --rounds=3] [--json]
    .venv/bin/python scripts/peers/step_compare.py --model=roberta_base [--tokens_per_sample=128 --batch_size=8 …]

Both train the same model on synthetic data: a ResNet-50 (dtrain's; torchvision's) with SGD and Nesterov momentum, or a
RoBERTa (dtrain's; Hugging Face's, with scaled-dot-product attention) with PyTorch's fused AdamW, dropout 0.1 and 15 % of
the tokens to be guessed. The same batch, threads and number of warm-up and timed steps. The rounds alternate (dtrain,
PyTorch, dtrain …), so that what else the machine does hits both; each round is a fresh process. The figure is the median
of the rounds; the ratio is dtrain / PyTorch, above 1 where dtrain is faster. The memory is the most that a process had.
Needs `scripts/setup.sh --tests` and `scripts/build.sh`.
"""

import argparse
import importlib
import json
import os
import platform
import resource
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
    parser.add_argument("--model", default="resnet50",
                        help="a name that both dtrain and torchvision know, or roberta_base or roberta_large")
    parser.add_argument("--image_size", type=int, default=96, help="pixels")
    parser.add_argument("--tokens_per_sample", type=int, default=128)
    parser.add_argument("--batch_size", type=int, help="default: 32, for text 8")
    parser.add_argument("--num_classes", type=int, default=1000)
    parser.add_argument("--channels_last", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=10, help="timed steps per round")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the timed ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--bench", type=Path, default=BENCH, help="dtrain_bench to measure")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--peer_round", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch_size is None:
        arguments.batch_size = 8 if is_text(arguments) else 32
    return arguments


def is_text(arguments: argparse.Namespace) -> bool:
    return arguments.model.startswith("roberta")


def units(arguments: argparse.Namespace) -> str:
    return "tokens" if is_text(arguments) else "images"


def units_of_step(arguments: argparse.Namespace) -> int:
    return arguments.batch_size * (arguments.tokens_per_sample if is_text(arguments) else 1)


def image_step(arguments: argparse.Namespace):
    import torch
    import torchvision

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

    return step


def text_step(arguments: argparse.Namespace):
    import torch
    import transformers

    shapes = {"roberta_base": {}, "roberta_large": {"hidden_size": 1024, "num_hidden_layers": 24,
                                                    "num_attention_heads": 16, "intermediate_size": 4096}}
    length = arguments.tokens_per_sample
    config = transformers.RobertaConfig(vocab_size=50265, type_vocab_size=1, max_position_embeddings=length + 2,
                                        **shapes[arguments.model])
    model = transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="sdpa").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4, fused=True)
    ids = torch.randint(4, config.vocab_size, (arguments.batch_size, length))
    guessed = torch.rand(ids.shape).argsort(1) < int(0.15 * length)
    labels = torch.where(guessed, ids, -100)
    attended = torch.ones_like(ids)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = model(input_ids=ids, attention_mask=attended, labels=labels).loss
        loss.backward()
        optimizer.step()

    return step


def torch_round(arguments: argparse.Namespace) -> dict:
    """Runs one round of the peer in this process: the steps of a plain PyTorch training script."""
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    step = text_step(arguments) if is_text(arguments) else image_step(arguments)
    for _ in range(arguments.warmup):
        step()
    began = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    seconds = time.perf_counter() - began
    library = importlib.import_module("transformers" if is_text(arguments) else "torchvision")
    return {
        f"{units(arguments)}_per_second": units_of_step(arguments) * arguments.steps / seconds,
        "step_milliseconds": 1000 * seconds / arguments.steps,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": {"torch": torch.__version__, library.__name__: library.__version__},
    }


def dtrain_command(arguments: argparse.Namespace) -> list[str]:
    of_data = [f"--image_size={arguments.image_size}", f"--num_classes={arguments.num_classes}",
               f"--channels_last={str(arguments.channels_last).lower()}"]
    if is_text(arguments):
        of_data = [f"--tokens_per_sample={arguments.tokens_per_sample}", "--optimizer=adamw"]
    return [
        str(arguments.bench), "step", f"--model={arguments.model}", f"--batch_size={arguments.batch_size}", *of_data,
        f"--precision={arguments.precision}", f"--steps={arguments.steps}", f"--warmup={arguments.warmup}",
        f"--threads={arguments.threads}", "--json",
    ]


def peer_command(arguments: argparse.Namespace) -> list[str]:
    names = ("model", "image_size", "tokens_per_sample", "batch_size", "num_classes", "precision", "steps", "warmup", "threads")
    return [sys.executable, str(Path(__file__).resolve()), "--peer_round",
            "--channels_last" if arguments.channels_last else "--no-channels_last",
            *(f"--{name}={getattr(arguments, name)}" for name in names)]


def run_round(command: list[str], threads: int) -> dict:
    # transformers would load TensorFlow if it is installed.
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), USE_TF="0")
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
    key = f"{units(arguments)}_per_second"
    for number in range(1, arguments.rounds + 1):
        for name, command in commands.items():
            rounds[name].append(run_round(command, arguments.threads))
            print(f"    round {number} of {arguments.rounds}: {name} "
                  f"{rounds[name][-1][key]:.2f} {units(arguments)}/s", file=sys.stderr, flush=True)
    speeds = {name: [one[key] for one in results] for name, results in rounds.items()}
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    memory = {name: max(one["peak_memory_mib"] for one in results) for name, results in rounds.items()}
    return {
        f"dtrain_{key}": medians["dtrain"],
        f"torch_{key}": medians["PyTorch"],
        "ratio": medians["dtrain"] / medians["PyTorch"],
        "rounds": speeds,
        "peak_memory_mib": memory,
        "threads": arguments.threads,
        "processor": processor(),
        **rounds["PyTorch"][0]["versions"],
        "python": platform.python_version(),
        "command": shlex.join(["scripts/peers/step_compare.py", *sys.argv[1:]]),
        "dtrain_command": shlex.join(commands["dtrain"]),
    }


def print_table(result: dict, arguments: argparse.Namespace) -> None:
    layout = "channels_last" if arguments.channels_last else "contiguous"
    data = f"{arguments.tokens_per_sample} tokens" if is_text(arguments) else f"{arguments.image_size} px, {layout}"
    print(f"{arguments.model}, {data}, batch {arguments.batch_size}, {arguments.precision}, "
          f"{arguments.warmup} + {arguments.steps} steps a round")
    print(f"{'':10} {units(arguments) + '/s':>10} {'ms/step':>10} {'MiB':>8}   rounds")
    for name, key in (("dtrain", "dtrain"), ("PyTorch", "torch")):
        speed = result[f"{key}_{units(arguments)}_per_second"]
        rounds = " ".join(f"{value:.2f}" for value in result["rounds"][name])
        print(f"{name:10} {speed:10.2f} {1000 * units_of_step(arguments) / speed:10.1f} "
              f"{result['peak_memory_mib'][name]:8.0f}   {rounds}")
    print(f"{'ratio':10} {result['ratio']:10.3f}")
    library = "transformers" if is_text(arguments) else "torchvision"
    print(f"{result['threads']} threads of {result['processor']}; torch {result['torch']}, {library} "
          f"{result[library]}, Python {result['python']}")
    print(result["command"])


def main() -> None:
    arguments = parse_arguments()
    if arguments.peer_round:
        print(json.dumps(torch_round(arguments)))
        return
    if not arguments.bench.exists():
        sys.exit(f"error: {arguments.bench} does not exist. Build it: scripts/build.sh --target=dtrain_bench")
    library = "transformers" if is_text(arguments) else "torchvision"
    if subprocess.run([sys.executable, "-c", f"import torch, {library}"], capture_output=True).returncode != 0:
        sys.exit(f"error: this Python has no torch or {library}. Run scripts/setup.sh --tests, then this script with "
                 ".venv/bin/python.")
    result = measure(arguments)
    print_table(result, arguments)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
