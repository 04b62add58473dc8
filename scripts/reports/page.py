"""The page: one file that fetches nothing, with the pictures inside, a table of the runs and one of the classes. It can
be printed, too. Everything on it is made by element(), which escapes all text."""

from base64 import b64encode
from datetime import datetime
from html import escape

from reports.classes import Row, whole_accuracy
from reports.drawing import Comparison, as_shown, colour, mark
from reports.flags import IN_THE_TABLE, words
from reports.mistakes import Mistake, Mistakes
from reports.points import finite
from reports.run import NO_METRICS, Run, common_variant, judged
from safe_files import shown

MARK = '<p class="when">dtrain, '  # by which a page is known again, and may be replaced
MOST_BYTES_OF_A_CELL, MOST_BYTES_OF_A_MESSAGE = 80, 4000
MOST_RUNS_BESIDE = 6  # of so many runs, the table has a column for each: it fits the page
MOST_FLAGS, MOST_METRICS, MOST_NOTES, MOST_ROWS_OF_CLASSES = 12, 12, 10, 40

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #222; background: #fff; max-width: 1080px;
       margin: 2em auto; padding: 0 1.2em; }
h1 { font-size: 1.5em; margin-bottom: 0.1em; } h2 { font-size: 1.1em; margin: 1.6em 0 0.5em; }
p.when, p.note { color: #666; margin-top: 0; } p.message { white-space: pre-line; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.87em; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35em 0.75em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; } td { max-width: 22em; overflow-wrap: anywhere; }
table.runs th, table.beside td { white-space: normal; } table.runs :is(th, td):first-child { position: sticky; left: 0; background: #fff; }
td.best { font-weight: 600; } th { border-bottom: 2px solid #888; }
tr.best td { font-weight: 600; }
div.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1em 1.5em; align-items: start; }
div.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 1em; font-size: 0.85em; overflow-wrap: anywhere; }
div.charts img { max-width: 100%; height: auto; } figure { margin: 0; break-inside: avoid; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } div.charts { grid-template-columns: 1fr 1fr; } @page { margin: 1.5cm; } }
"""


class Html(str):
    """Text that is HTML already."""


def element(tag: str, *parts, **attributes) -> Html:
    """Returns <tag attributes>parts</tag>. Parts that are not Html, and all attributes, are text and are escaped."""
    names = "".join(f' {name.rstrip("_")}="{escape(shown(value))}"' for name, value in attributes.items() if value)
    inside = "".join(part if isinstance(part, Html) else "\n".join(escape(shown(line)) for line in str(part).split("\n"))
                     for part in parts)
    return Html(f"<{tag}{names}>{inside}" + ("" if tag in ("img", "meta", "br") else f"</{tag}>"))


def cell(value) -> str:
    """Returns a value of a file of the run as the text of a cell."""
    number = finite(value)
    if number is None:
        return shown(words(value), MOST_BYTES_OF_A_CELL)
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e15 else f"{number:.6g}"


def duration(seconds) -> str:
    seconds = finite(seconds)
    if seconds is None or not 0 <= seconds < 1e10:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def goodput(run: Run) -> str:
    """Returns computing's share of the time of all attempts."""
    share, parts = finite(run.result.get("goodput")), run.wall_time()
    if share is None and sum(parts.values()):  # of a run that was stopped
        share = parts.get("compute", 0) / sum(parts.values())
    return f"{100 * share:.1f} %" if share is not None and 0 <= share <= 1 else "–"


def speed(run: Run) -> str:
    value = run.speed()
    return f"{as_shown('top', value).split('.')[0]} {run.speed_key.removesuffix('_per_second')}" if value else "–"


def last_metrics(runs: list[Run]) -> list[str]:
    """Returns the numbers of the last validations."""
    named = dict.fromkeys(name.removeprefix("val_") for run in runs for name in run.result if name.startswith("val_"))
    logged = dict.fromkeys(name for run in runs for name in run.val.names)
    return [name for name in named | logged if name == "loss" or name not in NO_METRICS][:MOST_METRICS]


def columns(comparison: Comparison) -> dict[str, list[str]]:
    """Returns the cells of each column, by its heading."""
    runs = comparison.runs
    found = {"state": [shown(run.state(), MOST_BYTES_OF_A_CELL) for run in runs],
             "model": [cell(run.config.get("model")) for run in runs],
             "devices": [cell(run.devices) for run in runs],
             "global batch": [cell(run.config.get("global_batch_size")) for run in runs]}
    flags = [name for name in comparison.flags if name not in IN_THE_TABLE]
    for name in flags[:MOST_FLAGS]:
        found[f"--{name}"] = [cell(value) for value in comparison.flags[name]]
    found["steps"] = [cell(run.steps) for run in runs]
    found["epochs"] = [as_shown("top", run.epochs_done) for run in runs]
    for place, name in enumerate(judged(runs)[:MOST_METRICS]):
        bests = [run.best(run.variant(name)) for run in runs]
        found[f"best val {common_variant(runs, name)}"] = [as_shown(name, best and best["value"]) for best in bests]
        found["at step" + bool(place) * f" of {name}"] = [cell(best and best["step"]) for best in bests]
    if any(run.limit for run in runs):
        found["validated on"] = [f"{run.limit} samples" if run.limit else "all" if run.val.names else "–" for run in runs]
    for name in last_metrics(runs):
        found[f"last val {name}"] = [as_shown(name, run.last(name)) for run in runs]
    if not any("val_loss" in run.result for run in runs) and any("train_loss" in run.result for run in runs):
        found["train loss"] = [as_shown("loss", finite(run.result.get("train_loss"))) for run in runs]
    found["a second"] = [speed(run) for run in runs]
    found["time"] = [duration(run.result.get("seconds", sum(run.wall_time().values()) or None)) for run in runs]
    if any(goodput(run) != "–" for run in runs):
        found["goodput"] = [goodput(run) for run in runs]
    return found


def best_run(runs: list[Run]) -> Run | None:
    """Returns the best of the runs that have the number by which most are judged."""
    found = [(best["value"], run) for name in judged(runs)[:1] for run in runs if (best := run.best(run.variant(name)))]
    if len(runs) < 2 or not found:
        return None
    less = found[0][1].smaller_is_better(judged(runs)[0])
    return (min if less else max)(found, key=lambda one: one[0])[1]


def heading(name: str) -> str:
    return shown(name if name.startswith("--") else name.replace("_", " "), MOST_BYTES_OF_A_CELL)


def table(heads: list, rows: list[Html], kind: str = "") -> Html:
    """Returns a table under headings that are text or, if they are lists, the parts of one."""
    head = element("tr", *(element("th", *(head if isinstance(head, list) else [heading(head)])) for head in heads))
    return element("div", element("table", element("thead", head), element("tbody", *rows), class_=kind), class_="table")


def table_of_runs(comparison: Comparison) -> Html:
    """Returns the runs beside each other, or, if they are many, a row for each."""
    found, runs, best = columns(comparison), comparison.runs, best_run(comparison.runs)
    names = [[element("span", f"{mark(place)} ", style=f"color: {colour(place)}"), shown(run.name, MOST_BYTES_OF_A_CELL)]
             for place, run in enumerate(runs)]
    if len(runs) <= MOST_RUNS_BESIDE:
        rows = [element("tr", element("td", heading(name)), *(element("td", of_run, class_="best" if run is best else None)
                                                              for run, of_run in zip(runs, of_runs, strict=True)))
                for name, of_runs in found.items()]
        return table(["run", *names], rows, "runs beside")
    rows = [element("tr", element("td", *names[place]), *(element("td", of_runs[place]) for of_runs in found.values()),
                    class_="best" if run is best else None) for place, run in enumerate(runs)]
    return table(["run", *found], rows, "runs")


def same_numbers(runs: list[Run]) -> list[str]:
    """Returns a sentence for each set of runs that have logged the same losses: in a picture one hides the others."""
    groups: dict[bytes, list[str]] = {}
    for run in runs:
        losses = [points.column("loss").tobytes() for points in (run.train, run.val)]
        groups.setdefault(b"|".join(losses), []).append(shown(run.name, MOST_BYTES_OF_A_CELL))
    return [f"{', '.join(names[:-1])} and {names[-1]} have logged the same losses: their lines hide each other."
            for names in groups.values() if len(names) > 1]


def notes(comparison: Comparison, left_out: list[str]) -> list[Html]:
    """Returns what is not on the page, and why."""
    said = [*same_numbers(comparison.runs)[:MOST_NOTES], *left_out[:MOST_NOTES]]
    if len(left_out) > MOST_NOTES:
        said.append(f"and {len(left_out) - MOST_NOTES} others are left out")
    more = [name for name in comparison.flags if name not in IN_THE_TABLE][MOST_FLAGS:]
    if more:
        said.append(f"{len(more)} more flags differ: {shown(', '.join(more), MOST_BYTES_OF_A_MESSAGE)}")
    failures = [element("p", f"{run.name}: {str(run.error['message'])[:MOST_BYTES_OF_A_MESSAGE]}", class_="message")
                for run in comparison.runs if run.error.get("message") and run.state().startswith("failed")]
    return [*failures, *(element("p", note, class_="note") for note in said)]


def table_of_classes(run_name: str, rows: list[Row]) -> Html:
    mean = sum(row.accuracy for row in rows) / len(rows)
    words_of_all = f"Right: {shown(whole_accuracy(rows))}. The mean of {len(rows):,} classes is {100 * mean:.2f} %. "
    listed = rows[:MOST_ROWS_OF_CLASSES]
    if len(listed) < len(rows):
        words_of_all += f"The {len(listed)} classes with the lowest accuracy:"
    cells = [(shown(row.name, MOST_BYTES_OF_A_CELL), f"{row.samples:,}", f"{row.correct:,}", f"{100 * row.accuracy:.2f} %",
              f"{100 * row.low:.1f} – {100 * row.high:.1f} %",
              f"{100 * row.precision:.2f} %" if row.precision is not None else "–", f"{100 * row.f1:.2f} %",
              f"{shown(row.rival, MOST_BYTES_OF_A_CELL)} ({row.times:,})" if row.times else "–") for row in listed]
    return Html(element("h2", f"Classes of {shown(run_name, MOST_BYTES_OF_A_CELL)}") + element("p", words_of_all)
                + table(["class", "samples", "right", "recall", "95 % interval (Wilson)", "precision", "F1", "most often taken for"],
                        [element("tr", *(element("td", one) for one in of_row)) for of_row in cells]))


def figure_of_mistake(mistake: Mistake, content: bytes | None) -> Html:
    sure = "" if mistake.probability is None else f" ({100 * mistake.probability:.0f} %)"
    words_of = (f"{shown(mistake.label, MOST_BYTES_OF_A_CELL)}, taken for {shown(mistake.prediction, MOST_BYTES_OF_A_CELL)}{sure}, "
                f"loss {as_shown('loss', mistake.loss)}")
    inside = (element("img", alt=words_of, src="data:image/png;base64," + b64encode(content).decode()) if content
              else element("p", *(element("span", text, style="display: block") for text in mistake.texts or [mistake.file])))
    return element("figure", inside, element("figcaption", words_of, element("br"), element("small", shown(mistake.file, MOST_BYTES_OF_A_CELL))))


def gallery(found: Mistakes, file: str, pictures: list[bytes | None]) -> Html:
    """Returns the worst mistakes, each with its picture or its texts."""
    said = (f"{found.wrong:,} of {found.samples:,} samples are wrong" if found.classes else f"{found.samples:,} samples")
    rest = f"; the {len(found.worst)} with the greatest loss:" if found.worst else "."
    figures = [figure_of_mistake(mistake, content) for mistake, content in zip(found.worst, pictures, strict=True)]
    return Html(element("h2", "Worst mistakes") + element("p", f"{shown(file, MOST_BYTES_OF_A_CELL)}: {said}{rest}")
                + element("div", *figures, class_="gallery"))


def page(comparison: Comparison, pictures: list[tuple[str, str, bytes]], classes: list[Html], left_out: list[str], now: datetime) -> str:
    """Returns the page. `pictures`: file name, alternative text, PNG."""
    runs = comparison.runs
    title = shown(runs[0].name, MOST_BYTES_OF_A_CELL) if len(runs) == 1 else f"{len(runs)} runs"
    figures = [element("figure", element("img", alt=words_of, src="data:image/png;base64," + b64encode(content).decode()), id=name)
               for name, words_of, content in pictures]
    head = element("head", element("meta", charset="utf-8"), element("title", title),
                   element("meta", name="viewport", content="width=device-width"), element("style", Html(STYLE)))
    body = element("body", element("h1", title), element("p", f"dtrain, {now:%Y-%m-%d %H:%M}", class_="when"), table_of_runs(comparison),
                   *notes(comparison, left_out), *classes, element("h2", "Pictures"), element("div", *figures, class_="charts"))
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"
