"""Labels of words beside transformers and beside seqeval's counts, which are written down here: labels on first
tokens, ten steps, metrics, pipelines; and what is said of bad input."""

import json
import random
import shutil

import pytest

from beside_torch import assert_exact_steps, assert_metrics, torch
from small_roberta import PEER, TEN_STEPS, new_config, new_tokenizer, new_wordpiece, stirred, transformers
from safetensors.torch import load_file, save_file

from command import load_json, load_lines, load_table, run
from test_fine_tuning import torch_losses
from truth import record

LENGTH, ROWS = 128, 40
TAGS = ["B-LOC", "B-PER", "E-LOC", "I-LOC", "I-PER", "O", "S-LOC", "é"]
WORDS = "the film by Anna Ng is set in Übersee , a very long story about Ober-Ramstadt and the dog who ne'er met 🐕 !".split()


def sentences(count: int, seed: int, longest: int = 6) -> list[tuple[list[str], list[str]]]:
    """Words with tags in any order, as no scheme allows."""
    choose = random.Random(seed)
    return [tuple(zip(*[(choose.choice(WORDS), choose.choice(TAGS + ["O"] * 3)) for _ in range(choose.randint(1, longest))]))
            for _ in range(count)]


def write_conll(path, rows) -> None:
    path.parent.mkdir(exist_ok=True)
    blocks = ["\n".join(f"{word} NN {tag}" for word, tag in zip(words, tags, strict=True)) for words, tags in rows]
    path.write_text("-DOCSTART- X O\n\n" + "\n\n".join(blocks) + "\n", encoding="utf-8")


class Work:
    def __init__(self, folder):
        files = new_tokenizer(folder, WORDS[::2])
        self.tokenizer = transformers.RobertaTokenizerFast(*files, add_prefix_space=True)
        torch.manual_seed(0)
        model = stirred(transformers.RobertaForTokenClassification(new_config(LENGTH, labels=TAGS)))
        model.classifier.weight.data *= 10  # so that all tags are predicted
        self.folder, self.data, self.rows = folder / "weights", folder / "data", sentences(ROWS, 1)
        model.save_pretrained(self.folder)
        transformers.RobertaTokenizerFast(*files).save_pretrained(self.folder)
        write_conll(self.data / "train.conll", self.rows)
        write_conll(self.data / "val.conll", self.rows)

    def inputs(self, rows=None):
        """Returns the tokens, and the labels as transformers' examples align them."""
        rows = rows or self.rows
        inputs = self.tokenizer([list(words) for words, _ in rows], is_split_into_words=True, padding=True, return_tensors="pt")
        labels = torch.full_like(inputs["input_ids"], -100)
        for row, (_, tags) in enumerate(rows):
            last = None
            for place, word in enumerate(inputs.word_ids(row)):
                if word is not None and word != last:
                    labels[row, place] = TAGS.index(tags[word])
                last = word
        return dict(inputs), labels


@pytest.fixture(scope="module")
def work(module_dir):
    return Work(module_dir)


def loaded(folder):
    return transformers.RobertaForTokenClassification.from_pretrained(folder)


def logits_of(folder, inputs):
    with torch.no_grad():
        return loaded(folder).eval()(**inputs).logits


# --- seqeval's counts, from its description: metrics/sequence_labeling.py (default), scheme.py (strict).

def entities(tags: list[str]) -> set:
    found, first, before = set(), 0, ("O", "_")
    for place, tag in enumerate([*tags, "O"]):
        now = tag[0], tag[1:].split("-", maxsplit=1)[-1] or "_"
        pair, changed = before[0] + now[0], before[1] != now[1]
        if before[0] in "ES" or pair in ("BB", "BS", "BO", "IB", "IS", "IO") or (before[0] != "O" and changed):
            found.add((before[1], first, place - 1))
        if now[0] in "BS" or pair in ("EE", "EI", "SE", "SI", "OE", "OI") or (now[0] != "O" and changed):
            first = place
        before = now
    return found


def strict_entities(tags: list[str]) -> set:
    """IOBES, whose entities are S, or B I* E of one type."""
    found = set()
    for first, tag in enumerate(tags):
        if tag[0] == "S":
            found.add((tag[2:], first, first))
        for last in range(first + 1, len(tags)) if tag[0] == "B" else ():
            if tags[last][2:] != tag[2:] or tags[last][0] not in "IE":
                break
            if tags[last][0] == "E":
                found.add((tag[2:], first, last))
                break
    return found


def scores(actual: list[list[str]], predicted: list[list[str]], find, kind=None) -> tuple:
    correct = samples = taken = 0
    for one, other in zip(actual, predicted, strict=True):
        true, said = ({entity for entity in find(list(tags)) if kind in (None, entity[0])} for tags in (one, other))
        correct, samples, taken = correct + len(true & said), samples + len(true), taken + len(said)
    return correct / (taken or 1), correct / (samples or 1), 2 * correct / ((samples + taken) or 1), samples


def test_metrics_are_those_of_seqeval(work, tmp_path):
    rows = sentences(500, 2)
    write_conll(tmp_path / "data" / "val.conll", rows)
    outcome = run("--mode=eval", f"--init_weights={work.folder}", f"--data_dir={tmp_path / 'data'}", "--batch_size=32",
                  f"--tokens_per_sample={LENGTH}", "--log_format=json", f"--output={tmp_path / 'eval'}",
                  f"--predictions={tmp_path / 'words.jsonl'}", "--nproc_per_node=3")
    inputs, labels = work.inputs(rows)
    logits = logits_of(work.folder, inputs)
    chosen = labels != -100
    flat = iter(logits[chosen].argmax(1).tolist())
    actual = [list(tags) for _, tags in rows]
    predicted = [[TAGS[next(flat)] for _ in tags] for tags in actual]
    precision, recall, f1, _ = scores(actual, predicted, entities)
    losses = torch.nn.functional.cross_entropy(logits[chosen], labels[chosen], reduction="none")
    expected = {"loss": losses.mean().item(), "precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1,
                "accuracy": 100 * (logits[chosen].argmax(1) == labels[chosen]).double().mean().item(),
                "strict_f1": 100 * scores(actual, predicted, strict_entities)[2]}
    assert 0 < expected["strict_f1"] < expected["f1"]
    assert_metrics("of token_classification, 500 odd sequences", "seqeval's counts", outcome, expected)

    table = {row["class"]: row for row in load_table(tmp_path / "eval/class_accuracy.csv")}
    for kind in ("LOC", "PER"):
        precision, recall, f1, samples = scores(actual, predicted, entities, kind)
        assert [int(table[kind]["samples"]), *(float(table[kind][name]) for name in ("precision", "recall", "f1"))] == pytest.approx(
            [samples, 100 * precision, 100 * recall, 100 * f1], abs=0.006)
    words = load_lines(tmp_path / "words.jsonl")
    assert [(line["word"], line["label"], line["prediction"]) for line in words] == [
        row for (text, _), one, other in zip(rows, actual, predicted, strict=True) for row in zip(text, one, other, strict=True)]
    assert [line["loss"] for line in words] == pytest.approx(losses.tolist(), abs=1e-3)


def test_ten_steps_and_the_way_back(work, tmp_path, run_dir):
    """Training with padding (without: test_pasted_text_commands.py), evaluation of the run, export, and the pipeline on plain text."""
    run(*TEN_STEPS, f"--tokens_per_sample={LENGTH}", "--batch_size=8", f"--init_weights={work.folder}", f"--data_dir={work.data}",
        f"--run_dir={run_dir}", "--nounpad")
    assert_exact_steps("token_classification, ten steps, --nounpad", PEER, run_dir,
                       lambda numbers: torch_losses(loaded(work.folder).to(numbers), *work.inputs()))
    assert "best_f1" in load_json(run_dir / "result.json")

    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'hf'}", "--weights=last")
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "hf")
    assert model.config.id2label == dict(enumerate(TAGS))
    for name, tensor in load_file(run_dir / "model.safetensors").items():
        assert torch.equal(model.state_dict()[name], tensor), name
    pipeline = transformers.pipeline("token-classification", model=str(tmp_path / "hf"), aggregation_strategy="simple")
    texts = [" ".join(words) for words, _ in work.rows] + ["", "Anna  Ng, Übersee!"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    run("--mode=predict", f"--run_dir={run_dir}", "--weights=last", f"--input={tmp_path / 'texts.txt'}",
        f"--output={tmp_path / 'out.jsonl'}")
    found = load_lines(tmp_path / "out.jsonl")
    assert [line["text"] for line in found] == texts
    worst = 0.0
    for line in found:
        wanted = pipeline(line["text"]) if line["text"] else []
        keys = ("entity_group", "start", "end")
        assert [[one[key] for key in keys] for one in line["entities"]] == [[one[key] for key in keys] for one in wanted], line
        worst = max([worst, *(abs(one["score"] - float(other["score"])) for one, other in zip(line["entities"], wanted, strict=True))])
        assert all(one["word"] == line["text"][one["start"]:one["end"]] for one in line["entities"])
    assert worst < 1e-5
    record("Models", "entities of plain text", "transformers' pipeline", "1e-5 of a score", worst)


def test_long_sentences_lose_no_word(work, tmp_path):
    """Of windows that overlap, each word is in one with text around it. JSON lines, and a word longer than a row."""
    words = [random.Random(3).choice(WORDS) for _ in range(200)]
    words[77] = "x" * 100
    (tmp_path / "long.jsonl").write_text(json.dumps({"tokens": words}) + "\n" + json.dumps({"tokens": WORDS[:3]}) + "\n",
                                         encoding="utf-8")
    outcome = run("--mode=predict", f"--init_weights={work.folder}", f"--input={tmp_path / 'long.jsonl'}",
                  f"--output={tmp_path / 'out.csv'}", "--tokens_per_sample=32")
    assert "longer than --tokens_per_sample=32: 1 sentence of" in outcome.stderr, outcome
    rows = load_table(tmp_path / "out.csv")
    assert [row["word"] for row in rows] == words + WORDS[:3]
    assert {row["prediction"] for row in rows} <= set(TAGS)
    assert rows[-1]["sentence"] == "2" and rows[-1]["line"] == "2"
    inputs, _ = work.inputs([(WORDS[:3], ["O"] * 3)])
    assert rows[-3]["prediction"] == TAGS[logits_of(work.folder, inputs)[0, 1].argmax()]


def test_a_published_tagger_may_have_a_pooler(tmp_path):
    """As dslim/bert-base-NER has, beside settings of the first tokenizers."""
    folder, texts = tmp_path / "ner", tmp_path / "texts.txt"
    tokenizer = new_wordpiece(tmp_path, WORDS)
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
                                     max_position_embeddings=LENGTH, num_labels=3)
    transformers.BertForTokenClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts.write_text(" ".join(WORDS[:5]) + "\n", encoding="utf-8")
    found = []
    for is_published in (False, True):
        if is_published:
            weights = load_file(folder / "model.safetensors") | {"bert.pooler.dense.weight": torch.ones(32, 32), "bert.pooler.dense.bias": torch.ones(32)}
            save_file(weights, folder / "model.safetensors", {"format": "pt"})
            settings = load_json(folder / "tokenizer_config.json") | {"init_inputs": []}
            (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        run("--mode=predict", f"--init_weights={folder}", f"--input={texts}", f"--output={tmp_path / 'out.csv'}")
        found.append((tmp_path / "out.csv").read_text(encoding="utf-8"))
    assert found[0] == found[1] and found[0].count("\n") > 1


def test_what_cannot_be_read_has_a_row_with_an_error(work, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"EU rejects\n\xff\nEU\n")
    (tmp_path / "in.jsonl").write_bytes(b'{"tokens": ["EU"]}\n{"tokens": ["\xff"]}\n{"tokens": []}\n{"tokens": ["rejects"]}\n')
    for source, bad, counted in (("in.txt", [2], "predicted=2 unreadable=1"), ("in.jsonl", [2, 3], "predicted=2 unreadable=2")):
        for name in ("out.csv", "out.jsonl"):
            outcome = run("--mode=predict", f"--init_weights={work.folder}", f"--input={tmp_path / source}", f"--output={tmp_path / name}")
            assert outcome.last_line == counted and f"line {bad[0]}: this is not UTF-8 text" in outcome.stderr, outcome
        rows = load_table(tmp_path / "out.csv")
        assert [int(row["line"]) for row in rows if row["error"]] == bad
        lines = load_lines(tmp_path / "out.jsonl")
        assert [number for number, line in enumerate(lines, 1) if "error" in line] == bad
        for name in ("out.csv", "out.jsonl"):
            (tmp_path / name).unlink()


def test_words_without_finite_outputs_have_errors(work, tmp_path):
    shutil.copytree(work.folder, tmp_path / "lost")
    weights = load_file(tmp_path / "lost" / "model.safetensors")
    weights["classifier.bias"][0] = float("nan")
    save_file(weights, tmp_path / "lost" / "model.safetensors", {"format": "pt"})
    for source, text, counted in (("in.txt", b"EU rejects\n\xff\nEU\n", "predicted=0 unreadable=1 not_finite=2"), ("in.conll", b"EU\nrejects\n\nEU\n", "predicted=0 not_finite=3")):
        (tmp_path / source).write_bytes(text)
        outcome = run("--mode=predict", f"--init_weights={tmp_path / 'lost'}", f"--input={tmp_path / source}", f"--output={tmp_path / source}.csv")
        assert outcome.last_line == counted and "are not finite" in outcome.stderr, outcome
        assert all("are not finite" in row["error"] or "UTF-8" in row["error"] for row in load_table(tmp_path / f"{source}.csv"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "val.conll").write_text("EU B-PER\nrejects O\n", encoding="utf-8")
    for folder in (work.folder, tmp_path / "lost"):
        run("--mode=eval", "--task=token_classification", f"--init_weights={folder}", f"--data_dir={tmp_path / 'data'}", f"--output={tmp_path / 'eval'}", f"--predictions={tmp_path / 'rows.csv'}")
        assert (tmp_path / "eval" / "class_accuracy.csv").exists() == (folder == work.folder)
    assert [(row["label"], row["prediction"], row["class_1"], row["loss"]) for row in load_table(tmp_path / "rows.csv")] == [("B-PER", "", "", "nan"), ("O", "", "", "nan")]
    assert load_json(tmp_path / "eval" / "result.json")["val_loss"] is None and not list((tmp_path / "eval").glob("c*.csv"))


def test_a_table_has_no_columns_of_words(work, tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n1,EU\n", encoding="utf-8")
    said = run("--mode=predict", f"--init_weights={work.folder}", f"--input={tmp_path / 'in.csv'}", f"--output={tmp_path / 'out.csv'}", check=3).stderr
    assert "in.csv is a table" in said


BAD = {"EU NN B-ORG\nrejects O\n": ("train.conll line 2: 2 columns, but the first word has 3", "train.conll"),
       "\n\n": ("train.conll has no words", "train.conll"),
       '{"tokens": ["EU", "rejects"], "tags": ["O"]}\n': ("train.jsonl line 1: 1 tag for 2 words", "train.jsonl"),
       '{"tokens": ["EU"], "ner_tags": [3]}\n': ("train.jsonl line 1: 'ner_tags' holds 3, which is not a text", "train.jsonl"),
       "EU O\nrejects B-X\n": ("val.conll line 2: the label 'B-Y' is none of the classes that the training data has", "train.conll")}


@pytest.mark.parametrize("content", BAD)
def test_bad_input_is_refused_in_one_sentence(work, tmp_path, content):
    sentence, name = BAD[content]
    (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "val.conll").write_text("EU O\nrejects B-Y\n", encoding="utf-8")
    outcome = run("--task=token_classification", f"--init_weights={work.folder}", f"--data_dir={tmp_path}", "--max_steps=1",
                  f"--run_dir={tmp_path / 'run'}", check=3)
    assert sentence in outcome.stderr, outcome
