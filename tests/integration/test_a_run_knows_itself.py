"""A run directory describes its run: its facts need not be given again, and flags that contradict them are refused."""

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from command import TINY, final_numbers, load_json, metrics, run


@pytest.fixture(scope="module")
def trained(images, module_dir):
    """One epoch at 32 pixels, although the defaults are resnet50 at 224. Returns (run directory, last line)."""
    folder = module_dir / "trained"
    return folder, run(*TINY, f"--data_dir={images}", "--epochs=1", f"--run_dir={folder}").last_line


@pytest.fixture
def own(trained, run_dir):
    """A copy of the run for a test that changes it."""
    return shutil.copytree(trained[0], run_dir)


def evaluate(data, *flags, **options):
    return run("--mode=eval", f"--data_dir={data}", *flags, **options)


def test_an_evaluation_needs_no_more_than_the_run(images, trained, tmp_path):
    folder, last_line = trained
    checkpoint, exported = folder / "checkpoints" / "step-000000010", tmp_path / "exported"
    run("--mode=export", f"--input={folder}", "--weights=last", f"--output={exported}")
    for weights in (folder / "model.safetensors", checkpoint, exported):
        outcome = evaluate(images, f"--init_weights={weights}")
        assert outcome.last_line.startswith(last_line), outcome
        assert "--model=efficientnet_b0 --image_size=32" in outcome.stderr
    run("--mode=export", f"--input={exported}", f"--output={tmp_path / 'again'}")
    assert (tmp_path / "again" / "config.json").read_bytes() == (exported / "config.json").read_bytes()
    for flag in (f"--run_dir={folder}", f"--input={folder}", f"--init_weights={folder}", f"--resume={checkpoint}"):
        outcome = evaluate(images, flag)
        assert outcome.last_line.startswith(last_line), (flag, outcome)
        assert "--model=efficientnet_b0 --image_size=32" in outcome.stderr
        assert "step 10" in outcome.stderr or "step-000000010" in outcome.stderr  # which weights
        assert ("its best validation" in outcome.stderr) == flag.endswith("trained"), flag


def test_fine_tuning_sees_images_as_its_weights_did(few_images, tmp_path):
    """Also of a model that the weights' shapes do not tell from another."""
    given = ("--mean=0.5,0.4,0.3", "--std=0.5,0.6,0.7", "--bn_eps=0.0001")
    more = ("--max_steps=1", "--batch_size=4", "--eval_every_epochs=0", f"--data_dir={few_images}")
    run("--model=tf_efficientnet_b0", "--image_size=32", *given, *more, f"--run_dir={tmp_path / 'first'}")
    run(f"--init_weights={tmp_path / 'first' / 'model.safetensors'}", *more, f"--run_dir={tmp_path / 'second'}")
    first, second = (load_json(tmp_path / name / "config.json") for name in ("first", "second"))
    for name in ("model", "image_size", "eval_resize", "mean", "std", "bn_eps"):
        assert second[name] == first[name], name


def test_what_is_given_wins_aloud(images, trained):
    outcome = evaluate(images, f"--run_dir={trained[0]}", "--image_size=48")
    assert "--image_size=48 instead of 32" in outcome.stderr
    outcome = evaluate(images, f"--run_dir={trained[0]}", "--model=efficientnet_b1", check=2)
    assert "--model=efficientnet_b1 instead of efficientnet_b0" in outcome.stderr
    assert "model_ema.safetensors" in evaluate(images, f"--run_dir={trained[0]}", "--weights=ema", check=2).stderr
    assert not (trained[0] / "error.json").exists()  # these failures leave no trace in the run
    # There are 1,000 classes where nothing says how many; these weights have 4.
    evaluate(images, "--data_format=synthetic", f"--run_dir={trained[0]}", "--limit_val_steps=1")


def test_the_best_weights_are_the_default(images, own, tmp_path):
    """For every mode; the line says which they are. Without a validation these are the last."""
    best, last = "model_best.safetensors of step 10 (its best validation; --weights=last", "checkpoints/step-000000010"
    export = ("--mode=export", f"--input={own}", f"--output={tmp_path / 'x.safetensors'}")
    assert best in evaluate(images, f"--run_dir={own}").stderr and best in run(*export).stderr
    assert last in run(*export, "--weights=last").stderr
    (own / "model_best.safetensors").unlink()
    assert last in evaluate(images, f"--run_dir={own}").stderr


def test_an_evaluation_has_the_labels_of_the_training(tmp_path, run_dir):
    """They count from 1, which those of the validation do not show. The expected numbers are in the run's last line: those of its own validation."""
    random = np.random.default_rng(1)

    def write(folder, split, labels):
        (tmp_path / folder).mkdir(exist_ok=True)
        labels = np.resize(np.array(labels, dtype=np.int64), 12)
        noise = random.standard_normal((12, 3, 32, 32)) * 0.1 + labels[:, None, None, None]
        save_file({"images": noise.astype(np.float32), "labels": labels}, tmp_path / folder / f"{split}.safetensors")

    write("data", "train", (1, 2, 3, 4))
    write("data", "val", (2, 3))
    expected = final_numbers(run(*TINY, f"--data_dir={tmp_path / 'data'}", "--batch_size=6", "--epochs=2",
                                 f"--run_dir={run_dir}").last_line)
    (tmp_path / "val_alone").mkdir()
    shutil.copy(tmp_path / "data" / "val.safetensors", tmp_path / "val_alone")
    for data in ("data", "val_alone"):
        found = final_numbers(evaluate(tmp_path / data, f"--run_dir={run_dir}").last_line)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)  # batches are cut differently
    # The weights do not know their classes, so the training split decides.
    with safe_open(run_dir / "model.safetensors", "np") as file:
        save_file({name: file.get_tensor(name) for name in file.keys()}, tmp_path / "foreign.safetensors")
    outcome = evaluate(tmp_path / "data", f"--init_weights={tmp_path / 'foreign.safetensors'}", "--model=efficientnet_b0")
    found = final_numbers(outcome.last_line)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_class_names_are_with_the_run_and_its_weights(trained, own_images, own, tmp_path):
    names = ["blue", "green", "red", "stripes"]
    assert (own / "classes.txt").read_text(encoding="utf-8").split() == names
    for file in ("model.safetensors", "model_best.safetensors"):
        with safe_open(own / file, "np") as weights:
            assert json.loads(weights.metadata()["class_names"]) == names
    save_file({"images": np.zeros((2, 3, 32, 32), np.float32)}, tmp_path / "in.safetensors")
    outcome = run("--mode=predict", f"--run_dir={own}", f"--input={tmp_path / 'in.safetensors'}",
                  f"--output={tmp_path / 'out.safetensors'}")
    assert "InitGoogleLogging" not in outcome.stderr
    with safe_open(tmp_path / "out.safetensors", "np") as logits:
        assert json.loads(logits.metadata()["class_names"]) == names
    # The same number of classes with other names.
    for split in ("train", "val"):
        (own_images / split / "red").rename(own_images / split / "amber")
    assert "amber" in evaluate(own_images, f"--run_dir={own}", check=3).stderr
    outcome = run(*TINY, f"--data_dir={own_images}", "--epochs=3", f"--run_dir={own}", "--allow_dataset_change", check=3)
    assert "label 0: 'blue' then, 'amber' now" in outcome.stderr


def test_a_finished_run_started_again_says_so_and_loses_nothing(images, own):
    flags = (*TINY, f"--data_dir={images}", f"--run_dir={own}")
    result, points = load_json(own / "result.json"), metrics(own)
    outcome = run(*flags, "--epochs=1", "--clear_log")
    assert "this run is finished" in outcome.stderr and "--epochs" in outcome.stderr and not outcome.step_lines
    assert (load_json(own / "result.json"), metrics(own)) == (result, points)
    (own / "result.json").write_text(json.dumps({**result, "step": 1}))  # as if the run had been shorter
    run(*flags, "--epochs=1", "--lr=0.5")
    assert (load_json(own / "result.json")["step"], load_json(own / "config.json")["lr"]) == (result["step"], 0.005)
    outcome = run(*flags, "--epochs=1.2", "--lr=0.001")
    assert "changed since the checkpoint: epochs 1 → 1.2, lr 0.005 → 0.001" in outcome.stderr
    attempts = sorted(path.name for path in (own / "attempts").iterdir())
    assert attempts == ["001-from-step-000000000.json", "002-from-step-000000010.json", "003-from-step-000000010.json", "004-from-step-000000010.json"]
    assert [load_json(own / "attempts" / name)["lr"] for name in attempts] == [0.005, 0.005, 0.5, 0.001]


def test_the_newest_run_is_found(images, tmp_path):
    flags = (*TINY, f"--data_dir={images}", "--max_steps=2", "--limit_val_steps=1")
    assert "--resume=last" in run(*flags, "--resume=last", cwd=tmp_path, check=2).stderr
    run(*flags, "--limit_train_steps=1", cwd=tmp_path)
    run(*flags, "--resume=last", cwd=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert load_json(folder / "result.json")["step"] == 2


def test_a_missing_validation_split_is_said(own_images):
    (own_images / "val").rename(own_images / "Val")
    flags = ("--dry_run", f"--data_dir={own_images}", "--model=resnet18")
    outcome = run(*flags)
    assert "Val/" in outcome.stderr and "without validation" in outcome.stderr
    assert "InitGoogleLogging" not in outcome.stderr
    assert "Val/" in run(*flags, "--val_split=val", check=3).stderr
    assert " Val/" not in run(*flags, "--val_split=Val").stderr
