"""Several validation sets, and the predictions for each sample of one: what is written, at any number of ranks."""

import json
import re
import shutil
import sys

import pytest

from command import ROOT, TINY_STEADY, final_numbers, load_json, load_lines, load_table, metrics, run

pytestmark = pytest.mark.usefixtures("module_dir")


@pytest.fixture(scope="module")
def data(few_images, module_dir):
    """The training set, 8 images as val, and 6 of them with three more as test."""
    folder = shutil.copytree(few_images, module_dir / "data")
    shutil.copytree(folder / "val", folder / "test")
    for removed in ("blue/000.jpg", "red/001.jpg"):
        (folder / "test" / removed).unlink()
    for number in range(3):
        shutil.copy(folder / "train" / "stripes" / f"00{number}.jpg", folder / "test" / "stripes" / f"1{number}.jpg")
    return folder


@pytest.fixture(scope="module")
def trained(data, module_dir):
    """A run of three epochs with both sets, each evaluated after each."""
    outcome = run(*TINY_STEADY, f"--data_dir={data}", "--val_split=val,test", "--eval_every_epochs=1", "--epochs=3", "--lr=0.002",
                  "--ema_decay=0.9", f"--run_dir={module_dir / 'run'}")
    return module_dir / "run", outcome


def test_each_set_has_its_lines_and_the_first_decides(trained):
    folder, outcome = trained
    points = metrics(folder, "val")
    assert [point.get("split") for point in points] == [None, "test"] * 3
    assert [point["step"] for point in points[::2]] == [point["step"] for point in points[1::2]]
    assert len(re.findall(r"validation on test step", outcome.stdout)) == 3
    result = load_json(folder / "result.json")
    last = points[-2:]
    for name in ("top1", "loss", "ema_top1", "ema_loss"):
        assert result[f"val_{name}"] == last[0][name]
        assert result[f"val_test_{name}"] == last[1][name]
    best = max(point["ema_top1"] for point in points[::2])
    assert result["best_ema_top1"] == best
    shown = final_numbers(outcome.last_line)
    assert shown["val_test_loss"] == pytest.approx(result["val_test_loss"], abs=1e-4)


def test_an_evaluation_of_both_is_that_of_each(trained, data):
    folder, outcome = trained
    flags = ("--mode=eval", f"--run_dir={folder}", f"--data_dir={data}", "--weights=last")
    both = final_numbers(run(*flags).last_line)  # the run's own sets
    of_training = final_numbers(outcome.last_line)
    assert both["val_test_top1"] == of_training["val_test_top1"] and both["val_loss"] == of_training["val_loss"]
    val, test = (load_json(folder / f"eval-{name}" / "result.json") for name in ("val", "test"))
    assert (val["samples_seen"], test["samples_seen"]) == (8, 9), "each file has the numbers of its own set"
    assert test["images_per_second"] * test["seconds"] == pytest.approx(9)
    alone = final_numbers(run(*flags, "--val_split=test").last_line)
    assert alone["val_loss"] == both["val_test_loss"] and alone["val_balanced_accuracy"] == both["val_test_balanced_accuracy"]


def test_a_set_whose_name_makes_two_numbers_one_is_refused(data):
    shutil.copytree(data / "val", data / "ema")
    flags = (*TINY_STEADY, f"--data_dir={data}", "--val_split=val,ema", "--dry_run")
    run(*flags)
    assert "two numbers one name, val_ema_loss" in run(*flags, "--ema_decay=0.9", check=2).stderr
    shutil.rmtree(data / "ema")


def test_a_run_that_goes_on_without_its_validation_has_no_numbers_of_it(few_images, run_dir, tmp_path):
    folder = shutil.copytree(few_images, tmp_path / "data")
    flags = (*TINY_STEADY, f"--data_dir={folder}", f"--run_dir={run_dir}")
    run(*flags, "--max_steps=1")
    shutil.rmtree(folder / "val")
    assert "val_top1" in load_json(run_dir / "result.json") and run(*flags, "--max_steps=1").last_line.startswith("val_top1=")
    assert run(*flags, "--max_steps=2").last_line.startswith("train_loss=") and "val_top1" not in load_json(run_dir / "result.json")


def test_a_finished_run_keeps_the_numbers_of_all_sets(trained, data):
    folder, outcome = trained
    again = run(*TINY_STEADY, f"--data_dir={data}", "--val_split=val,test", "--eval_every_epochs=1", "--epochs=3", "--lr=0.002",
                "--ema_decay=0.9", f"--run_dir={folder}")
    assert again.last_line == outcome.last_line


@pytest.mark.parametrize(("value", "code", "words"), [("val,val", 2, "different names"), ("val,", 2, "different names"),
                                                      ("val,nothing", 3, "there is no 'nothing' split")])
def test_sets_that_are_none_are_refused(data, value, code, words):
    assert words in run(*TINY_STEADY, f"--data_dir={data}", f"--val_split={value}", check=code).stderr


def predictions(trained, data, path, *flags):
    run("--mode=eval", f"--run_dir={trained[0]}", f"--data_dir={data}", "--val_split=test", "--weights=last", "--batch_size=2",
        f"--predictions={path}", *flags)
    return path


def test_predictions_are_those_of_the_evaluation(trained, data, tmp_path):
    path = predictions(trained, data, tmp_path / "all.csv")
    rows = load_table(path)
    assert [row["file"] for row in rows] == [str(file) for file in sorted((data / "test").rglob("*.jpg"))]
    result = load_json(trained[0] / "result.json")
    right = sum(row["label"] == row["prediction"] for row in rows)
    assert 100 * right / len(rows) == pytest.approx(result["val_test_top1"])
    assert sum(float(row["loss"]) for row in rows) / len(rows) == pytest.approx(result["val_test_loss"], rel=1e-5)
    for row in rows:
        assert row["file"].split("/")[-2] == row["label"] and row["class_1"] == row["prediction"]
        assert sum(float(row[f"probability_{place}"]) for place in range(1, 5)) == pytest.approx(1, abs=1e-5)


def test_each_of_several_sets_has_its_predictions(trained, data, tmp_path):
    predictions(trained, data, tmp_path / "x.csv", "--val_split=val,test")
    predictions(trained, data, tmp_path / "alone.csv")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["alone.csv", "x-test.csv", "x-val.csv"]
    assert (tmp_path / "x-test.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert len((tmp_path / "x-val.csv").read_text(encoding="utf-8").splitlines()) == 1 + 8


def test_predictions_are_the_same_at_any_number_of_ranks(trained, data, tmp_path):
    one = predictions(trained, data, tmp_path / "1.jsonl")
    three = predictions(trained, data, tmp_path / "3.jsonl", "--nproc_per_node=3", "--backend=gloo")
    alone, shared = load_lines(one), load_lines(three)
    assert len(alone) == 9 and [row["file"] for row in alone] == [row["file"] for row in shared]
    for row, other in zip(alone, shared, strict=True):
        assert row["prediction"] == other["prediction"] and row["loss"] == pytest.approx(other["loss"], rel=1e-5)
    some = predictions(trained, data, tmp_path / "some.csv", "--limit_val_steps=2")
    assert len(some.read_text(encoding="utf-8").splitlines()) == 1 + 4


def test_the_report_shows_the_worst_mistakes(trained, data, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "mistakes.jsonl"
    names = sorted((data / "test").rglob("*.jpg"))
    rows = [{"file": str(name), "label": "red", "prediction": "red" if place % 2 else "<b>blue", "loss": place,
             "probabilities": {"red": 0.25, "<b>blue": 0.75}} for place, name in enumerate(names)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run(ROOT / "scripts/report.py", trained[0], f"--output={tmp_path / 'report'}", f"--predictions={path}", program=sys.executable)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "5 of 9 samples are wrong; the 5 with the greatest loss" in page
    gallery = page[page.index('class="gallery"'):]
    assert gallery.count("data:image/png") >= 5 and "<b>blue" not in page
    assert gallery.index(names[8].name) < gallery.index(names[6].name)
    assert "18.9 – 73.3 %" in page  # of 4 right ones of 9
