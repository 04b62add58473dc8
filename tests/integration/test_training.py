"""A training run from its command line to its files, compared with the documentation."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from command import MAIN, TINY, TINY_RESNET, final_numbers, load_json, load_table, losses, metrics, run

TRAIN_KEYS = ["kind", "step", "epoch", "loss", "lr", "top1", "images_per_second", "data_seconds", "step_seconds", "forward_seconds",
              "backward_seconds", "communication_seconds", "update_seconds", "other_seconds", "grad_norm", "time"]


@pytest.fixture(scope="module")
def finished(images, module_dir):
    """One run of two epochs. Returns (run directory, outcome)."""
    folder = module_dir / "finished"
    return folder, run(*TINY_RESNET, f"--data_dir={images}", "--epochs=2", "--lr=0.02", "--eval_every_epochs=1",
                       f"--run_dir={folder}")


@pytest.fixture(scope="module")
def tensors(module_dir):
    """20 samples of noise without a validation split, for the fastest steps."""
    random = np.random.default_rng(3)
    path = module_dir / "tensors.safetensors"
    save_file({"images": random.standard_normal((20, 3, 32, 32)).astype(np.float32),
               "labels": np.arange(20, dtype=np.int64) % 4}, path)
    return path


def test_learns_and_says_so_last(finished):
    _, outcome = finished
    assert re.fullmatch(r"val_top1=\d+\.\d\d val_loss=\d+\.\d{4}", outcome.last_line)
    numbers = final_numbers(outcome.last_line)
    assert numbers["val_top1"] >= 75  # chance: 25
    assert outcome.stderr == ""


def test_leaves_the_files_of_a_run(finished):
    folder, _ = finished
    for name in ("config.json", "metrics.jsonl", "result.json", "model.safetensors", "model_best.safetensors"):
        assert (folder / name).stat().st_size > 0, name
    assert (folder / "latest").read_text(encoding="utf-8") == "checkpoints/step-000000020\n"
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-000000010", "step-000000020"]
    assert not (folder / "error.json").exists()
    assert not (folder / "quarantine.jsonl").exists()


def test_metrics_have_the_documented_keys_in_order(finished):
    folder, _ = finished
    points = metrics(folder)
    train = [point for point in points if point["kind"] == "train"]
    assert [list(point) for point in train] == [TRAIN_KEYS] * 20
    assert [point["step"] for point in train] == list(range(1, 21))
    assert [point["epoch"] for point in train] == pytest.approx([step / 10 for step in range(1, 21)])
    assert all(point["images_per_second"] == pytest.approx(16 / point["step_seconds"]) for point in train)
    val = [point for point in points if point["kind"] == "val"]
    assert [list(point) for point in val] == [["kind", "step", "epoch", "top1", "loss"]] * 2
    assert [point["step"] for point in val] == [10, 20]
    epochs = [point for point in points if point["kind"] == "epoch"]
    assert [list(point) for point in epochs] == [["kind", "epoch", "epoch_seconds"]] * 2
    assert [point["epoch"] for point in epochs] == [1, 2]


def test_result_agrees_with_the_final_line_and_the_metrics(finished):
    folder, outcome = finished
    assert (folder / "result.json").read_text(encoding="utf-8").endswith("\n}\n")
    result = load_json(folder / "result.json")
    assert list(result) == ["val_top1", "val_loss", "best_top1", "best_step", "step", "epoch", "seconds",
                            "samples_seen", "world_size", "images_per_second", "attempts", "goodput", "time_split",
                            "smaller_is_better"]
    best = max((point for point in metrics(folder) if point["kind"] == "val"), key=lambda point: point["top1"])
    assert (result["best_top1"], result["best_step"]) == (best["top1"], best["step"])
    assert outcome.lines[-2] == f"best top1 {best['top1']:.2f} at step {best['step']} (model_best.safetensors)"
    numbers = final_numbers(outcome.last_line)
    assert numbers["val_top1"] == pytest.approx(result["val_top1"], abs=0.005)
    assert numbers["val_loss"] == pytest.approx(result["val_loss"], abs=0.00005)
    last = metrics(folder, "val")[-1]
    assert (last["top1"], last["loss"]) == (result["val_top1"], result["val_loss"])
    assert (result["step"], result["epoch"], result["samples_seen"], result["world_size"]) == (20, 2, 320, 1)
    assert 0 < 320 / result["images_per_second"] <= result["seconds"]


def test_config_is_the_resolved_command_line(finished, images):
    config = load_json(finished[0] / "config.json")
    given = {"data_dir": str(images), "model": "resnet18", "image_size": 32, "batch_size": 16, "epochs": 2, "lr": 0.02,
             "momentum": 0.9, "seed": 0, "lr_schedule": "poly", "weight_decay": 1e-4}
    assert {name: config[name] for name in given} == given
    flags = set(re.findall(r"^\s*--(?:\[no\])?(\w+)", run("--help").stdout, re.MULTILINE))
    assert set(config) - {"start"} <= flags
    start = config["start"]
    assert start["version"] in run("--version").stdout and start["commit"] in run("--version").stdout
    assert start["command"][1:] == [*TINY_RESNET, f"--data_dir={images}", "--epochs=2", "--lr=0.02", "--eval_every_epochs=1",
                                    f"--run_dir={finished[0]}"]
    assert set(start["given"]) == {flag[2:].split("=")[0] for flag in start["command"][1:]}
    assert start["host"] and Path(start["directory"]).is_dir() and re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]{8}Z", start["time"])


def test_config_json_can_be_run_again(finished, run_dir):
    outcome = run(f"--flagfile={finished[0] / 'config.json'}", f"--run_dir={run_dir}", "--log_format=json", "--limit_train_steps=5")
    assert losses(run_dir) == losses(finished[0])[:5]
    for line in outcome.lines:  # to the last one
        assert isinstance(json.loads(line), dict), line


def test_without_a_validation_split(tensors, run_dir):
    outcome = run(*TINY, f"--data_dir={tensors}", "--batch_size=10", "--epochs=1", f"--run_dir={run_dir}")
    assert re.fullmatch(r"train_loss=\d+\.\d{4}", outcome.last_line)
    result = load_json(run_dir / "result.json")
    assert result["train_loss"] == losses(run_dir)[-1][1]
    assert final_numbers(outcome.last_line)["train_loss"] == pytest.approx(result["train_loss"], abs=0.00005)
    assert "val_loss" not in result and metrics(run_dir, "val") == []


def test_a_limit_on_evaluation(images, run_dir):
    outcome = run(*TINY_RESNET, f"--data_dir={images}", "--max_steps=1", "--limit_val_steps=1", f"--run_dir={run_dir}")
    top1 = final_numbers(outcome.last_line)["val_top1"]
    assert top1 * 16 / 100 == pytest.approx(round(top1 * 16 / 100), abs=0.01)  # one batch of 16
    assert outcome.last_line.endswith(" val_samples=16 val_samples_of_split=40") and " on 16 of 40 samples" in outcome.stdout
    points = [{key: metrics(run_dir, "val")[-1][key] for key in ("loss", "top1", "samples", "samples_of_split")}]
    for ranks in (1, 3):  # the same samples, of all four classes, although the split is sorted by class
        folder = run_dir.parent / f"of-{ranks}"
        outcome = run("--mode=eval", "--weights=last", f"--run_dir={run_dir}", f"--data_dir={images}", "--limit_val_steps=2",
                      "--global_batch_size=6", f"--output={folder}", "--log_format=json",
                      *((f"--nproc_per_node={ranks}",) if ranks > 1 else ()))
        assert "on 12 of the 40 samples of val" in outcome.stderr, outcome
        assert sorted(int(row["samples"]) for row in load_table(folder / "class_accuracy.csv")) == [3, 3, 3, 3]
        point = json.loads(next(line for line in outcome.lines if '"kind":"val"' in line))
        points.append({key: point[key] for key in ("loss", "top1", "samples", "samples_of_split")})
    assert points[0]["samples"] == 16 and points[1]["samples"] == 12
    assert points[1] == pytest.approx(points[2], rel=1e-6)


def test_a_reader_that_goes_away_ends_no_training(few_images, run_dir):
    """As in `dtrain_main … | head`. A peer's death must not kill by SIGPIPE either."""
    with subprocess.Popen([MAIN, *TINY, f"--data_dir={few_images}", "--max_steps=3", f"--run_dir={run_dir}"],
                          stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
    assert load_json(run_dir / "result.json")["step"] == 3
