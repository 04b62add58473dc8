"""What a first user does with photos: evaluates, compares seeds, has broken files, and asks which are mislabelled."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from command import BUILD, DATA, MAIN, ROOT, TINY, final_numbers, load_json, load_table, make_program, metrics, run, wait_until
from conftest import make_image_folder
from text_data import TEXT, make_tokens

sys.path.insert(0, str(ROOT / "scripts"))
from cross_validate import summary_of  # noqa: E402

FLAGS = (*TINY, "--epochs=1", "--save_every_epochs=0")
RESNET = (*FLAGS, "--model=resnet18")


@pytest.fixture(scope="module")
def photos(module_dir):
    """Class folders without splits."""
    return make_image_folder(module_dir / "made", train=12, val=0).joinpath("train").rename(module_dir / "photos")


@pytest.fixture
def own_photos(photos, tmp_path):
    return shutil.copytree(photos, tmp_path / "own")


def held_out(photos, run_dir, *flags) -> set[str]:
    """Returns the files that a training holds out."""
    run(*FLAGS, f"--data_dir={photos}", "--train_split=.", "--max_steps=1", f"--run_dir={run_dir}", *flags)
    run("--mode=eval", f"--data_dir={photos}", f"--run_dir={run_dir}", f"--predictions={run_dir}.csv")
    return {row["file"] for row in load_table(f"{run_dir}.csv")}


def test_training_samples_are_not_called_validation(few_images, run_dir):
    run(*FLAGS, f"--data_dir={few_images}", f"--run_dir={run_dir}")
    before = load_json(run_dir / "result.json")
    evaluate = ("--mode=eval", f"--data_dir={few_images}", f"--run_dir={run_dir}")
    validation = run(*evaluate)
    assert "trained on" not in validation.stderr and list(final_numbers(validation.last_line))[0] == "val_top1"
    matrix = (run_dir / "eval-val" / "confusion_matrix.csv").read_bytes()
    assert load_json(run_dir / "eval-val" / "result.json")["step"] == before["best_step"]
    training = run(*evaluate, "--val_split=train")
    assert "the model was trained on the samples of 'train'" in training.stderr
    assert list(final_numbers(training.last_line))[0] == "train_top1"
    both = run(*evaluate, "--val_split=val,train", "--log_format=json")
    assert {"val_top1", "train_train_top1"} <= json.loads(both.last_line).keys()
    assert (run_dir / "eval-val" / "confusion_matrix.csv").read_bytes() == matrix
    assert "train_top1" in load_json(run_dir / "eval-train" / "result.json")
    assert load_json(run_dir / "result.json") == before and not (run_dir / "confusion_matrix.csv").exists()
    said = run(*FLAGS, f"--data_dir={few_images}", f"--run_dir={run_dir}", "--resume=none", "--max_steps=1", "--val_split=train").stderr
    assert "the validation set 'train' is the training split" in said
    assert not (run_dir / "eval-val").exists() and (run_dir / "aside-1" / "eval-val").exists()


def test_a_training_split_is_known_after_a_file_of_it_has_gone(own_photos, run_dir, tmp_path):
    evaluate = ("--mode=eval", f"--run_dir={run_dir}", "--val_split=.")
    run(*FLAGS, f"--data_dir={own_photos}", "--train_split=.", "--max_steps=1", f"--run_dir={run_dir}")
    other = shutil.copytree(own_photos, tmp_path / "other")
    for folder in (own_photos, other):
        next(file for file in sorted(folder.rglob("*.*")) if file.suffix in (".jpg", ".png")).unlink()
    said = run(*evaluate, f"--data_dir={own_photos}")
    assert "the model was trained on the samples of" in said.stderr and "train_top1" in said.last_line
    assert "trained on" not in run(*evaluate, f"--data_dir={other}").stderr


def test_only_the_split_seed_decides_what_is_held_out(photos, tmp_path):
    """A run of a version without --split_seed held out what its --seed said. A resume: resume_test.cc."""
    first = held_out(photos, tmp_path / "a", "--val_fraction=0.25", "--seed=1")
    assert held_out(photos, tmp_path / "b", "--val_fraction=0.25", "--seed=2") == first
    other = held_out(photos, tmp_path / "c", "--val_fraction=0.25", "--split_seed=7")
    assert other != first and len(other) == len(first) == 12
    assert not any("/./" in file for file in first)
    config = load_json(tmp_path / "c" / "config.json")
    config.update(seed=config.pop("split_seed"))
    (tmp_path / "c" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    run("--mode=eval", f"--data_dir={photos}", f"--run_dir={tmp_path / 'c'}", f"--predictions={tmp_path / 'c.csv'}")
    assert {row["file"] for row in load_table(tmp_path / "c.csv")} == other


def test_groups_and_folds(photos, tmp_path):
    """Each number is of one thing, in all classes."""
    whole = set()
    for fold in (1, 2):
        part = held_out(photos, tmp_path / str(fold), f"--val_fold={fold}/2", "--group_pattern=([0-9]+)[.]jpg")
        assert not part & whole and len(part) == 4 * len({file[-7:-4] for file in part})
        whole |= part
    assert len(whole) == 48
    flags = (*FLAGS, f"--data_dir={photos}", "--train_split=.", "--dry_run")
    run(*flags, "--val_fraction=0.2", "--group_pattern=(", check=2)
    assert "matches no image" in run(*flags, "--val_fraction=0.2", "--group_pattern=patient", check=2).stderr


def test_cross_validation_predicts_each_sample_once(photos, tmp_path):
    script = (ROOT / "scripts" / "cross_validate.py", "--folds=2", f"--output={tmp_path / 'cv'}")
    (tmp_path / "data.flags").write_text(f"--data_dir={photos}\n--train_split=.\n", encoding="utf-8")
    command = (MAIN, *FLAGS, "--max_steps=2", f"--flagfile={tmp_path / 'data.flags'}")
    outcome = run(*script, "--", *command, program="python3")
    rows = load_table(tmp_path / "cv" / "out_of_fold.csv")
    assert len({row["file"] for row in rows}) == len(rows) == 48 and "48 samples, each predicted once" in outcome.stdout
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    summary = load_json(tmp_path / "cv" / "summary.json")
    assert summary["val_top1"]["mean"] == pytest.approx(sum(summary["val_top1"]["folds"]) / 2)
    assert summary_of([None, 2.0]) == {"mean": 2.0, "standard_deviation": None, "folds": [None, 2.0]}  # r2 of one sample
    assert "leave it out" in run(*script, "--", *command, "--val_fraction=0.1", program="python3", check=2).stderr
    assert "the folds of another command" in run(*script, "--", *command, "--lr=1", program="python3", check=2).stderr


def test_cross_validation_of_texts_without_predictions(tmp_path):
    data = make_tokens(tmp_path / "data", train=TEXT)
    command = (MAIN, "--model=roberta_tiny", f"--data_dir={data}", "--tokens_per_sample=32", "--batch_size=8", "--max_steps=2", "--optimizer=adam")
    run(ROOT / "scripts" / "cross_validate.py", "--folds=2", f"--output={tmp_path / 'cv'}", "--", *command, program="python3")
    assert len(load_json(tmp_path / "cv" / "summary.json")["val_loss"]["folds"]) == 2
    assert not (tmp_path / "cv" / "out_of_fold.csv").exists()


# A training that takes no time, or until it is told to save; its second fold's outputs are not finite.
PLAYED = """#!/bin/bash
for word; do case $word in --run_dir=*) run=${word#*=} ;; --predictions=*) table=${word#*=} ;; esac; done
case "$*" in
  --help=json) echo '{"flags": [{"name": "predictions", "tasks": ["a"]}]}' ;;
  *--mode=eval*)
    mkdir -p "$run/eval-held_out"
    echo '{"val_loss": null}' >"$run/eval-held_out/result.json"
    case $run in *1) loss=${LOSS:-1} ;; *) loss=nan ;; esac
    printf 'file,label,prediction,loss\\n%s,x,x,%s\\n' "$run" "$loss" >"$table" ;;
  *)
    mkdir -p "$run"
    echo '{"task": "a"}' >"$run/config.json"
    if [ -n "$WAITS" ]; then trap 'trap - TERM; sleep 0.3; touch "$run/saved"; exit 75' TERM INT USR1; echo $$ >"$run/pid"; touch "$run/began"; while :; do sleep 0.05; done; fi ;;
esac
"""


@pytest.fixture
def played(tmp_path):
    return (ROOT / "scripts" / "cross_validate.py", "--folds=2", f"--output={tmp_path}", "--", make_program(tmp_path / "dtrain_main", PLAYED))


def test_outputs_that_are_not_finite_are_no_prediction(played, tmp_path):
    outcome = run(*played, program="python3")
    assert "1 samples, each predicted once" in outcome.stdout and "not finite for 1 samples, which are left out" in outcome.stderr
    assert [row["loss"] for row in load_table(tmp_path / "out_of_fold.csv")] == ["1"]
    assert "finite for no sample" in run(*played, program="python3", env={"LOSS": "nan"}, check=6).stderr


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_fold_saves_when_cross_validation_is_told_to_stop(played, tmp_path, kind):
    """As a terminal does it with ^C, or a scheduler: to all processes. A second signal of one kind would end the child at once."""
    with subprocess.Popen(["env", "--default-signal=INT", "python3", *map(str, played)], env={**os.environ, "WAITS": "1"}, start_new_session=True) as folds:
        wait_until((tmp_path / "fold-1" / "began").exists, "the first fold")
        if kind == signal.SIGTERM:
            os.kill(int((tmp_path / "fold-1" / "pid").read_text(encoding="ascii")), kind)
        os.killpg(folds.pid, kind)
        assert folds.wait(30) == 75 and (tmp_path / "fold-1" / "saved").exists()


def test_a_few_broken_photos_end_nothing(own_photos, run_dir, tmp_path):
    for name in ("blue/001.jpg", "red/002.jpg"):
        (own_photos / name).write_bytes(b"no image")
    said = run(*FLAGS, f"--data_dir={own_photos}", "--train_split=.", "--val_fraction=0.25", f"--run_dir={run_dir}").stderr
    assert "2 records could not be read" in said and "--move_bad_to=DIR" in said
    assert f"{run_dir}/quarantine*.jsonl name them" in said  # each rank has its own
    run("--mode=eval", f"--data_dir={own_photos}", f"--run_dir={run_dir}")
    run("--mode=predict", f"--run_dir={run_dir}", f"--input={own_photos}", f"--output={tmp_path / 'p.csv'}")
    for path in own_photos.glob(".*.index"):
        path.unlink()  # a training keeps it
    before = sorted(own_photos.rglob("*"))
    verify = ("verify", f"--data_dir={own_photos}")
    outcome = run(*verify, program=DATA, check=3)
    assert f"{own_photos}/blue/001.jpg: not an image" in outcome.stdout and f"{own_photos}: 48 records, 2 bad" in outcome.stdout
    assert sorted(own_photos.rglob("*")) == before
    assert "lies in the data" in run(*verify, f"--move_bad_to={own_photos / 'bad'}", program=DATA, check=2).stderr
    run(*verify, f"--move_bad_to={tmp_path / 'bad'}", program=DATA)
    assert sorted(path.name for path in (tmp_path / "bad").rglob("*.jpg")) == ["001.jpg", "002.jpg"]
    assert "46 records, 0 bad" in run(*verify, program=DATA).stdout
    (own_photos / "red" / "003.jpg").write_bytes(b"")
    (tmp_path / "bad" / "red" / "003.jpg").write_bytes(b"kept")
    assert "cannot move" in run(*verify, f"--move_bad_to={tmp_path / 'bad'}", program=DATA, check=5).stderr
    assert (tmp_path / "bad" / "red" / "003.jpg").read_bytes() == b"kept"
    is_in_memory = os.stat(own_photos).st_dev == os.stat("/dev/shm").st_dev
    with tempfile.TemporaryDirectory(dir=BUILD if is_in_memory else "/dev/shm") as other_disk:  # which has no room
        place = Path(other_disk, "bad")
        command = f"ulimit -f 0; {DATA} verify --data_dir={own_photos} --move_bad_to={place}"
        (own_photos / "red" / "003.jpg").write_bytes(b"no image")
        assert "cannot move" in run("-c", command, program="bash", check=5).stderr
        assert (own_photos / "red" / "003.jpg").exists() and not (place / "red" / "003.jpg").exists()
    (own_photos / "blue" / "again").symlink_to(own_photos / "red")  # so that the file is listed twice
    (own_photos / "empty").mkdir()
    run("verify", f"--data_dir={own_photos / 'empty'}", "--split=..", f"--move_bad_to={tmp_path / 'worse'}", program=DATA)
    assert [path.name for path in (tmp_path / "worse").rglob("*.jpg")] == ["003.jpg"]


def test_the_budget_is_handed_on(own_photos, run_dir):
    for path in sorted(own_photos.rglob("*.jpg"))[::4]:
        path.write_bytes(b"no image")
    data = (f"--data_dir={own_photos}", f"--run_dir={run_dir}")
    run(*FLAGS, *data, "--train_split=.", "--val_fraction=0.5", check=3)
    run(*FLAGS, *data, "--train_split=.", "--val_fraction=0.5", "--max_bad_records=0.5")
    assert "left out" in run("--mode=eval", *data).stderr


def test_pictures_with_other_names_are_read_by_their_content(own_photos):
    (own_photos / "red" / "000.jpg").rename(own_photos / "red" / "000.HEIC")
    plan = json.loads(run(*FLAGS, f"--data_dir={own_photos}", "--train_split=.", "--dry_run", "--log_format=json").last_line)
    assert plan["train_samples"] == 48


def test_a_short_epoch_has_a_point_of_training(photos, run_dir):
    flags = [flag for flag in FLAGS if not flag.startswith(("--log_interval", "--epochs"))]
    run(*flags, f"--data_dir={photos}", "--train_split=.", "--epochs=3", f"--run_dir={run_dir}")
    assert len(metrics(run_dir, "train")) >= 3


@pytest.fixture(scope="module")
def trained(photos, module_dir):
    run(*RESNET, f"--data_dir={photos}", "--train_split=.", "--max_steps=1", f"--run_dir={module_dir / 'trained'}")
    return module_dir / "trained"


@pytest.mark.parametrize("name", ["resnet18.a1_in1k", "IMAGENET1K_V1"])
def test_weights_by_name(photos, trained, tmp_path, name):
    caches = {"HF_HOME": str(tmp_path / "hf"), "TORCH_HOME": str(tmp_path / "torch")}
    flags = (*RESNET, f"--data_dir={photos}", "--train_split=.", f"--init_weights={name}", "--dry_run")
    said = run(*flags, env=caches, check=2).stderr
    is_torchs = name.startswith("IMAGENET")
    assert ("curl -fL" if is_torchs else "hf download timm/resnet18.a1_in1k") in said
    if is_torchs:
        target = tmp_path / "torch" / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
        target.parent.mkdir(parents=True)
        run("--mode=export", f"--input={trained}", f"--output={tmp_path / 'made.pth'}")
        shutil.copy(tmp_path / "made.pth", target)
    else:
        model = tmp_path / "hf" / "hub" / "models--timm--resnet18.a1_in1k"
        target = model / "snapshots" / "0123abc" / "model.safetensors"
        target.parent.mkdir(parents=True)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("0123abc")
        (model / "blob").write_bytes((trained / "model.safetensors").read_bytes())
        target.symlink_to(os.path.relpath(model / "blob", target.parent))
    assert f"--init_weights={name} is {target if is_torchs else target.parent}" in run(*flags, env=caches).stderr
