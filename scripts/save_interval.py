#!/usr/bin/env python3
"""Says how often to save, so that faults and saves together cost the least time: --save_every_seconds of dtrain_main.

    scripts/save_interval.py RUN --faults_per_hour=2                   with what this run's times.jsonl says of saves
    scripts/save_interval.py RUN --mtbf_hours=50000 --gpus=256         a GPU fails every 50,000 hours
    scripts/save_interval.py --stall_seconds=0.2 --write_seconds=4.3 --restart_seconds=30 --faults_per_hour=2

A save stalls training for a moment (the state is copied), and is on the disk some seconds later (the file is written in
the background). A fault costs a restart and all work since the last save that was on the disk. With a stall δ and a
mean time between faults M, Young's interval is √(2δM), and Daly's [1 + √(δ/2M)/3 + δ/18M]·√(2δM) − δ, of work between two
saves; neither depends on the restart. Beside the goodput that Daly's model of exponential faults predicts, that of 10,000
random faults is shown: the share of the time in which the run advances, before it waits for data or evaluates.

--save_every_seconds=auto of dtrain_main chooses Daly's interval by itself, while the run goes on. Options replace what the run says. Writing is taken to slow no step, which needs a core to spare. Needs nothing but Python.

J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974). J. T. Daly, A higher order
estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006).
"""

import argparse
import math
import random
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safe_files import DATA, Failure, Parser, exit_code, is_number, number, parse_json, read_bounded

TIMES = "times.jsonl"
MOST_BYTES = 1 << 28
FAULTS = 10_000
SEED = 1
GOAL = 0.97
LEAST, MOST = 1e-6, 1e9  # of any number that is given or read, so that none is 0 or infinite on the way
MOST_INTERVALS = 500     # mean times between faults in an interval, with which no save is ever reached


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    stall: float    # that a save stops training
    write: float    # from then until it is on the disk
    restart: float  # from a fault to the next step

    def daly(self, between_faults: float) -> float:
        """The interval with the least cost, as seconds of work between two saves; no less than a save takes to be written."""
        if self.stall >= 2 * between_faults:
            return max(between_faults, self.write)
        part = self.stall / (2 * between_faults)
        return max(self.young(between_faults) * (1 + math.sqrt(part) / 3 + part / 9) - self.stall, self.write)

    def young(self, between_faults: float) -> float:
        return math.sqrt(2 * self.stall * between_faults)

    def goodput(self, interval: float, between_faults: float) -> float:
        """What Daly's model predicts. The time until a save is on the disk is lost at each fault, like a restart."""
        if interval + self.stall > MOST_INTERVALS * between_faults:
            return 0.0
        kept = math.exp(-(self.restart + self.write) / between_faults)
        return interval * kept / (between_faults * math.expm1((interval + self.stall) / between_faults))

    def simulated(self, interval: float, between_faults: float, faults: int = FAULTS, seed: int = SEED) -> float:
        """The share of the time that was kept of a run with so many faults."""
        source = random.Random(seed)
        kept = total = 0.0
        for _ in range(faults):
            up = source.expovariate(1 / between_faults)  # from a fault to the next one, restart included
            total += up
            on_the_disk = up - self.restart - self.write  # saves that were begun later have been lost
            if on_the_disk > 0:
                kept += interval * (on_the_disk // (interval + self.stall))
        return kept / total

    def longest_restart(self, interval: float, between_faults: float, goal: float) -> float:
        """The longest restart with which the goodput is still `goal`; negative if none is short enough."""
        best = Costs(self.stall, 0, 0).goodput(interval, between_faults)
        return between_faults * math.log(best / goal) - self.write if best > 0 else -1


def read_times(path: Path) -> list[dict]:
    found = []
    for line in read_bounded(path, MOST_BYTES).splitlines():
        try:
            one = parse_json(line)
        except ValueError:
            continue  # the end of a process that was killed
        if isinstance(one, dict) and all(is_number(value) and 0 <= value <= MOST for value in one.values()) and {"attempt", "step"} <= one.keys():
            found.append(one)
    return found


def measured(lines: Iterable[dict]) -> tuple[list[float], list[float], list[float]]:
    """Returns the stalls, the time to write, and the starts of a run. Each save is followed by a line. One that is followed
    by another with the same step was waited for, at the end. Saves of the best weights, after evaluations, are left out."""
    stalls, writes, starts = [], [], {}
    last, last_saved = {}, None
    for line in lines:
        if line["attempt"] != last.get("attempt"):
            last, last_saved = {}, None
        starts[line["attempt"]] = line.get("startup_seconds", 0)
        grown = line.get("checkpoint_seconds", 0) - last.get("checkpoint_seconds", 0)
        evaluated = line.get("evaluation_seconds", 0) > last.get("evaluation_seconds", 0)
        if grown > 0 and not evaluated:
            (writes if last_saved == line["step"] else stalls).append(grown)
            last_saved = line["step"]
        last = line
    return stalls, writes, list(starts.values())


def costs_of(arguments: argparse.Namespace) -> Costs:
    stalls, writes, starts = measured(read_times(arguments.run / TIMES)) if arguments.run else ([], [], [])
    found = {"stall": stalls, "write": writes, "restart": starts}
    costs = {}
    for name, values in found.items():
        given = getattr(arguments, f"{name}_seconds")
        if given is None and not values:
            where = f"{arguments.run / TIMES} tells of no such time" if arguments.run else "there is no run"
            raise Failure(f"{where}, and no --{name}_seconds", "give it, or name a run that has saved at its end", DATA if arguments.run else 2)
        costs[name] = statistics.median(values) if given is None else given
    said = [f"{name} {costs[name]:.3g} s ({'given' if getattr(arguments, f'{name}_seconds') is not None else f'median of {len(values)}'})"
            for name, values in found.items()]
    print(f"a save: {said[0]}, {said[1]}; {said[2]}")
    return Costs(**costs)


def parse_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="run directory, whose times.jsonl is read")
    parser.add_argument("--faults_per_hour", type=number(LEAST, MOST), help="faults of the whole job")
    parser.add_argument("--mtbf_hours", type=number(LEAST, MOST), help="mean time between faults of one GPU, in place of --faults_per_hour")
    parser.add_argument("--gpus", type=number(1, MOST), default=1, help="number of GPUs, with --mtbf_hours")
    parser.add_argument("--stall_seconds", type=number(LEAST, MOST), help="how long a save stops training")
    parser.add_argument("--write_seconds", type=number(0, MOST), help="how long until it is on the disk")
    parser.add_argument("--restart_seconds", type=number(0, MOST), help="from a fault to the next step: what the run says begins with the "
                        "new process; add what a scheduler takes to notice and to start it")
    arguments = parser.parse_args()
    if (arguments.faults_per_hour is None) == (arguments.mtbf_hours is None):
        parser.error("give one of --faults_per_hour and --mtbf_hours")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    hours = 1 / arguments.faults_per_hour if arguments.faults_per_hour else arguments.mtbf_hours / arguments.gpus
    between = 3600 * hours
    costs = costs_of(arguments)
    best = costs.daly(between)
    print(f"a fault every {hours:.4g} hours; {FAULTS:,} of them simulated")
    print(f"{'work between two saves':30} {'predicted':>9} {'simulated':>9}")
    for name, interval in (("Young's", costs.young(between)), ("Daly's", best), ("a quarter of it", best / 4), ("four times", 4 * best)):
        if interval < costs.write:
            print(f"{name:15} {interval:12.4g} s {'shorter than a save takes to be written':>40}")
            continue
        print(f"{name:15} {interval:12.4g} s {100 * costs.goodput(interval, between):8.2f}% {100 * costs.simulated(interval, between):8.2f}%")
    longest = costs.longest_restart(best, between, GOAL)
    print(f"{100 * GOAL:g} % needs restarts of at most {longest:.3g} s" if longest > 0 else f"{100 * GOAL:g} % cannot be had with any restart")
    print(f"--save_every_epochs=0 --save_every_seconds={best + costs.stall:.3g}")  # from the beginning of a save to that of the next
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
