"""The results of an evaluation by class, from the confusion_matrix.csv that --mode=eval leaves in a run directory."""

import csv
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from reports.drawing import label
from safe_files import Failure, parse_json, read_bounded

CONFUSION = "confusion_matrix.csv"
MOST_CLASSES = 2000
MOST_SETS = 8        # evaluated sets of a run
MOST_BYTES = 64 << 20
MOST_COUNT = 2**53
MOST_NUMBERS = 20    # most classes of a confusion matrix with its counts written into it
MOST_NAMES = 60      # and with its classes' names beside it
DEVIATIONS = 1.959964  # of the normal distribution, for 95 %


@dataclass
class Matrix:
    names: list[str]
    counts: np.ndarray  # classes × classes; a row for each true class


@dataclass
class Row:
    name: str
    samples: int
    correct: int
    low: float  # the 95 % interval of the accuracy
    high: float
    rival: str  # the other class that its samples were most often taken for
    times: int
    taken: int  # the samples of any class that were taken for it

    @property
    def accuracy(self) -> float:
        return self.correct / self.samples

    @property
    def precision(self) -> float | None:
        return self.correct / self.taken if self.taken else None

    @property
    def f1(self) -> float:
        return 2 * self.correct / (self.samples + self.taken)


def read_matrix(folder: Path) -> Matrix | None:
    """Rows are true classes, columns predicted ones; the first row and the first column name them. A ' before a name is
    no part of it: it keeps spreadsheets from taking the name for a formula (data/formats/table_writer.h)."""
    try:
        text = read_bounded(folder / CONFUSION, MOST_BYTES).decode("utf-8", "surrogateescape")
        rows = csv.reader(io.StringIO(text, newline=""))
        names = [name.removeprefix("'") for name in next(rows, [])[1:]]
        if not 1 <= len(names) <= MOST_CLASSES:
            return None
        counts = np.array([np.array(row[1:len(names) + 2], float) for row in rows])
    except (Failure, ValueError, csv.Error):
        return None
    square = counts.shape == (len(names), len(names))
    return Matrix(names, counts) if square and ((counts >= 0) & (counts <= MOST_COUNT) & (counts == np.floor(counts))).all() else None


def wilson(correct: int, samples: int) -> tuple[float, float]:
    """Returns the 95 % interval of a proportion (E. B. Wilson, 1927), which holds for few samples and near 0 and 1,
    too."""
    share, square = correct / samples, DEVIATIONS**2
    centre = share + square / (2 * samples)
    half = DEVIATIONS * math.sqrt(share * (1 - share) / samples + square / (4 * samples**2))
    return max(0.0, (centre - half) / (1 + square / samples)), min(1.0, (centre + half) / (1 + square / samples))


def class_rows(matrix: Matrix) -> list[Row]:
    """Returns the classes that have samples, the one with the lowest accuracy first."""
    samples, correct, taken = matrix.counts.sum(axis=1), np.diagonal(matrix.counts), matrix.counts.sum(axis=0)
    others = matrix.counts - np.diag(correct)
    rivals = others.argmax(axis=1)
    rows = [Row(name, int(samples[place]), int(correct[place]), *wilson(int(correct[place]), int(samples[place])),
                matrix.names[rivals[place]], int(others[place, rivals[place]]), int(taken[place]))
            for place, name in enumerate(matrix.names) if samples[place] > 0]
    return sorted(rows, key=lambda row: row.accuracy)


def whole_accuracy(rows: list[Row]) -> str:
    """Returns a sentence: the accuracy, its 95 % interval, and what guessing the most frequent class would give."""
    samples, correct, most = sum(row.samples for row in rows), sum(row.correct for row in rows), max(rows, key=lambda row: row.samples)
    low, high = wilson(correct, samples)
    return (f"{100 * correct / samples:.2f} % of {samples:,} samples, 95 % interval {100 * low:.1f} to {100 * high:.1f} %; "
            f"always guessing {most.name}, the most frequent class: {100 * most.samples / samples:.2f} %")


def evaluations(run: Path) -> list[tuple[str, Path]]:
    """Returns the evaluated sets of a run with their folders, RUN/eval-SPLIT, and "" with the run's own, where earlier
    versions and --output=RUN have put the files."""
    try:
        folders = sorted(entry.name for entry in os.scandir(run) if entry.name.startswith("eval-") and entry.is_dir(follow_symlinks=False))
    except OSError:
        folders = []
    return [(name.removeprefix("eval-") + of_training(run / name), run / name) for name in folders[:MOST_SETS]] + [("", run)]


def of_training(folder: Path) -> str:
    """Says so if the samples are those that the model was trained on: the names of their numbers begin with train_."""
    try:
        numbers = parse_json(read_bounded(folder / "result.json", MOST_BYTES).decode())
    except (Failure, ValueError):
        return ""
    return " (samples of the training)" if isinstance(numbers, dict) and any(name.startswith("train_") for name in numbers) else ""


def confusion(matrix: Matrix, name: str):
    """Draws the shares of each true class; rows add up to 100 %."""
    names, counts = [label(one) for one in matrix.names], matrix.counts
    samples = counts.sum(axis=1, keepdims=True)
    shares = 100 * np.divide(counts, samples, out=np.zeros(counts.shape, np.float32), where=samples > 0)
    side = min(8.0, 2.6 + 0.36 * len(names))
    figure, plot = plt.subplots(figsize=(side + 0.9, side))
    image = plot.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    plot.grid(visible=False)
    plot.set(title=f"{label(name)}: what each class is taken for", xlabel="predicted", ylabel="true")
    if len(names) <= MOST_NAMES:
        plot.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
        plot.set_yticks(range(len(names)), names)
    else:
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
        plot.yaxis.set_major_locator(MaxNLocator(integer=True))
    if len(names) <= MOST_NUMBERS:
        for row, column in zip(*np.nonzero(counts), strict=True):
            plot.text(column, row, f"{counts[row, column]:.0f}", ha="center", va="center", fontsize=7,
                      color="white" if shares[row, column] > 55 else "#303030")
    figure.colorbar(image, ax=plot, label="% of the true class", shrink=0.8)
    figure.tight_layout()
    return figure
