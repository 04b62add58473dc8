"""--teacher: what its run keeps, how it goes on, and what is refused. tests/interop/test_distillation.py has its numbers."""

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from command import TINY, kill_at, losses, run, weights_and_losses

STEPS = 6


@pytest.fixture(scope="module")
def taught_by(few_images, module_dir):
    """The run of a ResNet-18 that has seen the classes of `few_images`, of 40 pixels."""
    folder = module_dir / "teacher"
    run("--model=resnet18", "--image_size=40", "--mean=0.5,0.5,0.5", f"--data_dir={few_images}", "--batch_size=20", "--max_steps=4",
        "--lr=0.01", f"--run_dir={folder}")
    return folder


@pytest.fixture(scope="module")
def flags(few_images, taught_by):
    return (*TINY, f"--data_dir={few_images}", f"--max_steps={STEPS}", "--epochs=9", f"--teacher={taught_by}",
            "--save_every_steps=3")


def test_a_killed_run_with_a_teacher_goes_on_to_the_bit_and_keeps_nothing_of_it(flags, taught_by, tmp_path, run_dir):
    outcome = run(*flags, "--mixup=0.2", f"--run_dir={tmp_path / 'whole'}")
    assert "the teacher is" in outcome.stderr and "--model=resnet18 with images of 40 pixels" in outcome.stderr
    kill_at(4, *flags, "--mixup=0.2", f"--run_dir={run_dir}", saved=run_dir / "checkpoints" / "step-000000003")
    run(*flags, "--mixup=0.2", f"--run_dir={run_dir}")
    assert weights_and_losses(run_dir) == weights_and_losses(tmp_path / "whole")
    run(*flags[:-2], "--mixup=0.2", f"--run_dir={tmp_path / 'alone'}")
    assert losses(tmp_path / "alone") != losses(run_dir)
    of_student = set(load_file(tmp_path / "alone" / "model.safetensors"))
    for weights in run_dir.rglob("*model*.safetensors"):
        assert set(load_file(weights)) == of_student, weights


def test_any_number_of_ranks_gives_the_same_bits(flags, tmp_path):
    """With two heads, of which one follows the teacher."""
    results = []
    for world in (1, 3):
        folder = tmp_path / str(world)
        run(*flags, "--model=deit_tiny_distilled_patch16_224", "--max_steps=2", "--deterministic=elastic", "--global_batch_size=12", "--elastic_shards=4",
            "--batch_size=3", f"--nproc_per_node={world}", f"--run_dir={folder}")
        results.append(weights_and_losses(folder))
    assert results[0] == results[1]


def test_another_teacher_cannot_go_on(flags, taught_by, tmp_path, run_dir):
    run(*flags, "--limit_train_steps=3", f"--run_dir={run_dir}")
    copy = shutil.copytree(taught_by, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoints", "model_best*"))
    run(*flags[:-2], f"--teacher={copy / 'model.safetensors'}", "--limit_train_steps=4", f"--run_dir={run_dir}")  # the same weights
    weights = load_file(copy / "model.safetensors")
    with safe_open(copy / "model.safetensors", "np") as file:
        metadata = file.metadata()
    weights["fc.bias"][0] += 1
    save_file(weights, tmp_path / "other.safetensors", metadata)
    for other in (f"--teacher={tmp_path / 'other.safetensors'}", "--teacher="):
        message = run(*flags[:-2], other, f"--run_dir={run_dir}", check=2).stderr
        assert "the checkpoint was made with teacher = " in message and "use the same value to continue" in message


def test_classes_in_another_order_are_put_into_order(few_images, taught_by, flags, tmp_path):
    """The names tell which output is which."""
    weights = load_file(taught_by / "model.safetensors")
    with safe_open(taught_by / "model.safetensors", "np") as file:
        metadata = file.metadata()
    names = json.loads(metadata["class_names"])
    found = {}
    for name, order in (("same", [0, 1, 2, 3]), ("turned", [2, 0, 3, 1])):
        turned = {key: value[order] if key.startswith("fc.") else value for key, value in weights.items()}
        save_file(turned, tmp_path / f"{name}.safetensors", metadata | {"class_names": json.dumps([names[i] for i in order])})
        run(*flags, f"--teacher={tmp_path / name}.safetensors", "--max_steps=2", f"--run_dir={tmp_path / name}")
        found[name] = losses(tmp_path / name)
    assert found["same"] == found["turned"]


@pytest.mark.parametrize("wrong, sentence", [
    ("missing", "is neither a file of weights nor a folder"),
    ("text", "does not hold the weights of an image model that is known here"),
    ("classes", "tells 7 classes apart, but this run has 4"),
    ("names", "does not know the class red of this data"),
    ("model", "does not fit --model=resnet50"),
    ("size", "cuts images into patches of 16 pixels a side"),
    ("settings", "the settings of images beside"),
    ("damaged", "preprocessor_config.json is not JSON"),
    ("scale", "give --mean and --std"),
    ("task", "--task=image_multilabel, which cannot teach --task=image_classification"),
])
def test_refusals(wrong, sentence, flags, taught_by, tmp_path, run_dir):
    weights = load_file(taught_by / "model.safetensors")
    with safe_open(taught_by / "model.safetensors", "np") as file:
        metadata = file.metadata()
    path, extra = tmp_path / "model.safetensors", ()
    if wrong == "text":
        save_file({"roberta.embeddings.word_embeddings.weight": np.zeros((9, 4), np.float32)}, path)
    elif wrong == "classes":
        save_file(weights | {"fc.weight": weights["fc.weight"][[0] * 7], "fc.bias": weights["fc.bias"][[0] * 7]}, path)
    elif wrong == "names":
        save_file(weights, path, metadata | {"class_names": json.dumps(["blue", "green", "yellow", "stripes"])})
    elif wrong == "model":
        save_file(weights, path)
        extra = ("--teacher_model=resnet50",)
    elif wrong == "size":
        settings = json.loads(metadata["settings"]) | {"model": "deit_tiny_patch16_224", "image_size": 40}
        save_file(weights, path, metadata | {"settings": json.dumps(settings)})
    elif wrong != "missing":
        save_file(weights, path)
        name, text = {
            "settings": ("config.json", '{"architecture": "resnet18", "mean": [0, 0, 0], "std": [1, 0, 1]}'),
            "damaged": ("preprocessor_config.json", "{"),
            "scale": ("preprocessor_config.json", '{"do_rescale": false}'),
            "task": ("config.json", '{"architecture": "resnet18", "problem_type": "multi_label_classification"}'),
        }[wrong]
        (tmp_path / name).write_text(text)
    for more in ((), ("--dry_run",)) if wrong == "missing" else ((),):
        outcome = run(*flags, f"--teacher={path}", *extra, *more, f"--run_dir={run_dir}", check=2)
        assert sentence in outcome.stderr and "--teacher: " in outcome.stderr and "are --teacher and --teacher_model" in outcome.stderr, outcome
    assert not (run_dir / "model.safetensors").exists()


def test_a_dry_run_counts_the_teacher(flags, tmp_path):
    with_one, without = (json.loads(run(*all_flags, "--dry_run", "--log_format=json", f"--run_dir={tmp_path / 'run'}").lines[-1])
                         for all_flags in (flags, flags[:-2]))
    assert 0.03 < with_one["memory_gib"] - without["memory_gib"] < 0.06  # 11.2 million weights of four bytes
    assert with_one["parameters"] == without["parameters"] and with_one["disk_gib"] == without["disk_gib"]
