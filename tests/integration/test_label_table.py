"""Images whose labels are in a table: every mode and every command reads it as it reads folders of classes."""

import csv
import json
import shutil

import pytest

from command import DATA, TINY, inspected, load_json, load_table, run
from conftest import CLASSES

FLAGS = (*TINY, "--epochs=3", "--max_steps=5")


def write(path, rows, header=("file_name", "label", "split")):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def rows_of(images, **split_names):
    """A row for each image, in the order of the folders."""
    return [(str(path.relative_to(images)), path.parent.name, split_names.get(split, split))
            for split in ("train", "val") for path in sorted((images / split).glob("*/*.jpg"))]


@pytest.fixture(scope="module")
def table(few_images, module_dir):
    return write(module_dir / "labels.csv", rows_of(few_images, val="Validation"))


@pytest.fixture(scope="module")
def data(few_images, table):
    return f"--labels={table}", f"--data_dir={few_images}"


@pytest.fixture(scope="module")
def trained(data, module_dir):
    folder = module_dir / "trained"
    return folder, run(*FLAGS, *data, f"--run_dir={folder}")


def test_an_evaluation_names_a_table(few_images, data, trained, tmp_path):
    folder, outcome = trained
    evaluate = ("--mode=eval", "--weights=last", f"--run_dir={folder}", f"--output={tmp_path}")
    assert run(*evaluate, *data).last_line.startswith(outcome.last_line)
    whole = write(few_images.parent / "whole.csv", [row[:2] for row in rows_of(few_images)], ("path", "label"))
    found = run(*evaluate, f"--labels={whole}", f"--data_dir={few_images}")
    assert load_json(tmp_path / "result.json")["samples_seen"] == 48, "without a column of splits, all are evaluated"
    own = write(few_images / "own.csv", [row[:2] for row in rows_of(few_images)], ("path", "label"))
    try:
        assert run(*evaluate, f"--labels={own}").last_line == found.last_line, "the table's own folder"
    finally:
        own.unlink()
    run("--mode=predict", f"--run_dir={folder}", f"--input={few_images / 'val'}", f"--output={tmp_path / 'p.csv'}")
    assert all(set(CLASSES) & set(row.values()) for row in load_table(tmp_path / "p.csv")), "the names of the table"


def test_a_part_is_held_out_by_groups(few_images, tmp_path):
    """That a run knows its part: test_small_data.py."""
    rows = [(*row[:2], f"person {number % 4}") for number, row in enumerate(rows_of(few_images))]
    table = write(tmp_path / "people.tsv.csv", rows, ("file_name", "label", "person"))
    flags = (f"--labels={table}", f"--data_dir={few_images}")
    plan = run(*FLAGS, *flags, "--val_fraction=0.25", "--group_column=person", "--log_format=json", "--dry_run").last_line
    assert (json.loads(plan)["train_samples"], json.loads(plan)["val_samples"]) == (36, 12)


def test_a_table_is_no_folder_of_classes(data):
    """Mistakes in tables: image_table_test.cc."""
    assert "--labels" in run(*FLAGS, *data, "--data_format=imagefolder", "--dry_run", check=2).stderr


def test_images_without_folders_are_told_of_the_flag(few_images, tmp_path):
    (tmp_path / "train").mkdir()
    for number, path in enumerate(sorted((few_images / "train").glob("*/*.jpg"))):
        shutil.copy(path, tmp_path / "train" / f"{number}.jpg")
    table = write(tmp_path / "train.csv", [(f"{number}.jpg", "ab"[number % 2]) for number in range(40)], ("id", "label"))
    refused = run(*FLAGS, f"--data_dir={tmp_path}", "--data_format=imagefolder", "--dry_run", check=3)
    hint = f"--labels={table} --data_dir={tmp_path / 'train'}"
    assert hint in refused.stderr
    run(*FLAGS, *hint.split(), "--image_column=id", "--val_fraction=0.2", "--dry_run")


def test_a_pack_has_the_classes_of_the_table(few_images, data, tmp_path):
    run("pack", *data, f"--output={tmp_path}", "--output_format=webdataset", program=DATA)
    packed, folders = inspected(f"--data_dir={tmp_path}"), inspected(f"--data_dir={few_images}")
    assert packed == folders == inspected(*data) and len(packed) == 48


@pytest.mark.parametrize(("name", "task", "flags"), [("tfrecord", "image_multilabel", ("--label_separator=|", "--label_column=tags")),
                                                     ("webdataset", "image_multilabel", ("--label_column=big,red",)),
                                                     ("tfrecord", "image_regression", ("--label_column=age,big",))])
def test_a_pack_has_several_labels_or_numbers(few_images, tmp_path, name, task, flags):
    tags = ("big|red", "", "red")
    rows = [(*row, tags[number % 3], int("big" in tags[number % 3]), int("red" in tags[number % 3]), number / 7)
            for number, row in enumerate(rows_of(few_images))]
    table = write(tmp_path / "labels.csv", rows, ("image", "label", "split", "tags", "big", "red", "age"))
    flags = (f"--task={task}", f"--labels={table}", f"--data_dir={few_images}", *flags)
    run("pack", *flags, f"--output={tmp_path / 'pack'}", f"--output_format={name}", program=DATA)
    packed = inspected(f"--task={task}", f"--data_dir={tmp_path / 'pack'}")
    assert packed == inspected(*flags) and packed[0]["targets"] == ([1, 1] if "multilabel" in task else [0, 1])
    assert run("verify", f"--task={task}", f"--data_dir={tmp_path / 'pack'}", program=DATA).lines == [
        "train: 40 records, 0 bad", "val: 8 records, 0 bad"]
    refused = run("inspect", f"--data_dir={tmp_path / 'pack'}", program=DATA, check=3)
    assert "was packed with labels of another kind" in refused.stderr
    refused = run("pack", *flags, f"--output={tmp_path / 'rec'}", "--output_format=recordio", program=DATA, check=2)
    assert "tfrecord or webdataset" in refused.stderr


def test_verify_and_warm(few_images, data, table, tmp_path):
    assert run("verify", *data, program=DATA).lines == ["train: 40 records, 0 bad", "val: 8 records, 0 bad"]
    assert run("warm", *data, program=DATA).last_line.startswith("warm: 48 reads")
    images = shutil.copytree(few_images, tmp_path / "images")
    (images / "val" / "red" / "000.jpg").write_bytes(b"no image")
    found = run("verify", f"--labels={table}", f"--data_dir={images}", program=DATA, check=3)
    assert f"{images}/val/red/000.jpg: " in found.stdout
    refused = run("verify", *data, f"--move_bad_to={tmp_path / 'bad'}", "--data_format=tfrecord", program=DATA, check=2)
    assert "--move_bad_to" in refused.stderr and "--data_format" in refused.stderr
