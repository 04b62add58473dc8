#!/usr/bin/env python3
"""Predicts a training step's time and its efficiency on N ranks, from one rank's step and the speed of the network.

    scripts/scaling_model.py [--draw=curve.svg]            the model beside published runs of ResNet-50 (64 to 256 V100)
    dtrain_bench step … --json | tail -n 1 >step.json      your model, on one GPU
    dtrain_bench collective --operation=all_reduce … --json | tail -n 1 >collective.json       your network
    scripts/scaling_model.py --step=step.json --collective=collective.json --ranks=8,16,64 --local_ranks=8
    scripts/scaling_model.py --step=step.json --bandwidth_gbyte=5.9 --latency_us=25 …      or a network by its figures

Bandwidths are bus bandwidths, as nccl-tests print them. Without --step, ResNet-50 is measured here (half a minute).
What the model leaves out is said in scripts/scaling/step.py. Needs nothing but Python.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from safe_files import DATA, Failure, Parser, exit_code, is_number, number, output_file, parse_json, read_bounded
from scaling import curve, network, published, step

BENCH = Path(__file__).resolve().parents[1] / "build" / "release" / "bin" / "dtrain_bench"
FP32_BYTES = 4
MOST_BYTES = 64 << 20
MOST_RANKS = 1 << 20


def rank_counts(text: str) -> list[int]:
    counts = sorted({int(part) for part in text.split(",")})
    if not 1 <= counts[0] <= counts[-1] <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"expected numbers from 1 to {MOST_RANKS}, separated by commas")
    return counts


def parse_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=Path, help="file with the last line of dtrain_bench step --json")
    parser.add_argument("--collective", type=Path, help="file with the last line of dtrain_bench collective --json")
    parser.add_argument("--bandwidth_gbyte", type=number(1e-6, 1e6), help="network bandwidth of a node in GB/s, instead of --collective")
    parser.add_argument("--latency_us", type=number(0, 1e9), default=0.0, help="latency of a hop between nodes in microseconds, with --bandwidth_gbyte")
    parser.add_argument("--local_ranks", type=int, choices=range(1, 257), metavar="NUMBER", default=1, help="number of ranks per node")
    parser.add_argument("--local_bandwidth_gbyte", type=number(1e-6, float("inf")), default=float("inf"), help="bandwidth between the ranks of a node in GB/s")
    parser.add_argument("--local_latency_us", type=number(0, 1e9), default=0.0, help="latency between the ranks of a node in microseconds")
    parser.add_argument("--ranks", type=rank_counts, default="1,2,4,8,16,32,64,128,256",
                        help="numbers of ranks, separated by commas")
    parser.add_argument("--bucket_cap_mb", type=number(1e-3, 1e6), default=25.0, help="size of the gradient buckets in MiB, as dtrain_main's flag")
    parser.add_argument("--algorithm", choices=[*network.ALGORITHMS, "best"], default="ring",
                        help="best: the faster of ring and tree for each size")
    parser.add_argument("--overlap", action=argparse.BooleanOptionalAction, default=True,
                        help="reduce while the backward pass runs")
    parser.add_argument("--jitter", type=number(0, 10), default=0.0,
                        help="standard deviation of a rank's time for a step, as a fraction of it")
    parser.add_argument("--gradient_bytes", type=int, choices=[2, 4], default=FP32_BYTES, help="bytes per number of a gradient, as sent")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="draw the efficiency over the number of ranks")
    parser.add_argument("--bench", type=Path, default=BENCH, help="path of dtrain_bench, which measures if --step is not given")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    arguments = parser.parse_args()
    if arguments.draw:
        output_file(arguments.draw, [".svg"], [path for path in (arguments.step, arguments.collective) if path])
    return arguments


def read_object(path: Path) -> dict:
    """Returns the last line that is a JSON object, so the whole output of dtrain_bench may be passed."""
    try:
        return parse_json([line for line in read_bounded(path, MOST_BYTES, links=True).splitlines() if line.startswith(b"{")][-1])
    except (ValueError, IndexError):
        raise Failure(f"{path} does not hold the last line of dtrain_bench --json", "name a file with it", DATA) from None


def is_usable(alone: step.Step) -> bool:
    """A step from a file of others may have any numbers."""
    numbers = [alone.seconds, alone.images, alone.exchange_bytes, *(value for pair in alone.gradients for value in pair)]
    return all(is_number(value) and value >= 0 for value in numbers) and min(alone.seconds, alone.images) > 0 and bool(alone.gradients)


def measured_step(arguments: argparse.Namespace) -> step.Step:
    if arguments.step:
        found = read_object(arguments.step)
    else:
        if not arguments.bench.exists():
            raise Failure(f"{arguments.bench} does not exist", "build it with scripts/build.sh, or give --step")
        command = [str(arguments.bench), "step", "--model=resnet50", "--image_size=224", "--batch_size=8", "--steps=3",
                   "--warmup=1", "--json"]
        print("measuring a step of ResNet-50 …", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}", "see its message above", max(done.returncode, 1))
        found = json.loads(done.stdout.splitlines()[-1])
    try:
        alone = step.from_bench(found)
        if is_usable(alone):
            return alone
    except (KeyError, TypeError, ValueError, ArithmeticError):
        pass
    raise Failure("the step's object has not the numbers of a step", "measure it with this version's dtrain_bench step --json", DATA)


def given_network(arguments: argparse.Namespace) -> network.Network | None:
    if arguments.collective:
        try:
            between = network.fit_table(read_object(arguments.collective))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise Failure(f"{arguments.collective} tells of no network: {error}",
                          "measure it with dtrain_bench collective --operation=all_reduce --json", DATA) from None
    elif arguments.bandwidth_gbyte:
        between = network.Network(arguments.bandwidth_gbyte * 1e9, arguments.latency_us / 1e6)
    else:
        return None
    return dataclasses.replace(between, local_ranks=arguments.local_ranks,
                               local_bandwidth=arguments.local_bandwidth_gbyte * 1e9,
                               local_latency=arguments.local_latency_us / 1e6)


def predict(arguments: argparse.Namespace, alone: step.Step, between: network.Network) -> dict:
    alone = alone.narrowed(arguments.gradient_bytes / FP32_BYTES)
    plan = step.Plan(arguments.bucket_cap_mb * 2**20, arguments.algorithm, arguments.overlap, arguments.jitter)
    made = step.buckets(alone.gradients, plan.bucket_cap_bytes)
    print(f"a step alone: {1e3 * alone.seconds:.1f} ms for {alone.images:g} images; gradients "
          f"{sum(size for size, _ in made) / 1e6:.1f} MB in {len(made)} buckets")
    print(f"network: {between.bandwidth / 1e9:.3f} GB/s, {between.latency * 1e6:.0f} µs a hop; {between.local_ranks} ranks "
          f"a node; {plan.algorithm}, {'with' if plan.overlap else 'without'} overlap, jitter {100 * plan.jitter:.1f} %")
    print(f"{'ranks':>6} {'ms/step':>10} {'images/s':>12} {'efficiency':>10} {'all-reduce ms':>14} {'hidden':>7}")
    rows = []
    for ranks in arguments.ranks:
        found = step.predict(alone, ranks, between, plan)
        efficiency = step.efficiency(alone, ranks, between, plan)
        rows.append({"ranks": ranks,
                     "step_milliseconds": 1e3 * found.seconds,
                     "images_per_second": found.images_per_second,
                     "efficiency_percent": 100 * efficiency,
                     "communication_milliseconds": 1e3 * found.communication,
                     "hidden_percent": 100 * found.hidden})
        print(f"{ranks:6d} {1e3 * found.seconds:10.1f} {found.images_per_second:12.1f} {100 * efficiency:9.1f}% "
              f"{1e3 * found.communication:14.1f} {100 * found.hidden:6.0f}%")
    if arguments.draw:
        curve.draw(arguments.draw, "Efficiency",
                   {plan.algorithm: [(row["ranks"], row["efficiency_percent"] / 100) for row in rows]})
    return {"predictions": rows, "bandwidth": between.bandwidth, "latency": between.latency}


def compare_published(arguments: argparse.Namespace, measured: step.Step) -> dict:
    found = published.compare(measured)
    print(f"{'ResNet-50: efficiency in %':34} {'published':>9} {'network':>8} {'and jitter':>10} {'error':>6} "
          f"{'of a guess':>10}")
    for row in found["rows"]:
        print(f"{row['run']:34} {row['published_percent']:9.1f} {row['communication_only_percent']:8.1f} "
              f"{row['with_jitter_percent']:10.1f} {row['error_points']:+6.1f} {row['guess_error_points']:+10.1f}"
              + ("" if row["all_reduce"] else "   (no all-reduce: not what the model describes)"))
    print(f"jitter, how much a rank's step varies (one deviation): {100 * found['jitter']:.1f} %, fitted to the first run; "
          "the others are predicted with it. The guess: what the first run has, everywhere.")
    print("assumed, since it was not published:")
    for assumption in found["assumptions"]:
        print(f"  {assumption}")
    if arguments.draw:
        points = [(run.name, run.gpus, run.efficiency) for run in published.RUNS]
        curve.draw(arguments.draw, "ResNet-50 on V100: model (lines) and published runs (points)",
                   published.curves(measured, found["jitter"]), points)
    return found


def main() -> int:
    arguments = parse_arguments()
    measured = measured_step(arguments)
    between = given_network(arguments)
    result = predict(arguments, measured, between) if between else compare_published(arguments, measured)
    if arguments.draw:
        print(f"drawn: {arguments.draw}")
    if arguments.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
