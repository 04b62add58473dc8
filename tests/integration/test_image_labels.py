"""Images with several labels, or with numbers: several ranks learn what one does, and what cannot be learned is refused
before the first step."""

import csv
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from command import BENCH, TINY, final_numbers, load_json, load_lines, load_table, losses, run

TASKS = {"image_multilabel": ("--label_column=tags", "--label_separator=;"),
         "image_regression": ("--label_column=redness,brightness", "--loss=smooth_l1")}
STEPS = 7


@pytest.fixture(scope="module")
def table(few_images, module_dir):
    """The pictures of all classes, with two labels and two numbers that can be seen in them."""
    module_dir.mkdir(exist_ok=True)
    shutil.copytree(few_images, module_dir, dirs_exist_ok=True)
    path = module_dir / "labels.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "split", "tags", "redness", "brightness"])
        for picture in sorted(few_images.rglob("*.jpg")):
            kind, split = picture.parent.name, picture.parent.parent.name
            tags = {"red": "warm", "stripes": "warm;striped", "blue": "cold", "green": ""}[kind]
            rows.writerow([picture.relative_to(few_images), split, tags, 5 + (kind == "red"), 1000 + 10 * len(tags)])
    return path


def flags_of(task, table, *more) -> tuple:
    return (*TINY, f"--task={task}", *TASKS[task], f"--labels={table}", "--epochs=3", f"--max_steps={STEPS}", *more)


@pytest.mark.parametrize("task", TASKS)
def test_ranks_learn_what_one_does(task, table, tmp_path):
    """In a model without batch normalisation. With 40 images a step sees an uneven last part of an epoch."""
    flags = [*flags_of(task, table, "--drop_path=0", "--max_steps=3")]
    flags[0] = "--model=convnext_atto"
    ends = []
    for ranks in (1, 2):
        outcome = run(*flags, f"--batch_size={16 // ranks}", f"--nproc_per_node={ranks}", f"--run_dir={tmp_path / str(ranks)}")
        ends.append(final_numbers(outcome.last_line))
    assert [loss for _, loss in losses(tmp_path / "2")] == pytest.approx([loss for _, loss in losses(tmp_path / "1")], rel=1e-4)
    assert ends[1] == pytest.approx(ends[0], rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("task", TASKS)
def test_a_dry_run_tells_the_labels(task, table):
    plan = json.loads(run("--dry_run", "--log_format=json", *flags_of(task, table)).last_line)
    assert plan["classes"] == {"image_multilabel": "3: cold, striped, warm",
                               "image_regression": "2: redness, brightness"}[task]
    assert plan["task"] == task and (plan["train_samples"], plan["val_samples"]) == (40, 8)


@pytest.mark.parametrize("task", TASKS)
def test_the_loader_dumps_the_labels(task, table, tmp_path):
    run("loader", *flags_of(task, table)[:-2], "--steps=1", "--warmup=0", f"--dump={tmp_path / 'd.safetensors'}", program=BENCH)
    batch = load_file(tmp_path / "d.safetensors")
    assert "labels" not in batch and batch["targets"].shape == (16, {"image_multilabel": 3, "image_regression": 2}[task])
    assert (batch["targets"] >= 0).all() and len(np.unique(batch["targets"])) > 1


def test_a_classifier_of_others_begins_anew(table, few_images, one_step, tmp_path):
    for task, outputs in (("image_multilabel", 3), ("image_regression", 2)):
        said = run(*flags_of(task, table, "--max_steps=1"), f"--init_weights={one_step}", f"--run_dir={tmp_path / task}").stderr
        assert f"the given weights have 4 classes, but this run has {outputs}" in said
        assert load_json(tmp_path / task / "config.json")["start"]["best_metric"] == {"image_multilabel": "map", "image_regression": "r2"}[task]
    # Numbers whose scale is another go on from the weights: what these predict in the labels' unit has not changed.
    changed = table.with_name("changed.csv")
    rows = list(csv.reader(table.open(encoding="utf-8")))
    changed.write_text("\n".join(",".join([*row[:3], str(float(row[3]) * 2), row[4]]) if number else ",".join(row)
                                 for number, row in enumerate(rows)) + "\n", encoding="utf-8")
    again = flags_of("image_regression", changed, "--max_steps=1", "--lr=0", "--weight_decay=0", "--freeze=features")
    run(*again, f"--init_weights={tmp_path / 'image_regression' / 'model.safetensors'}", f"--run_dir={tmp_path / 'again'}")
    predicted = []
    for folder in ("image_regression", "again"):
        run("--mode=predict", f"--run_dir={tmp_path / folder}", "--weights=last", f"--input={few_images / 'val'}",
            f"--output={tmp_path / folder}.csv")
        predicted.append([float(row["prediction_redness"]) for row in load_table(tmp_path / f"{folder}.csv")])
    assert predicted[1] == pytest.approx(predicted[0], rel=0.05)
    refused = run(*flags_of("image_regression", changed), f"--run_dir={tmp_path / 'again'}", "--freeze=features", "--allow_dataset_change",
                  f"--labels={table}", check=2)
    assert "the checkpoint was made with number_scale" in refused.stderr
    shutil.rmtree(tmp_path / "again")


def test_files_of_a_run(table, few_images, run_dir, tmp_path):
    """metrics.jsonl, result.json and class_accuracy.csv of several labels, and a line for each image, also one that is none."""
    run(*flags_of("image_multilabel", table, "--eval_every_epochs=1", "--best_metric=f1_macro", f"--run_dir={run_dir}"))
    result = load_json(run_dir / "result.json")
    assert list(result)[:4] == ["val_loss", "val_map", "val_f1_micro", "val_f1_macro"]
    pictures = shutil.copytree(few_images / "val", tmp_path / "pictures")
    (pictures / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    for ending in ("csv", "jsonl"):
        run("--mode=predict", f"--run_dir={run_dir}", f"--input={pictures}", f"--output={tmp_path / f'out.{ending}'}",
            "--label_threshold=0.001")
    rows, lines = load_table(tmp_path / "out.csv"), load_lines(tmp_path / "out.jsonl")
    assert list(rows[0]) == ["file", "prediction", "probability_cold", "probability_striped", "probability_warm", "error"]
    assert len(rows) == 9 and all(row["prediction"] == "cold;striped;warm" for row in rows if not row["error"])
    assert [bool(row["error"]) for row in rows] == ["error" in line for line in lines] and sum("error" in line for line in lines) == 1
    assert [float(row["probability_warm"]) for row in rows if not row["error"]] == [
        line["probabilities"]["warm"] for line in lines if "error" not in line]


@pytest.mark.parametrize("task, flags, code, words", [
    ("image_regression", ["--label_smoothing=0.1"], 2, "it is for"),
    ("image_regression", ["--num_classes=4"], 2, "an output for each column of numbers"),
    ("image_regression", ["--loss=bce"], 2, "l2 or smooth_l1 with --task=image_regression"),
    ("image_regression", ["--best_metric=top1"], 2, "r2"),
    ("image_multilabel", ["--class_weights={folder}/weights.csv"], 2, "'purple' is not a class of the data"),
    ("image_multilabel", ["--num_classes=5"], 2, "split train has 3 labels"),
])
def test_what_makes_no_sense_is_refused(task, flags, code, words, table, tmp_path):
    (tmp_path / "weights.csv").write_text("cold,1\nwarm,1\npurple,2\n", encoding="utf-8")
    said = run(*flags_of(task, table), *(flag.format(folder=tmp_path) for flag in flags), f"--run_dir={tmp_path / 'run'}", check=code).stderr
    assert words in said, said


def test_data_that_teach_nothing_are_refused(table, few_images, tmp_path):
    rows = list(csv.reader(table.open(encoding="utf-8")))
    for name, change in (("constant", lambda row: [*row[:3], "7.5", row[4]]),
                         ("constant val", lambda row: [*row[:3], "7.5" if row[1] == "val" else row[3], row[4]]),
                         ("unknown", lambda row: [*row[:2], "new" if row[1] == "val" else row[2], *row[3:]])):
        table.with_name(f"{name}.csv").write_text("\n".join(",".join(change(row) if number else row) for number, row in enumerate(rows)) + "\n",
                                              encoding="utf-8")
    said = run(*flags_of("image_regression", table.with_name("constant.csv")), f"--run_dir={tmp_path / 'run'}", check=3).stderr
    assert "all images of split train have the same redness: 7.5, so that nothing is learned" in said
    said = run(*flags_of("image_regression", table.with_name("constant val.csv"), "--max_steps=1"), f"--run_dir={tmp_path / 'val'}").stderr
    assert "all images of split val have the same redness: 7.5: its r2" in said
    said = run(*flags_of("image_multilabel", table.with_name("unknown.csv")), f"--run_dir={tmp_path / 'run'}", check=3).stderr
    assert "'new'" in said and "line " in said
    for task in TASKS:
        said = run(*TINY, f"--task={task}", f"--data_dir={few_images}", f"--run_dir={tmp_path / 'run'}", check=2).stderr
        assert "--labels" in said
