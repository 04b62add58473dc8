"""Several labels a text beside transformers and scikit-learn: ten steps, metrics, predictions, a folder that a pipeline
loads; labels in one column and in several."""

import json
import random

import pytest

from beside_torch import assert_exact_steps, assert_metrics, torch
from small_roberta import PEER, TEN_STEPS, new_config, new_tokenizer, stirred, transformers

from command import load_lines, load_table, run
from test_fine_tuning import torch_losses
from truth import record, worst_difference

sklearn_metrics = pytest.importorskip("sklearn.metrics")

LENGTH, ROWS, LABELS = 24, 41, ["war", "art", "sport"]
WORDS = "the film is not good bad very long story about a cat and the dog who never met".split()
DATA = ("--task=text_multilabel", "--label_separator=|", f"--tokens_per_sample={LENGTH}", "--label_threshold=0.4")


class Work:
    def __init__(self, folder):
        tokenizer = transformers.RobertaTokenizerFast(*new_tokenizer(folder, WORDS))
        choose = random.Random(1)
        self.texts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 12))) for _ in range(ROWS)]
        self.labels = [[name for name in LABELS if choose.random() < 0.4] for _ in range(ROWS)]
        self.targets = torch.tensor([[float(name in held) for name in LABELS] for held in self.labels])
        self.inputs = dict(tokenizer(self.texts, padding=True, return_tensors="pt"))
        torch.manual_seed(0)
        model = stirred(transformers.RobertaForSequenceClassification(
            new_config(LENGTH, labels=LABELS, problem_type="multi_label_classification")))
        with torch.no_grad():
            model.classifier.out_proj.bias -= model.eval()(**self.inputs).logits.mean(0)
        self.folder, self.data = folder / "weights", folder / "data"
        model.save_pretrained(self.folder)
        tokenizer.save_pretrained(self.folder)
        self.data.mkdir()
        for name in ("train.tsv", "val.tsv"):
            rows = [f"{text}\t{'| '.join(held)}" for text, held in zip(self.texts, self.labels, strict=True)]
            (self.data / name).write_text("\n".join(["text\tlabels", *rows]) + "\n", encoding="utf-8")

    def logits(self, folder):
        with torch.no_grad():
            return loaded(folder).eval()(**self.inputs).logits


@pytest.fixture(scope="module")
def work(module_dir):
    return Work(module_dir)


def loaded(folder):
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder)


def expected_metrics(logits, targets) -> dict:
    predicted = (logits.sigmoid() >= 0.4).int()
    return {"loss": torch.nn.functional.binary_cross_entropy_with_logits(logits, targets).item(),
            "f1_micro": 100 * sklearn_metrics.f1_score(targets.int(), predicted, average="micro"),
            "f1_macro": 100 * sklearn_metrics.f1_score(targets.int(), predicted, average="macro"),
            "map": 100 * sklearn_metrics.average_precision_score(targets, logits, average="macro")}


def test_metrics_are_those_of_sklearn(work, tmp_path):
    outcome = run("--mode=eval", *DATA, f"--init_weights={work.folder}", f"--data_dir={work.data}", "--batch_size=5",
                  "--log_format=json", f"--predictions={tmp_path / 'all.csv'}", f"--output={tmp_path}", "--nproc_per_node=3")
    logits = work.logits(work.folder)
    assert_metrics("of text_multilabel", "scikit-learn", outcome, expected_metrics(logits, work.targets))
    rows = load_table(tmp_path / "all.csv")
    assert [(row["text"], row["label"]) for row in rows] == [(text, "|".join(held)) for text, held in zip(work.texts, work.labels, strict=True)]
    said = [[float(row[f"probability_{name}"]) for name in LABELS] for row in rows]
    torch.testing.assert_close(torch.tensor(said), logits.sigmoid(), rtol=0, atol=1e-5)
    assert [row["prediction"] for row in rows] == ["|".join(name for name, value in zip(LABELS, row, strict=True) if value >= 0.4)
                                                   for row in said]
    assert [int(row["samples"]) for row in load_table(tmp_path / "class_accuracy.csv")] == work.targets.sum(0).int().tolist()


def test_ten_steps_and_the_way_back(work, tmp_path, run_dir):
    run(*TEN_STEPS, *DATA, "--batch_size=8", f"--init_weights={work.folder}", f"--data_dir={work.data}", f"--run_dir={run_dir}")
    assert_exact_steps("text_multilabel, ten steps", PEER, run_dir, lambda numbers: torch_losses(
        loaded(work.folder).to(numbers), work.inputs, work.targets.to(numbers)))

    run("--mode=export", f"--run_dir={run_dir}", f"--output={tmp_path / 'hf'}", "--weights=last")
    config = loaded(tmp_path / "hf").config
    assert config.problem_type == "multi_label_classification" and config.id2label == dict(enumerate(LABELS))
    (tmp_path / "texts.txt").write_text("\n".join(work.texts) + "\n", encoding="utf-8")
    run("--mode=predict", f"--init_weights={tmp_path / 'hf'}", f"--input={tmp_path / 'texts.txt'}",
        f"--output={tmp_path / 'out.jsonl'}")
    found = load_lines(tmp_path / "out.jsonl")
    wanted = transformers.pipeline("text-classification", model=str(tmp_path / "hf"), top_k=None)(work.texts)
    ours = [line["probabilities"][score["label"]] for line, scores in zip(found, wanted, strict=True) for score in scores]
    theirs = [score["score"] for scores in wanted for score in scores]
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert [line["prediction"] for line in found] == [
        ",".join(name for name in LABELS if line["probabilities"][name] >= 0.5) for line in found]
    record("Models", "probabilities of several labels, exported", "transformers' pipeline", "1e-5 of a probability",
           worst_difference(torch.tensor(ours), torch.tensor(theirs)))


COLUMNS = "text\t" + "\t".join(LABELS)


def test_a_column_for_each_label_is_the_same(work, tmp_path):
    rows = [f"{text}\t" + "\t".join(str(int(value)) for value in held)
            for text, held in zip(work.texts, work.targets.tolist(), strict=True)]
    (tmp_path / "val.tsv").write_text("\n".join([COLUMNS, *rows]) + "\n", encoding="utf-8")
    one, other = (json.loads(run("--mode=eval", *flags, f"--init_weights={work.folder}", "--log_format=json").last_line)
                  for flags in ((*DATA, f"--data_dir={work.data}"),
                                (*DATA, "--label_separator=", f"--label_column={','.join(LABELS)}", f"--data_dir={tmp_path}")))
    assert [one[f"val_{name}"] for name in ("loss", "f1_macro", "map")] == [other[f"val_{name}"] for name in ("loss", "f1_macro", "map")]
    assert run("--mode=eval", *DATA, "--label_separator=", f"--init_weights={work.folder}", f"--data_dir={work.data}",
               check=2).stderr.count("does not say where the labels of a row are") == 1
    lists = [json.dumps({"labels": held or None, "text": text}) for text, held in zip(work.texts, work.labels, strict=True)]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "val.jsonl").write_text("\n".join(lists), encoding="utf-8")
    for separator in ("", "|"):
        again = json.loads(run("--mode=eval", *DATA, f"--label_separator={separator}", f"--init_weights={work.folder}",
                               f"--data_dir={tmp_path / 'lists'}", "--log_format=json").last_line)
        assert again["val_loss"] == one["val_loss"] and again["val_map"] == one["val_map"]
    (tmp_path / "lists" / "val.jsonl").write_text(lists[0] + '\n{"labels": ["war", 3], "text": "a"}\n', encoding="utf-8")
    outcome = run("--mode=eval", *DATA, "--label_separator=", f"--init_weights={work.folder}", f"--data_dir={tmp_path / 'lists'}", check=3)
    assert "val.jsonl line 2: 'labels' holds what is no text" in outcome.stderr, outcome
    assert "lists of labels are for --task=text_multilabel" in run(
        "--mode=eval", f"--init_weights={work.folder}", "--task=text_classification", f"--data_dir={tmp_path / 'lists'}", check=3).stderr
    (tmp_path / "val.tsv").write_text(COLUMNS + "\na text\t1\t0\t2\n", encoding="utf-8")
    outcome = run("--mode=eval", *DATA, "--label_separator=", f"--label_column={','.join(LABELS)}",
                  f"--init_weights={work.folder}", f"--data_dir={tmp_path}", check=3)
    assert "val.tsv line 2: 'sport' is '2', but a column of one label has 0 or 1" in outcome.stderr, outcome


@pytest.mark.parametrize("flags, name, rows", (
    (("--label_column=war",), "csv", ("text,war", "good film,TRUE", "bad story,0")),
    ((), "jsonl", ('{"text": "good film", "labels": ["war"], "rate": NaN}', '{"text": "bad story", "labels": []}'))))
def test_one_label_and_none_in_validation(work, run_dir, tmp_path, flags, name, rows):
    """What nothing holds has an average precision of 0, as in scikit-learn."""
    (tmp_path / f"train.{name}").write_text("\n".join(rows) + "\n")
    (tmp_path / f"val.{name}").write_text("\n".join([*rows[:-2], rows[-1]]) + "\n")
    run(*flags, "--task=text_multilabel", f"--init_weights={work.folder}", f"--data_dir={tmp_path}", f"--run_dir={run_dir}",
        "--max_steps=1", f"--tokens_per_sample={LENGTH}")
    result = json.loads((run_dir / "result.json").read_text())
    assert result["val_map"] == 0 and result["val_loss"] > 0, result
