"""Compares rows of sentences and pairs with transformers' RobertaTokenizerFast, whose files are read, and tables with
Python's csv module."""

import csv
import json
import random

import pytest

from command import BUILD, run
from truth import record

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

DUMP = BUILD / "tests" / "sentences_dump"
pytestmark = pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")

WORDS = ["the", " film", " is", " not", " good", "good", "!", " naïve", " 日本語", "\t", "  ", "\n", ",", '"', '""', "'s", " 42",
         "\u00a0", "👍🏽", " unaffable", "\\", "\x01"]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def texts(count: int, most_words: int, seed: int) -> list[str]:
    choose = random.Random(seed)
    return ["x" + "".join(choose.choices(WORDS, k=choose.randint(0, most_words))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(module_dir):
    """A small tokenizer in both of its forms."""
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(texts(500, 30, 1), vocab_size=340, special_tokens=SPECIALS)
    two, one = module_dir / "two", module_dir / "one"
    for place in (two, one):
        place.mkdir()
    trained.save_model(str(two))
    fast = transformers.RobertaTokenizerFast(str(two / "vocab.json"), str(two / "merges.txt"))
    fast.backend_tokenizer.save(str(one / "tokenizer.json"))
    return module_dir


def dump(*arguments) -> list:
    return [json.loads(line) for line in run(*arguments, program=DUMP).lines]


def write(path, rows: list[dict]) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


@pytest.mark.parametrize("most", (5, 13, 512))
@pytest.mark.parametrize("pairs", (False, True))
def test_rows_are_those_of_transformers(folder, tmp_path, pairs, most):
    fast = transformers.RobertaTokenizerFast(str(folder / "two/vocab.json"), str(folder / "two/merges.txt"))
    a, b = texts(1000, 20, 2), texts(1000, 20, 3)
    rows = [{"sentence1": one, "sentence2": two, "label": f"class {i % 3}"} if pairs else {"text": one, "label": f"class {i % 3}"}
            for i, (one, two) in enumerate(zip(a, b))]
    expected = fast(a, b if pairs else None, truncation=True, max_length=most)["input_ids"]
    for name in ("train.csv", "val.jsonl"):
        write(tmp_path / name, rows)
        for files in ("two", "one"):
            found = dump(tmp_path, name.split(".")[0], folder / files, most, "class")
            assert [row[0] for row in found] == [row["label"] for row in rows]
            for i, row in enumerate(found):
                assert row[1:] == expected[i], (a[i], b[i])
    record("Tokenizers", f"{'pairs' if pairs else 'sentences'} in rows of at most {most} tokens",
           "transformers' RobertaTokenizerFast", "the same ids", 0)


def test_numbers_are_kept(folder, tmp_path):
    write(tmp_path / "train.csv", [{"text": "x", "score": score} for score in (3.8, 5, -0.25, 1e-3)])
    assert [row[0] for row in dump(tmp_path, "train", folder / "one", 8, "number")] == pytest.approx([3.8, 5, -0.25, 1e-3])


@pytest.mark.parametrize("line_end", ("\n", "\r\n"))
def test_tables_are_those_of_pythons_csv(tmp_path, line_end):
    choose = random.Random(5)
    path = tmp_path / "table.csv"
    cells = ["", "a", "a b", ",", '"', '""', 'a"b', "x\ny", "x\r\ny", "\n", " padded ", "é", "1.5"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=line_end, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["a", "b, c", 'd "e"'])
        writer.writerows([choose.choice(cells) for _ in range(3)] for _ in range(2000))
    with open(path, newline="", encoding="utf-8") as file:
        assert dump(path) == list(csv.reader(file))
    record("Files", "cells of CSV files", "Python's csv", "the same texts", 0)
