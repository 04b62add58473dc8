"""Compares WordPiece, sentencepiece and the byte-level BPE of newer models with transformers' tokenizers and with
sentencepiece: every text, however unlikely, gives the same ids, of whole texts and of words, with the same places."""

import json
import random
import shutil
import unicodedata

import pytest

from command import DATA, ROOT, run
from test_tokenizer import PIECES, SPACES, encode
from truth import record

for module in ("tokenizers", "transformers", "sentencepiece"):
    pytest.importorskip(module)
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="needs dtrain_data")
WORDS = ["the", "film", "was", "Never", "REALLY", "good", "Übergröße", "été", "İstanbul", "straße", "tokenizer", "unaffable", "x" * 101, "中国人",
         "東京", "\u1e69\u0323\u0307", "q\u0307\u0323", "\u01c4", "ΑΣ", "\u212b", "\uac01", "\u1100\u1161\u11a8", "\u0958", "ﬃ", "№", "㈱", "ｱｲ", "Ⅻ", "…", "[SEP]",
         "[MASK]", "[unused3]", "<unk>", "<mask>", "</s>", "a<s>b", "|||EMAIL_ADDRESS|||", "    ", "         ", "--", "¿que?", "$5.00", "l'été", "\u2028", "##x", "▁", "▁▁a"]


def odd_texts(count=6000):
    choose = random.Random(39)
    pieces = [*PIECES, *WORDS]
    texts = ["", " ", *SPACES, *pieces]
    while len(texts) < count:
        texts.append("".join(choose.choice(SPACES if choose.random() < 0.3 else pieces) for _ in range(choose.randint(1, 12))))
    return texts


TEXTS = odd_texts()
LINES = [" ".join(random.Random(i).choices([*PIECES, *WORDS], k=20)) for i in range(600)]
LINES += [line for page in (ROOT / "docs").glob("*.md") for line in page.read_text(encoding="utf-8").splitlines() if line][:3000]


def without_spaces(text, begin, end):
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def compare(folder, theirs, what, texts=TEXTS, with_spaces=None, fast=None, spaces_belong=True, is_plain=lambda text: True):
    """`theirs` is a tokenizer of transformers, `with_spaces` the same with add_prefix_space, which words need, and `fast`
    one that knows places. These are compared in texts whose ids it has, too, and whose characters stay as they are
    (`is_plain`), without spaces unless these belong to tokens, and then without tokens that are only the mark of a word."""
    def ours(asked):
        return encode(asked, f"--tokenizer={folder}")
    found = ours(texts)
    for text, ids in zip(texts, found, strict=True):
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], (text, theirs.convert_ids_to_tokens(ids))
    sentences = [words for words in (text.split() for text in texts[:1500]) if words]
    for words, ids in zip(sentences, ours(sentences), strict=True):
        assert ids == (with_spaces or theirs)(words, is_split_into_words=True, add_special_tokens=False)["input_ids"], words
    record("Tokenizers", f"{what}: {len(texts)} texts, and {len(sentences)} lists of words", "transformers", "the same ids", 0)
    if fast is None:
        return
    compared = 0
    for text, ids, placed in zip(texts[:1500], found, ours([{"offsets": text} for text in texts[:1500]])):
        expected = fast(text, add_special_tokens=False, return_offsets_mapping=True)
        if ids == expected["input_ids"] and is_plain(text):
            compared += 1
            for (id, *place), of_peer in zip(placed, expected["offset_mapping"], strict=True):
                is_mark = spaces_belong is False and not text[slice(*of_peer)].strip()
                assert is_mark or tuple(place) == (of_peer if spaces_belong else without_spaces(text, *of_peer)), (text, placed, expected)
    assert compared > 200
    record("Tokenizers", f"{what}: where each token is, in {compared} texts", "transformers", "the same characters", 0)


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    """A BERT's vocab.txt."""
    from tokenizers import BertWordPieceTokenizer
    folder = tmp_path_factory.mktemp("bert")
    trained = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    lower = [text.lower() for text in LINES] + ["".join(c for c in unicodedata.normalize("NFD", line.lower()) if unicodedata.category(c) != "Mn") for line in LINES]
    trained.train_from_iterator([*LINES, *lower], vocab_size=1500, show_progress=False)
    trained.save_model(str(folder))
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    return folder


@pytest.mark.parametrize("settings", [{"do_lower_case": True}, {"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}])
def test_wordpiece(wordpiece, tmp_path, settings):
    from transformers import AddedToken, AutoTokenizer, BertTokenizerFast
    (tmp_path / "vocab.txt").write_bytes((wordpiece / "vocab.txt").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    theirs = BertTokenizerFast.from_pretrained(tmp_path)
    compare(tmp_path, theirs, f"BERT's WordPiece, vocab.txt, {settings}", fast=theirs)
    theirs.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved/vocab.txt").unlink(missing_ok=True)  # transformers 4 writes it, too
    compare(tmp_path / "saved", theirs, f"BERT's WordPiece, tokenizer.json, {settings}", TEXTS[:1000])
    of_any_kind = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": not settings["do_lower_case"]}  # which changes nothing there
    (tmp_path / "saved/tokenizer_config.json").write_text(json.dumps(of_any_kind), encoding="utf-8")
    compare(tmp_path / "saved", AutoTokenizer.from_pretrained(tmp_path / "saved"), f"a WordPiece of no known program, {settings}", TEXTS[:1000])
    (tmp_path / "of 4").mkdir()  # as transformers 4 leaves it
    (tmp_path / "of 4/vocab.txt").write_bytes((wordpiece / "vocab.txt").read_bytes())
    special = {theirs.convert_tokens_to_ids(token): {"content": token, "normalized": False} for token in theirs.all_special_tokens}
    del special[theirs.sep_token_id]  # it is special all the same
    (tmp_path / "of 4/tokenizer_config.json").write_text(json.dumps({**settings, "added_tokens_decoder": special}), encoding="utf-8")
    compare(tmp_path / "of 4", theirs, f"BERT's WordPiece, vocab.txt of transformers 4, {settings}", ["a[SEP]b [MASK]", *TEXTS[:1000]])
    theirs.add_tokens(["zqx", "Film!", "l'été", AddedToken("zqxz", normalized=False), AddedToken("wvu", normalized=False), AddedToken("中x", lstrip=True, normalized=False)])
    theirs.add_special_tokens({"additional_special_tokens": ["<e1>"]})
    theirs.save_pretrained(tmp_path / "added")
    added = ["the <e1>film<E1>", "a zqx b", "zqxzqxz ZQXZ ##zqx Zqx", "WVU wvu", "中X  中x film!Film!", *TEXTS[:1500]]
    compare(tmp_path / "added", theirs, f"BERT's WordPiece with added tokens, {settings}", added, fast=theirs)


@pytest.mark.parametrize("file", ["vocab.txt", "tokenizer.json"])
def test_an_export_names_the_class_of_its_tokenizer(wordpiece, tmp_path, file):
    """Without it transformers takes the one of the model's family."""
    from transformers import AutoTokenizer, BertTokenizerFast, RobertaConfig, RobertaForMaskedLM
    known = BertTokenizerFast.from_pretrained(wordpiece, do_lower_case=file == "vocab.txt")
    known.save_pretrained(tmp_path / "saved")
    config = RobertaConfig(vocab_size=len(known), hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
                           pad_token_id=known.pad_token_id, bos_token_id=known.cls_token_id, eos_token_id=known.sep_token_id)
    RobertaForMaskedLM(config).save_pretrained(tmp_path / "model")
    shutil.copy((wordpiece if file == "vocab.txt" else tmp_path / "saved") / file, tmp_path / "model")
    run("--mode=export", f"--input={tmp_path / 'model'}", f"--output={tmp_path / 'exported'}")
    exported = AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert [exported(text)["input_ids"] for text in LINES[:100]] == [known(text)["input_ids"] for text in LINES[:100]]
    assert (exported.pad_token, exported.mask_token) == ("[PAD]", "[MASK]")
    record("Tokenizers", f"a WordPiece's {file}, exported with a RoBERTa, 100 texts", "transformers", "the same ids", 0)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A model of sentencepiece as XLM-R's and CamemBERT's are."""
    import sentencepiece
    path = tmp_path_factory.mktemp("sentencepiece") / "sentencepiece.bpe.model"
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_prefix=str(path.with_suffix("")), vocab_size=900, model_type="unigram",
                                             character_coverage=0.98, minloglevel=2)
    return path


def is_plain(text):
    return text.isprintable() and unicodedata.is_normalized("NFKC", text) and not {*text} & {*"▁\ufffd"}


# In transformers 5 a Unigram is no longer the library: it makes other tokens of rare characters, and of what can be cut in
# two ways that are as likely.
PLAIN = [text for text in TEXTS if is_plain(text) and "xxx" not in text]


@pytest.mark.parametrize("kind", ["XLMRoberta", "Camembert"])
def test_sentencepiece(pieces, tmp_path, kind):
    import sentencepiece
    import transformers
    (tmp_path / pieces.name).write_bytes(pieces.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": {"XLMRoberta": "xlm-roberta"}.get(kind, "camembert")}), encoding="utf-8")
    theirs, fast = (getattr(transformers, f"{kind}Tokenizer{which}").from_pretrained(tmp_path) for which in ("", "Fast"))

    compare(tmp_path, theirs, f"{kind}'s sentencepiece", PLAIN if theirs.is_fast else TEXTS, fast=fast, spaces_belong=False, is_plain=is_plain)
    fast.save_pretrained(tmp_path / "saved")  # a tokenizer.json, in which the same pieces are
    (tmp_path / "saved" / pieces.name).unlink(missing_ok=True)
    known = [text for text in TEXTS if "\x85" not in text]  # which goes before the <mask> of one of them
    assert encode(known, f"--tokenizer={tmp_path / 'saved'}") == encode(known, f"--tokenizer={tmp_path}")
    record("Tokenizers", f"{kind}'s tokenizer.json alone, {len(known)} texts", "its sentencepiece.bpe.model", "the same ids", 0)
    fast.add_tokens(["zqx"])
    fast.save_pretrained(tmp_path / "added")
    assert "but the vocabulary lacks it" in run("encode", f"--tokenizer={tmp_path / 'added'}", program=DATA, text='"a"', check=3).stderr
    of_its_own = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    of_its_own.add_tokens(["a"])  # which is a piece already
    of_its_own.save_pretrained(tmp_path / "own")
    assert "'a' among its added_tokens" in run("encode", f"--tokenizer={tmp_path / 'own'}", program=DATA, text='"a"', check=3).stderr
    (tmp_path / "lines.txt").write_text("\n".join(LINES[:9]) + "\n", encoding="utf-8")
    run("tokenize", f"--tokenizer={tmp_path}", f"--input={tmp_path / 'lines.txt'}", f"--output={tmp_path / 'data/train'}", program=DATA)
    assert encode(["the film"], f"--tokenizer={tmp_path / 'data'}") == encode(["the film"], f"--tokenizer={tmp_path}"), "the files that are kept say whose it is"
    library = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    offset = {"XLMRoberta": 1, "Camembert": 4}[kind]
    plain = [text for text in TEXTS if "<" not in text]
    for text, ours, ids in zip(plain, encode(plain, f"--tokenizer={tmp_path}"), library.encode(plain), strict=True):
        assert ours == [3 if id == 0 else id + offset for id in ids], text
    record("Tokenizers", f"{kind}'s sentencepiece, {len(plain)} texts", "sentencepiece", "the same ids", 0)


@pytest.mark.parametrize("steps", ["split", "replace", "strip"])
def test_white_space_of_a_unigram_without_characters(pieces, tmp_path, steps):
    """A vocabulary of another trainer has no table of characters (precompiled_charsmap)."""
    import sentencepiece
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    library = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    scored = [(library.id_to_piece(id), library.get_score(id)) for id in range(3, len(library))]
    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
    *first, mask = [(token, 0.0) for token in special.values()]
    whole = Tokenizer(models.Unigram([*first, *scored, mask], unk_id=3))
    whole.add_special_tokens(list(special.values()))
    whole.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    marks = pre_tokenizers.Metaspace(prepend_scheme="always")
    if steps == "split":
        whole.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    else:
        whole.normalizer = normalizers.Sequence([normalizers.Strip(left=False)] * (steps == "strip") + [normalizers.Replace(Regex(" {2,}"), " ")])
        whole.pre_tokenizer = marks
    theirs = PreTrainedTokenizerFast(tokenizer_object=whole, **special)
    theirs.save_pretrained(tmp_path)
    texts = ["a\tb", "a\u00a0film", "the\u3000film\n", "the film ", " ", "  the  film  ", "a <mask> b ", "film", *PLAIN[:1000]]
    compare(tmp_path, theirs, f"a Unigram without characters, {steps}", texts, fast=theirs, spaces_belong=False, is_plain=is_plain)
    (file,) = tmp_path.glob("tokenizer.json")
    changed = json.loads(file.read_text(encoding="utf-8"))
    changed["model"]["vocab"][9][0] = "zqq\0b"
    file.write_text(json.dumps(changed), encoding="utf-8")
    assert "zero byte" in run("encode", f"--tokenizer={tmp_path}", program=DATA, text='"a"', check=3).stderr


@pytest.fixture(scope="module")
def modern(tmp_path_factory):
    """A tokenizer.json as ModernBERT's is."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast
    folder = tmp_path_factory.mktemp("modern")
    whole = Tokenizer(models.BPE())
    whole.normalizer = normalizers.NFC()
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # As in GPT-NeoX's vocabulary, bytes that no UTF-8 has are no tokens.
    alphabet = set(pre_tokenizers.ByteLevel.alphabet()) - {chr(byte) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
    whole.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=900, initial_alphabet=sorted(alphabet), show_progress=False))
    whole.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)] + [AddedToken(t, normalized=True) for t in ("|||EMAIL_ADDRESS|||", "[unused3]", "e\u0301t")])
    whole.add_special_tokens([AddedToken(name, lstrip=name == "[MASK]") for name in ("<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")])
    ids = {name: whole.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    whole.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(ids.items()))
    PreTrainedTokenizerFast(tokenizer_object=whole, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]").save_pretrained(folder)
    return folder


def test_byte_level_bpe_with_added_tokens(modern, tmp_path):
    from tokenizers import AddedToken, pre_tokenizers
    from transformers import AutoTokenizer
    theirs, with_spaces = AutoTokenizer.from_pretrained(modern), AutoTokenizer.from_pretrained(modern, add_prefix_space=True)
    with_spaces.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # of which transformers 5 does nothing
    compare(modern, theirs, "a byte-level BPE as ModernBERT's", with_spaces=with_spaces, fast=theirs, is_plain=lambda text: unicodedata.is_normalized("NFC", text))
    # A composed character is all that it was made of, of which transformers has the first alone.
    decomposed = "x cafe\u0301s \u1100\u1161\u11a8."
    places = [row[1:] for row in encode([{"offsets": decomposed}], f"--tokenizer={modern}")[0]]
    assert "".join(decomposed[begin:end] for begin, end in places) == decomposed
    # White space that belongs to one token may begin the next.
    theirs.add_tokens([AddedToken("<e>", normalized=True, rstrip=True)])
    theirs.add_special_tokens({"additional_special_tokens": ["<e1>"]})
    theirs.save_pretrained(tmp_path)
    text = "a <e>   film<e> \n  x<e1> y"
    assert encode([text], f"--tokenizer={tmp_path}")[0] == theirs(text, add_special_tokens=False)["input_ids"]


def test_an_exported_tagger_puts_a_space_before_words(modern, tmp_path):
    """Of a tokenizer.json, its own settings count for transformers 5."""
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertForTokenClassification
    known, folder = AutoTokenizer.from_pretrained(modern), tmp_path / "tagger"
    known.save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    ModernBertForTokenClassification(ModernBertConfig(vocab_size=len(known), pad_token_id=known.pad_token_id, **sizes)).save_pretrained(folder)
    run("--mode=export", f"--input={folder}", f"--output={tmp_path / 'exported'}")
    exported = AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert exported("the film")["input_ids"] == known(" the film")["input_ids"] != known("the film")["input_ids"]
    for text in ("\U0001f415 film", "quit", "the film"):  # of which some begin with a token that is the added space alone
        expected = exported(text, add_special_tokens=False, return_offsets_mapping=True)
        places = encode([{"offsets": text}], f"--tokenizer={tmp_path / 'exported'}")[0]
        assert [tuple(place) for place in places] == [(id, *place) for id, place in zip(expected["input_ids"], expected["offset_mapping"], strict=True)]
    record("Tokenizers", "a byte-level BPE as ModernBERT's, exported for tags of words", "transformers", "the same ids", 0)
