"""A small text, a byte-level tokenizer of 256 bytes and a few merges, and the token files that dtrain_data makes of them."""

import json
from pathlib import Path

from command import DATA, run

TEXT = "the cat sat on the mat\nthe dog sat on the log\n\nthe cat saw the dog and the dog saw the cat\n" * 40
# `th` and `qu` stand in no text for themselves, and both may be merged with `e`.
MERGES = ("t h", "th e", "Ġ the", "a t", "o g", "q u", "qu e")


def letters_of_bytes() -> list[str]:
    """Returns the character that GPT-2's tables write for each byte."""
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(0x100 + number) for number, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def write_tokenizer(folder: Path) -> tuple[str, str]:
    """Writes the tokenizer and returns the flags that name it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = letters_of_bytes() + [merge.replace(" ", "") for merge in MERGES] + ["<|endoftext|>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    (folder / "encoder.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    return f"--encoder_json={folder / 'encoder.json'}", f"--vocab_bpe={folder / 'vocab.bpe'}"


def write_roberta_tokenizer(folder: Path) -> None:
    """Writes the same tokenizer as Hugging Face keeps it beside a RoBERTa's weights."""
    names = ["<s>", "<pad>", "</s>", "<unk>", *letters_of_bytes(), *(merge.replace(" ", "") for merge in MERGES), "<mask>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")


def make_tokens(folder: Path, **texts: str) -> Path:
    """Makes token files of each split. The dictionary is counted in the first one."""
    tokenizer = write_tokenizer(folder / "tokenizer")
    tokens = folder / "tokens"
    for number, (split, text) in enumerate(texts.items()):
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
        run("tokenize", *tokenizer, f"--input={folder / f'{split}.txt'}", f"--output={tokens / split}",
            *([f"--dict={tokens / 'dict.txt'}"] if number else []), program=DATA)
    return tokens
