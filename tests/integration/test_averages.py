"""The moving average of the weights: a stopped run resumes bit for bit, here with an optimizer that keeps several tensors
(LAMB on several ranks: faults/test_killed_ranks.py), and the exported weights are those that were evaluated."""

import json
import shutil

import pytest
from safetensors.numpy import load_file

from command import TINY, load_json, losses, metrics, run, sha256

RUN = (*TINY, "--epochs=3", "--ema_decay=0.9", "--lr=1e-4", "--eval_every_epochs=1")


def test_going_on_equals_never_having_stopped(few_images, tmp_path):
    flags = (*RUN, f"--data_dir={few_images}", "--optimizer=rmsprop_tf", "--batch_size=8", "--max_steps=4", "--ema_every=2")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(*flags, f"--run_dir={whole}")
    run(*flags, f"--run_dir={parts}", "--limit_train_steps=2")
    average = load_file(parts / (parts / "latest").read_text(encoding="utf-8").strip() / "model_ema.safetensors")
    run(*flags, f"--run_dir={parts}")
    assert losses(parts) == losses(whole)
    for name in ("model.safetensors", "model_ema.safetensors"):
        assert sha256(parts / name) == sha256(whole / name), name
    step = (whole / "latest").read_text(encoding="utf-8").strip()
    assert sha256(parts / step / "optimizer.safetensors") == sha256(whole / step / "optimizer.safetensors")
    assert sha256(whole / "model.safetensors") != sha256(whole / "model_ema.safetensors")
    weights, then = (load_file(whole / name)["classifier.1.weight"] for name in ("model.safetensors", "model_ema.safetensors"))
    assert then == pytest.approx((average["classifier.1.weight"] * 3 + weights * 9) / 12, abs=1e-6)  # its second update
    last = metrics(whole, "val")[-1]
    assert {"top1", "ema_top1", "ema_loss"} <= last.keys()
    result = load_json(whole / "result.json")
    assert result["val_ema_top1"] == last["ema_top1"]
    assert [point["ema_top1"] for point in metrics(whole, "val")] == [result["best_ema_top1"]]
    assert sha256(whole / "model_best.safetensors") == sha256(whole / "model_ema.safetensors")


def test_the_best_may_be_judged_without_the_average(few_images, run_dir):
    """One evaluation, whose weights are the best therefore."""
    run(*RUN, f"--data_dir={few_images}", "--eval_every_epochs=0", f"--run_dir={run_dir}", "--best_of=raw")
    result = load_json(run_dir / "result.json")
    assert result["best_top1"] == result["val_top1"]
    assert sha256(run_dir / "model_best.safetensors") == sha256(run_dir / "model.safetensors")


def test_an_average_can_begin_later_and_is_exported(few_images, run_dir, tmp_path):
    flags = (*TINY, f"--data_dir={few_images}", "--epochs=2", f"--run_dir={run_dir}", "--eval_every_epochs=1")
    run(*flags, "--limit_train_steps=2")
    assert not (run_dir / "model_ema.safetensors").exists()
    outcome = run(*flags, "--ema_decay=0.9")
    assert "the checkpoint has no average of the weights" in outcome.stderr
    exported = tmp_path / "average.safetensors"
    run("--mode=export", f"--input={run_dir}", "--weights=ema", f"--output={exported}")
    evaluated = run("--mode=eval", "--model=efficientnet_b0", "--image_size=32", "--batch_size=16", f"--data_dir={few_images}",
                    f"--init_weights={exported}", "--log_format=json")
    found, expected = metrics(run_dir, "val")[-1], json.loads(evaluated.lines[0])
    assert (expected["top1"], expected["loss"]) == (found["ema_top1"], pytest.approx(found["ema_loss"], rel=1e-6))
    ended = run(*flags, "--epochs=3")
    assert "an average of the weights, which ends here (--ema_decay=0)" in ended.stderr


@pytest.mark.parametrize("flags, words", [
    (["--ema_decay=0.99", "--ema_every=50", "--max_steps=49"], "never be updated: the run has 49 steps"),
    (["--batch_size=1"], "cannot learn from one image of 32 pixels at a time"),
    (["--batch_size=", "--global_batch_size=4", "--grad_accum_steps=4", "--image_size=64", "--mixup=0.5"],
     "--mixup mixes images of a batch, but each has one image"),
])
def test_what_could_not_learn_is_refused(images, flags, words):
    settings = [flag for flag in TINY if not flag.startswith(tuple(given.partition("=")[0] + "=" for given in flags))]
    given = [flag for flag in flags if not flag.endswith("=")]
    assert words in run(*settings, f"--data_dir={images}", "--epochs=20", *given, "--dry_run", check=2).stderr


def test_one_class_cannot_be_mixed(own_images):
    for folder in own_images.glob("*/[!s]*"):
        shutil.rmtree(folder)
    outcome = run(*TINY, f"--data_dir={own_images}", "--epochs=9", "--cutmix=1", check=2)
    assert "--cutmix mixes images of different classes, but the data has only one class" in outcome.stderr
