"""Made-up runs for the tests of scripts/report.py, with data that would take many machines, and a reader of its page."""

import csv
import json
import math
import sys
from html.parser import HTMLParser

import pytest

from command import ROOT

pytest.importorskip("matplotlib", reason="scripts/setup.sh --tests installs it")
sys.path.insert(0, str(ROOT / "scripts"))

import report as script  # noqa: E402
from reports import charts, drawing, flags  # noqa: E402
from safe_files import exit_code  # noqa: E402

# Step times of an imaginary model on 1, 2, 4 … devices: computing, and communication that grows.
COMPUTE, COMMUNICATION, DATA = 0.300, 0.012, 0.004


def made_up_run(folder, devices=1, epochs=3, steps=300, text=False, model="resnet50", finished=True, attempts=0, **given):
    """Writes the files of a training of so many steps on so many devices, which was given these flags."""
    folder.mkdir(parents=True)
    exposed = COMMUNICATION * math.log2(devices)
    seconds = COMPUTE + exposed + DATA
    speed = 64 * devices / seconds
    unit = "tokens" if text else "images"
    lines = []
    for step in range(1, steps + 1):
        epoch = epochs * step / steps
        noise = 0.1 * math.sin(37.0 * step)
        lines.append({"kind": "train", "step": step, "epoch": epoch, "loss": 0.5 + 6 * math.exp(-2 * epoch) + noise,
                      "lr": 0.1 * devices * min(step / 30, 1 - step / (steps + 1)), f"{unit}_per_second": speed * (1 + noise / 4),
                      "data_seconds": DATA, "forward_seconds": COMPUTE / 3, "backward_seconds": COMPUTE / 2,
                      "communication_seconds": exposed, "update_seconds": COMPUTE / 10, "step_seconds": seconds, "time": 1.7e9 + step})
        if step % max(1, steps // epochs) == 0:
            quality = {"perplexity": math.exp(8 - 2 * epoch), "accuracy": 0.3} if text else {"top1": 90 - 60 / epoch, "top5": 96.0}
            lines.append({"kind": "val", "step": step, "epoch": epoch, **quality, "loss": 0.6 + 6 * math.exp(-2 * epoch)})
            lines.append({"kind": "epoch", "epoch": round(epoch), "epoch_seconds": 1.28e6 / speed})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = {"model": model, "global_batch_size": 64 * devices, **given, "start": {"given": list(given)}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if finished:
        total = steps * seconds
        result = {"val_perplexity": 7.4, "val_loss": 2.0} if text else {"val_top1": 70.0, "val_top5": 96.0, "val_loss": 0.61}
        result |= {"step": steps, "epoch": float(epochs), "seconds": total, "world_size": devices, f"{unit}_per_second": speed,
                   "attempts": attempts, "goodput": 0.5, "time_split": {"compute_seconds": steps * COMPUTE, "communication_seconds": steps * exposed,
                                  "data_wait_seconds": steps * DATA, "checkpoint_seconds": 2.0, "evaluation_seconds": 6.0,
                                  "startup_seconds": 1 + 2 * devices, "lost_seconds": 7.0 * attempts, "total_seconds": total}}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def write_confusion(folder, classes=10):
    names = [str(number) for number in range(classes)]
    with (folder / "confusion_matrix.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["true class", *names])
        for row in range(classes):
            table.writerow([names[row], *(95 if row == column else 5 if (row + 3) % classes == column else 0 for column in range(classes))])


def compare(*runs, axes="auto"):
    return drawing.Comparison([*runs], flags.differing([*runs]), axes)


@pytest.fixture(autouse=True)
def no_picture_stays_open(monkeypatch):
    monkeypatch.setattr(script, "DOTS_PER_INCH", 50)
    yield
    charts.plt.close("all")


@pytest.fixture
def draw(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["report.py", *map(str, words)])
        return (exit_code(script.main), *capsys.readouterr())

    return call


TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "table", "thead", "tbody", "tr", "th", "td", "span",
        "figure", "img"}


class Page(HTMLParser):
    """The elements, attributes and text nodes of a page."""

    def __init__(self, folder):
        super().__init__()
        self.inside = False
        self.tags, self.attributes, self.texts, self.tables = set(), set(), [], []
        self.feed((folder / "report.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        self.texts.append(data)
        if self.inside:
            self.tables[-1][-1][-1] += data

    def rows(self) -> list[dict[str, str]]:
        """Returns the table of the runs: text by heading."""
        heads, *rows = self.tables[0]
        if any(row[0] == "state" for row in rows):  # the runs beside each other
            heads, *rows = zip(*self.tables[0], strict=True)
        return [dict(zip(heads, row, strict=True)) for row in rows]

    def has(self, *texts) -> bool:
        return all(any(text in node for node in self.texts) for text in texts)
