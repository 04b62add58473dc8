#!/usr/bin/env python3
"""The end of scripts/roberta_demo.sh: the perplexity of guessing by frequency alone on the validation text, that of the
trained model, and three masks that transformers fills with the exported model."""

import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from transformers import pipeline
from transformers.utils import logging

END_OF_LINE = 2  # </s>
SENTENCES = ("In the beginning God created the heaven and the<mask>.", "And the LORD said unto<mask>, Go in.",
             "And he went up to the house of the<mask>.")


def tokens(path: Path) -> np.ndarray:
    """Reads tokens of a small vocabulary, two bytes each."""
    ids = np.fromfile(path, np.uint16)
    return ids[ids != END_OF_LINE]


def unigram_perplexity(train: np.ndarray, valid: np.ndarray) -> float:
    counts = Counter(train.tolist())
    words = len(set(counts) | set(valid.tolist()))
    total = len(train) + words  # add-one smoothing: each word counts once more than it was seen
    return math.exp(-sum(math.log((counts[word] + 1) / total) for word in valid.tolist()) / len(valid))


def main() -> None:
    folder = Path(sys.argv[1])
    logging.set_verbosity_error()
    unigram = unigram_perplexity(tokens(folder / "tokens" / "train.bin"), tokens(folder / "tokens" / "valid.bin"))
    trained = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))["val_perplexity"]
    fill = pipeline("fill-mask", model=str(folder / "exported"), tokenizer=str(folder / "exported"), top_k=3)
    for sentence in SENTENCES:
        guesses = ", ".join(f"{guess['token_str'].strip()} ({100 * guess['score']:.0f} %)" for guess in fill(sentence))
        print(f"{sentence}  →  {guesses}")
    print(f"unigram_perplexity={unigram:.1f} val_perplexity={trained:.1f}")


if __name__ == "__main__":
    main()
