"""scripts/report.py on real runs, and on made-up ones with data that would take many machines."""

import fcntl
import json
import re

import pytest

from command import TINY, load_json, run
from report_data import (COMMUNICATION, COMPUTE, DATA, Page, compare, draw, made_up_run, no_picture_stays_open,  # noqa: F401, fixtures
                         write_confusion)
from reports import charts, classes, flags, scaling
from reports.mistakes import read_mistakes
from reports.page import best_run, columns
from reports.points import Points
from reports.read import read_run, read_runs
from reports.run import name_apart, smaller_is_better


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
    assert "efficientnet_b0" in page and "finished" in page and "best val top1" in page
    start = load_json(run_dir / "config.json")["start"]
    assert start["changes_no_result"] == ["log_interval", "run_dir"] and start["smaller_is_better"] == ["val_loss", "seconds"]
    assert start["best_metric"] == "top1"
    assert load_json(run_dir / "result.json")["smaller_is_better"] == start["smaller_is_better"]


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


def test_a_limited_evaluation_says_on_how_many_samples(draw, tmp_path):
    limited, whole = made_up_run(tmp_path / "limited"), made_up_run(tmp_path / "whole")
    result = json.loads((limited / "result.json").read_text(encoding="utf-8"))
    (limited / "result.json").write_text(json.dumps(result | {"val_samples": 320, "val_samples_of_split": 10000}), encoding="utf-8")
    assert draw(limited, whole, f"--output={tmp_path / 'report'}")[0] == 0
    rows = Page(tmp_path / "report").rows()
    assert [row["validated on"] for row in rows] == ["320 of 10,000 samples", "all"]
    assert not any("samples" in name for name in rows[0] if name.startswith("last val"))


def test_few_runs_stand_beside_each_other(draw, tmp_path):
    """No column is out of sight, whatever the number of flags and metrics; runs with the same numbers are named."""
    runs = [made_up_run(tmp_path / f"run-{number}", steps=30, lr=number) for number in range(7)]
    assert draw(*runs[:6], f"--output={tmp_path / 'few'}")[0] == 0
    page = Page(tmp_path / "few")
    assert [head.split()[-1] for head in page.tables[0][0]] == ["run", *(run.name for run in runs[:6])]
    assert [row["--lr"] for row in page.rows()] == [str(number) for number in range(6)]
    assert page.has("run-4 and run-5 have logged the same losses")
    assert draw(*runs, f"--output={tmp_path / 'many'}")[0] == 0
    assert [row[0].split()[-1] for row in Page(tmp_path / "many").tables[0][1:]] == [run.name for run in runs]


def test_a_stopped_run_has_devices_and_time(tmp_path):
    """The time of a run without a result is that of times.jsonl: the second attempt went on from step 10 of 20."""
    folder = made_up_run(tmp_path / "run", steps=30, finished=False)
    told = [{"attempt": 1, "step": 0, "startup_seconds": 3}, {"attempt": 1, "step": 10, "startup_seconds": 3, "forward_seconds": 5},
            {"attempt": 1, "step": 20, "startup_seconds": 3, "forward_seconds": 9},
            {"attempt": 2, "step": 10, "startup_seconds": 2}, {"attempt": 2, "step": 30, "startup_seconds": 2, "backward_seconds": 10}]
    (folder / "times.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told) + '{"attempt": 2, "st', encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"start": {"world_size": 4}}), encoding="utf-8")
    stopped = read_run(folder)
    assert stopped.devices == 4 and stopped.state() == "stopped"
    assert stopped.wall_time() == {"startup": 5, "compute": 15, "lost": 4}
    assert charts.wall_time(compare(stopped)) is not None
    cells = columns(compare(stopped))
    assert cells["time"] == ["0:24"] and cells["goodput"] == ["62.5 %"]


def test_the_classes_of_an_evaluation_are_shown_once(draw, tmp_path):
    folder = made_up_run(tmp_path / "run", steps=30)
    (folder / "confusion_matrix.csv").write_text("true class,a,b\na,2,1\nb,0,1\n", encoding="utf-8")
    rows = "".join(f"x.jpg,{label},{prediction},1,{prediction},0.9\n" for label, prediction in ("aa", "aa", "ab", "bb"))
    head = "file,label,prediction,loss,class_1,probability_1\n"
    (tmp_path / "p.csv").write_text(head + rows, encoding="utf-8")
    for times in (1, 2):
        assert draw(folder, f"--predictions={tmp_path / 'p.csv'}", f"--output={tmp_path / 'report'}")[0] == 0
        assert sum(table[0][0] == "class" for table in Page(tmp_path / "report").tables) == times
        (tmp_path / "p.csv").write_text(head + rows + "y.jpg,b,b,1,b,0.9\n", encoding="utf-8")


def test_several_labels_are_no_classes(tmp_path):
    rows = [{"file": "x.jpg", "label": label, "prediction": label, "loss": 1, "probabilities": {"red": 0.9, "1": 0.8}} for label in ("red", "red 1")]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "p.csv").write_text("file,label,prediction,loss,probability_red,probability_1\nx.jpg,red,red,1,0.9,0.8\n", encoding="utf-8")
    assert [len(read_mistakes(tmp_path / name).classes) for name in ("p.jsonl", "p.csv")] == [0, 0]


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


def judged_run(folder, values: dict[str, list[float]], told: list[str], **result):
    """Writes a run of so many validations."""
    folder.mkdir()
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"kind": "val", "step": step, **row}) + "\n" for step, row in enumerate(rows, 1)),
                                          encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"start": {"smaller_is_better": told}}), encoding="utf-8")
    if result:
        (folder / "result.json").write_text(json.dumps({"step": len(rows), "best_step": 1, "best_epoch": 1, **result}), encoding="utf-8")
    return folder


def test_each_run_is_judged_by_the_number_that_decided(draw, tmp_path):
    """Of the averaged weights beside raw ones, by the direction that the run tells, and of a log of any length."""
    numbers = {"loss": [3, 1, 2], "mae": [5, 6, 7], "ema_mae": [9, 2, 4], "pearson_loss": [0.1, 0.3, 0.2]}
    errors = ["val_loss", "val_mae", "val_ema_mae"]
    averaged = judged_run(tmp_path / "averaged", numbers, errors, best_ema_mae=2)
    raw = judged_run(tmp_path / "raw", {"loss": [1, 1, 1], "mae": [8, 7, 3]}, errors, best_mae=3)
    for runs in ((averaged, raw), (raw, averaged)):
        assert draw(*runs, f"--output={tmp_path / 'report'}")[0] == 0
        found = {row["run"].split()[-1]: (row["best val mae"], row["at step"]) for row in Page(tmp_path / "report").rows()}
        assert found == {"averaged": ("2.0000", "2"), "raw": ("3.0000", "3")}
        assert best_run([read_run(one) for one in runs]).name == "averaged"
    assert columns(compare(read_run(averaged)))["best val ema_mae"] == ["2.0000"]
    (raw / "result.json").unlink()
    (raw / "config.json").write_text('{"start": {"best_metric": "loss"}}', encoding="utf-8")
    assert "best val loss" in columns(compare(read_run(raw)))  # not the first one: the run has said it
    by_loss = judged_run(tmp_path / "by_loss", numbers, errors, best_loss=1)
    assert columns(compare(read_run(by_loss)))["at step"] == ["2"]
    by_column = judged_run(tmp_path / "by_column", numbers, errors, best_pearson_loss=0.3)
    assert columns(compare(read_run(by_column)))["best val pearson_loss"] == ["0.3000"]
    long = judged_run(tmp_path / "long", {"top1": [99.9 if step == 776 else 10.0 for step in range(20_000)]}, [], best_top1=99.9)
    cells = columns(compare(read_run(long, most_rows=1000)))
    assert (cells["best val top1"], cells["at step"]) == (["99.90"], ["777"])
    other = judged_run(tmp_path / "other", {"top1": [10.0, 20.0]}, [])
    cells = columns(compare(*map(read_run, (averaged, long, other, by_loss))))
    assert cells["best val top1"] == ["–", "99.90", "20.00", "–"] and cells["at step of mae"] == ["2", "–", "–", "1"]
    assert "at step of loss" in cells


@pytest.mark.parametrize(("name", "less"), [
    ("val_loss", True), ("val_ema_mae", True), ("val_more_mae", True), ("best_ema_rmse_height", True), ("seconds", True), ("valloss", True),
    ("val_r2_seconds", False), ("val_pearson_loss", False), ("val_top1", False), ("images_per_second", False)])
def test_names_of_earlier_versions_say_what_is_better(name, less):
    assert smaller_is_better(name, None) == less
    assert smaller_is_better(name, [name]) and not smaller_is_better(name, [])


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
    decades = Points(100)
    for step in range(60):
        decades.add([{"step": step, "epoch": step / 10, "loss": 10 ** (-step / 10)}])
    calm.train = decades
    assert charts.loss(compare(calm)).axes[0].get_yscale() == "log"


# ---- Classes ---------------------------------------------------------------------------------------------------------


def test_classes_with_their_intervals(tmp_path):
    lines = ["true class,'=cat,\"dog, old\",none,rat", "'=cat,8,2,0,0", '"dog, old",0,1,0,0', "none,0,0,0,0", "rat,3,1,0,96"]
    (tmp_path / "confusion_matrix.csv").write_text("\n".join(lines), encoding="utf-8")
    rows = classes.class_rows(classes.read_matrix(tmp_path))
    assert [(row.name, row.correct, row.samples, row.rival, row.times) for row in rows] == [
        ("=cat", 8, 10, "dog, old", 2), ("rat", 96, 100, "=cat", 3), ("dog, old", 1, 1, "=cat", 0)]
    assert (rows[0].precision, rows[0].f1, rows[1].precision) == (8 / 11, 16 / 21, 1)
    assert classes.whole_accuracy(rows).startswith("94.59 % of 111 samples, 95 % interval 88.7 to 97.5 %; always guessing rat")
    (tmp_path / "eval-val").mkdir()
    (tmp_path / "eval-train").mkdir()
    (tmp_path / "eval-train" / "result.json").write_text('{"train_top1": 99}', encoding="utf-8")
    (tmp_path / "eval-link").symlink_to(tmp_path / "eval-val")
    assert classes.evaluations(tmp_path) == [
        ("train (samples of the training)", tmp_path / "eval-train"), ("val", tmp_path / "eval-val"), ("", tmp_path)]
    proportion = pytest.importorskip("scipy.stats").binomtest
    for row in rows:
        interval = proportion(row.correct, row.samples).proportion_ci(method="wilson")
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), abs=1e-6)


@pytest.mark.parametrize("text", ["true,a,b\na,1\n", "", "true,a\na,-1\n", "true,a\na,0.5\n", "true,a\na,nan\n", "true,a\na,1e300\n",
                                  "true,a\na,1\nb,1\n", "true,a,b\na,1,1\n", "true" + ",a" * 2001, 'true,"a\0', "true,a\na,1" + "0" * 400])
def test_a_matrix_that_is_none_is_left_out(tmp_path, text):
    (tmp_path / "confusion_matrix.csv").write_text(text, encoding="utf-8")
    assert classes.read_matrix(tmp_path) is None
