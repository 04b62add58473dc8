"""Text that training must not accept: each kind is named, with its exit code, and nothing is trained on it."""

import csv
import io
import json
import os
import shutil

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from command import MAIN, load_json, metrics, run, sha256
from text_data import TEXT, make_tokens, write_roberta_tokenizer

TINY_TEXT = ("--model=roberta_tiny", "--tokens_per_sample=32", "--batch_size=8", "--max_steps=2", "--optimizer=adam",
             "--lr=0.001", "--save_every_epochs=0")


@pytest.fixture(scope="module")
def made_tokens(module_dir):
    return make_tokens(module_dir, train=TEXT)


@pytest.fixture
def tokens(made_tokens, tmp_path):
    """A copy, which a test may change."""
    return shutil.copytree(made_tokens, tmp_path / "tokens")


def blocks_of(tokens) -> int:
    """Returns the number of training blocks in a folder."""
    return json.loads(run(*TINY_TEXT, f"--data_dir={tokens}", "--dry_run", "--log_format=json").last_line)["train_samples"]


def test_empty_documents_are_no_trouble(tmp_path):
    tokens = make_tokens(tmp_path, train="\n\n\n" + TEXT.replace("\n", "\n\n \t\n\n") + "\n" * 100)
    run(*TINY_TEXT, f"--data_dir={tokens}", "--sample_break=complete_doc", f"--run_dir={tmp_path / 'run'}")


def test_epochs_take_the_folders_in_turn(tokens, run_dir, tmp_path):
    """Of the third epoch on, the first folder comes again; what does not go together is said."""
    other = shutil.copytree(tokens, tmp_path / "other")
    flags = (*TINY_TEXT, f"--data_dir={tokens}:{other}", "--save_every_epochs=1", "--epochs=3", "--max_steps=1000")
    whole = run(*flags, f"--run_dir={run_dir}").last_line
    epochs = [point["epoch"] for point in metrics(run_dir, "epoch")]
    samples = load_json(run_dir / "result.json")["samples_seen"]
    assert epochs == [1, 2, 3] and 0 <= 3 * blocks_of(tokens) - samples < 8
    parts = tmp_path / "parts"
    run(*flags, f"--run_dir={parts}", "--limit_train_steps=5")
    assert run(*flags, f"--run_dir={parts}").last_line == whole
    assert sha256(parts / "model.safetensors") == sha256(run_dir / "model.safetensors")
    assert "neither --last_batch=drop" in run(*flags, "--last_batch=drop", check=2).stderr
    (other / "dict.txt").write_text((tokens / "dict.txt").read_text(encoding="ascii") + "more 1\n", encoding="ascii")
    assert "is another dictionary than" in run(*flags, check=3).stderr


def test_a_budget_of_tokens_is_for_rows_as_long_as_the_model_allows(tokens, tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 34, "pad_token_id": 1, "hidden_size": 16, "num_hidden_layers": 1, '
                                          '"num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 500}', encoding="utf-8")
    flags = ("--model=roberta", f"--model_config={tmp_path / 'config.json'}", f"--data_dir={tokens}", "--max_steps=1", "--dry_run")
    run(*flags, "--max_tokens=32")
    assert "--max_tokens=31: expected --tokens_per_sample (32) or more" in run(*flags, "--max_tokens=31", check=2).stderr


def test_another_dictionary_when_a_run_goes_on(tokens, run_dir):
    """The same tokens that mean something else."""
    run(*TINY_TEXT, f"--data_dir={tokens}", f"--run_dir={run_dir}", "--limit_train_steps=1")
    lines = (tokens / "dict.txt").read_text(encoding="ascii").splitlines()
    lines[0], lines[1] = lines[1], lines[0]
    (tokens / "dict.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
    outcome = run(*TINY_TEXT, f"--data_dir={tokens}", f"--run_dir={run_dir}", check=None)
    assert outcome.code in (2, 3) and "--allow_dataset_change" in outcome.stderr


def test_an_evaluation_has_the_masks_of_its_run(tmp_path, run_dir):
    """They follow from --seed, which the run knows. Whole words are others."""
    tokens = make_tokens(tmp_path, train=TEXT, valid=TEXT[:600])
    flags = (*TINY_TEXT, f"--data_dir={tokens}", "--seed=9")
    trained = run(*flags, f"--run_dir={run_dir}")
    evaluated = run("--mode=eval", "--weights=last", f"--run_dir={run_dir}", f"--data_dir={tokens}")
    assert evaluated.last_line == trained.last_line
    assert run(*flags, "--mask_whole_words", f"--run_dir={tmp_path / 'words'}").last_line != trained.last_line


@pytest.mark.parametrize("unpad", [False, True])
def test_rows_without_a_token_are_counted_and_change_nothing(tmp_path, run_dir, unpad):
    """One meaning everywhere: in training, in its validation, in an evaluation and in a prediction."""
    ids = numpy.random.default_rng(1).integers(4, 40, (16, 16))
    attended = numpy.ones_like(ids)
    attended[5] = attended[9] = 0
    labels = numpy.where(ids % 3 == 0, ids, -100)
    flags = (*TINY_TEXT, "--vocab_size=41", f"--data_dir={tmp_path}", "--max_steps=8", "--epochs=40", "--log_interval=1",
             "--max_skipped_steps=3", *(["--unpad"] if unpad else []))
    split = {"input_ids": ids, "attention_mask": attended, "labels": labels}
    save_file(split, tmp_path / "train.safetensors")
    save_file(split, tmp_path / "val.safetensors")
    outcome = run(*flags, f"--run_dir={run_dir}", "--limit_train_steps=2")
    assert outcome.stderr.count("nothing is learned from samples without a token") == 1, outcome
    assert outcome.stderr.count("do not count in the evaluation: 2 of val") == 1, outcome
    assert sum(point.get("empty_samples", 0) for point in metrics(run_dir, "train")) == 2
    assert metrics(run_dir, "val")[-1]["empty_samples"] == 2
    evaluated = run("--mode=eval", "--weights=last", f"--run_dir={run_dir}", f"--data_dir={tmp_path}",
                    "--batch_size=3")
    assert "do not count in the evaluation: 2 of val" in evaluated.stderr and evaluated.last_line == outcome.last_line.replace("val_", "train_")

    save_file({"input_ids": ids, "attention_mask": attended}, tmp_path / "in.safetensors")
    predicted = run("--mode=predict", f"--run_dir={run_dir}", f"--input={tmp_path / 'in.safetensors'}",
                    f"--output={tmp_path / 'out.safetensors'}")
    logits = load_file(tmp_path / "out.safetensors")["logits"]
    assert "logits of 0: 2 of" in predicted.stderr and numpy.isfinite(logits).all()
    assert not logits[[5, 9]].any() and logits[4].any()

    split["attention_mask"][:] = 0  # more such steps than --max_skipped_steps
    save_file(split, tmp_path / "train.safetensors")
    (tmp_path / "val.safetensors").unlink()
    outcome = run(*flags, f"--run_dir={tmp_path / 'empty'}")
    assert "without a token to guess" in outcome.stderr and "not finite" not in outcome.stderr
    save_file(split, tmp_path / "val.safetensors")
    outcome = run("--mode=eval", f"--run_dir={run_dir}", f"--data_dir={tmp_path}", check=3)
    assert "has a token to guess" in outcome.stderr


SENTENCES = ("--model=roberta_tiny", "--task=text_classification", "--tokens_per_sample=16", "--batch_size=2", "--optimizer=adam")


@pytest.fixture(scope="module")
def reviews(module_dir):
    folder = module_dir / "reviews"
    folder.mkdir()
    write_roberta_tokenizer(folder)
    for split in ("train", "val"):
        (folder / f"{split}.tsv").write_text("text\tlabel\nthe cat\tx\nthe dog\ty\nthe mat\tx\nthe log\ty\n", encoding="utf-8")
    return folder


def test_words_have_no_columns_of_groups(reviews, tmp_path):
    write_roberta_tokenizer(tmp_path)
    (tmp_path / "train.conll").write_text("the O\ncat B-X\n\n" * 9, encoding="utf-8")
    flags = ("--model=roberta_tiny", "--task=token_classification", "--tokens_per_sample=16", "--optimizer=adam", f"--data_dir={tmp_path}")
    assert "has no columns of groups" in run(*flags, "--val_fraction=0.2", "--group_column=doc", "--dry_run", check=3).stderr


def test_the_tokenizer_may_lie_beside_the_configuration(reviews, tmp_path):
    for folder in ("data", "model"):
        (tmp_path / folder).mkdir()
    for split in ("train.tsv", "val.tsv"):
        (tmp_path / "data" / split).write_bytes((reviews / split).read_bytes())
    write_roberta_tokenizer(tmp_path / "model")
    config = {"model_type": "roberta", "vocab_size": len(json.loads((tmp_path / "model" / "vocab.json").read_text())), "hidden_size": 16,
              "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 34, "pad_token_id": 1}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    run("--model=roberta", *SENTENCES[1:], f"--data_dir={tmp_path / 'data'}", f"--model_config={tmp_path / 'model' / 'config.json'}",
        "--max_steps=1", f"--run_dir={tmp_path / 'run'}", "--dry_run")


def test_a_blank_text_is_a_row_that_says_so(reviews, tmp_path):
    run(*SENTENCES, f"--data_dir={reviews}", "--lr=0.001", "--max_steps=1", f"--run_dir={tmp_path / 'run'}")
    (tmp_path / "in.txt").write_text("the cat\n\n \nthe dog\n", encoding="utf-8")
    predict = ("--mode=predict", f"--run_dir={tmp_path / 'run'}", f"--data_dir={reviews}", f"--input={tmp_path / 'in.txt'}")
    assert "for texts, --features=FILE.npy" in run(*predict, f"--output={tmp_path / 'out.safetensors'}", check=2).stderr
    for name in ("out.csv", "out.jsonl", "out.npy"):
        outcome = run(*predict, f"--{'features' if name == 'out.npy' else 'output'}={tmp_path / 'new' / name}", check=5)
        assert "--run_dir" not in outcome.stderr.split("what to do: ")[1] and "/new/" in outcome.stderr
        outcome = run(*predict, f"--{'features' if name == 'out.npy' else 'output'}={tmp_path / name}")
        assert outcome.last_line == "predicted=2 unreadable=2" and "2 rows could not be read" in outcome.stderr
        if name == "out.npy":
            assert numpy.isnan(numpy.load(tmp_path / name)).all(axis=1).tolist() == [False, True, True, False]
        text = (tmp_path / name.replace("npy", "jsonl")).read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text))) if name == "out.csv" else list(map(json.loads, text.splitlines()))
        assert [row["text"] for row in rows] == ["the cat", "", " ", "the dog"]
        assert [row.get("error", "").partition(" line ")[2] for row in rows] == ["", *(f"{line}: the text is empty" for line in (2, 3)), ""]
        (tmp_path / name).unlink()
        (tmp_path / "out.jsonl").unlink(missing_ok=True)


def test_what_is_no_file_is_no_missing_split(reviews, tmp_path):
    folder = shutil.copytree(reviews, tmp_path / "data")
    (folder / "val.tsv").unlink()
    os.mkfifo(folder / "val.tsv")
    outcome = run(*SENTENCES, f"--data_dir={folder}", "--lr=0.001", "--max_steps=1", f"--run_dir={tmp_path / 'run'}", check=3)
    assert "val.tsv is neither a file nor a folder" in outcome.stderr


def test_a_short_run_that_has_learned_nothing_is_no_success(reviews, run_dir):
    outcome = run(*SENTENCES, f"--data_dir={reviews}", "--lr=1e30", "--max_steps=10", f"--run_dir={run_dir}", check=6)
    assert "after 10 steps the loss is not finite" in outcome.stderr


def test_the_vocabulary_may_be_asked_of_the_tokenizer(reviews, run_dir):
    run(*SENTENCES, f"--data_dir={reviews}", "--lr=0.001", "--max_steps=1", "--dry_run", "--vocab_size=0", f"--run_dir={run_dir}")


@pytest.mark.parametrize("field, most", [("hidden_size", 1 << 24), ("num_hidden_layers", 1000)])
def test_a_shape_of_any_size_is_judged_before_it_is_made(made_tokens, tmp_path, run_dir, field, most):
    """A size that memory may or may not hold: the plan or the estimate comes without an attempt (4 GiB of addresses)."""
    shape = {"model_type": "roberta", "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 2, "intermediate_size": 512, "max_position_embeddings": 512, field: most}
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    outcome = run(f"--as={4 << 30}", MAIN, "--model=roberta", f"--model_config={tmp_path / 'config.json'}",
                  f"--data_dir={made_tokens}", "--max_steps=2", f"--run_dir={run_dir}", "--dry_run", program="prlimit",
                  check=None)
    assert outcome.code == 0 or (outcome.code == 7 and "GiB of memory" in outcome.stderr), outcome
