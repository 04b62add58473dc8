"""The reports of a run on text: fairseq's JSON lines on stdout, read as existing scripts read them, and
metrics.jsonl."""

import json
import math
import re

import pytest

from command import load_json, metrics, run

# The keys of a training line and of a validation line, in fairseq's order, without those that a CPU and fp32 do not
# have.
TRAIN_KEYS = ["epoch", "update", "loss", "ppl", "wps", "ups", "wpb", "bsz", "num_updates", "lr", "gnorm", "clip",
              "train_wall", "wall"]
VALID_KEYS = ["epoch", "valid_loss", "valid_ppl", "valid_wps", "valid_wpb", "valid_bsz", "valid_num_updates"]

TINY_TEXT = ("--model=roberta_tiny", "--tokens_per_sample=32", "--optimizer=adam", "--lr=0.002", "--clip_norm=1",
             "--log_interval=1", "--save_every_epochs=0")


def statistics(text: str, key: str) -> list[dict]:
    """Returns the lines that have this key, found like scripts that draw fairseq's logs find them."""
    lines = [json.loads(found) for found in re.findall(r"\{.*\}", text)]
    return [line for line in lines if key in line]


def as_printed(number: float, decimals: int) -> str:
    return f"{round(number, decimals):g}"


@pytest.fixture(scope="module")
def trained(tokens, module_dir):
    folder = module_dir / "run"
    return folder, run(*TINY_TEXT, f"--data_dir={tokens}", "--max_tokens=256", "--grad_accum_steps=2", "--epochs=2",
                       "--log_format=json", "--nproc_per_node=2", f"--run_dir={folder}")


def test_training_lines_are_fairseqs(trained):
    """How numbers are written: points_test.cc."""
    folder, outcome = trained
    lines, points = statistics(outcome.stdout, "loss"), metrics(folder, "train")
    assert len(lines) == len(points) >= 5
    epoch_before = 0.0
    for line, point in zip(lines, points):
        assert list(line) == TRAIN_KEYS and all(isinstance(line[key], str) for key in TRAIN_KEYS[2:])
        assert line["epoch"] == math.floor(epoch_before + 1e-9) + 1 and line["update"] == round(point["epoch"], 3)
        epoch_before = point["epoch"]
        assert line["loss"] == as_printed(point["loss"] / math.log(2), 3)
        assert line["clip"] == ("100" if point["grad_norm"] > 1 else "0")
        assert float(line["ups"]) == pytest.approx(1 / point["step_seconds"], rel=1e-2, abs=0.0051)  # has two decimals
        assert 0 < float(line["bsz"]) <= 4 * 256 / 8
        assert point["padding_tokens"] >= 0 and point["tokens"] + point["padding_tokens"] <= 4 * 256


def test_validation_lines_are_fairseqs(trained):
    folder, outcome = trained
    lines, points = statistics(outcome.stdout, "valid_loss"), metrics(folder, "val")
    assert [line["epoch"] for line in lines] == [1, 2] and len(points) == 2
    assert [list(line) for line in lines] == [VALID_KEYS, [*VALID_KEYS, "valid_best_loss"]]
    assert lines[1]["valid_best_loss"] == as_printed(min(point["loss"] for point in points) / math.log(2), 3)


def test_all_lines_are_objects_and_the_last_is_the_result(trained):
    folder, outcome = trained
    last = [json.loads(line) for line in outcome.lines][-1]
    assert last == {"kind": "result"} | load_json(folder / "result.json")
    assert last["val_perplexity"] == pytest.approx(math.exp(last["val_loss"]))


def test_samples_are_counted_where_a_budget_cuts_batches(trained):
    folder, outcome = trained
    seen = load_json(folder / "result.json")["samples_seen"]
    assert seen == sum(round(float(line["bsz"])) for line in statistics(outcome.stdout, "loss"))


def test_without_padding_none_is_computed_on(tokens, tmp_path):
    flags = (*TINY_TEXT, f"--data_dir={tokens}", "--batch_size=8", "--sample_break=eos", "--max_steps=2")
    padded = run(*flags, f"--run_dir={tmp_path / 'padded'}")
    run(*flags, "--unpad", f"--run_dir={tmp_path / 'packed'}")
    points = [metrics(tmp_path / name, "train") for name in ("padded", "packed")]
    assert [point["tokens"] for point in points[0]] == [point["tokens"] for point in points[1]]
    assert [point["padding_tokens"] > 0 for point in points[0] + points[1]] == [True, True, False, False]
    step = next(line for line in padded.step_lines if line.startswith("step 2/"))
    assert re.search(r" loss \d\.\d{4} ppl [\d.]+ lr \S+ [\d.]+ tok/s eta ", step)


def test_evaluation_counts_tokens(trained, tokens):
    folder, _ = trained
    outcome = run("--mode=eval", "--weights=last", f"--run_dir={folder}", f"--data_dir={tokens}", "--log_format=json")
    point, result = [json.loads(line) for line in outcome.lines]
    assert (point["kind"], result["kind"]) == ("val", "result")
    assert point["loss"] == pytest.approx(metrics(folder, "val")[-1]["loss"], rel=1e-6)
    length = 24  # "the dog and the cat sat": a line has fewer tokens than letters
    assert 0 < result["samples_seen"] <= 30
    assert result["tokens_per_second"] * result["seconds"] <= 30 * (length + 2)
    assert result["tokens_per_second"] * result["seconds"] > result["samples_seen"]
