"""How all pictures of a report look: colours, names, axes, legends."""

import warnings
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import numpy as np  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogFormatter  # noqa: E402

from reports.run import Run  # noqa: E402
from safe_files import shown  # noqa: E402

# The ten colours of M. Petroff, "Accessible Color Sequences for Data Visualization" (arXiv 2107.02270), which people
# with any kind of colour vision can tell apart. Runs beyond the tenth have other dashes.
COLOURS = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARKS = "●◐○◌"  # what stands for the dashes in a table
SIZE = (6.4, 3.7)
MOST_INSIDE, MOST_IN_LEGEND = 4, 20  # most runs whose names fit into the picture, and beside it
MOST_BYTES_OF_A_NAME = 40
WIDE = 4             # values farther from the middle nine tenths than so many times their width are beyond the axis
FEWEST_TO_CLIP = 5
LOG_FROM = 100       # ratio of the largest to the smallest value from which an axis is logarithmic by itself

# Names are text, in which $ begins no formula. Characters that the font lacks are drawn as boxes, without a warning each.
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
                     "font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left", "legend.frameon": False,
                     "legend.fontsize": 8, "lines.linewidth": 1.6, "text.parse_math": False})
warnings.filterwarnings("ignore", message="Glyph .* missing from font")


@dataclass
class Comparison:
    """What a picture is drawn from."""
    runs: list[Run]
    flags: dict[str, list]  # the values of the flags that differ, for each run
    axes: str = "auto"      # or linear, log


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def dashes(place: int):
    return DASHES[place // len(COLOURS) % len(DASHES)]


def mark(place: int) -> str:
    return MARKS[place // len(COLOURS) % len(MARKS)]


def label(text) -> str:
    """Returns text of any origin as it may stand in a picture. Matplotlib leaves names with a leading _ out of
    legends."""
    name = shown(text, MOST_BYTES_OF_A_NAME)
    return f"\u2009{name}" if name.startswith("_") else name


def plainly(value: float, _place=None) -> str:
    """Formats numbers as 20,000 and 0.005, not as 2e+04 and 5e-03."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


class PlainLogFormatter(LogFormatter):
    """Labels as many ticks as Matplotlib would, but not with formulas."""

    def __call__(self, x, pos=None):
        return plainly(x) if super().__call__(x, pos) else ""


def logarithmic(axis) -> None:
    """Makes an axis (plot.xaxis, plot.yaxis) logarithmic. Values that are not positive are not drawn."""
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log", nonpositive="mask")
    axis.set_major_formatter(FuncFormatter(plainly))
    axis.set_minor_formatter(PlainLogFormatter())


def unit(name: str) -> str:
    return " (%)" if name.startswith("top") else ""


def as_shown(name: str, value: float | None) -> str:
    """Returns a metric as the tables and the legends show it."""
    if value is None:
        return "–"
    return f"{value:,.{2 if unit(name) or abs(value) >= 10 else 4}f}" if abs(value) < 1e15 else f"{value:.4g}"


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


def middle(values: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the middle nine tenths."""
    return np.quantile(values, 0.05, method="higher"), np.quantile(values, 0.95, method="lower")


def scale(plot, axes: str, curves: list[np.ndarray], log: str) -> None:
    """Chooses the y axis for these values, without the few that would flatten all others, whose number the title says.
    `log` says when it is logarithmic: never, if the values span decades, or always (if they are positive). Where `axes`
    is linear or log, it is that, and shows all values."""
    values = np.concatenate([np.asarray(curve, float) for curve in curves]) if curves else np.empty(0)
    if axes == "log" and (values > 0).any():
        logarithmic(plot.yaxis)
    if axes != "auto" or not len(values):
        return
    low, high = middle(values)
    decades = values.min() > 0 and (log == "always" or log == "decades" and high > LOG_FROM * low)
    heights = np.log10(values) if decades else values
    if decades:
        logarithmic(plot.yaxis)
        low, high = middle(heights)
    inside = (heights >= low - WIDE * (high - low)) & (heights <= high + WIDE * (high - low))
    if len(values) < FEWEST_TO_CLIP or low >= high or inside.all():
        return
    bottom, top = heights[inside].min(), heights[inside].max()
    margin = 0.05 * (top - bottom)
    ends = [bottom - margin, top + margin]
    plot.set_ylim(*(10.0 ** end if decades else end for end in ends))
    beyond = int((~inside).sum())
    plot.set_title(f"{plot.get_title(loc='left')}\n{beyond} of {len(values)} values are beyond the axis")
