"""Writes a sweep's results into its folder: best.json, trials.csv, and two pictures."""

import csv
import io
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from reports.drawing import plainly, plt
from safe_files import replace, shown
from sweeps.program import Command
from sweeps.space import Space, as_flag_value
from sweeps.trial import environment_of

GREY = "#b8b8b8"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # what a spreadsheet computes if a cell begins with it
LONGEST_LABEL = 24
LARGEST = 1e100  # of the values in a picture: an axis computes with their squares
WIDEST_INCHES = 200  # a picture of PNG has less than 2^16 pixels


@dataclass(frozen=True)
class Average:
    """The finished trials that differ in one flag only, such as the seed."""
    params: dict
    trials: list[FrozenTrial]

    @property
    def mean(self) -> float:
        return statistics.fmean(one.value for one in self.trials)

    @property
    def spread(self) -> float | None:
        """Returns the standard deviation of the values."""
        return statistics.stdev(one.value for one in self.trials) if len(self.trials) > 1 else None

    def typical(self) -> FrozenTrial:
        return min(self.trials, key=lambda one: abs(one.value - self.mean))

    def text(self, metric: str) -> str:
        spread = f" ± {self.spread:.2g}" if self.spread is not None else ""
        params = " ".join(f"{name}={as_flag_value(value)}" for name, value in self.params.items())
        return f"{metric} {self.mean:.6g}{spread} over {len(self.trials)} trials: {params}"


def averages(trials: list[FrozenTrial], space: Space, flag: str) -> list[Average]:
    """Returns the best by its mean first. Where other values of the flags have finished more trials, those with fewer, of
    which some diverged, come last."""
    groups: dict[tuple, Average] = {}
    for one in trials:
        if one.state == TrialState.COMPLETE:
            params = {name: one.params[name] for name in space.distributions if name != flag}
            groups.setdefault(tuple(map(as_flag_value, params.values())), Average(params, [])).trials.append(one)
    return sorted(groups.values(), key=lambda one: (-len(one.trials), -one.mean if space.maximize else one.mean))


def write_averages(folder: Path, found: list[Average], space: Space) -> None:
    rows = [[*map(as_cell, one.params.values()), one.mean, "" if one.spread is None else one.spread, len(one.trials)] for one in found]
    write_csv(folder / "averages.csv", [[*found[0].params, f"mean {space.metric}", "standard deviation", "trials"], *rows])


def write_best(folder: Path, best: FrozenTrial, space: Space, command: Command, averages: list[Average] = ()) -> dict:
    """The command gives the same value again: it has the values of the flags as they were passed, and the environment."""
    environment, cores = environment_of(best), best.user_attrs.get("cores")
    cores = cores if isinstance(cores, list) and all(isinstance(one, int) for one in cores) else []
    found = {"value": best.value, "metric": space.metric, "params": {name: as_passed(one) for name, one in best.params.items()},
             "trial": best.number, "run_dir": str(folder / f"trial-{best.number:04}"), "environment": environment,
             "command": command.text(best.params, environment, cores)}
    if averages:
        found |= {"mean": averages[0].mean, "standard_deviation": averages[0].spread,
                  "trials": [one.number for one in averages[0].trials]}
    replace(folder / "best.json", json.dumps(found, indent=2) + "\n")
    return found


def as_passed(value):
    return float(as_flag_value(value)) if isinstance(value, float) else value


def cell(text) -> str:
    """Returns the text of a cell. An apostrophe before what could be a formula makes it text; a reader removes one."""
    text = shown(text)
    return f"'{text}" if text.startswith(FORMULA) else text


def as_cell(value):
    return cell(value) if isinstance(value, str) else as_flag_value(value)


def write_csv(path: Path, rows: list[list]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    replace(path, text.getvalue())


def write_table(folder: Path, trials: list[FrozenTrial], space: Space) -> None:
    rows = [[one.number, cell(outcome(one)), value_of(one), *(as_cell(one.params.get(name, "")) for name in space.distributions),
             round(one.duration.total_seconds(), 1) if one.duration else "", exit_code(one), cell(one.user_attrs.get("reason", ""))]
            for one in trials]
    write_csv(folder / "trials.csv", [["trial", "outcome", space.metric, *space.distributions, "seconds", "exit_code", "reason"], *rows])


def outcome(trial: FrozenTrial) -> str:
    return shown(trial.user_attrs.get("outcome", trial.state.name.lower()), LONGEST_LABEL)


def exit_code(trial: FrozenTrial) -> int | str:
    code = trial.user_attrs.get("exit_code")
    return code if isinstance(code, int) else ""


def value_of(trial: FrozenTrial) -> float | str:
    """Returns the final value, or the last one of a pruned trial."""
    if trial.value is not None and trial.state == TrialState.COMPLETE:
        return trial.value
    return trial.intermediate_values[max(trial.intermediate_values)] if trial.intermediate_values else ""


def draw(folder: Path, trials: list[FrozenTrial], space: Space) -> None:
    drawn = [one for one in trials if value_of(one) != "" and abs(value_of(one)) <= LARGEST and one.distributions == space.distributions]
    if not drawn:
        return
    save(folder / "parallel_coordinates.png", parallel_coordinates(drawn, space))
    save(folder / "history.png", history(drawn, space))


def save(path: Path, figure) -> None:
    content = io.BytesIO()
    figure.savefig(content, dpi=150, bbox_inches="tight")
    plt.close(figure)
    replace(path, content.getvalue())


class Axis:
    """Maps the values of one flag, or of the metric, to heights between 0 and 1 in the picture."""

    def __init__(self, name: str, values: list, distribution=None):
        self.name = name
        self._words = None
        self._transform = lambda value: float(value)
        if isinstance(distribution, CategoricalDistribution):
            self._words = [as_flag_value(one) for one in distribution.choices]
            self.ticks = [((place + 0.5) / len(self._words), shown(word, LONGEST_LABEL)) for place, word in enumerate(self._words)]
            return
        low, high = (distribution.low, distribution.high) if distribution is not None else (min(values), max(values))
        if getattr(distribution, "log", False):
            self._transform = lambda value: math.log(value)
            self.name += " (log)"
        self._low, self._high = self._transform(low), self._transform(high)
        ticks = [low, high]
        if getattr(distribution, "log", False):
            ticks = [low * (high / low) ** (part / 4) for part in range(5)]
        elif high > low:
            ticks = [low + (high - low) * part / 4 for part in range(5)]
        self.ticks = [(self.height(tick), plainly(tick)) for tick in ticks]

    def height(self, value) -> float:
        if self._words is not None:
            return (self._words.index(as_flag_value(value)) + 0.5) / len(self._words)
        span = self._high - self._low
        return (self._transform(value) - self._low) / span if span > 0 else 0.5


def parallel_coordinates(trials: list[FrozenTrial], space: Space):
    """Draws one line for each trial, darker for better ones. Broken lines were pruned or ended early for another
    reason."""
    values = [value_of(one) for one in trials]
    axes = [Axis(name, [], one) for name, one in space.distributions.items()] + [Axis(space.metric, values)]
    order = sorted(zip(values, trials, strict=True), key=lambda one: one[0], reverse=not space.maximize)  # draws the best on top
    low, high = min(values), max(values)
    colours = plt.get_cmap("viridis_r" if space.maximize else "viridis")
    figure, plot = plt.subplots(figsize=(min(max(6, 1.7 * len(axes)), WIDEST_INCHES), 4.2))
    for value, trial in order:
        part = (value - low) / (high - low) if high > low else 0.5
        whole = trial.state == TrialState.COMPLETE
        heights = [axis.height(trial.params[name]) for axis, name in zip(axes, space.distributions, strict=False)]
        plot.plot(range(len(axes)), [*heights, axes[-1].height(value)], color=colours(part), alpha=0.9 if whole else 0.5,
                  linewidth=1.8 if whole else 1.0, linestyle="-" if whole else (0, (4, 3)))
    best = order[-1][1]
    for place, axis in enumerate(axes):
        plot.axvline(place, color="#404040", linewidth=0.8, zorder=0)
        for height, text in axis.ticks:
            plot.annotate(text, (place, height), xytext=(4, 0), textcoords="offset points", fontsize=7.5, va="center",
                          color="#303030", bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7})
    plot.set_xticks(range(len(axes)), [axis.name for axis in axes])
    plot.set_yticks([])
    plot.set_xlim(-0.05, len(axes) - 0.6)
    plot.set_ylim(-0.04, 1.04)
    for side in plot.spines.values():
        side.set_visible(False)
    plot.set_title(f"{len(trials)} trials; best: trial {best.number}, {space.metric} {value_of(best):.4g}"
                   + ("; broken lines were stopped early" if any(one.state != TrialState.COMPLETE for one in trials) else ""))
    return figure


def history(trials: list[FrozenTrial], space: Space):
    """Draws each trial's value by its number, and the best so far."""
    figure, plot = plt.subplots(figsize=(6.4, 3.6))
    for whole, colour, name in ((True, "#2a6f97", "finished"), (False, GREY, "stopped early")):
        chosen = [one for one in trials if (one.state == TrialState.COMPLETE) == whole]
        if chosen:
            plot.scatter([one.number for one in chosen], [value_of(one) for one in chosen], color=colour, s=28, label=name,
                         zorder=3)
    better, so_far, best = (max if space.maximize else min), [], None
    for one in trials:
        if one.state == TrialState.COMPLETE:
            best = one.value if best is None else better(best, one.value)
        if best is not None:
            so_far.append((one.number, best))
    if so_far:
        plot.step(*zip(*so_far, strict=True), where="post", color="#d1495b", linewidth=1.2, label="best so far")
    plot.xaxis.get_major_locator().set_params(integer=True)
    plot.set_xlabel("trial")
    plot.set_ylabel(space.metric)
    plot.legend()
    return figure
