"""A run directory that others can write to: links that they put under the names of our files are not followed."""

import os

import pytest

from command import TINY, run

FLAGS = (*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=1", "--nproc_per_node=2", "--batch_size=8")
REPLACED = (".latest.tmp", ".config.json.tmp", ".result.json.tmp", ".model.safetensors.tmp",
            ".model_best.safetensors.tmp", "logs/rank-0.log", "logs/rank-1.log")
FINAL = ("latest", "config.json", "result.json", "model.safetensors")


def test_what_others_put_there(run_dir, tmp_path):
    """Pipes in the place of other files: durable_file_test.cc."""
    (run_dir / "logs").mkdir(parents=True)
    victims = [tmp_path / f"victim-{number}" for number in range(len(REPLACED + FINAL))]
    for name, victim in zip(REPLACED + FINAL, victims):
        victim.write_text("precious", encoding="ascii")
        (run_dir / name).symlink_to(victim)
    (run_dir / "logs/rank-1.log").unlink()
    os.mkfifo(run_dir / "logs/rank-1.log")
    run(*FLAGS, f"--run_dir={run_dir}")
    assert {victim.read_text(encoding="ascii") for victim in victims} == {"precious"}
    for name in (*FINAL, "logs/rank-0.log", "logs/rank-1.log"):
        assert (run_dir / name).is_file() and not (run_dir / name).is_symlink(), name


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl"])
def test_what_is_another_files_is_refused(run_dir, tmp_path, name):
    """Links and pipes: written_file_test.cc."""
    run_dir.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="ascii")
    os.link(victim, run_dir / name)
    outcome = run(*FLAGS[:-2], f"--run_dir={run_dir}", check=5)
    assert name in outcome.stderr and "remove it" in outcome.stderr, outcome
    assert victim.read_text(encoding="ascii") == "precious"
