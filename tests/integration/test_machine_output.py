"""The output for other programs: the dry run, the printed configuration, the help, flag files, the benchmark's JSON."""

import json
import os
import re

import pytest

from command import BENCH, MAIN, TINY, run

PLAN_KEYS = {"launcher", "rank", "world_size", "local_rank", "local_world_size", "nnodes", "node_rank", "master_addr",
             "master_port", "spawns", "device", "model", "parameters", "train_samples", "val_samples", "batch_size",
             "grad_accum_steps", "global_batch_size", "steps_per_epoch", "total_steps", "warmup_steps", "lr_peak"}


def plan(*flags, **options) -> dict:
    (line,) = run("--dry_run", "--log_format=json", *flags, **options).lines
    return json.loads(line)


@pytest.fixture
def flags(images):
    return (f"--data_dir={images}", "--model=resnet18", "--batch_size=6", "--grad_accum_steps=2", "--epochs=9",
            "--warmup_epochs=1.5", "--lr=0.2", "--lr_base_batch=48")


def test_the_plan_of_one_rank(flags, tmp_path):
    found = plan(*flags, cwd=tmp_path)
    assert PLAN_KEYS <= set(found)
    expected = {"launcher": "single", "rank": 0, "world_size": 1, "local_rank": 0, "local_world_size": 1, "nnodes": 1,
                "node_rank": 0, "spawns": 0, "model": "resnet18", "train_samples": 160, "val_samples": 40,
                "batch_size": 6, "grad_accum_steps": 2, "global_batch_size": 12, "total_steps": 120,
                "warmup_steps": 20, "parameters": 11_178_564}  # 11,689,512 − 996 × 513 of the classifier
    assert {key: found[key] for key in expected} == expected
    assert found["steps_per_epoch"] == pytest.approx(160 / 12)
    assert found["lr_peak"] == pytest.approx(0.2 * 12 / 48)
    assert plan(*flags, "--lr_scaling=sqrt")["lr_peak"] == pytest.approx(0.2 * (12 / 48) ** 0.5)
    # Three checkpoints and one being written, with weights and momentum; the last and the best weights.
    assert found["disk_gib"] == pytest.approx((4 * 2 + 2) * 4 * 11_178_564 / 2**30, abs=0.01)
    assert plan(*flags, "--keep_checkpoints=1")["disk_gib"] == pytest.approx(6 * 4 * 11_178_564 / 2**30, abs=0.01)
    assert plan(*flags, "--freeze=backbone")["disk_gib"] == pytest.approx(6 * 4 * 11_178_564 / 2**30, abs=0.01)
    assert list(tmp_path.iterdir()) == []  # nothing is run, nothing is written


def test_a_plan_ends_as_its_run_would(images, few_images, one_step, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    flags = ("--dry_run", *TINY, f"--data_dir={images}")
    assert "memory" in run(*flags, "--batch_size=1000000", "--epochs=100000", check=7).stderr
    run(*flags, "--run_dir=/proc/none/here", check=5)
    run(*flags, f"--resume={tmp_path / 'none'}", check=5)
    run(*flags, f"--run_dir={tmp_path / 'one' / 'two'}")
    assert sorted(tmp_path.rglob("*")) == before  # what was tried is gone
    run(*flags, f"--run_dir={one_step}", check=3)  # a run of other data
    run("--dry_run", *TINY, f"--data_dir={few_images}", f"--run_dir={one_step}")


def test_what_needs_a_gpu_says_so(flags):
    flag, message = "--cuda_graphs=on", "--cuda_graphs=on is not possible: this rank computes on the CPU"
    no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
    programs = ((MAIN, ["--dry_run", *flags]), (BENCH, ["step", "--model=resnet18", "--image_size=32"]))
    for program, rest in programs:
        assert message in run(*rest, flag, program=program, check=2, env=no_gpu).stderr


def test_a_gpu_may_be_required(flags):
    no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
    no_gpu_line = r"this machine has (no GPU that can be used|a GPU)|this build does not support the GPU"
    for flag in ("--require_gpu", "--device=cuda", "--nproc_per_node=gpu"):
        assert re.search(no_gpu_line, run("--dry_run", *flags, flag, check=2, env=no_gpu).stderr), flag
    run("--dry_run", *flags, "--device=cpu", env=no_gpu)


def test_what_print_config_prints_is_a_file_of_flags(tmp_path):
    flags = ("--data_format=synthetic", "--model=resnet18", "--lr=0.25", "--image_size=32")
    (tmp_path / "config.json").write_text(run(*flags, "--print_config").stdout, encoding="utf-8")
    plan = run(*flags, "--dry_run").stdout
    assert "lr_peak            0.25" in plan and run(f"--flagfile={tmp_path / 'config.json'}", "--dry_run").stdout == plan


def test_print_config_of_a_path_that_is_not_utf_8():
    assert json.loads(run("--print_config", "--data_dir=" + os.fsdecode(b"/d\xff")).stdout)["data_dir"] == "/d\ufffd"
