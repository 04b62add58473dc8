"""Reads run directories, and finds them in the folders that were named: a run, a sweep, or a folder of both."""

import contextlib
import csv
import fcntl
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from reports.points import Points, finite
from reports.run import Run, name_apart
from safe_files import DATA, Failure, chunks, open_regular, parse_json, read_bounded, read_object, why

METRICS = "metrics.jsonl"
MOST_BYTES = 1 << 30         # of metrics.jsonl; some minutes to read
MOST_BYTES_OF_A_LINE = 1 << 16
MOST_BYTES_OF_AN_OBJECT = 1 << 20
MOST_RUNS = 512
MOST_ENTRIES = 100_000       # of a folder that is searched for runs
ROWS_OF_ALL_RUNS = 1 << 18
COMPUTING = ("forward_seconds", "backward_seconds", "update_seconds")
MOST_ROWS = 8192             # of a run: some for each pixel
TRIAL = re.compile(r"trial-\d+")
CHECKPOINT = re.compile(rb"\s*(?:checkpoints/)?step-(\d{1,15})\s*")
NAME_RUNS = "name folders that dtrain_main --run_dir=… has written, or folders of such"


def lines(path: Path) -> Iterator[list[bytes]]:
    """Returns the lines of a file, many at a time, without those that are longer than any that dtrain writes."""
    rest, too_long = b"", False
    for chunk in chunks(path, MOST_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if too_long and whole:
            whole, too_long = whole[1:], False
        yield whole
        if too_long or len(rest) > MOST_BYTES_OF_A_LINE:
            rest, too_long = b"", True
    yield [rest]


def parse_points(some: list[bytes]) -> list[dict]:
    """Returns the objects among the lines: parsed together if all are JSON, which takes less time."""
    some = [line for line in some if b'"kind"' in line and len(line) <= MOST_BYTES_OF_A_LINE]
    found = []
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(b"[" + b",".join(some) + b"]")
    if len(found) != len(some):
        found = []
        for line in some:
            with contextlib.suppress(ValueError):  # an incomplete last line
                found.append(parse_json(line))
    return [point for point in found if isinstance(point, dict)]


def read_run(folder: Path, most_rows: int = MOST_ROWS) -> Run:
    """Reads what a run has written. Raises Failure if that is nothing, or nothing that can be read."""
    log = folder / METRICS
    if not os.path.lexists(log):
        what = "has no metrics.jsonl" if folder.is_dir() else "is no folder" if os.path.lexists(folder) else "does not exist"
        raise Failure(f"{folder} is no run directory: it {what}", NAME_RUNS)
    run = Run(folder, Path(os.path.realpath(folder)).name, Points(most_rows), Points(most_rows), Points(most_rows))
    kinds = {"train": run.train, "val": run.val, "epoch": run.epochs}
    for some in lines(log):
        found = {kind: [] for kind in kinds}
        for point in parse_points(some):
            kind = point.pop("kind", None)
            if isinstance(kind, str) and kind in kinds and "split" not in point:  # the set that decides, of several
                found[kind].append(point)
        for kind, points in found.items():
            kinds[kind].add(points)
    if not any(map(len, kinds.values())):
        raise Failure(f"{folder} has nothing to show: {METRICS} has no point of a training yet", NAME_RUNS)
    run.config, run.result, run.error = (read_object(folder / f"{name}.json", MOST_BYTES_OF_AN_OBJECT)
                                         for name in ("config", "result", "error"))
    if "time_split" not in run.result:
        run.times = time_split(folder / "times.jsonl")
    run.running, run.checkpoint = is_locked(folder / "lock"), checkpoint(folder / "latest")
    return run


def time_split(path: Path) -> dict[str, float]:
    """Returns the time_split that result.json would have, of a run that was stopped (trainer/report/metrics_log.h)."""
    attempts: dict[float, list[dict]] = {}
    with contextlib.suppress(Failure):
        for some in lines(path):
            for line in some:
                with contextlib.suppress(ValueError):
                    point = parse_json(line)
                    if isinstance(point, dict) and finite(point.get("attempt")) is not None:
                        attempts.setdefault(point["attempt"], []).append({key: finite(value) or 0.0 for key, value in point.items()})
    split: dict[str, float] = {}
    kept_step = math.inf  # the earliest step from which a later attempt continued
    for _, told in sorted(attempts.items(), reverse=True):
        kept = next((point for point in reversed(told) if point.get("step", 0) <= kept_step), {})
        kept_step = min(kept_step, told[0].get("step", 0))
        for name in {name for name in (*kept, *told[-1]) if name.endswith("_seconds")}:
            part = "compute_seconds" if name in COMPUTING else name
            split[part] = split.get(part, 0) + kept.get(name, 0)
            split["lost_seconds"] = split.get("lost_seconds", 0) + told[-1].get(name, 0) - kept.get(name, 0)
    return split


def is_locked(path: Path) -> bool:
    """Whether a training holds the run directory's lock. A training that starts in this moment tries again for a
    second, so that looking does not stop it."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def checkpoint(path: Path) -> int | None:
    try:
        found = CHECKPOINT.fullmatch(read_bounded(path, 1024))
    except Failure:
        return None
    return int(found[1]) if found else None


def inside(folder: Path, levels: int) -> list[Path]:
    """Returns the run directories in a folder, and those in the folders in it, if so many levels are looked at."""
    found = []
    with os.scandir(folder) as entries:
        names = sorted(entry.name for _, entry in zip(range(MOST_ENTRIES), entries, strict=False) if entry.is_dir(follow_symlinks=False))
    for name in names:
        if os.path.lexists(folder / name / METRICS):
            found.append(folder / name)
        elif levels > 1:
            with contextlib.suppress(OSError):  # not this user's
                found += inside(folder / name, levels - 1)
    return found


def outcomes(sweep: Path) -> dict[str, str]:
    """Returns what a sweep's trials.csv says of each trial, by the name of its folder."""
    try:
        rows = csv.reader(read_bounded(sweep / "trials.csv", 64 << 20).decode("utf-8", "replace").splitlines())
        return {f"trial-{int(row[0]):04}": row[1] for row in rows if len(row) > 1 and row[0].isdecimal() and len(row[0]) < 8}
    except (Failure, csv.Error):
        return {}


def find_runs(named: list[Path]) -> tuple[list[Path], list[Failure]]:
    """Returns the run directories that are named or lie in folders that are, each once, and why others are left out."""
    folders, problems = [], []
    for folder in named:
        if os.path.lexists(folder / METRICS) or not folder.is_dir():
            folders.append(folder)
            continue
        try:
            found = inside(folder, 2)
        except OSError as error:
            problems.append(Failure(f"{folder} cannot be read: {why(error)}", "name a folder that may be read", DATA))
            continue
        folders += found or [folder]
    once = {}
    for folder in folders:
        once.setdefault(os.path.realpath(folder), folder)
    return list(once.values()), problems


def read_runs(named: list[Path]) -> tuple[list[Run], list[Failure]]:
    """Reads all runs that can be read, and returns why the others cannot. Raises Failure if there is none."""
    folders, problems = find_runs(named)
    if len(folders) > MOST_RUNS:
        problems.append(Failure(f"{len(folders) - MOST_RUNS} of {len(folders)} runs are left out: a report has at most "
                                f"{MOST_RUNS}", "name fewer"))
    folders = folders[:MOST_RUNS]
    most_rows = min(MOST_ROWS, ROWS_OF_ALL_RUNS // max(1, len(folders)))
    runs, of_sweeps = [], {}
    for folder in folders:
        try:
            run = read_run(folder, most_rows)
        except Failure as problem:
            problems.append(problem)
            continue
        if TRIAL.fullmatch(run.name):
            sweep = folder.resolve().parent
            if sweep not in of_sweeps:
                of_sweeps[sweep] = outcomes(sweep)
            run.outcome = of_sweeps[sweep].get(run.name, "")
        runs.append(run)
    if not runs:
        raise problems[0] if problems else Failure("there is no run", NAME_RUNS)
    return runs, problems
