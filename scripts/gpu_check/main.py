"""Runs the parts of the check one after the other, each in processes of its own, and reports all that was found.

A part that fails is reported and does not keep the others from running.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import programs

PARTS = ("tests", "parity", "decode", "speed", "start", "profile")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=programs.default_folder(), help="folder with dtrain_main")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: tries this script, measures nothing")
    parser.add_argument("--precisions", default="", help="default: fp32,bf16,fp16")
    parser.add_argument("--batch_sizes", default="", help="default: 64,256")
    parser.add_argument("--rounds", type=int, default=0, help="of each measurement; default: 2")
    arguments = parser.parse_args()
    arguments.precisions = (arguments.precisions or "fp32,bf16,fp16").split(",")
    arguments.batch_sizes = [int(size) for size in (arguments.batch_sizes or ("4" if arguments.smoke else "64,256"))
                             .split(",")]
    arguments.rounds = arguments.rounds or (1 if arguments.smoke else 2)
    arguments.parts = arguments.parts.split(",")
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"--parts has {sorted(unknown)}; there are {', '.join(PARTS)}")
    return arguments


def machine(device: str) -> dict:
    facts = {"torch": torch.__version__, "python": platform.python_version(), "cpu": platform.processor() or
             platform.machine(), "device": device}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts |= {"gpu": properties.name, "capability": f"{properties.major}.{properties.minor}",
                  "gpu_memory_mib": properties.total_memory // 2**20, "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version()}
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, check=False)
        facts["driver"] = driver.stdout.strip().splitlines()[0] if driver.stdout.strip() else "unknown"
    return facts


def run_tests(arguments: argparse.Namespace, _folder: Path) -> dict:
    """The GPU's own tests. 77 is their word for 'no GPU': a failure here, but with --device=cpu."""
    binary = programs.find_test(arguments.bin)
    done = subprocess.run([str(binary)], capture_output=True, text=True, check=False)
    skipped = done.returncode == 77
    ok = done.returncode == 0 or (skipped and arguments.device == "cpu")
    lines = [line for line in done.stdout.splitlines() if "[  FAILED  ]" in line or "[  PASSED  ]" in line
             or line.startswith("skipped")]
    return {"ok": ok, "exit_code": done.returncode, "skipped": skipped, "summary": lines,
            "output": "" if ok else (done.stdout + done.stderr)[-6000:]}


def main() -> int:
    arguments = parse_arguments()
    if not (arguments.bin / "dtrain_main").exists():
        print(f"error: no dtrain_main in {arguments.bin}: run this from a bundle, or name a folder with --bin",
              file=sys.stderr)
        return 2
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: PyTorch finds no GPU here. --device=cpu --smoke tries the script without one.", file=sys.stderr)
        return 2
    import decode
    import parity  # these load torchvision, too
    import speed
    import trace_report

    steps = {"tests": run_tests, "parity": parity.check, "decode": decode.check, "speed": speed.check,
             "start": speed.check_start, "profile": trace_report.check}
    report = {"machine": machine(arguments.device), "command": " ".join(sys.argv), "smoke": arguments.smoke}
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as folder:
        for name in arguments.parts:
            began = time.monotonic()
            print(f"==> {name}", file=sys.stderr, flush=True)
            try:
                report[name] = steps[name](arguments, Path(folder))
            except Exception as error:  # the other parts are worth their answers
                report[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            report[name]["seconds"] = round(time.monotonic() - began, 1)
            arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print_table(report, arguments)
    return 0 if all(report[name]["ok"] for name in arguments.parts) else 1


def print_table(report: dict, arguments: argparse.Namespace) -> None:
    facts = report["machine"]
    print(f"{facts.get('gpu', facts['cpu'])}, torch {facts['torch']}, driver {facts.get('driver', '-')}")
    if report["smoke"]:
        print("SMOKE: tiny sizes; these figures say nothing about speed")
    for name in arguments.parts:
        part = report[name]
        print(f"\n{name}: {'ok' if part['ok'] else 'NOT OK'} ({part['seconds']} s)")
        for line in (part.get("error", ""), *part.get("summary", ())):
            if line:
                print(f"  {line}")
    print(f"\n{arguments.out}")


if __name__ == "__main__":
    sys.exit(main())
