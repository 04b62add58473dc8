#!/usr/bin/env python3
"""Checks the scaling model on this machine: ranks in network namespaces, behind links of limited bandwidth.

    sudo scripts/scaling_check.py [--megabits=200 --ranks=1,2,3,4] [--model=resnet18 --batch_size=8] [--json]

What the model is told: how fast all-reduces of two ranks are over these links (dtrain_bench collective), and what a
step without communication takes, on as many ranks (dtrain_bench step; the ranks share this machine's cores, so that
each is slower than one alone). What it predicts, and what is measured: a step whose gradients are reduced while the
backward pass runs, and one whose gradients are reduced after it. Choose a bandwidth so low that a step communicates for
longer than it computes: at a high one, what the network costs in CPU time slows computation.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from safe_files import INTERNAL, PEER_LOST, Failure, Parser, exit_code, number
from scaling import network, step
from scaling.limited_network import LimitedNetwork, Unavailable
from scaling_model import rank_counts

BENCH = Path(__file__).resolve().parents[1] / "build" / "release" / "bin" / "dtrain_bench"
PORT = 29500  # never taken, because the namespace is new
PATIENCE_SECONDS = 600
SMALLEST_BYTES, LARGEST_BYTES = 2**20, 2**22  # several times the burst of a link


def parse_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabits", type=number(0.1, 1e6), default=200.0, help="speed of a link in each direction")
    parser.add_argument("--ranks", type=rank_counts, default="1,2,3,4", help="numbers of ranks, separated by commas")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image_size", type=int, default=32, help="pixels")
    parser.add_argument("--batch_size", type=int, default=8, help="samples per rank")
    parser.add_argument("--bucket_cap_mb", type=number(1e-3, 1e6), default=4.0, help="MiB")
    parser.add_argument("--steps", type=int, default=3, help="number of timed steps of each kind")
    parser.add_argument("--bench", type=Path, default=BENCH, help="path of dtrain_bench")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser.parse_args()


def bench(links: LimitedNetwork, ranks: int, program: Path, *flags: str) -> dict:
    """Runs dtrain_bench on that many hosts, one rank each. Returns the object with which rank 0's output ends."""
    processes = []
    try:
        for rank in range(ranks):
            command = [str(program), *flags, "--json", f"--rank={rank}", f"--world_size={ranks}", "--backend=gloo",
                       f"--master_addr={links.addresses[0]}", f"--master_port={PORT}"]
            processes.append(subprocess.Popen(links.command_on(rank, command), text=True, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1")))
        outputs = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    except subprocess.TimeoutExpired:
        raise Failure(f"'dtrain_bench {flags[0]}' has not ended within {PATIENCE_SECONDS} seconds",
                      "choose a smaller model, or more --megabits", PEER_LOST) from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            raise Failure(f"'dtrain_bench {flags[0]}' ended with {process.returncode}", errors.strip(),
                          process.returncode if process.returncode > 0 else INTERNAL)
    return json.loads(outputs[0][0].splitlines()[-1])


def check(links: LimitedNetwork, between: network.Network, ranks: int, arguments: argparse.Namespace) -> dict:
    found = bench(links, ranks, arguments.bench, "step", f"--model={arguments.model}", "--num_classes=10",
                  f"--image_size={arguments.image_size}", f"--batch_size={arguments.batch_size}",
                  f"--bucket_cap_mb={arguments.bucket_cap_mb}", f"--steps={arguments.steps}", "--warmup=1")
    alone = step.from_bench(found)
    one = found["step_milliseconds"]  # the whole step of a single rank
    row = {"ranks": ranks, "compute_milliseconds": found.get("compute_milliseconds", one)}
    for kind, key, overlap in (("overlapped", "step_milliseconds", True),
                               ("afterwards", "reduced_after_milliseconds", False)):
        predicted = step.predict(alone, ranks, between, step.Plan(arguments.bucket_cap_mb * 2**20, overlap=overlap))
        measured = found.get(key, one)
        row[kind] = {"measured": measured, "predicted": 1e3 * predicted.seconds,
                     "error_percent": 100 * (1e3 * predicted.seconds / measured - 1)}
    return row


def measure(arguments: argparse.Namespace) -> dict:
    counts = arguments.ranks
    with LimitedNetwork(max(2, *counts), arguments.megabits) as links:
        table = bench(links, 2, arguments.bench, "collective", "--operation=all_reduce", "--steps=2", "--warmup=1",
                      f"--min_bytes={SMALLEST_BYTES}", f"--max_bytes={LARGEST_BYTES}")
        between = network.fit_table(table)
        print(f"links of {arguments.megabits:g} Mbit/s; all-reduces of two ranks: "
              f"{between.bandwidth * 8 / 1e6:.0f} Mbit/s, {between.latency * 1e6:.0f} µs a hop")
        print(f"{'':5} {'ms without':>13} | {'reduced during backward':>27} | {'reduced after it':>27}")
        print(f"{'ranks':5} {'communication':>13}" + f" | {'measured':>9} {'predicted':>9} {'error':>7}" * 2,
              flush=True)
        rows = []
        for ranks in counts:
            row = check(links, between, ranks, arguments)
            rows.append(row)
            print(f"{ranks:5} {row['compute_milliseconds']:13.0f}" + "".join(
                f" | {row[kind]['measured']:9.0f} {row[kind]['predicted']:9.0f} {row[kind]['error_percent']:6.1f}%"
                for kind in ("overlapped", "afterwards")), flush=True)
    return {"megabits": arguments.megabits, "fitted_bandwidth": between.bandwidth, "fitted_latency": between.latency,
            "rows": rows}


def main() -> int:
    arguments = parse_arguments()
    if not arguments.bench.exists():
        raise Failure(f"{arguments.bench} does not exist", "build it: scripts/build.sh")
    try:
        result = measure(arguments)
    except Unavailable as reason:
        raise Failure(f"a network with a limited speed cannot be set up here: {reason}", "run it as root on Linux, outside of containers") from None
    if arguments.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
