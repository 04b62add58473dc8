#!/usr/bin/env python3
"""Compares the training step of dtrain with PyTorch's, on the CPU, in one run.

    .venv/bin/python scripts/dev/peers/step_compare.py [--image_size=96 --batch_size=32 --steps=10 --rounds=3] [--json]
    .venv/bin/python scripts/dev/peers/step_compare.py --model=bert_base [--tokens_per_sample=128 --batch_size=8 …]

Both train the same model on synthetic data: an image model (torchvision's or timm's beside it) with SGD and Nesterov
momentum, or a text model (Hugging Face's beside it, with scaled-dot-product attention) with PyTorch's fused AdamW, the
dropout of its configuration and 15 % of the tokens to be guessed. The rounds alternate, so that what else the machine does
hits both; each is a fresh process. The figure is the median of the rounds, the memory the most that a process had.
PyTorch's side is ../gpu_check/peer.py. Needs `scripts/setup.sh --tests` and `scripts/build.sh`.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "dev" / "gpu_check"))
import peers  # noqa: E402
from workloads import ADAMW, Case, Workload  # noqa: E402

BENCH = ROOT / "build" / "release" / "bin" / "dtrain_bench"
SECONDS_OF_A_ROUND = 600
WORDS = {"roberta_base": 50265, "roberta_large": 50265, "xlm_roberta_base": 250002, "bert_base": 30522,
         "distilbert_base": 30522, "modernbert_base": 50368}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", 
                        help="a name that both dtrain and torchvision or timm know, or one of " + ", ".join(WORDS))
    parser.add_argument("--image_size", type=int, default=96, help="pixels")
    parser.add_argument("--tokens_per_sample", type=int, default=128)
    parser.add_argument("--batch_size", type=int, help="default: 32, for text 8")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=10, help="timed steps per round")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the timed ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    is_text = arguments.model in WORDS
    workload = (Workload(arguments.model, arguments.model, ADAMW, tokens_per_sample=arguments.tokens_per_sample,
                         vocab_size=WORDS[arguments.model]) if is_text
                else Workload(arguments.model, arguments.model, image_size=arguments.image_size))
    case = Case(workload, arguments.batch_size or (8 if is_text else 32), arguments.precision)
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "USE_TF": "0"}
    ours = [str(BENCH), "step", *case.flags(), f"--steps={arguments.steps}", f"--warmup={arguments.warmup}",
            f"--threads={arguments.threads}", "--json"]

    def of_dtrain(_: Path) -> dict:
        done = subprocess.run(ours, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"error: '{shlex.join(ours)}' ended with {done.returncode}; see its message above.")
        return json.loads(done.stdout.splitlines()[-1])

    def of_pytorch(folder: Path) -> dict:
        peer = peers.Peer("cpu", folder)
        try:
            return peer.ask(case.request() | {"steps": arguments.steps, "warmup": arguments.warmup}, SECONDS_OF_A_ROUND)
        finally:
            peer.close()

    rounds: dict[str, list[dict]] = {"dtrain": [], "PyTorch": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for name, measure in (("dtrain", of_dtrain), ("PyTorch", of_pytorch)):
                rounds[name].append(measure(Path(folder)))
    key = f"{workload.unit}_per_second"
    speeds = {name: statistics.median(one[key] for one in of) for name, of in rounds.items()}
    memory = {name: max(one["peak_memory_mib"] for one in of) for name, of in rounds.items()}
    print(f"{case.name}, {arguments.warmup} + {arguments.steps} steps a round, {arguments.threads} threads\n"
          f"{'':10} {workload.unit + '/s':>10} {'MiB':>8}   rounds")
    for name, of in rounds.items():
        print(f"{name:10} {speeds[name]:10.2f} {memory[name]:8.0f}   {' '.join(f'{one[key]:.2f}' for one in of)}")
    ratio = speeds["dtrain"] / speeds["PyTorch"]
    print(f"{'ratio':10} {ratio:10.3f}\ntorch {version('torch')}; {shlex.join(sys.argv)}")
    if arguments.json:
        print(json.dumps({key: speeds, "ratio": ratio, "peak_memory_mib": memory, "command": shlex.join(ours)}))


if __name__ == "__main__":
    main()
