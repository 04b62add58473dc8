"""Reads a run directory: metrics.jsonl, result.json, config.json, error.json, confusion_matrix.csv. All but the first
may be missing, and some are if the run is under way or was killed."""

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 1 << 30
MOST_CLASSES = 2000
CONFUSION = "confusion_matrix.csv"
STEP_PARTS = ("data", "forward", "backward", "communication", "update", "other")  # the order in which they are drawn


class NoRun(Exception):
    """A folder that no run has written, or that cannot be read."""


@dataclass
class Run:
    folder: Path
    name: str
    config: dict
    result: dict
    error: dict
    train: list[dict] = field(default_factory=list)
    val: list[dict] = field(default_factory=list)
    epochs: list[dict] = field(default_factory=list)
    confusion: tuple[list[str], list[list[float]]] | None = None

    @property
    def speed_key(self) -> str:
        return "tokens_per_second" if any("tokens_per_second" in point for point in self.train) else "images_per_second"

    @property
    def metric(self) -> str | None:
        """Returns the first number of the validations that is not the loss; the run is judged by it."""
        names = [name for name in (self.val[-1] if self.val else {}) if name not in ("kind", "step", "epoch", "loss", "bad_records", "time")]
        return "perplexity" if "perplexity" in names else names[0] if names else None

    @property
    def devices(self) -> int | None:
        count = self.result.get("world_size") or self.config.get("world_size")
        return int(count) if count else None

    def series(self, points: list[dict], x: str, y: str) -> tuple[list[float], list[float]]:
        pairs = [(point[x], point[y]) for point in points if number(point.get(x)) and number(point.get(y))]
        return [one for one, _ in pairs], [one for _, one in pairs]

    def speed(self) -> float | None:
        """Returns the speed per second of the whole run: the result's, else the median of the second half of the
        log."""
        if number(self.result.get(self.speed_key)):
            return self.result[self.speed_key]
        values = sorted(self.series(self.train, "step", self.speed_key)[1][len(self.train) // 2:])
        return values[len(values) // 2] if values else None

    def step_parts(self) -> dict[str, float]:
        """Returns mean seconds of each part of a step that was logged (on a GPU only the wait for data); the rest is
        `computing`. Empty if nothing was logged."""
        points = [point for point in self.train if number(point.get("step_seconds"))][1:] or self.train[:1]
        if not points or not number(points[0].get("step_seconds")):
            return {}
        whole = sum(point["step_seconds"] for point in points) / len(points)
        names = {name for point in points for name in point if name.endswith("_seconds") and name != "step_seconds"}
        parts = {}
        for name in names:
            values = [point[name] for point in points if number(point.get(name))]
            if values:
                parts[name.removesuffix("_seconds")] = sum(values) / len(points)
        rest = max(0.0, whole - sum(parts.values()))
        if "other" not in parts:
            parts["other" if len(parts) > 1 else "computing"] = rest
        order = {name: place for place, name in enumerate(STEP_PARTS)}
        return dict(sorted(parts.items(), key=lambda one: order.get(one[0], len(order))))

    def wall_time(self) -> dict[str, float]:
        """Returns how the time of all attempts was spent, in seconds. Empty if result.json does not say."""
        split = self.result.get("time_split")
        if not isinstance(split, dict):
            return {}
        return {name.removesuffix("_seconds"): seconds for name, seconds in split.items()
                if name.endswith("_seconds") and name != "total_seconds" and number(seconds)}

    def epoch_seconds(self) -> float | None:
        """Returns the median of the epochs. For a run shorter than one epoch, no time is extrapolated."""
        values = sorted(point["epoch_seconds"] for point in self.epochs if number(point.get("epoch_seconds")))
        return values[len(values) // 2] if values else None

    def state(self) -> str:
        if self.result:
            return "finished"
        code = self.error.get("exit_code")
        if code is not None:
            return f"failed ({code})"
        return "not finished"


def number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def read_object(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_run(folder: Path) -> Run:
    log = folder / "metrics.jsonl"
    if not log.is_file():
        what = "has no metrics.jsonl" if folder.is_dir() else "is no folder" if folder.exists() else "does not exist"
        raise NoRun(f"{folder} is no run directory: it {what}")
    if log.stat().st_size > MOST_BYTES:
        raise NoRun(f"{log} has more than {MOST_BYTES >> 30} GiB")
    run = Run(folder, folder.resolve().name, read_object(folder / "config.json"), read_object(folder / "result.json"),
              read_object(folder / "error.json"))
    kinds = {"train": run.train, "val": run.val, "epoch": run.epochs}
    known = 0
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                point = json.loads(line)
            except ValueError:  # an incomplete last line
                continue
            if isinstance(point, dict) and point.get("kind") in kinds:
                kinds[point["kind"]].append(point)
                known += 1
    if not known:
        raise NoRun(f"{folder} has nothing to show: {log.name} has no point of a training yet")
    run.confusion = read_confusion(folder / CONFUSION)
    return run


def read_confusion(path: Path) -> tuple[list[str], list[list[float]]] | None:
    """Reads the matrix. Rows are true classes, columns predicted ones; the first row and the first column name them."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for _, row in zip(range(MOST_CLASSES + 1), csv.reader(file), strict=False)]
        names = rows[0][1:]
        counts = [[float(cell) for cell in row[1:len(names) + 1]] for row in rows[1:]]
    except (OSError, ValueError, IndexError, csv.Error):
        return None
    square = len(counts) == len(names) > 0 and all(len(row) == len(names) for row in counts)
    return (names, counts) if square else None


def name_apart(runs: list[Run]) -> None:
    """Puts the parents' names before folders of the same name."""
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = f"{run.folder.resolve().parent.name}/{run.folder.resolve().name}"
