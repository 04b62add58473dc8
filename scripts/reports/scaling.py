"""The pictures of runs of one model on different numbers of devices."""

from reports.drawing import Comparison, blank, colour, dashes, finished, label, logarithmic
from reports.run import Run


def by_devices(runs: list[Run]) -> dict[str, list[Run]]:
    """Returns the runs of each model by the number of devices, the fastest of those with the same number. Models with
    only one number of devices are left out."""
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        speed = run.speed()
        if run.devices and speed and speed > 0:
            group = groups.setdefault(run.model, {})
            if run.devices not in group or speed > group[run.devices].speed():
                group[run.devices] = run
    return {model: [group[count] for count in sorted(group)] for model, group in groups.items() if len(group) > 1}


def over_devices(runs: list[Run], title: str, unit: str, lines: list[tuple], log: bool = False, ideal=None):
    """Draws a line for each model and each of `lines`: what it is called beside the model, its dashes (None: those of the
    model), and a function of a run and the smallest run that returns its value, or None."""
    figure, plot = blank(title, "devices", unit)
    drawn = 0
    counts: set[int] = set()
    for place, (model, group) in enumerate(by_devices(runs).items()):
        for name, style, value in lines:
            pairs = [(run.devices, number) for run in group if (number := value(run, group[0])) is not None]
            if len(pairs) < 2:
                continue
            plot.plot(*zip(*pairs, strict=True), color=colour(place), linestyle=style or dashes(place), marker="o",
                      label=label(model) + name)
            if ideal:
                plot.plot([count for count, _ in pairs], [ideal(count, *pairs[0]) for count, _ in pairs], color=colour(place),
                          linestyle=":", linewidth=1, label=f"{label(model)}, ideal")
            counts |= {count for count, _ in pairs}
            drawn += 1
    if drawn:
        plot.set_xscale("log", base=2)
        plot.set_xticks(sorted(counts), [str(count) for count in sorted(counts)])
        plot.minorticks_off()
        if log:
            logarithmic(plot.yaxis)
        else:
            plot.set_ylim(bottom=0)
    return finished(figure, plot, drawn)


def epoch_time(comparison: Comparison):
    return over_devices(comparison.runs, "Time of an epoch", "seconds an epoch", [("", None, lambda run, _: run.epoch_seconds())],
                        log=True, ideal=lambda count, first, seconds: seconds * first / count)


def speed_over_devices(comparison: Comparison):
    groups = by_devices(comparison.runs)
    words = any(run.speed_key == "tokens_per_second" for group in groups.values() for run in group)
    return over_devices(comparison.runs, "Throughput", ("tokens" if words else "images") + " a second",
                        [("", None, lambda run, _: run.speed())], log=True,
                        ideal=lambda count, first, speed: speed * count / first)


def efficiency(comparison: Comparison):
    figure = over_devices(comparison.runs, "Efficiency: throughput of a device, against the smallest run", "percent",
                          [("", None, lambda run, first: 100 * run.speed() / run.devices / (first.speed() / first.devices))])
    if figure:
        plot = figure.axes[0]
        plot.axhline(100, color="#808080", linewidth=0.8, linestyle=":")
        plot.set_ylim(0, max(105, plot.get_ylim()[1]))
    return figure


def share_over_devices(comparison: Comparison):
    """Draws start-up and communication as shares of the whole run, by the seconds in result.json."""
    def share(key: str):
        def of(run: Run, _first: Run) -> float | None:
            times = run.wall_time()
            return 100 * times[key] / sum(times.values()) if key in times and sum(times.values()) > 0 else None
        return of

    return over_devices(comparison.runs, "Share of the run that is not training", "percent of the time",
                        [(": start-up", "-", share("startup")), (": communication", "--", share("communication"))])
