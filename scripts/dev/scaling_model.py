#!/usr/bin/env python3
"""Predicts a training step's time on N ranks, from one rank's step and the speed of the network.

    dtrain_bench step … --json >step.json                                        a model on one GPU
    dtrain_bench collective --operation=all_reduce … --json >collective.json     the network, one rank a node
    scripts/dev/scaling_model.py --step=step.json --collective=collective.json --ranks=8,16,64 --local_ranks=8
    scripts/dev/scaling_model.py --step=step.json --bandwidth_gbyte=5.9 --latency_us=25 …      or the network by its figures

Bandwidths are bus bandwidths, as nccl-tests print them: measured, not a card's nominal speed. Buckets are filled as by
c10d's reducer, and reduced one after the other, beside the backward pass, in one ring through all ranks, node by node. The
model ignores what communication takes from computation (cores, memory, a GPU's multiprocessors), ranks that are late,
other users of the network, and data.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from safe_files import DATA, Failure, Parser, exit_code, number, parse_json, read_bounded  # noqa: E402

FP32_BYTES = 4
FIRST_BUCKET_BYTES = 2**20  # c10d's first bucket is smaller, so that reducing begins early
MOST_BYTES = 64 << 20
MOST_RANKS = 1 << 20


@dataclass(frozen=True)
class Network:
    bandwidth: float  # bytes/s in each direction, of a whole node
    latency: float = 0.0  # seconds per hop between nodes
    local_ranks: int = 1  # ranks of a node
    local_bandwidth: float = math.inf  # bytes/s between the ranks of a node


@dataclass(frozen=True)
class Step:
    """One rank's step without communication, in seconds."""
    forward: float
    backward: float
    update: float
    gradients: tuple[tuple[float, float], ...]  # (bytes, seconds since the backward pass began), as they arrive
    exchange_bytes: float = 0  # reduced between the backward pass and the update: running statistics
    samples: float = 1  # batch of one rank

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.update


def ring(size: float, ranks: int, network: Network) -> float:
    """Returns the seconds of an all-reduce. Each rank sends 2(N-1)/N of the data, and a chunk passes 2(N-1) hops; once
    around the ring, as many leave a node as there are nodes."""
    turns, nodes = 2 * (ranks - 1) / ranks, -(-ranks // network.local_ranks)
    if nodes == 1:
        return turns * size / network.local_bandwidth
    return turns * (nodes * network.latency + size / min(network.bandwidth, network.local_bandwidth))


def fit(table: dict) -> Network:
    """Returns the bandwidth and latency that explain best what `dtrain_bench collective --json` has measured with one rank a
    node. Errors count relative to the time, so that small sizes weigh as much as large ones."""
    measured = [(row["bytes"], row["in_place"]["microseconds"] / 1e6) for row in table["results"]
                if row["operation"] == "all_reduce"]
    if len({size for size, _ in measured}) < 2:
        raise ValueError("two sizes of all_reduce or more are needed")
    weights = [1 / seconds**2 for _, seconds in measured]
    mean_size = sum(w * size for w, (size, _) in zip(weights, measured)) / sum(weights)
    mean_time = sum(w * seconds for w, (_, seconds) in zip(weights, measured)) / sum(weights)
    slope = (sum(w * (size - mean_size) * (seconds - mean_time) for w, (size, seconds) in zip(weights, measured))
             / sum(w * (size - mean_size) ** 2 for w, (size, _) in zip(weights, measured)))
    if slope <= 0:  # larger ones were faster, by chance
        size, seconds = max(measured)
        slope = seconds / size
    ranks = table["world_size"]
    return Network(2 * (ranks - 1) / ranks / slope, max(0.0, mean_time - slope * mean_size) / (2 * (ranks - 1)))


def step_of(found: dict, gradient_bytes: int) -> Step:
    """Reads the object with which `dtrain_bench step --json` ends. Its parts were measured separately, which slows them on a
    GPU, so they are scaled to the step that was measured as a whole."""
    parts = [found[f"{part}_milliseconds"] / 1e3 for part in ("forward", "backward", "update")]
    factor = found.get("compute_milliseconds", found["step_milliseconds"]) / 1e3 / sum(parts)
    gradients = tuple((size * gradient_bytes / FP32_BYTES, ready / 1e3 * factor) for size, ready in found["gradients"])
    step = Step(*(factor * part for part in parts), gradients, found["exchange_bytes"], found["batch_size"])
    if not (0 < step.seconds < math.inf and gradients and step.samples > 0):
        raise ValueError("it took no time, or has no gradients")
    return step


def buckets(gradients, cap_bytes: float, first_bytes: float = FIRST_BUCKET_BYTES) -> list[tuple[float, float]]:
    """Returns (bytes, ready) in the order of reduction. The gradient that fills a bucket closes it; the last one may be
    smaller."""
    made: list[tuple[float, float]] = []
    size = 0.0
    for place, (bytes_, ready) in enumerate(gradients):
        size += bytes_
        if size >= (cap_bytes if made else min(first_bytes, cap_bytes)) or place == len(gradients) - 1:
            made.append((size, ready))
            size = 0.0
    return made


def predict(step: Step, ranks: int, network: Network, cap_bytes: float) -> dict:
    reductions = [(ready, ring(size, ranks, network)) for size, ready in buckets(step.gradients, cap_bytes)]
    end = 0.0
    for ready, seconds in reductions:
        end = max(end, ready) + seconds
    exchange = ring(step.exchange_bytes, ranks, network)
    seconds = step.forward + max(step.backward, end) + exchange + step.update
    return {"ranks": ranks, "step_milliseconds": 1e3 * seconds, "samples_per_second": ranks * step.samples / seconds,
            "efficiency_percent": 100 * step.seconds / seconds,
            "communication_milliseconds": 1e3 * (sum(seconds for _, seconds in reductions) + exchange)}


def read(path: Path, program: str, make):
    """Returns what `make` makes of the last line that is a JSON object, so the whole output of dtrain_bench will do."""
    try:
        lines = [line for line in read_bounded(path, MOST_BYTES, links=True).splitlines() if line.startswith(b"{")]
        return make(parse_json(lines[-1]))
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError) as error:
        raise Failure(f"{path} is not what 'dtrain_bench {program} --json' prints: {error!r}", "measure it with this version",
                      DATA) from None


def rank_counts(text: str) -> list[int]:
    counts = sorted({int(part) for part in text.split(",")})
    if not 1 <= counts[0] <= counts[-1] <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"expected numbers from 1 to {MOST_RANKS}, separated by commas")
    return counts


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=Path, required=True)
    network = parser.add_mutually_exclusive_group(required=True)
    network.add_argument("--collective", type=Path)
    network.add_argument("--bandwidth_gbyte", type=number(1e-6, 1e6), help="of a node, GB/s")
    parser.add_argument("--latency_us", type=number(0, 1e9), default=0.0, help="of a hop between nodes, with --bandwidth_gbyte")
    parser.add_argument("--local_ranks", type=int, choices=range(1, 257), metavar="NUMBER", default=1, help="ranks of a node")
    parser.add_argument("--local_bandwidth_gbyte", type=number(1e-6, math.inf), default=math.inf, help="between the ranks of a node")
    parser.add_argument("--ranks", type=rank_counts, default="1,2,4,8,16,32,64,128,256")
    parser.add_argument("--bucket_cap_mb", type=number(1e-3, 1e6), default=25.0, help="as dtrain_main's flag")
    parser.add_argument("--gradient_bytes", type=int, choices=[2, 4], default=FP32_BYTES, help="of a number of a gradient, as sent")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    arguments = parser.parse_args()
    step = read(arguments.step, "step", lambda found: step_of(found, arguments.gradient_bytes))
    between = (read(arguments.collective, "collective", fit) if arguments.collective
               else Network(arguments.bandwidth_gbyte * 1e9, arguments.latency_us / 1e6))
    links = Network(between.bandwidth, between.latency, arguments.local_ranks, arguments.local_bandwidth_gbyte * 1e9)
    rows = [predict(step, ranks, links, arguments.bucket_cap_mb * 2**20) for ranks in arguments.ranks]
    print(f"a step alone: {1e3 * step.seconds:.1f} ms for {step.samples:g} samples; {links.bandwidth / 1e9:.3f} GB/s, "
          f"{links.latency * 1e6:.0f} µs a hop, {links.local_ranks} ranks a node")
    print(f"{'ranks':>6} {'ms/step':>10} {'samples/s':>12} {'efficiency':>10} {'all-reduce ms':>14}")
    for row in rows:
        print(f"{row['ranks']:6d} {row['step_milliseconds']:10.1f} {row['samples_per_second']:12.1f} "
              f"{row['efficiency_percent']:9.1f}% {row['communication_milliseconds']:14.1f}")
    if arguments.json:
        print(json.dumps({"predictions": rows, "bandwidth": links.bandwidth, "latency": links.latency}))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
