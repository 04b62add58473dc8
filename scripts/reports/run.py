"""A run as a report shows it: what its files say, and what follows from them. Any file but metrics.jsonl may be missing,
and some are if the run is under way or was killed; any value may be of any kind."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from reports.points import Points, finite

STEP_PARTS = ("data", "forward", "backward", "communication", "update", "other")  # the order in which they are drawn
NO_METRICS = ("kind", "step", "epoch", "loss", "bad_records", "empty_samples", "samples", "samples_of_split", "time")
AVERAGED = "ema_"  # begins the numbers of the weights of --ema_decay
SMALLER_IS_BETTER = "smaller_is_better"
LESS, MORE = ("loss", "perplexity", "seconds", "mae", "rmse"), ("r2", "pearson")  # words of the names of numbers
MOST_DEVICES = 1_000_000


@dataclass
class Run:
    folder: Path
    name: str
    train: Points
    val: Points
    epochs: Points
    config: dict = field(default_factory=dict)
    result: dict = field(default_factory=dict)
    error: dict = field(default_factory=dict)
    running: bool = False
    checkpoint: int | None = None  # the step of the newest one
    times: dict = field(default_factory=dict)  # seconds by part of all attempts, of a run that has no result to say them
    outcome: str = ""              # what a sweep says about a trial that has neither a result nor an error

    @property
    def model(self) -> str:
        return str(self.config.get("model", "model"))

    @property
    def speed_key(self) -> str:
        return "tokens_per_second" if "tokens_per_second" in self.train.names else "images_per_second"

    @property
    def start(self) -> dict:
        start = self.config.get("start")  # of the last attempt, finished or not
        return start if isinstance(start, dict) else {}

    @property
    def metric(self) -> str | None:
        """Returns the number of the validations by which the run is judged: the one that has decided which weights are
        the best, or will; of texts its perplexity."""
        names = self.val.names
        told = [name for name in names if f"best_{name}" in self.result and name not in ("step", "epoch")]
        found = next(iter(told), self.start.get("best_metric"))
        if found not in names:  # of an earlier version
            asked = self.config.get("best_metric")
            found = asked if asked in names else next((name for name in names if name not in NO_METRICS), None)
            if f"{AVERAGED}{found}" in names and self.config.get("best_of") != "raw":
                found = f"{AVERAGED}{found}"
        perplexity = f"{found}".removesuffix("loss") + "perplexity"
        return perplexity if perplexity in names else found

    def variant(self, name: str) -> str | None:
        """Returns this number of the weights by which the run is judged, the averaged or the raw ones; None without one."""
        averaged = f"{AVERAGED}{name}" if (self.metric or "").startswith(AVERAGED) else name
        return next((one for one in (averaged, name) if one in self.val.names), None)

    def smaller_is_better(self, name: str) -> bool:
        return smaller_is_better(f"val_{name}", self.result.get(SMALLER_IS_BETTER, self.start.get(SMALLER_IS_BETTER)))

    def best(self, name: str | None) -> dict[str, float | None] | None:
        """Returns the best validation by this number (`value`), with its step and epoch as far as they are known."""
        found = self.val.end(name, self.smaller_is_better(name)) if name else None
        return found and dict(zip(("value", "step", "epoch"), found, strict=True))

    def last(self, name: str) -> float | None:
        """Returns a number of the last validation: the result's, or for an unfinished run the log's."""
        return finite(self.result.get(f"val_{name}", self.val.last.get(name)))

    @property
    def limit(self) -> str | None:
        """Returns "320 of 10,000" if the last evaluation took only so many samples."""
        taken, all_of_them = self.last("samples"), self.last("samples_of_split")
        return f"{taken:,.0f} of {all_of_them:,.0f}" if taken is not None and all_of_them is not None else None

    @property
    def steps(self) -> float | None:
        """Returns the steps done; a run may have gone on after a result."""
        steps = [step for step in (finite(self.result.get("step")), self.train.last.get("step")) if step is not None]
        return max(steps) if steps else self.val.last.get("step")

    @property
    def epochs_done(self) -> float | None:
        done = [epoch for epoch in (finite(self.result.get("epoch")), self.train.last.get("epoch")) if epoch is not None]
        return max(done) if done else self.val.last.get("epoch")

    @property
    def devices(self) -> int | None:
        told = [self.result.get("world_size"), self.start.get("world_size")]
        count = next(filter(None, map(finite, told)), None)
        return int(count) if count and 1 <= count <= MOST_DEVICES else None

    def speed(self) -> float | None:
        """Returns the speed per second of the whole run: the result's, else the median of the second half of the
        log."""
        told = finite(self.result.get(self.speed_key))
        values = self.train.known(self.speed_key)
        return told if told is not None else float(np.median(values[len(values) // 2:])) if len(values) else None

    def step_parts(self) -> dict[str, float]:
        """Returns mean seconds of each part of a step that was logged (on a GPU only the wait for data); the rest is
        `computing`. Empty if nothing was logged."""
        whole = self.train.column("step_seconds")
        rows = np.flatnonzero(np.isfinite(whole))
        rows = rows[1:] if len(rows) > 1 else rows  # the first step takes longer
        if not len(rows):
            return {}
        names = [name for name in self.train.names if name.endswith("_seconds") and name != "step_seconds"]
        parts = {name.removesuffix("_seconds"): float(np.nansum(self.train.column(name)[rows])) / len(rows)
                 for name in names if np.isfinite(self.train.column(name)[rows]).any()}
        parts = {name: max(0.0, seconds) for name, seconds in parts.items()}
        if "other" not in parts:
            parts["other" if len(parts) > 1 else "computing"] = max(0.0, float(whole[rows].mean()) - sum(parts.values()))
        order = {name: place for place, name in enumerate(STEP_PARTS)}
        return dict(sorted(parts.items(), key=lambda one: order.get(one[0], len(order))))

    def wall_time(self) -> dict[str, float]:
        """Returns how the time of all attempts was spent, in seconds. Empty if no file says."""
        split = self.result.get("time_split")
        if not isinstance(split, dict):
            split = self.times
        return {name.removesuffix("_seconds"): max(0.0, finite(seconds)) for name, seconds in split.items()
                if name.endswith("_seconds") and name != "total_seconds" and finite(seconds) is not None}

    def epoch_seconds(self) -> float | None:
        """Returns the median of the epochs. For a run shorter than one epoch, no time is extrapolated."""
        values = self.epochs.known("epoch_seconds")
        return float(np.median(values)) if len(values) else None

    def state(self) -> str:
        if self.running:
            return "running"
        end, logged = finite(self.result.get("step")), self.train.last.get("step")
        if self.result and (end is None or logged is None or end >= logged):
            reason = self.result.get("stopped_early")
            return f"stopped early: {reason}" if reason else "finished"
        if self.error:
            return f"failed ({self.error.get('exit_code')})" + (f": {self.error['kind']}" if "kind" in self.error else "")
        if self.outcome:
            return self.outcome
        return "stopped" + (f", can go on from step {self.checkpoint}" if self.checkpoint is not None else "")


def smaller_is_better(key: str, told: object) -> bool:
    """Says whether less of a number of result.json is better. The program tells such numbers; of earlier versions the name
    says it, its first word that means anything: of val_pearson_loss, loss is a column."""
    if isinstance(told, list):
        return key in told
    known = (word for word in re.split(r"[_.:/-]", key) if word in LESS or word in MORE)
    return next(known, next(filter(key.endswith, LESS), "")) in LESS


def judged(runs: list[Run]) -> list[str]:
    """Returns the numbers by which the runs are judged, that of most of them first. Those of averaged weights count as
    those of the raw ones."""
    counts: dict[str, int] = {}
    for name in (run.metric.removeprefix(AVERAGED) for run in runs if run.metric):
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])


def common_variant(runs: list[Run], name: str) -> str:
    """Returns what all runs that have this number have in its place: that of averaged weights, or the number itself."""
    names = {run.variant(name) for run in runs} - {None}
    return names.pop() if len(names) == 1 else name


def name_apart(runs: list[Run]) -> None:
    """Puts as many parents before folders of the same name as tell them apart."""
    parts = [Path(os.path.realpath(run.folder)).parts for run in runs]
    depth = [1] * len(runs)
    while True:
        names = ["/".join(one[-count:]) for one, count in zip(parts, depth, strict=True)]
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        longer = [place for place, name in enumerate(names) if counts[name] > 1 and depth[place] < len(parts[place])]
        if not longer:
            break
        for place in longer:
            depth[place] += 1
    for run, name in zip(runs, names, strict=True):
        run.name = name
