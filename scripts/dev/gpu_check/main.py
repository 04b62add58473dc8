"""Runs the parts of the check, the most wanted first, each row in processes of its own, and writes down what was found
after every row. A row that fails, or hangs, does not keep the others from running; what there is no time for is said.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import programs
from rows import Report, line_of

# Most minutes of each part; --minutes limits all of them together.
PARTS = {"first": 7, "speed": 9, "text": 7, "parity": 2, "faults": 5, "families": 9}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=programs.default_folder(), help="folder with dtrain_main")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, separated by commas; default: all, " + ",".join(PARTS))
    parser.add_argument("--minutes", type=float, default=0, help="time limit for all parts together; default, per part: "
                        + ", ".join(f"{name} {minutes}" for name, minutes in PARTS.items()))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--smoke", action="store_true", help="use tiny sizes, to try this script only; the numbers mean nothing")
    parser.add_argument("--precisions", default="bf16,fp32,fp16", help="precisions of the part parity; default: bf16,fp32,fp16")
    parser.add_argument("--rounds", type=int, default=0, help="rounds per measurement; default: 2")
    arguments = parser.parse_args()
    arguments.precisions = arguments.precisions.split(",")
    arguments.rounds = arguments.rounds or (1 if arguments.smoke else 2)
    arguments.parts = arguments.parts.split(",")
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"--parts has {sorted(unknown)}; there are {', '.join(PARTS)}")
    arguments.minutes = arguments.minutes or sum(PARTS[name] for name in arguments.parts)
    return arguments


def nvidia_smi(*query: str) -> str:
    """Returns what the driver's own tool says, or nothing if there is no such tool."""
    try:
        done = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def refusal(arguments: argparse.Namespace) -> str:
    """Returns why nothing can be checked, or an empty string if it can."""
    if not (arguments.bin / "dtrain_main").exists():
        return f"no dtrain_main in {arguments.bin}: run this from a bundle, or name a folder with --bin"
    if arguments.device == "cpu":
        return ""
    hint = "--device=cpu --smoke tries the script without one."
    if not nvidia_smi("-L").startswith("GPU "):
        return f"nvidia-smi finds no GPU here. {hint}"
    return "" if torch.cuda.is_available() else f"PyTorch finds no GPU here. {hint}"


def describe_machine(device: str) -> dict:
    facts = {"torch": torch.__version__, "python": platform.python_version(), "cores": len(os.sched_getaffinity(0)),
             "cpu": platform.processor() or platform.machine(), "device": device}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts |= {"gpu": properties.name, "capability": f"{properties.major}.{properties.minor}",
                  "gpu_memory_mib": properties.total_memory // 2**20, "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version(),
                  "driver": nvidia_smi("--query-gpu=driver_version", "--format=csv,noheader"),
                  "nvidia_smi": nvidia_smi()}
    return facts


def main() -> int:
    arguments = parse_arguments()
    problem = refusal(arguments)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    import compare  # imported late, because they load torchvision, too
    import faults
    import first
    import parity

    parts = {"first": first.rows, "speed": compare.images, "text": compare.texts, "parity": parity.rows, "faults": faults.rows,
             "families": compare.families}
    report = Report(arguments.out, {"machine": describe_machine(arguments.device), "command": " ".join(sys.argv),
                                    "smoke": arguments.smoke})
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as folder:
        machine = programs.Machine(arguments, Path(folder))
        try:
            for name in arguments.parts:
                report.run_part(name, parts[name](arguments, machine), machine, PARTS[name])
        finally:
            machine.close()
    print_table(report.content, arguments.out)
    return 0 if report.ok() else 1


def print_table(content: dict, out: Path) -> None:
    facts = content["machine"]
    print(f"{facts.get('gpu', facts['cpu'])}, {facts['cores']} cores, torch {facts['torch']}, "
          f"driver {facts.get('driver', '-')}")
    if content["smoke"]:
        print("SMOKE: tiny sizes; these figures say nothing about speed")
    for row in content["rows"]:
        print(line_of(row))
    print(f"\n{out}")


if __name__ == "__main__":
    sys.exit(main())
