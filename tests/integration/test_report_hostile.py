"""scripts/report.py on files that hold whatever files can hold: text where numbers are due, HTML, pipes, links, no end."""

import json
import os
import random

import pytest

from report_data import TAGS, Page, compare, draw, made_up_run, no_picture_stays_open, script  # noqa: F401, fixtures
from reports import charts, classes
from reports.read import read_run, read_runs

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
    assert len(runs) == len(folders) and (pictures or seed > 0)
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
    for name in ("report.html", "loss.png"):
        theirs = tmp_path / f"with {name}" / name
        theirs.parent.mkdir()
        theirs.write_text("precious")
        assert draw(folder, f"--output={theirs.parent}")[0] == 2 and theirs.read_text() == "precious"
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
