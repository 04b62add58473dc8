"""The pictures of a report. Each function takes the runs and returns a figure, or None if no run has the data for
it."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: E402

from reports.run import Run, number  # noqa: E402

# Colours of Okabe and Ito, which colour-blind people can tell apart, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5a5a5a", "#8c6d31")
PART_COLOURS = {"data": "#e69f00", "data_wait": "#e69f00", "computing": "#0072b2", "compute": "#0072b2", "forward": "#56b4e9",
                "backward": "#0072b2", "communication": "#d55e00", "update": "#009e73", "checkpoint": "#cc79a7",
                "evaluation": "#009e73", "startup": "#f0e442", "lost": "#5a5a5a", "other": "#c0c0c0"}
SIZE = (6.4, 3.7)
MOST_INSIDE, MOST_IN_LEGEND = 4, 16  # most runs whose names fit into the picture, and beside it
MOST_NUMBERS = 20  # most classes of a confusion matrix with its counts written into it

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
                     "font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left", "legend.frameon": False,
                     "legend.fontsize": 8, "lines.linewidth": 1.6, "svg.fonttype": "none"})


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def blank(title: str, x_label: str, y_label: str):
    figure, plot = plt.subplots(figsize=SIZE)
    plot.set(title=title, xlabel=x_label, ylabel=y_label)
    return figure, plot


def finished(figure, plot, drawn: int):
    if not drawn:
        plt.close(figure)
        return None
    names = len(plot.get_legend_handles_labels()[0])
    if 0 < names <= MOST_INSIDE:
        plot.legend()
    elif 0 < names <= MOST_IN_LEGEND:
        plot.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    return figure


def plainly(value: float, _place=None) -> str:
    """Formats numbers as 20,000 and 0.005, not as 2e+04 and 5e-03."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def clock(runs: list[Run]) -> str:
    """Returns the unit of the time axis: epochs if there is at least one."""
    points = [point for run in runs for point in run.train + run.val]
    return "epoch" if max((point.get("epoch") or 0 for point in points), default=0) >= 1 else "step"


def smooth(values: list[float], window: int) -> list[float]:
    """Returns the mean over as many neighbours; points near the ends have fewer."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    half = window // 2
    result = []
    for place in range(len(values)):
        first, last = max(0, place - half), min(len(values), place + half + 1)
        result.append((sums[last] - sums[first]) / (last - first))
    return result


def noisy_line(plot, x: list[float], y: list[float], colour_of: str, label: str | None) -> None:
    """Draws a line. For many points it is their mean, and the points themselves are pale behind it."""
    window = len(y) // 50
    if window < 3:
        plot.plot(x, y, color=colour_of, label=label)
        return
    plot.plot(x, y, color=colour_of, alpha=0.25, linewidth=0.7)
    plot.plot(x, smooth(y, window), color=colour_of, label=label)


def loss(runs: list[Run]):
    x = clock(runs)
    figure, plot = blank("Loss: training (lines) and validation (dots)", x, "loss")
    drawn = 0
    for place, run in enumerate(runs):
        steps, values = run.series(run.train, x, "loss")
        if values:
            noisy_line(plot, steps, values, colour(place), run.name)
            drawn += 1
        steps, values = run.series(run.val, x, "loss")
        if values:
            plot.plot(steps, values, color=colour(place), marker="o", markersize=3.5, linewidth=0.9, linestyle=(0, (2, 2)),
                      label=None if run.train else run.name)
            drawn += 1
    return finished(figure, plot, drawn)


def metric(runs: list[Run]):
    name = next((run.metric for run in runs if run.metric), None)
    if name is None:
        return None
    x = clock(runs)
    percent = " (%)" if name in ("top1", "top5") else ""
    figure, plot = blank(f"Validation {name}", x, name + percent)
    drawn = 0
    for place, run in enumerate(runs):
        steps, values = run.series(run.val, x, name)
        if not values:
            continue
        best = (min if name == "perplexity" else max)(values)
        of_training_too = run.series(run.train, x, name)  # top-1 of the augmented images
        if of_training_too[1]:
            plot.plot(*of_training_too, color=colour(place), linestyle=":", linewidth=1, alpha=0.7)
            plot.set_title(f"Validation {name} (dotted: training)")
        plot.plot(steps, values, color=colour(place), marker="o", markersize=3.5, label=f"{run.name}: {best:.4g}")
        plot.plot(steps[values.index(best)], best, marker="o", markersize=8, markerfacecolor="none",
                  markeredgecolor=colour(place))
        drawn += 1
    if name == "perplexity":
        plot.set_yscale("log")
    return finished(figure, plot, drawn)


def of_training(runs: list[Run], key: str, title: str, label: str, noisy: bool):
    x = clock(runs)
    figure, plot = blank(title, x, label)
    drawn = 0
    for place, run in enumerate(runs):
        steps, values = run.series(run.train, x, key)
        if values:
            if noisy:
                noisy_line(plot, steps, values, colour(place), run.name)
            else:
                plot.plot(steps, values, color=colour(place), label=run.name)
            drawn += 1
    plot.set_ylim(bottom=0)
    plot.yaxis.set_major_formatter(FuncFormatter(plainly))
    return finished(figure, plot, drawn)


def learning_rate(runs: list[Run]):
    return of_training(runs, "lr", "Learning rate", "learning rate", noisy=False)


def throughput(runs: list[Run]):
    keys = [run.speed_key for run in runs]
    unit = keys[0].removesuffix("_per_second")
    same = [run for run, key in zip(runs, keys, strict=True) if key == keys[0]]
    return of_training(same, keys[0], "Throughput of all devices", f"{unit} a second", noisy=True)


def stacked(runs: list[Run], parts: list[dict[str, float]], title: str, label: str, scale: float):
    """Draws a bar for each run, in pieces. Pieces with enough room show their percentage."""
    shown = [(run, part) for run, part in zip(runs, parts, strict=True) if sum(part.values()) > 0]
    if not shown:
        return None
    names = list(dict.fromkeys(name for _, part in shown for name in part))
    figure, plot = plt.subplots(figsize=(SIZE[0], 1.5 + 0.42 * len(shown)))
    plot.set(title=title, xlabel=label)
    longest = max(sum(part.values()) for _, part in shown) * scale
    for number_of_name, name in enumerate(names):
        left = [scale * sum(part.get(before, 0) for before in names[:number_of_name]) for _, part in shown]
        width = [scale * part.get(name, 0) for _, part in shown]
        fill = PART_COLOURS.get(name, colour(number_of_name))
        plot.barh(range(len(shown)), width, left=left, color=fill, label=name.replace("_", " "), height=0.62)
        for row, (_, part) in enumerate(shown):
            share = part.get(name, 0) / sum(part.values())
            if width[row] > 0.07 * longest:
                dark = name in ("lost", "computing", "compute", "backward")
                plot.text(left[row] + width[row] / 2, row, f"{100 * share:.0f} %", ha="center", va="center", fontsize=8,
                          color="white" if dark else "black")
    plot.set_yticks(range(len(shown)), [run.name for run, _ in shown])
    plot.invert_yaxis()
    plot.grid(axis="y", visible=False)
    columns = min(len(names), 6)
    figure.legend(loc="lower center", ncols=columns)
    lines = -(-len(names) // columns)
    figure.tight_layout(rect=(0, (0.12 + 0.2 * lines) / figure.get_figheight(), 1, 1))
    return figure


def step_time(runs: list[Run]):
    return stacked(runs, [run.step_parts() for run in runs], "Where the time of a step goes", "milliseconds, mean of a step", 1e3)


def wall_time(runs: list[Run]):
    parts = [run.wall_time() for run in runs]
    longest = max((sum(part.values()) for part in parts), default=0)
    unit, scale = ("hours", 1 / 3600) if longest > 7200 else ("minutes", 1 / 60) if longest > 120 else ("seconds", 1.0)
    return stacked(runs, parts, "Where the time of the run went, all attempts together", unit, scale)


# ---- Scaling ---------------------------------------------------------------------------------------------------------


def by_devices(runs: list[Run]) -> dict[str, list[Run]]:
    """Returns the runs of each model by the number of devices, the fastest of those with the same number. Models with
    only one number of devices are left out."""
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        if run.devices and run.speed():
            group = groups.setdefault(run.config.get("model", "model"), {})
            if run.devices not in group or run.speed() > group[run.devices].speed():
                group[run.devices] = run
    return {model: [group[count] for count in sorted(group)] for model, group in groups.items() if len(group) > 1}


def over_devices(runs: list[Run], title: str, label: str, value, log: bool, ideal=None):
    figure, plot = blank(title, "devices", label)
    drawn = 0
    counts: set[int] = set()
    for place, (model, group) in enumerate(by_devices(runs).items()):
        pairs = [(run.devices, value(run, group[0])) for run in group]
        pairs = [(count, one) for count, one in pairs if number(one)]
        if len(pairs) < 2:
            continue
        plot.plot(*zip(*pairs, strict=True), color=colour(place), marker="o", label=model)
        if ideal:
            plot.plot([count for count, _ in pairs], [ideal(count, group[0], pairs[0]) for count, _ in pairs],
                      color=colour(place), linestyle=":", linewidth=1, label=f"{model}, ideal")
        counts |= {count for count, _ in pairs}
        drawn += 1
    plot.set_xscale("log", base=2)
    plot.set_xticks(sorted(counts), [str(count) for count in sorted(counts)])
    plot.minorticks_off()
    if log:
        plot.set_yscale("log")
        plot.yaxis.set_major_formatter(FuncFormatter(plainly))
    elif drawn:
        plot.set_ylim(bottom=0)
    return finished(figure, plot, 2 * drawn)


def epoch_time(runs: list[Run]):
    return over_devices(runs, "Time of an epoch", "seconds an epoch", lambda run, first: run.epoch_seconds(), True,
                        lambda count, first, pair: pair[1] * pair[0] / count)


def speed_over_devices(runs: list[Run]):
    groups = by_devices(runs)
    words = any(run.speed_key == "tokens_per_second" for group in groups.values() for run in group)
    return over_devices(runs, "Throughput", ("tokens" if words else "images") + " a second", lambda run, first: run.speed(), True,
                        lambda count, first, pair: pair[1] * count / pair[0])


def efficiency(runs: list[Run]):
    figure = over_devices(runs, "Efficiency: throughput of a device, against the smallest run", "percent",
                          lambda run, first: 100 * run.speed() / run.devices / (first.speed() / first.devices), False)
    if figure:
        plot = figure.axes[0]
        plot.axhline(100, color="#808080", linewidth=0.8, linestyle=":")
        plot.set_ylim(0, max(105, plot.get_ylim()[1]))
    return figure


def share_over_devices(runs: list[Run]):
    """Draws start-up and communication as shares of the whole run, by the seconds in result.json."""
    parts = {"start-up": "startup", "communication": "communication"}
    figure, plot = blank("Share of the run that is not training", "devices", "percent of the time")
    drawn, counts = 0, set()
    for place, (model, group) in enumerate(by_devices(runs).items()):
        for (name, key), style in zip(parts.items(), ("-", "--"), strict=True):
            pairs = []
            for run in group:
                times = run.wall_time()
                if key in times and sum(times.values()) > 0:
                    pairs.append((run.devices, 100 * times[key] / sum(times.values())))
            if len(pairs) > 1:
                plot.plot(*zip(*pairs, strict=True), color=colour(place), linestyle=style, marker="o", label=f"{model}: {name}")
                counts |= {count for count, _ in pairs}
                drawn += 1
    if drawn:
        plot.set_xscale("log", base=2)
        plot.set_xticks(sorted(counts), [str(count) for count in sorted(counts)])
        plot.minorticks_off()
        plot.set_ylim(bottom=0)
    return finished(figure, plot, drawn)


# ---- Classes ---------------------------------------------------------------------------------------------------------


def confusion(run: Run):
    """Draws the shares of each true class; rows add up to 100 %."""
    if run.confusion is None:
        return None
    names, counts = run.confusion
    shares = [[100 * count / sum(row) if sum(row) else 0 for count in row] for row in counts]
    side = min(8.0, 2.6 + 0.36 * len(names))
    figure, plot = plt.subplots(figsize=(side + 0.9, side))
    image = plot.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    plot.grid(visible=False)
    plot.set(title=f"{run.name}: what each class is taken for", xlabel="predicted", ylabel="true")
    if len(names) <= 60:
        plot.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
        plot.set_yticks(range(len(names)), names)
    else:
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
        plot.yaxis.set_major_locator(MaxNLocator(integer=True))
    if len(names) <= MOST_NUMBERS:
        for row, line in enumerate(counts):
            for column, count in enumerate(line):
                if count:
                    plot.text(column, row, f"{count:.0f}", ha="center", va="center", fontsize=7,
                              color="white" if shares[row][column] > 55 else "#303030")
    figure.colorbar(image, ax=plot, label="% of the true class", shrink=0.8)
    figure.tight_layout()
    return figure


# File name, words for people who cannot see the picture, the function.
CHARTS = (
    ("loss", "loss over time", loss),
    ("metric", "validation over time", metric),
    ("learning_rate", "learning rate over time", learning_rate),
    ("throughput", "throughput over time", throughput),
    ("step_time", "parts of a step's time", step_time),
    ("wall_time", "parts of the run's time", wall_time),
    ("scaling_speed", "throughput over devices", speed_over_devices),
    ("scaling_efficiency", "efficiency over devices", efficiency),
    ("scaling_epoch_time", "time of an epoch over devices", epoch_time),
    ("scaling_shares", "start-up and communication over devices", share_over_devices),
)
