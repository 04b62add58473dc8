"""A training run from its command line to its files, compared with the documentation."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command import BENCH, MAIN, TINY, TINY_RESNET, final_numbers, load_json, load_table, losses, metrics, run

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
                            "samples_seen", "world_size", "images_per_second", "attempts", "goodput", "time_split"]
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


def test_the_version_is_said_before_libtorch_is_initialised():
    """That would take a quarter of a second."""
    for program in (MAIN, BENCH):
        outcome = run("--version", program=program, env={"LD_DEBUG": "libs"})
        assert outcome.stdout.startswith(f"{program.name} ") and len(outcome.lines) == 1
        assert "libtorch_cpu.so" in outcome.stderr and "calling init" not in outcome.stderr, outcome


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


def test_weights_of_the_run_evaluate_to_its_result(finished, images):
    folder, _ = finished
    best = max(metrics(folder, "val"), key=lambda point: point["top1"])
    for weights, expected in (("model", metrics(folder, "val")[-1]), ("model_best", best)):
        outcome = run("--mode=eval", f"--data_dir={images}", f"--init_weights={folder / weights}.safetensors",
                      "--log_format=json", *TINY_RESNET)
        point = json.loads(outcome.lines[0])
        assert {key: point[key] for key in ("top1", "loss")} == {key: expected[key] for key in ("top1", "loss")}
    by_run = run("--mode=eval", f"--data_dir={images}", f"--run_dir={folder}", "--weights=last", *TINY_RESNET)
    assert by_run.last_line.startswith(finished[1].last_line + " val_balanced_accuracy=")
    assert load_json(folder / "result.json")["samples_seen"] == 320  # training's, not evaluation's


def test_equal_runs_leave_equal_bytes(few_images, tmp_path):
    weights = []
    for name, workers in (("a", 1), ("b", 3)):
        run(*TINY, f"--data_dir={few_images}", "--max_steps=2", f"--workers={workers}", f"--run_dir={tmp_path / name}")
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    run(*TINY, f"--data_dir={few_images}", "--max_steps=2", "--seed=1", f"--run_dir={tmp_path / 'c'}")
    assert weights[0] != (tmp_path / "c" / "model.safetensors").read_bytes()


# ---- What the console shows ------------------------------------------------------------------------------------------


def test_plain_lines(finished):
    steps = finished[1].step_lines
    assert len(steps) == 20
    pattern = r"step (\d+)/20 epoch \d\.\d\d loss \d+\.\d{4} top1 \d+\.\d\d lr \S+ [\d.]+ img/s eta \d+:\d\d:\d\d"
    assert [int(re.fullmatch(pattern, line).group(1)) for line in steps] == list(range(1, 21))


def test_table_adds_the_l2_term(few_images, run_dir):
    decay = 0.01
    outcome = run(*TINY, f"--data_dir={few_images}", "--max_steps=3", f"--weight_decay={decay}", "--log_format=table",
                  f"--run_dir={run_dir}")
    header = next(i for i, line in enumerate(outcome.lines) if line.split()[:1] == ["Step"])
    assert outcome.lines[header].split() == ["Step", "Epoch", "Speed", "Loss", "FinLoss", "LR"]
    rows = [line.split() for line in outcome.lines[header + 1:header + 4]]
    assert [int(row[0]) for row in rows] == [1, 2, 3]
    for row, point in zip(rows, metrics(run_dir, "train")):
        assert float(row[3]) == pytest.approx(point["loss"], abs=0.0006)
        assert float(row[5]) == pytest.approx(point["lr"], abs=0.000006)
    weights = load_file(run_dir / "model.safetensors")
    squares = sum(float(np.square(tensor.astype(np.float64)).sum()) for name, tensor in weights.items()
                  if not name.endswith(("running_mean", "running_var", "num_batches_tracked")))
    last = metrics(run_dir, "train")[-1]["loss"]
    assert float(rows[-1][4]) == pytest.approx(last + decay / 2 * squares, abs=0.002)
    assert decay / 2 * squares > 1  # the term is large enough to be seen


# ---- Data and numbers ------------------------------------------------------------------------------------------------


def test_without_a_validation_split(tensors, run_dir):
    outcome = run(*TINY, f"--data_dir={tensors}", "--batch_size=10", "--epochs=1", f"--run_dir={run_dir}")
    assert re.fullmatch(r"train_loss=\d+\.\d{4}", outcome.last_line)
    result = load_json(run_dir / "result.json")
    assert result["train_loss"] == losses(run_dir)[-1][1]
    assert final_numbers(outcome.last_line)["train_loss"] == pytest.approx(result["train_loss"], abs=0.00005)
    assert "val_loss" not in result and metrics(run_dir, "val") == []


def test_augmentation_changes_what_is_seen(few_images, tmp_path):
    first = {}
    for augment in ("auto", "basic", "none"):
        run(*TINY, f"--data_dir={few_images}", "--max_steps=1", f"--augment={augment}",
            f"--run_dir={tmp_path / augment}")
        first[augment] = losses(tmp_path / augment)[0][1]
    assert first["basic"] == first["auto"]  # of image files
    assert first["basic"] != first["none"]


def test_accumulation_is_as_many_ranks_one_after_the_other(few_images, tmp_path):
    """Two micro-steps of 8 equal two ranks of 8: the same samples, normalised in the same groups, added up."""
    common = (*TINY_RESNET, f"--data_dir={few_images}", "--batch_size=8", "--max_steps=4", "--lr=0.001")
    run(*common, "--grad_accum_steps=2", f"--run_dir={tmp_path / 'steps'}")
    run(*common, "--nproc_per_node=2", f"--run_dir={tmp_path / 'ranks'}")
    steps, ranks = metrics(tmp_path / "steps", "train"), metrics(tmp_path / "ranks", "train")
    assert [point["epoch"] for point in steps] == [point["epoch"] for point in ranks]
    for key, tolerance in (("loss", 1e-4), ("grad_norm", 1e-2)):
        assert [point[key] for point in steps] == pytest.approx([point[key] for point in ranks], rel=tolerance)
    assert load_json(tmp_path / "steps" / "result.json")["samples_seen"] == 64


# ---- When a run ends, and what it keeps ------------------------------------------------------------------------------


def test_a_limit_on_evaluation(images, run_dir):
    outcome = run(*TINY_RESNET, f"--data_dir={images}", "--max_steps=1", "--limit_val_steps=1", f"--run_dir={run_dir}")
    top1 = final_numbers(outcome.last_line)["val_top1"]
    assert top1 * 16 / 100 == pytest.approx(round(top1 * 16 / 100), abs=0.01)  # one batch of 16
    assert outcome.last_line.endswith(" val_samples=16 val_samples_of_split=40") and " on 16 of 40 samples" in outcome.stdout
    points = [{key: metrics(run_dir, "val")[-1][key] for key in ("loss", "top1", "samples", "samples_of_split")}]
    for ranks in (1, 2, 3):  # the same samples, of all four classes, although the split is sorted by class
        folder = run_dir.parent / f"of-{ranks}"
        outcome = run("--mode=eval", "--weights=last", f"--run_dir={run_dir}", f"--data_dir={images}", "--limit_val_steps=2",
                      "--global_batch_size=6", f"--output={folder}", "--log_format=json",
                      *((f"--nproc_per_node={ranks}",) if ranks > 1 else ()))
        assert "on 12 of the 40 samples of val" in outcome.stderr, outcome
        assert sorted(int(row["samples"]) for row in load_table(folder / "class_accuracy.csv")) == [3, 3, 3, 3]
        point = json.loads(next(line for line in outcome.lines if '"kind":"val"' in line))
        points.append({key: point[key] for key in ("loss", "top1", "samples", "samples_of_split")})
    assert points[0]["samples"] == 16 and points[1]["samples"] == 12
    assert points[1] == pytest.approx(points[2], rel=1e-6) and points[1] == pytest.approx(points[3], rel=1e-6)


def test_saves_by_the_clock_and_keeps_as_many_checkpoints_as_told(tensors, run_dir):
    run(*TINY, f"--data_dir={tensors}", "--batch_size=4", "--epochs=1", "--save_every_epochs=0", "--save_every_seconds=0.000001",
        "--keep_checkpoints=2", f"--run_dir={run_dir}")
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == ["step-000000004", "step-000000005"]


def test_a_reader_that_goes_away_ends_no_training(few_images, run_dir):
    """As in `dtrain_main … | head`. A peer's death must not kill by SIGPIPE either."""
    with subprocess.Popen([MAIN, *TINY, f"--data_dir={few_images}", "--max_steps=3", f"--run_dir={run_dir}"],
                          stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
    assert load_json(run_dir / "result.json")["step"] == 3
