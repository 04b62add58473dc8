"""The pictures of a report. Each function takes a comparison and returns a figure, or None if no run has the data for
it. Those of scaling and of classes are in scaling.py and classes.py."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from reports import scaling
from reports.drawing import (LOG_FROM, SIZE, Comparison, as_shown, blank, colour, dashes, finished, label, logarithmic, plainly, scale,
                             unit)
from reports.flags import words
from reports.points import finite
from reports.run import Run, common_variant, judged

PART_COLOURS = {"data": "#e69f00", "data_wait": "#e69f00", "computing": "#0072b2", "compute": "#0072b2", "forward": "#56b4e9",
                "backward": "#0072b2", "communication": "#d55e00", "update": "#009e73", "checkpoint": "#cc79a7",
                "evaluation": "#009e73", "startup": "#f0e442", "lost": "#5a5a5a", "other": "#c0c0c0"}
DARK = ("lost", "computing", "compute", "backward")
MOST_BARS, MOST_PARTS = 40, 16
LOG_OF_RUNS_FROM = 20  # ratio from which runs with other learning rates need a logarithmic axis
FEW_POINTS = 30
FEWEST_VALUES = 3  # of a flag, from which the metric is drawn against it


def clock(runs: list[Run]) -> str:
    """Returns the unit of the time axis: epochs if there is at least one."""
    epochs = np.concatenate([points.known("epoch") for run in runs for points in (run.train, run.val)])
    return "epoch" if len(epochs) and epochs.max() >= 1 else "step"


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Returns the mean over as many neighbours; points near the ends have fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(0, places - window // 2), np.minimum(len(values), places + window // 2 + 1)
    return (sums[last] - sums[first]) / (last - first)


def noisy_line(plot, x: np.ndarray, y: np.ndarray, place: int, name: str) -> None:
    """Draws a line. For many points it is their mean, and the points themselves are pale behind it."""
    window = len(y) // 50
    if window >= 3:
        plot.plot(x, y, color=colour(place), alpha=0.25, linewidth=0.7)
        y = smooth(y, window)
    plot.plot(x, y, color=colour(place), linestyle=dashes(place), label=label(name))


def loss(comparison: Comparison):
    x = clock(comparison.runs)
    figure, plot = blank("Loss: training (lines) and validation (dots)", x, "loss")
    curves = []
    for place, run in enumerate(comparison.runs):
        steps, values = run.train.series(x, "loss")
        named = len(values) > 0
        if named:
            noisy_line(plot, steps, values, place, run.name)
            curves.append(values)
        steps, values = run.val.series(x, "loss")
        if len(values):
            plot.plot(steps, values, color=colour(place), marker="o", markersize=3.5, linewidth=0.9, linestyle=(0, (2, 2)),
                      label=None if named else label(run.name))
            curves.append(values)
    scale(plot, comparison.axes, curves, "decades")
    return finished(figure, plot, len(curves))


def metric(comparison: Comparison):
    name = next(iter(judged(comparison.runs)), None)
    if name is None:
        return None
    x = clock(comparison.runs)
    shown_name = label(common_variant(comparison.runs, name).replace("_", " "))
    figure, plot = blank(f"Validation {shown_name}; the best is circled", x, shown_name + unit(name))
    curves = []
    for place, run in enumerate(comparison.runs):
        own = run.variant(name)
        best = run.best(own)
        if best is None:
            continue
        steps, values = run.val.series(x, own)
        of_training_too = run.train.series(x, name)  # top-1 of the augmented images
        if len(of_training_too[1]):
            plot.plot(*of_training_too, color=colour(place), linestyle=":", linewidth=1, alpha=0.7)
            plot.set_title(f"Validation {shown_name}; the best is circled (dotted: training)")
        plot.plot(steps, values, color=colour(place), linestyle=dashes(place), marker="o", markersize=3.5,
                  label=f"{label(run.name)}: {as_shown(name, best['value'])}")
        if best[x] is not None:
            plot.plot(best[x], best["value"], marker="o", markersize=8, markerfacecolor="none", markeredgecolor=colour(place))
        curves.append(values)
    scale(plot, comparison.axes, curves, logarithm_of(comparison.runs, name))
    return finished(figure, plot, len(curves))


def logarithm_of(runs: list[Run], name: str) -> str:
    """Returns when the axis of a metric is logarithmic."""
    less = any(run.smaller_is_better(name) for run in runs if run.variant(name))
    return "always" if name == "perplexity" else "decades" if less else "never"


def metric_over_flag(comparison: Comparison):
    """Draws the best validations against the flag in which the runs differ, if it is the only one but for the seed."""
    names = [name for name in comparison.flags if name != "seed"]
    name = next(iter(judged(comparison.runs)), None)
    if len(names) != 1 or name is None:
        return None
    pairs = [(value, best["value"], place) for place, (run, value)
             in enumerate(zip(comparison.runs, comparison.flags[names[0]], strict=True))
             if value is not None and (best := run.best(run.variant(name)))]
    if len({words(value) for value, _, _ in pairs}) < FEWEST_VALUES:
        return None
    shown_name = label(common_variant(comparison.runs, name).replace("_", " "))
    figure, plot = blank(f"Best validation {shown_name} by --{label(names[0])}", f"--{label(names[0])}", shown_name + unit(name))
    numbers = [finite(value) for value, _, _ in pairs]
    if None in numbers:
        choices = list(dict.fromkeys(label(words(value)) for value, _, _ in pairs))
        numbers = [choices.index(label(words(value))) for value, _, _ in pairs]
        plot.set_xticks(range(len(choices)), choices, rotation=90 if max(map(len, choices)) > 8 else 0)
    elif min(numbers) > 0 and max(numbers) >= LOG_OF_RUNS_FROM * min(numbers):
        logarithmic(plot.xaxis)
    groups: dict[float, list[float]] = {}
    for x, (_, value, place) in zip(numbers, pairs, strict=True):
        groups.setdefault(x, []).append(value)
        plot.plot(x, value, marker="o", linestyle="none", color=colour(place))
    means = sorted((x, sum(values) / len(values)) for x, values in groups.items())
    plot.plot(*zip(*means, strict=True), color="#808080", linewidth=1, zorder=0)
    scale(plot, comparison.axes, list(groups.values()), logarithm_of(comparison.runs, name))
    return finished(figure, plot, len(pairs))


def of_training(comparison: Comparison, runs: list[Run], key: str, title: str, name: str, noisy: bool):
    x = clock(comparison.runs)
    figure, plot = blank(title, x, name)
    curves = {}
    for place, run in enumerate(comparison.runs):
        steps, values = run.train.series(x, key)
        if run not in runs or not len(values):
            continue
        if noisy:
            noisy_line(plot, steps, values, place, run.name)
        else:  # few points, each marked, tell a cosine from the lines between them; rates that step are drawn in steps
            plot.plot(steps, values, color=colour(place), linestyle=dashes(place), label=label(run.name),
                      marker="o" if len(values) <= FEW_POINTS else None, markersize=3.5,
                      drawstyle="steps-post" if run.config.get("lr_schedule") == "step" else "default")
        curves[place] = values
    plot.set_ylim(bottom=0)
    plot.yaxis.set_major_formatter(FuncFormatter(plainly))
    return figure, plot, curves


def learning_rate(comparison: Comparison):
    figure, plot, curves = of_training(comparison, comparison.runs, "lr", "Learning rate", "learning rate", noisy=False)
    above = [peak for values in curves.values() if (peak := values.max()) > 0]
    apart = comparison.axes == "auto" and above and max(above) > LOG_OF_RUNS_FROM * min(above)
    if above and (apart or comparison.axes == "log"):
        logarithmic(plot.yaxis)
        plot.set_ylim(bottom=min(above) / LOG_FROM)  # the beginning of a warmup from 0 would take most of the picture
    return finished(figure, plot, len(curves))


def throughput(comparison: Comparison):
    key = comparison.runs[0].speed_key
    same = [run for run in comparison.runs if run.speed_key == key]
    unit = key.removesuffix("_per_second")
    figure, plot, curves = of_training(comparison, same, key, "Throughput of all devices", f"{unit} a second", noisy=True)
    return finished(figure, plot, len(curves))


def stacked(runs: list[Run], parts: list[dict[str, float]], title: str, unit: str, factor: float):
    """Draws a bar for each run, in pieces. Pieces with enough room show their percentage."""
    bars = [(run, part) for run, part in zip(runs, parts, strict=True) if sum(part.values()) > 0]
    if not bars:
        return None
    if len(bars) > MOST_BARS:
        title += f", the first {MOST_BARS} of {len(bars)} runs"
        bars = bars[:MOST_BARS]
    names = list(dict.fromkeys(name for _, part in bars for name in part))[:MOST_PARTS]
    figure, plot = plt.subplots(figsize=(SIZE[0], 1.5 + 0.42 * len(bars)))
    plot.set(title=title, xlabel=unit)
    longest = max(sum(part.values()) for _, part in bars) * factor
    for place, name in enumerate(names):
        left = [factor * sum(part.get(before, 0) for before in names[:place]) for _, part in bars]
        width = [factor * part.get(name, 0) for _, part in bars]
        plot.barh(range(len(bars)), width, left=left, color=PART_COLOURS.get(name, colour(place)), label=label(name.replace("_", " ")),
                  height=0.62)
        for row, (_, part) in enumerate(bars):
            if width[row] > 0.07 * longest:
                plot.text(left[row] + width[row] / 2, row, f"{100 * part.get(name, 0) / sum(part.values()):.0f} %", ha="center",
                          va="center", fontsize=8, color="white" if name in DARK else "black")
    plot.set_yticks(range(len(bars)), [label(run.name) for run, _ in bars])
    plot.invert_yaxis()
    plot.grid(axis="y", visible=False)
    columns = min(len(names), 6)
    figure.legend(loc="lower center", ncols=columns)
    rows_of_legend = -(-len(names) // columns)
    figure.tight_layout(rect=(0, (0.12 + 0.2 * rows_of_legend) / figure.get_figheight(), 1, 1))
    return figure


def step_time(comparison: Comparison):
    parts = [run.step_parts() for run in comparison.runs]
    return stacked(comparison.runs, parts, "Where the time of a step goes", "milliseconds, mean of a step", 1e3)


def wall_time(comparison: Comparison):
    parts = [run.wall_time() for run in comparison.runs]
    longest = max((sum(part.values()) for part in parts), default=0)
    unit, factor = ("hours", 1 / 3600) if longest > 7200 else ("minutes", 1 / 60) if longest > 120 else ("seconds", 1.0)
    return stacked(comparison.runs, parts, "Where the time of the run went, all attempts together", unit, factor)


# File name, words for people who cannot see the picture, the function.
CHARTS = (
    ("loss", "loss over time; that of training is measured while the model learns, on augmented samples, so that it may lie above "
             "the validation's", loss),
    ("metric", "validation over time", metric),
    ("metric_over_flag", "best validation by the flag in which the runs differ", metric_over_flag),
    ("learning_rate", "learning rate over time", learning_rate),
    ("throughput", "throughput over time", throughput),
    ("step_time", "parts of a step's time", step_time),
    ("wall_time", "parts of the run's time", wall_time),
    ("scaling_speed", "throughput over devices", scaling.speed_over_devices),
    ("scaling_efficiency", "efficiency over devices", scaling.efficiency),
    ("scaling_epoch_time", "time of an epoch over devices", scaling.epoch_time),
    ("scaling_shares", "start-up and communication over devices", scaling.share_over_devices),
)
