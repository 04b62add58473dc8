"""scripts/report.py on real runs, and on made-up ones with data that would take many machines."""

import csv
import fcntl
import json
import math
import os
import random
import re
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from command import ROOT, TINY, run

pytest.importorskip("matplotlib", reason="scripts/setup.sh --tests installs it")
sys.path.insert(0, str(ROOT / "scripts"))

import report as script  # noqa: E402
from reports import charts, classes, drawing, flags, scaling  # noqa: E402
from reports.points import Points  # noqa: E402
from reports.read import read_run, read_runs  # noqa: E402
from reports.run import name_apart  # noqa: E402
from safe_files import Failure, exit_code  # noqa: E402

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
    (folder / "config.json").write_text(json.dumps({"model": model, "global_batch_size": 64 * devices, **given, "start": {"given": list(given)}}), encoding="utf-8")
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
        return [dict(zip(heads, row, strict=True)) for row in rows]

    def has(self, *texts) -> bool:
        return all(any(text in node for node in self.texts) for text in texts)


# ---- What is drawn ---------------------------------------------------------------------------------------------------


def test_a_real_run(draw, few_images, run_dir, tmp_path):
    run(*TINY, f"--data_dir={few_images}", "--max_steps=3", f"--run_dir={run_dir}")
    code, said, _ = draw(run_dir, f"--output={tmp_path / 'report'}")
    assert code == 0 and said.startswith(str(tmp_path / "report" / "report.html"))
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    names = {path.stem for path in (tmp_path / "report").glob("*.png")}
    assert {"loss", "metric", "learning_rate", "throughput", "step_time"} <= names
    assert set(re.findall(r'<figure id="(\w+)"', page)) == names
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert "<link" not in page and "<script" not in page and "url(" not in page
    assert "resnet18" in page and "finished" in page and "last val top1" in page

def test_scaling_and_what_only_large_runs_have(draw, tmp_path):
    """Runs of three sizes, one of them restarted and one failed, and class names that look like HTML."""
    runs = [made_up_run(tmp_path / f"on-{devices}", devices, steps=60, attempts=devices == 4) for devices in (1, 2, 4)]
    broken = made_up_run(tmp_path / "<b>broken", steps=30, finished=False)
    (broken / "error.json").write_text('{"exit_code": 6, "kind": "diverged", "message": "the loss is <inf>"}', encoding="utf-8")
    with (broken / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind":"train","step":31,"loss":null}\n{"kind":"tra')
    write_confusion(runs[0])
    code, _, _ = draw(*runs, broken, f"--output={tmp_path / 'report'}")
    assert code == 0
    assert {path.stem for path in (tmp_path / "report").glob("*.png")} == {
        "loss", "metric", "learning_rate", "throughput", "step_time", "wall_time", "scaling_speed", "scaling_efficiency",
        "scaling_epoch_time", "scaling_shares", "confusion_1"}
    page = Page(tmp_path / "report")
    assert page.has("failed (6): diverged", "the loss is <inf>", "<b>broken", "goodput", "88.8 – 97.8 %") and "b" not in page.tags
    code, _, _ = draw(broken, f"--output={tmp_path / 'report'}")  # what the earlier report had more is removed
    assert code == 0 and not (tmp_path / "report" / "confusion_1.png").exists()


def test_scaling_figures_are_those_of_the_runs(tmp_path):
    runs = [read_run(made_up_run(tmp_path / f"on-{devices}", devices, steps=30)) for devices in (1, 4)]
    line = scaling.efficiency(compare(*runs)).axes[0].lines[0]
    assert list(line.get_xdata()) == [1, 4]
    one, four = COMPUTE + DATA, COMPUTE + DATA + 2 * COMMUNICATION
    assert list(line.get_ydata()) == pytest.approx([100, 100 * one / four])
    assert runs[1].step_parts()["communication"] == pytest.approx(2 * COMMUNICATION)
    assert sum(runs[1].step_parts().values()) == pytest.approx(four)
    labels = [tick.get_text() for tick in scaling.epoch_time(compare(*runs)).axes[0].get_yticklabels(which="both")]
    assert any(labels) and not any("$" in text for text in labels)


def test_text_has_perplexity(tmp_path):
    run_of_text = read_run(made_up_run(tmp_path / "text", text=True, steps=30))
    assert run_of_text.metric == "perplexity" and run_of_text.speed_key == "tokens_per_second"
    assert charts.metric(compare(run_of_text)).axes[0].get_yscale() == "log"


def test_runs_of_the_same_name_are_told_apart(tmp_path):
    runs = [read_run(made_up_run(tmp_path / parent / "run", steps=3)) for parent in ("a", "b", "x/b")]
    name_apart(runs)
    assert [one.name for one in runs] == ["a/run", f"{tmp_path.name}/b/run", "x/b/run"]


@pytest.mark.parametrize(("make", "words"), [
    (lambda path: path / "nowhere", "does not exist"),
    (lambda path: path, "has no metrics.jsonl"),
    (lambda path: (path / "metrics.jsonl").write_text("{}\nnonsense\n") and path, "has nothing to show"),
    (lambda path: (path / "file").write_text("") or path / "file", "is no folder"),
])
def test_a_folder_that_is_no_run(draw, tmp_path, make, words):
    code, _, said = draw(make(tmp_path), f"--output={tmp_path / 'report'}")
    assert code == 2 and words in said and "what to do: " in said and len(said.splitlines()) == 2
    assert not (tmp_path / "report").exists()


# ---- Comparing -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A folder with a run, a sweep of four trials that ended in four ways and a fifth that wrote nothing, and notes."""
    runs = tmp_path_factory.mktemp("runs")
    made_up_run(runs / "other", steps=30, model="resnet18")
    for number, lr in enumerate((0.01, 0.1, 1.0, 10.0)):
        trial = made_up_run(runs / "sweep" / f"trial-{number:04}", steps=21 + 9 * number, finished=number == 0, lr=lr, seed=number,
                            run_dir=f"trial-{number:04}")
        text = (trial / "metrics.jsonl").read_text(encoding="utf-8").replace('"top1": ', f'"top1": {number + 1}')
        (trial / "metrics.jsonl").write_text(text, encoding="utf-8")
    (runs / "sweep" / "trial-0001" / "latest").write_text("checkpoints/step-000000012\n")
    (runs / "sweep" / "trial-0003" / "result.json").write_text('{"val_top1": 1, "step": 48, "stopped_early": "no gain"}')
    (runs / "sweep" / "trials.csv").write_text("trial,outcome,val_top1\n0,finished,70\n2,pruned,1\n")
    (runs / "sweep" / "trial-0004").mkdir()
    (runs / "sweep" / "study.journal").write_text("")
    (runs / "notes").mkdir()
    return runs


def test_all_of_a_folder(draw, sweep, tmp_path):
    """README's line report.py runs/*, with what is none of a run among them."""
    code, said, notes = draw(*sorted(sweep.iterdir()), sweep / "sweep", f"--output={tmp_path / 'report'}")
    assert code == 0 and "(5 runs, " in said, notes
    assert notes.splitlines() == [f"left out: {sweep / 'notes'} is no run directory: it has no metrics.jsonl"]
    rows = Page(tmp_path / "report").rows()
    assert [row["run"] for row in rows] == ["● other", *(f"● trial-000{number}" for number in range(4))]
    assert [row["state"] for row in rows] == ["finished", "finished", "stopped, can go on from step 12", "pruned",
                                              "stopped early: no gain"]
    assert [row["--lr"] for row in rows] == ["–", "0.01", "0.1", "1", "10"]
    assert [row["best val top1"] for row in rows] == ["70.00", "170.00", "270.00", "370.00", "470.00"]
    assert "--run dir" not in rows[0] and "--run_dir" not in rows[0]
    code, said, notes = draw(sweep, f"--output={tmp_path / 'report'}")
    assert (code, notes) == (0, "") and "(5 runs, " in said


def test_the_metric_against_the_flag_that_differs(sweep):
    runs, problems = read_runs([sweep / "sweep"])
    assert not problems and list(flags.differing(runs)) == ["lr", "seed"]
    plot = charts.metric_over_flag(compare(*runs)).axes[0]
    assert plot.get_xscale() == "log" and plot.get_xlabel() == "--lr"
    assert list(plot.lines[-1].get_xdata()) == [0.01, 0.1, 1, 10] and plot.lines[-1].get_ydata()[3] == pytest.approx(470)
    for place, one in enumerate(runs):
        one.config["optimizer"] = ("sgd", "adam", "lamb")[place % 3]
        one.config["start"]["given"].append("optimizer")
    assert charts.metric_over_flag(compare(*runs)) is None  # two flags differ
    for one in runs:
        one.config["lr"] = 1
    plot = charts.metric_over_flag(compare(*runs)).axes[0]
    assert [tick.get_text() for tick in plot.get_xticklabels()] == ["sgd", "adam", "lamb"]
    assert list(plot.lines[-1].get_ydata()) == pytest.approx([(170 + 470) / 2, 270, 370])


def test_a_run_under_way(tmp_path):
    folder = made_up_run(tmp_path / "run", steps=3)
    (folder / "result.json").write_text('{"step": 2}')
    (folder / "error.json").write_text('{"exit_code": 4}')
    with (folder / "lock").open("w") as lock:
        assert read_run(folder).state() == "failed (4)"  # the run went on after the result
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert read_run(folder).state() == "running"


def test_table_and_legend_agree(draw, tmp_path):
    """The last validation is not the best, and result.json has the last one."""
    folder = made_up_run(tmp_path / "run", steps=30)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    (folder / "metrics.jsonl").write_text(lines + '{"kind":"val","step":31,"epoch":3.1,"top1":69.123,"top5":1,"loss":1}\n', encoding="utf-8")
    found = read_run(folder)
    assert charts.metric(compare(found)).axes[0].get_legend_handles_labels()[1] == ["run: 70.00"]
    assert draw(folder, f"--output={tmp_path / 'report'}")[0] == 0
    row = Page(tmp_path / "report").rows()[0]
    assert (row["best val top1"], row["at step"], row["last val top1"]) == ("70.00", "30", "70.00")
    found.result = {}
    assert found.last("top1") == 69.123


def test_axes(tmp_path):
    """Few values that would flatten all others are beyond the axis, and values over decades have a logarithmic one."""
    folder = made_up_run(tmp_path / "run", steps=100)
    calm = read_run(folder)
    assert charts.loss(compare(calm)).axes[0].get_ylim()[1] > 6
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind":"train","step":101,"epoch":3.1,"loss":1e30}\n')
    diverged = read_run(folder)
    plot = charts.loss(compare(diverged)).axes[0]
    assert 6 < plot.get_ylim()[1] < 8 and plot.get_title(loc="left").endswith("1 of 104 values are beyond the axis")
    assert charts.loss(compare(diverged, axes="linear")).axes[0].get_ylim()[1] > 1e30
    assert charts.loss(compare(calm, axes="log")).axes[0].get_yscale() == "log"
    decades = Points(100)
    for step in range(60):
        decades.add({"step": step, "epoch": step / 10, "loss": 10 ** (-step / 10)})
    calm.train = decades
    assert charts.loss(compare(calm)).axes[0].get_yscale() == "log"


def test_ten_colours_can_be_told_apart():
    """By the distance in CIELAB (D65), where about 2 is the least that an eye sees."""
    def lab(colour):
        linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
                  for channel in (int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5))]
        xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear / [0.9505, 1, 1.089]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    colours = [lab(drawing.colour(place)) for place in range(10)]
    assert min(np.linalg.norm(one - other) for place, one in enumerate(colours) for other in colours[:place]) > 12
    looks = [(drawing.colour(place), str(drawing.dashes(place))) for place in range(40)]
    assert len(set(looks)) == 40


# ---- Classes ---------------------------------------------------------------------------------------------------------


def test_classes_with_their_intervals(tmp_path):
    lines = ["true class,'=cat,\"dog, old\",none,rat", "'=cat,8,2,0,0", '"dog, old",0,1,0,0', "none,0,0,0,0", "rat,3,1,0,96"]
    (tmp_path / "confusion_matrix.csv").write_text("\n".join(lines), encoding="utf-8")
    rows = classes.class_rows(classes.read_matrix(tmp_path))
    assert [(row.name, row.correct, row.samples, row.rival, row.times) for row in rows] == [
        ("=cat", 8, 10, "dog, old", 2), ("rat", 96, 100, "=cat", 3), ("dog, old", 1, 1, "=cat", 0)]
    proportion = pytest.importorskip("scipy.stats").binomtest
    for row in rows:
        interval = proportion(row.correct, row.samples).proportion_ci(method="wilson")
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), abs=1e-6)


@pytest.mark.parametrize("text", ["true,a,b\na,1\n", "", "true,a\na,-1\n", "true,a\na,0.5\n", "true,a\na,nan\n", "true,a\na,1e300\n",
                                  "true,a\na,1\nb,1\n", "true,a,b\na,1,1\n", "true" + ",a" * 2001, 'true,"a\0', "true,a\na,1" + "0" * 400])
def test_a_matrix_that_is_none_is_left_out(tmp_path, text):
    (tmp_path / "confusion_matrix.csv").write_text(text, encoding="utf-8")
    assert classes.read_matrix(tmp_path) is None


def test_two_thousand_classes_are_quick(tmp_path):
    """A sum for each cell took a minute and a half."""
    head = "true class," + ",".join(f"class {number}" for number in range(2000)) + "\n"
    (tmp_path / "confusion_matrix.csv").write_text(head + "".join(f"class {row}" + ",1" * row + ",7" + ",0" * (1999 - row) + "\n" for row in range(2000)),
                                                   encoding="utf-8")
    start = time.monotonic()
    matrix = classes.read_matrix(tmp_path)
    rows = classes.class_rows(matrix)
    charts.plt.close(classes.confusion(matrix, "run"))
    assert len(rows) == 2000 and rows[-1].accuracy == 1 and time.monotonic() - start < 20


# ---- Whatever the files hold -----------------------------------------------------------------------------------------

SCRIPT = "<script>alert(1)</script>"
FIELDS = {
    "config": ["model", "global_batch_size", "world_size", "lr", "seed", "batch_size", "start"],
    "result": ["val_top1", "best_top1", "best_step", "stopped_early", "step", "epoch", "seconds", "world_size", "images_per_second",
               "goodput", "time_split", "train_loss", SCRIPT, "val_" + SCRIPT],
    "error": ["exit_code", "kind", "message", "hint"],
    "train": ["step", "epoch", "loss", "lr", "top1", "images_per_second", "step_seconds", "data_seconds", SCRIPT, SCRIPT + "_seconds"],
    "val": ["step", "epoch", SCRIPT, "top1", "top5", "loss", "bad_records"],
    "epoch": ["epoch", "epoch_seconds"],
}
# Values as they stand in a file: those that parsers of numbers, of text and of JSON have failed at.
HOSTILE = ["null", "true", '"abc"', json.dumps(SCRIPT), r'"$\\alpha{$"', r'"\ud800"', r'"\u001b[31m\u202e"', r'"\u0000"', '"_x"', '""', r'"a\nb"',
           '"' + "é" * 3000 + '"', "1" + "0" * 400, "-1" + "0" * 5000, "1e308", "-1e308", "1e999", "1e40", "5e-324", "NaN", "-Infinity", "-1", "0", "1.5",
           "1e15", "[]", "{}", '{"given":[[]]}', '{"given":["lr",1]}', "[1,2]", "[" * 60 + "]" * 60, "[" * 100_000, '{"a":' * 9000, "0x1", "'", "\0"]
SANE = ["1", "2.5", "3", "10"]


def hostile_run(folder, value_of, rng):
    """Writes all files of a run, whose values are those that value_of() returns."""
    def of(kind, start=""):
        return "{" + start + ",".join(f"{json.dumps(name)}:{value_of(name)}" for name in FIELDS[kind]) + "}"

    folder.mkdir(parents=True)
    for kind in ("config", "result", "error"):
        if rng.random() < 0.8:
            (folder / f"{kind}.json").write_text(of(kind), encoding="utf-8")
    kinds = [rng.choice(["train", "train", "val", "epoch"]) for _ in range(rng.choice([2, 20]))]
    lines = [of(kind, f'"kind":"{kind}",') for kind in kinds]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"kind":"train","step":1}\n{"kind":[]}\n7\n', encoding="utf-8")
    (folder / "latest").write_text(value_of("latest"))
    return folder


@pytest.mark.parametrize("seed", range(40 if os.environ.get("DTRAIN_LONG_TESTS") else 3))
def test_no_value_stops_a_report(tmp_path, seed):
    """Runs that have one hostile value everywhere, any mixture, or a few among sane ones."""
    rng = random.Random(seed)
    folders = []
    for place, value in enumerate(rng.sample(HOSTILE, len(HOSTILE) if seed == 0 else 3)):
        value_of = rng.choice([lambda _, value=value: value, lambda _: rng.choice(HOSTILE),
                               lambda _: rng.choice(HOSTILE if rng.random() < 0.1 else SANE)])
        folders.append(hostile_run(tmp_path / f"$_{place}{SCRIPT.replace('/', '')}", value_of, rng))
    runs, problems = read_runs(folders)
    comparison = compare(*runs, axes=rng.choice(["auto", "linear", "log"]))
    pictures, tables = script.draw(comparison)
    assert len(runs) == len(folders) and pictures
    script.write(tmp_path, pictures, script.page.page(comparison, pictures, tables, list(map(str, problems)), script.datetime.now()))
    assert Page(tmp_path).tags <= TAGS and not charts.plt.get_fignums()


def test_a_script_in_every_field_is_text(draw, tmp_path):
    folder = hostile_run(tmp_path / "<script>", lambda _: json.dumps(SCRIPT), random.Random(2))
    for kind in ("config", "result", "error"):
        (folder / f"{kind}.json").write_text(json.dumps(dict.fromkeys(FIELDS[kind], SCRIPT) | ({} if kind != "result" else {"step": 0})))
    lines = [{"kind": kind, **dict.fromkeys(FIELDS[kind], 1), "step": 7} for kind in ("train", "val")]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "confusion_matrix.csv").write_text(f"true,{SCRIPT},b\n{SCRIPT},0,1\nb,1,0\n")
    other = made_up_run(tmp_path / 'quote"><img src=x onerror=alert(1)>', steps=3, lr=SCRIPT * 2, **{SCRIPT: 1})
    code, said, _ = draw(folder, other, tmp_path / SCRIPT, f"--output={tmp_path / 'report'}")
    assert code == 0, said
    page = Page(tmp_path / "report")
    assert page.tags <= TAGS and page.attributes <= {"charset", "name", "content", "class", "style", "id", "alt", "src", "lang"}
    row = page.rows()[0]
    assert row["run"] == "● <script>" and row["state"] == f"failed ({SCRIPT}): {SCRIPT}" and row["model"] == SCRIPT
    assert f"--{SCRIPT}" in row and f"last val {SCRIPT}" in row and page.rows()[1]["--lr"] == SCRIPT * 2
    assert page.has(f"<script>: {SCRIPT}", f"{SCRIPT} (1)", 'quote"><img src=x onerror=alert(1)>', f"{tmp_path / SCRIPT} is no run")


def test_names_that_are_no_text(draw, tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff\x1b[31m\xe2\x80\xae")
    made_up_run(folder, steps=3)
    (folder / "confusion_matrix.csv").write_bytes(b"true,\xff\x1b,$\\b{\n\xff\x1b,1,0\n$,0,1\n")
    code, said, notes = draw(folder, folder / "\x1b[2Jnone", f"--output={folder / 'report'}")
    assert code == 0 and "\x1b" not in said + notes and r"\xff\x1b[31m\u202e" in said
    page = Page(folder / "report")
    assert r"\x1b[2Jnone" in notes and page.rows()[0]["run"] == r"● \xff\x1b[31m\u202e" and page.has(r"\xff\x1b")


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json", "result.json", "error.json", "confusion_matrix.csv", "latest", "lock"])
def test_pipes_and_links_are_not_read(draw, tmp_path, name):
    """No other file is missed, and without metrics.jsonl there is no run."""
    for kind, make in (("pipe", os.mkfifo), ("link", lambda path: path.symlink_to("/dev/zero")), ("folder", os.mkdir)):
        folder = made_up_run(tmp_path / kind, steps=3)
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
        if name != "metrics.jsonl":
            assert read_run(folder).train.last["step"] == 3 and classes.read_matrix(folder) is None
    if name == "metrics.jsonl":
        code, _, notes = draw(*(tmp_path / kind for kind in ("pipe", "link", "folder")), f"--output={tmp_path / 'report'}")
        assert code == 3 and "what to do: " in notes and not (tmp_path / "report").exists()


def test_nothing_is_written_through_a_link_or_over_a_run(draw, tmp_path):
    folder, output, victim = made_up_run(tmp_path / "run", steps=3), tmp_path / "report", tmp_path / "victim"
    victim.write_text("precious")
    output.mkdir()
    for name in ("report.html", "loss.png", "confusion_7.png"):
        (output / name).symlink_to(victim)
    assert draw(folder, f"--output={output}")[0] == 0
    assert victim.read_text() == "precious" and not (output / "loss.png").is_symlink() and len(Page(output).rows()) == 1
    before = sorted(path.name for path in folder.iterdir())
    code, _, said = draw(folder, f"--output={folder / '..' / 'run'}")
    assert code == 2 and "config.json" in said and sorted(path.name for path in folder.iterdir()) == before
    assert draw(folder, f"--output={victim}")[0] == 2
    assert draw(folder, "--output=/proc/report")[0] == 5


def test_long_logs_take_bounded_memory(tmp_path):
    """Neighbours are averaged; a line without an end is passed over."""
    folder = made_up_run(tmp_path / "run", steps=3)
    with (folder / "metrics.jsonl").open("wb") as file:
        for step in range(1, 40_001):
            file.write(b'{"kind":"train","step":%d,"epoch":%f,"loss":%d}\n' % (step, step / 8000, step % 2))
        file.write(json.dumps({"kind": "train", "step": 40_001, **{f"name {number}": 1 for number in range(1000)}}).encode() + b"\n")
        file.write(b"x" * 300_000 + b'\n{"kind":"val","step":40000,"epoch":5,"top1":12.5}\n')
        file.truncate(file.tell() + (80 << 20))
    found = read_run(folder, most_rows=1000)
    assert 1000 <= len(found.train) < 2000 and len(found.train.names) < 100 and found.train.last["step"] == 40_001
    steps, losses = found.train.series("epoch", "loss")
    assert losses[:-1] == pytest.approx(0.5) and steps[0] == pytest.approx(16.5 / 8000, rel=0.1) and found.val.last["top1"] == 12.5


def test_a_report_that_nobody_can_take(tmp_path):
    """stdout is full: exit code 5 and a sentence."""
    folder = made_up_run(tmp_path / "run", steps=3)
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, ROOT / "scripts" / "report.py", folder, f"--output={tmp_path / 'report'}"], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 5 and "what to do: " in done.stderr and "Traceback" not in done.stderr
