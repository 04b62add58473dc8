"""The page: one file that fetches nothing, with the pictures inside and a table of the runs. It can be printed, too."""

from base64 import b64encode
from datetime import datetime
from html import escape

from reports.run import Run, number

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #222; background: #fff; max-width: 1080px;
       margin: 2em auto; padding: 0 1.2em; }
h1 { font-size: 1.5em; margin-bottom: 0.1em; } h2 { font-size: 1.1em; margin: 1.6em 0 0.5em; }
p.when { color: #666; margin-top: 0; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.87em; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35em 0.75em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; } th { border-bottom: 2px solid #888; }
tr.best td { font-weight: 600; }
div.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1em 1.5em; align-items: start; }
div.charts img { max-width: 100%; height: auto; } figure { margin: 0; break-inside: avoid; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } div.charts { grid-template-columns: 1fr 1fr; } @page { margin: 1.5cm; } }
"""


def text(value, decimals: int | None = None) -> str:
    if value is None or value == "":
        return "–"
    if number(value) and decimals is not None:
        return f"{value:,.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(value))


def duration(seconds) -> str:
    if not number(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def goodput(run: Run) -> str:
    """Returns computing's share of the time of all attempts."""
    share = run.result.get("goodput")
    return f"{100 * share:.1f} %" if number(share) else "–"


def metric_names(runs: list[Run]) -> list[str]:
    names = dict.fromkeys(name for run in runs for name in run.result if name.startswith("val_"))
    return [*names] or ["train_loss"]


def table(runs: list[Run]) -> str:
    names = metric_names(runs)
    any_goodput = any(goodput(run) != "–" for run in runs)
    heads = ["run", "model", "state", "devices", "global batch", "steps", "epochs", *names, "a second", "time"]
    if any_goodput:
        heads.append("goodput")
    best = best_run(runs, names[0])
    rows = []
    for run in runs:
        last = (run.train or run.val or [{}])[-1]
        speed, unit = run.speed(), run.speed_key.removesuffix("_per_second")
        cells = [escape(run.name), text(run.config.get("model")), run.state(), text(run.devices),
                 text(run.config.get("global_batch_size")), text(run.result.get("step", last.get("step"))),
                 text(run.result.get("epoch", last.get("epoch")), 2)]
        cells += [text(run.result.get(name), 4 if "loss" in name or "accuracy" in name else 2) for name in names]
        cells += [f"{text(speed, 0)} {unit}" if speed else "–", duration(run.result.get("seconds"))]
        if any_goodput:
            cells.append(goodput(run))
        rows.append(f"<tr{' class=best' if run is best else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return ("<div class=table><table><thead><tr>" + "".join(f"<th>{escape(head.replace('_', ' '))}</th>" for head in heads)
            + "</tr></thead><tbody>" + "".join(rows) + "</tbody></table></div>")


def best_run(runs: list[Run], name: str) -> Run | None:
    if len(runs) < 2:
        return None
    judged = [run for run in runs if number(run.result.get(name))]
    smaller = name.endswith(("loss", "perplexity"))
    return (min if smaller else max)(judged, key=lambda run: run.result[name]) if judged else None


def page(runs: list[Run], pictures: list[tuple[str, str, bytes]], now: datetime) -> str:
    """Returns the page. `pictures`: file name, alternative text, PNG."""
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    figures = "".join(f'<figure id="{escape(name)}"><img alt="{escape(words)}" src="data:image/png;base64,'
                      f'{b64encode(content).decode()}"></figure>' for name, words, content in pictures)
    failures = "".join(f"<p>{escape(run.name)}: {escape(str(run.error.get('message', '')))}</p>"
                       for run in runs if run.error.get("message") and not run.result)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
            f"<h1>{escape(title)}</h1><p class=when>dtrain, {now:%Y-%m-%d %H:%M}</p>{table(runs)}{failures}"
            f"<h2>Pictures</h2><div class=charts>{figures}</div></body></html>\n")
