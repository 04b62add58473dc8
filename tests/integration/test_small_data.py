"""The features for small data sets: a validation split cut from the training split, frozen parts of a model, early
stopping, and the confusion matrix."""

import csv
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from command import TINY_STEADY, final_numbers, load_json, load_table, metrics, run, sha256
from conftest import CLASSES, make_image_folder, picture
from text_data import TEXT, make_tokens

HELD_OUT = ("--val_fraction=0.25", "--seed=3")
PARTLY_FROZEN = ("--freeze=features.0,features.1", "--backbone_lr_factor=0.1")
EVERY_EPOCH = "--eval_every_epochs=1"


@pytest.fixture(scope="module")
def photos(module_dir):
    """80 images of four classes, and no validation split."""
    return make_image_folder(module_dir / "photos", train=20, val=0)


def flags_of(photos) -> tuple:
    return (*TINY_STEADY, EVERY_EPOCH, *HELD_OUT, *PARTLY_FROZEN, f"--data_dir={photos}", "--epochs=1.5", "--log_interval=2")


@pytest.fixture(scope="module")
def trained(photos, module_dir):
    """Trains on 60 images in 5 steps of 16, with 20 for validation. Returns (run directory, outcome)."""
    folder = module_dir / "trained"
    return folder, run(*flags_of(photos), f"--run_dir={folder}")


def matrix_of(folder) -> tuple[list[str], np.ndarray]:
    with (folder / "confusion_matrix.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][0] == "true class" and [row[0] for row in rows[1:]] == rows[0][1:]
    return rows[0][1:], np.array([[int(cell) for cell in row[1:]] for row in rows[1:]])


# ---- A validation split of a part of the training split --------------------------------------------------------------


def test_the_run_knows_its_split(photos, trained):
    """The expected numbers are in the run's last line: an evaluation finds the same, on any number of ranks, also as
    each class's share."""
    folder, outcome = trained
    assert "20 of the 80 samples of 'train'" in outcome.stderr
    matrices = []
    for ranks in ((), ("--nproc_per_node=3",)):
        assert run("--mode=eval", "--weights=last", f"--data_dir={photos}", f"--run_dir={folder}",
                   *ranks).last_line.startswith(outcome.last_line)
        matrices.append(matrix_of(folder / "eval-held_out")[1])
    misspelt = run("--mode=eval", "--val_split=tset", f"--data_dir={photos}", f"--run_dir={folder}", check=3).stderr
    assert "there is no 'tset' split" in misspelt
    assert (matrices[0] == matrices[1]).all()
    assert matrices[0].sum(axis=1).tolist() == [5, 5, 5, 5]


def test_photos_that_were_added_change_the_split_aloud(photos, trained, tmp_path):
    flags = ("--mode=eval", f"--run_dir={trained[0]}", *HELD_OUT, f"--output={tmp_path}")
    copy = shutil.copytree(photos, tmp_path / "photos")
    assert "has changed since" not in run(*flags, f"--data_dir={copy}").stderr  # equal names and sizes
    shutil.copy(copy / "train" / "red" / "000.jpg", copy / "train" / "red" / "new.jpg")
    outcome = run(*flags, f"--data_dir={copy}")
    assert outcome.stderr.count(f"{copy} or the choice of its held-out part has changed since {trained[0]}") == 1, outcome


def test_an_evaluated_checkpoint_stays_as_it_was(photos, trained):
    checkpoint = next((trained[0] / "checkpoints").iterdir())
    before = sorted(checkpoint.rglob("*"))
    run("--mode=eval", f"--data_dir={photos}", f"--run_dir={checkpoint}", *HELD_OUT)
    run("--mode=eval", f"--data_dir={photos / 'none'}", f"--run_dir={checkpoint}", check=3)
    assert sorted(checkpoint.rglob("*")) == before


def test_what_cannot_be_is_said(few_images, photos, unequal, tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a").symlink_to(unequal / "train" / "a")
    for data, flags, code, said in ((few_images, ["--val_fraction=0.1"], 2, f"{few_images} has one: 'val'"),
                                    (photos, ["--val_fraction=0.001"], 2, "of the 80 samples of split train is less than one sample"),
                                    (photos, [EVERY_EPOCH, "--patience=2"], 2, "--val_fraction=0.1"),
                                    (tmp_path, [], 0, "train: all samples are of one class")):
        assert said in run(*TINY_STEADY, f"--data_dir={data}", *flags, "--dry_run", check=code).stderr


def test_text_has_one_too(tmp_path):
    tokens = make_tokens(tmp_path, train=TEXT)
    flags = ("--model=roberta_tiny", "--tokens_per_sample=32", "--sample_break=eos", "--batch_size=4", "--max_tokens=256",
             f"--data_dir={tokens}", "--max_steps=2", "--lr=0.001", "--optimizer=adam", "--freeze=roberta.embeddings")
    whole = json.loads(run(*flags, "--dry_run", "--log_format=json").last_line)["train_samples"]
    folder = tmp_path / "run"
    outcome = run(*flags, "--val_fraction=0.2", f"--run_dir={folder}")
    plan = json.loads(run(*flags, "--val_fraction=0.2", "--dry_run", "--log_format=json").last_line)
    assert plan["val_samples"] == round(0.2 * whole) and plan["train_samples"] == whole - plan["val_samples"]
    evaluated = run("--mode=eval", "--weights=last", f"--data_dir={tokens}", f"--run_dir={folder}")
    assert evaluated.last_line == outcome.last_line


# ---- Parts that do not learn -----------------------------------------------------------------------------------------


def test_frozen_parts_stay_and_a_resumed_run_has_the_same_bits(photos, trained, run_dir):
    folder, outcome = trained
    weights = load_file(folder / "model.safetensors")
    assert (weights["features.0.1.weight"] == 1).all() and (weights["features.1.0.block.0.1.running_mean"] == 0).all()
    assert (weights["features.2.0.block.0.1.weight"] != 1).any() and (weights["features.2.0.block.0.1.running_mean"] != 0).any()
    assert "of them frozen" in outcome.stdout
    run(*flags_of(photos), f"--run_dir={run_dir}", "--limit_train_steps=3")  # in the middle of an interval
    run(*flags_of(photos), f"--run_dir={run_dir}")
    assert sha256(run_dir / "model.safetensors") == sha256(folder / "model.safetensors")
    for kind, keys in (("train", ("step", "loss", "top1")), ("val", ("step", "top1", "loss"))):
        expected, found = ([{key: point[key] for key in keys} for point in metrics(where, kind)
                            if point["step"] not in (3,)] for where in (folder, run_dir))
        assert found == expected, kind


# ---- The end when nothing is gained ----------------------------------------------------------------------------------


def test_a_run_ends_when_nothing_is_gained(photos, tmp_path):
    """With everything but the classifier frozen and a rate of 0, no evaluation is better than the first. The run is made in
    pieces, because the state of the decision is in the checkpoint."""
    flags = (*TINY_STEADY, EVERY_EPOCH, *HELD_OUT, f"--data_dir={photos}", "--lr=0", "--freeze=backbone", "--epochs=30",
             "--patience=2", "--nproc_per_node=2", "--batch_size=8")
    pieces = tmp_path / "pieces"
    run(*flags, f"--run_dir={pieces}", "--limit_train_steps=9")
    ended = run(*flags, f"--run_dir={pieces}")
    result = load_json(pieces / "result.json")
    assert [round(point["epoch"]) for point in metrics(pieces, "val")] == [1, 2, 2, 3]  # also where it was stopped
    assert result["stopped_early"].startswith("no better top1 than") and result["best_step"] == 4
    assert ended.lines[-3] == "stopped early: " + result["stopped_early"]
    # A run that has ended stays ended, and continues if it gets more time.
    before = sha256(pieces / "result.json")
    again = run(*flags, f"--run_dir={pieces}")
    assert "ended early: no better top1" in again.stderr and sha256(pieces / "result.json") == before
    run(*flags, "--stop_after_epochs_without_gain=3", f"--run_dir={pieces}")
    assert round(load_json(pieces / "result.json")["epoch"]) == 4


# ---- Which class is taken for which ----------------------------------------------------------------------------------


def test_the_confusion_matrix_is_that_of_the_predictions(images, trained, tmp_path):
    folder = trained[0]
    outcome = run("--mode=eval", f"--data_dir={images}", f"--run_dir={folder}", f"--output={tmp_path / 'there'}",
                  "--nproc_per_node=2", "--batch_size=7")
    names, counts = matrix_of(tmp_path / "there")
    assert names == list(CLASSES)
    run("--mode=predict", f"--run_dir={folder}", f"--input={images / 'val'}", f"--output={tmp_path / 'guesses.csv'}")
    expected = np.zeros((4, 4), dtype=int)
    for row in load_table(tmp_path / "guesses.csv"):
        true = next(i for i, name in enumerate(CLASSES) if f"/{name}/" in "/" + row["file"])
        expected[true, int(row["class_1"])] += 1
    assert (counts == expected).all() and counts.sum() == 40
    accuracies = {row["class"]: float(row["accuracy"]) for row in load_table(tmp_path / "there" / "class_accuracy.csv")}
    assert list(accuracies.values()) == pytest.approx((100 * expected.diagonal() / expected.sum(axis=1)).tolist(), abs=0.006)
    assert f"val_top1={100 * expected.trace() / 40:.2f}" in outcome.last_line
    assert sum("most often taken for" in line or "100.00 % of" in line for line in outcome.lines) >= 4


# ---- Unequal classes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unequal(module_dir):
    """Classes of 10, 5, 1 and 0 photos, of which only the first two are in the validation split."""
    folder = module_dir / "unequal"
    for split, counts in (("train", (10, 5, 1, 0)), ("val", (4, 4, 0, 0))):
        for name, count in zip("abcd", counts, strict=True):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                picture("red" if name == "a" else "green", np.random.default_rng(number)).save(folder / split / name / f"{number}.jpg")
    return folder


def test_unequal_classes_are_said(unequal, run_dir):
    flags = (*TINY_STEADY, f"--data_dir={unequal}", "--batch_size=8", "--max_steps=2", f"--run_dir={run_dir}")
    said = run(*flags, "--class_weights=inverse").stderr
    for words in ("train: the 4 classes have 0 (d) to 10 (a) samples", "1 class has no training sample: d",
                  "1 class has a single training sample: c", "1 class has no validation sample, so that nothing tells how well it is learned: c"):
        assert words in said, said
    assert not any("top1" in point for point in metrics(run_dir, "train"))  # its samples would count by their weights
    outcome = run("--mode=eval", f"--data_dir={unequal}", f"--run_dir={run_dir}")
    numbers = final_numbers(outcome.last_line)
    assert numbers["val_balanced_accuracy"] == pytest.approx(numbers["val_top1"], abs=0.01)  # 4 samples each
    run(*flags, f"--class_weights={unequal / 'none'}", "--resume=none", check=2)
    weights = run_dir.parent / "weights.csv"
    weights.write_bytes("\ufeffa,1\r\nb,2\r\nc,3\r\nd,4\r\n".encode())  # as spreadsheets write it
    run(*flags, f"--class_weights={weights}", "--resume=none", "--dry_run")
