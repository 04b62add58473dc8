"""Several ranks give the same numbers as one."""

import json

import pytest

from command import TINY_RESNET, load_json, losses, metrics, run

GENTLE = (*TINY_RESNET, "--lr=0.0005", "--max_steps=3")


def values(run_dir) -> list[float]:
    return [loss for _, loss in losses(run_dir)]


def test_synchronised_statistics_make_ranks_equal_one(few_images, tmp_path):
    flags = (*GENTLE, f"--data_dir={few_images}", "--augment=basic")
    run(*flags, f"--run_dir={tmp_path / 'one'}")
    outcome = run(*flags, "--sync_bn", "--batch_size=4", "--nproc_per_node=4", f"--run_dir={tmp_path / 'several'}")
    assert "4 ranks" in outcome.stdout
    assert values(tmp_path / "several") == pytest.approx(values(tmp_path / "one"), rel=1e-4)
    one, several = (metrics(tmp_path / name, "val")[-1]["loss"] for name in ("one", "several"))
    assert several == pytest.approx(one, rel=1e-3)  # the running statistics are the same, too
    assert load_json(tmp_path / "several" / "result.json")["world_size"] == 4


def test_evaluation_counts_every_sample_once_whatever_the_ranks(images, run_dir):
    """40 samples in batches of 7 make unequal shares and short last batches."""
    run(*GENTLE, f"--data_dir={images}", f"--run_dir={run_dir}", "--limit_val_steps=1")
    flags = ("--mode=eval", f"--data_dir={images}", f"--init_weights={run_dir / 'model.safetensors'}", *TINY_RESNET,
             "--batch_size=7", "--log_format=json")
    points = [json.loads(run(*flags, f"--nproc_per_node={world}").lines[0]) for world in (1, 2, 3, 4)]
    assert points[0]["top1"] * 40 / 100 == pytest.approx(round(points[0]["top1"] * 40 / 100))
    for point in points[1:]:
        assert (point["top1"], point["f1"]) == (points[0]["top1"], points[0]["f1"])
        assert point["loss"] == pytest.approx(points[0]["loss"], rel=1e-6)  # batches are cut differently
