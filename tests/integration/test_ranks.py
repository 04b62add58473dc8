"""Several ranks give the same numbers as one, whoever starts them."""

import json

import pytest

from command import MAIN, TINY_RESNET, Background, free_port, load_json, losses, metrics, run, sha256

GENTLE = (*TINY_RESNET, "--lr=0.0005", "--max_steps=3")


def values(run_dir) -> list[float]:
    return [loss for _, loss in losses(run_dir)]


@pytest.fixture(scope="module")
def two_ranks(few_images, module_dir):
    """The run directory of a plain run on two ranks."""
    folder = module_dir / "two_ranks"
    run(*GENTLE, f"--data_dir={few_images}", "--batch_size=8", "--nproc_per_node=2", f"--run_dir={folder}",
        threads=None)
    return folder


# ---- Numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [2, 4])
def test_synchronised_statistics_make_ranks_equal_one(few_images, tmp_path, world):
    flags = (*GENTLE, f"--data_dir={few_images}", "--augment=basic")
    run(*flags, f"--run_dir={tmp_path / 'one'}")
    outcome = run(*flags, "--sync_bn", f"--batch_size={16 // world}", f"--nproc_per_node={world}",
                  f"--run_dir={tmp_path / 'several'}")
    assert f"{world} ranks" in outcome.stdout
    assert values(tmp_path / "several") == pytest.approx(values(tmp_path / "one"), rel=1e-4)
    one, several = (metrics(tmp_path / name, "val")[-1]["loss"] for name in ("one", "several"))
    assert several == pytest.approx(one, rel=1e-3)  # the running statistics are the same, too
    assert load_json(tmp_path / "several" / "result.json")["world_size"] == world


def test_evaluation_counts_every_sample_once_whatever_the_ranks(images, two_ranks):
    """40 samples in batches of 7 make unequal shares and short last batches."""
    flags = ("--mode=eval", f"--data_dir={images}", f"--init_weights={two_ranks / 'model.safetensors'}", *TINY_RESNET,
             "--batch_size=7", "--log_format=json")
    points = [json.loads(run(*flags, f"--nproc_per_node={world}").lines[0]) for world in (1, 2, 3, 4)]
    assert points[0]["top1"] * 40 / 100 == pytest.approx(round(points[0]["top1"] * 40 / 100))
    for point in points[1:]:
        assert (point["top1"], point["f1"]) == (points[0]["top1"], points[0]["f1"])
        assert point["loss"] == pytest.approx(points[0]["loss"], rel=1e-6)  # batches are cut differently


# ---- Who starts them -------------------------------------------------------------------------------------------------


def test_torchrun(torchrun, few_images, two_ranks, run_dir):
    outcome = run("--no-python", "--nproc-per-node", "2", "--master-port", free_port(), MAIN, *GENTLE,
                  f"--data_dir={few_images}", "--batch_size=8", f"--run_dir={run_dir}", program=torchrun, threads=None)
    assert outcome.last_line.startswith("val_top1=")
    assert losses(run_dir) == losses(two_ranks)
    assert sha256(run_dir / "model.safetensors") == sha256(two_ranks / "model.safetensors")


def explicit(rank: int, port: int, *flags) -> Background:
    return Background(*flags, f"--rank={rank}", "--world_size=2", "--master_addr=127.0.0.1", f"--master_port={port}",
                      "--init_timeout=30", threads=None)


def test_explicit_ranks(few_images, two_ranks, run_dir):
    """Timeouts that exceed every clock mean for ever."""
    flags = (*GENTLE, f"--data_dir={few_images}", "--batch_size=8", f"--run_dir={run_dir}", "--comm_timeout=1e10")
    port = free_port()
    with explicit(1, port, *flags, "--init_timeout=1e300") as second, explicit(0, port, *flags, "--init_timeout=1e300") as first:
        outcomes = first.wait(), second.wait()
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert outcomes[0].last_line.startswith("val_top1=") and outcomes[1].stdout == ""  # only one rank prints
    assert losses(run_dir) == losses(two_ranks)
