"""Fine-tuning beside transformers: the predictions of RobertaForSequenceClassification and ten steps of its losses from the
same weights and sentences; the metrics beside scikit-learn's and scipy's; folders that pipelines load; what is said of
bad input."""

import json
import random
import shutil

import pytest

from beside_torch import assert_exact_steps, assert_logits, assert_metrics, torch, torchvision
from small_roberta import PEER, TEN_STEPS, adamw_losses, new_config, new_tokenizer, stirred, transformers
from safetensors.torch import load_file
from torch.nn import functional as F

from command import load_lines, load_table, run
from truth import record, worst_difference

scipy_stats = pytest.importorskip("scipy.stats")
sklearn_metrics = pytest.importorskip("sklearn.metrics")

LENGTH = 24
ROWS = 37
LABELS = ["no", "maybe", "yes"]
WORDS = "the film is not good bad very long story about a cat and the dog who never met !".split()
TRAINED = (*TEN_STEPS, f"--tokens_per_sample={LENGTH}", "--batch_size=8")


def sentence(choose: random.Random) -> str:
    return " ".join(choose.choices(WORDS, k=choose.randint(1, 12)))


def table(count: int, seed: int) -> list[dict]:
    """Rows of pairs: a class, of which `maybe` is rare, and a score, of which many are equal."""
    choose = random.Random(seed)
    return [{"sentence1": sentence(choose), "sentence2": sentence(choose), "label": choose.choice(LABELS[::2] * 4 + LABELS[1:2]),
             "score": choose.randint(0, 8) / 2} for _ in range(count)]


def write_tsv(path, rows: list[dict], columns: list[str]) -> None:
    lines = ["\t".join(columns)] + ["\t".join(str(row[column]) for column in columns) for row in rows]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save(model, folder, tokenizer, inputs=None):
    """Saves a model whose biases and norms differ from initial ones, and which does not give all inputs the same class."""
    stirred(model)
    if inputs is not None:
        model.classifier.out_proj.bias.data -= logits_of(model, inputs).mean(0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Work:
    """The folders and rows of these tests."""

    def __init__(self, folder):
        self.tokenizer = transformers.RobertaTokenizerFast(*new_tokenizer(folder, WORDS))
        torch.manual_seed(0)
        self.rows = table(ROWS, 1)
        self.pretrained = save(transformers.RobertaForMaskedLM(new_config(LENGTH)), folder / "pretrained", self.tokenizer)
        model = transformers.RobertaForSequenceClassification(new_config(LENGTH, labels=LABELS))
        self.classifier = save(model, folder / "classifier", self.tokenizer, self.inputs())
        model = transformers.RobertaForSequenceClassification(new_config(LENGTH, num_labels=1, problem_type="regression"))
        self.regression = save(model, folder / "regression", self.tokenizer, self.inputs())
        self.classes, self.scores = folder / "classes", folder / "scores"
        for name in ("train.tsv", "dev.tsv"):
            write_tsv(self.classes / name, self.rows, ["sentence1", "sentence2", "label"])
            write_tsv(self.scores / name, self.rows, ["sentence1", "sentence2", "score"])

    def of(self, task: str):
        """Returns the weights, the data and the targets of a task."""
        if task == "text_classification":
            return self.classifier, self.classes, torch.tensor([LABELS.index(row["label"]) for row in self.rows])
        return self.regression, self.scores, torch.tensor([row["score"] for row in self.rows])

    def inputs(self, rows=None):
        rows = rows or self.rows
        return dict(self.tokenizer([row["sentence1"] for row in rows], [row["sentence2"] for row in rows], truncation=True,
                                   max_length=LENGTH, padding=True, return_tensors="pt"))


@pytest.fixture(scope="module")
def work(module_dir):
    return Work(module_dir)


def loaded(folder):
    return transformers.RobertaForSequenceClassification.from_pretrained(folder)


def logits_of(model, inputs):
    with torch.no_grad():
        return model.eval()(**inputs).logits


def expected_metrics(task: str, logits, targets) -> dict:
    if task == "text_regression":
        predictions = logits.squeeze(1)
        return {"loss": F.mse_loss(predictions, targets).item(),
                "pearson": scipy_stats.pearsonr(predictions, targets).statistic,
                "spearman": scipy_stats.spearmanr(predictions, targets).statistic}
    predictions = logits.argmax(1)
    return {"loss": F.cross_entropy(logits, targets).item(),
            "accuracy": 100 * sklearn_metrics.accuracy_score(targets, predictions),
            "f1": 100 * sklearn_metrics.f1_score(targets, predictions, average="macro"),
            "matthews": sklearn_metrics.matthews_corrcoef(targets, predictions)}


@pytest.mark.parametrize("task", ("text_classification", "text_regression"))
def test_metrics_and_predictions_for_each_sentence(work, tmp_path, task):
    """The classes of the weights have names, and the task is not named: weights and data tell. Predictions are in the order of
    the rows, whichever of the ranks made them."""
    folder, data, targets = work.of(task)
    outcome = run("--mode=eval", f"--init_weights={folder}", f"--data_dir={data}", f"--tokens_per_sample={LENGTH}", "--batch_size=5",
                  "--log_format=json", f"--output={tmp_path}", f"--predictions={tmp_path / 'all.jsonl'}", "--nproc_per_node=3")
    logits = logits_of(loaded(folder), work.inputs())
    assert_metrics(f"of {task}", "scikit-learn and scipy", outcome, expected_metrics(task, logits, targets))
    found = load_lines(tmp_path / "all.jsonl")
    assert [(row["text"], row["pair"]) for row in found] == [(row["sentence1"], row["sentence2"]) for row in work.rows]
    if task == "text_regression":
        assert [row["label"] for row in found] == targets.tolist()
        ours, theirs = [row["prediction"] for row in found], logits.squeeze(1).tolist()
        losses = (logits.squeeze(1) - targets).square().tolist()
    else:
        assert list(load_table(tmp_path / "confusion_matrix.csv")[0])[1:] == LABELS
        assert [row["label"] for row in found] == [row["label"] for row in work.rows]
        assert [row["prediction"] for row in found] == [LABELS[label] for label in logits.argmax(1).tolist()]
        ours = [row["probabilities"][name] for row in found for name in LABELS]
        theirs = logits.softmax(1).flatten().tolist()
        losses = F.cross_entropy(logits, targets, reduction="none").tolist()
    assert ours == pytest.approx(theirs, abs=1e-5) and [row["loss"] for row in found] == pytest.approx(losses, abs=1e-4)
    record("Models", f"predictions for each sentence, {task}", PEER, "1e-5", worst_difference(ours, theirs))


def test_the_first_of_equally_likely_classes_is_predicted(work, tmp_path):
    """By the metrics, which are computed in batches, and in the file of predictions."""
    model = loaded(work.classifier)
    for parameter in model.classifier.out_proj.parameters():
        torch.nn.init.zeros_(parameter)
    model.save_pretrained(tmp_path / "tied")
    work.tokenizer.save_pretrained(tmp_path / "tied")
    outcome = run("--mode=eval", f"--init_weights={tmp_path / 'tied'}", f"--data_dir={work.classes}", f"--tokens_per_sample={LENGTH}",
                  "--batch_size=5", "--log_format=json", f"--predictions={tmp_path / 'all.jsonl'}")
    targets = work.of("text_classification")[2]
    expected = expected_metrics("text_classification", logits_of(model, work.inputs()), targets)
    found = {name: json.loads(outcome.last_line)[f"val_{name}"] for name in expected}
    assert found == pytest.approx(expected, rel=1e-5)
    predicted = [row["prediction"] for row in load_lines(tmp_path / "all.jsonl")]
    assert predicted == ROWS * LABELS[:1]
    record("Models", "metrics and predictions of equally likely classes", PEER, "the same classes", 0)


@pytest.mark.parametrize("head", ["pretrained", "classifier"])
def test_features_are_the_first_hidden_states(work, tmp_path, head):
    """With weights of either task, of a table of pairs."""
    folder = getattr(work, head)
    outcome = run("--mode=predict", f"--init_weights={folder}", f"--input={work.classes / 'dev.tsv'}", "--batch_size=5",
                  f"--tokens_per_sample={LENGTH}", f"--features={tmp_path / 'x.safetensors'}")
    assert outcome.last_line == f"predicted={ROWS}"
    names = load_lines(tmp_path / "x.jsonl")
    assert names == [{"row": number, "text": row["sentence1"], "pair": row["sentence2"]} for number, row in enumerate(work.rows)]
    model = transformers.RobertaModel.from_pretrained(folder, add_pooling_layer=False).eval()
    with torch.no_grad():
        expected = model(**work.inputs()).last_hidden_state[:, 0]
    found = load_file(tmp_path / "x.safetensors")["features"]
    assert_logits(found, expected, f"predict: features of texts, {head}", PEER, "1e-5", "features of about 1")


def torch_losses(model, inputs, targets, layer_decay: float = 1, class_weights=None) -> list[float]:
    """Trains with rows in file order."""
    groups = [{"params": [parameter], "lr": 0.003 * layer_decay ** layers_above(name)}
              for name, parameter in model.train().named_parameters()]

    def loss_of(step):
        chosen = torch.arange(step * 8, step * 8 + 8) % len(targets)
        output = model(**{name: tensor[chosen] for name, tensor in inputs.items()}, labels=targets[chosen])
        return output.loss if class_weights is None else F.cross_entropy(output.logits, targets[chosen], class_weights.to(output.logits))

    return adamw_losses(groups, loss_of)


def layers_above(name: str) -> int:
    if "embeddings" in name:
        return 3
    return 2 - int(name.split(".layer.")[1].split(".")[0]) if ".layer." in name else 0


@pytest.mark.parametrize("task, flag", [("text_classification", ""), ("text_classification", "--layer_decay=0.9"),
                                        ("text_classification", "--class_weights=inverse"), ("text_regression", "")])
def test_ten_steps_are_those_of_huggingface(work, tmp_path, run_dir, task, flag):
    """Without a flag, the classes have another order in the data than in the weights."""
    folder, data, targets = work.of(task)
    if task == "text_classification" and not flag:
        data = shutil.copytree(data, tmp_path / "data")
        (data / "classes.txt").write_text("\n".join(LABELS[1:] + LABELS[:1]) + "\n", encoding="utf-8")
    run(*TRAINED, f"--init_weights={folder}", f"--data_dir={data}", f"--run_dir={run_dir}", *filter(None, [flag]))
    more = (0.9 if "decay" in flag else 1, 1 / torch.bincount(targets).double() if "weights" in flag else None)
    assert_exact_steps(f"{task}, ten steps" + (f", {flag}" if flag else ""), PEER, run_dir, lambda numbers: torch_losses(
        loaded(folder).to(numbers), work.inputs(), targets.to(numbers) if targets.is_floating_point() else targets, *more))


def test_a_masked_lm_becomes_a_classifier_that_pipelines_load(work, run_dir, tmp_path):
    run(*TRAINED, f"--init_weights={work.pretrained}", f"--data_dir={work.classes}", f"--run_dir={run_dir}")
    evaluated = json.loads(run("--mode=eval", f"--run_dir={run_dir}", f"--data_dir={work.classes}",
                               "--log_format=json").last_line)
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'hf'}")
    model = loaded(tmp_path / "hf")
    assert model.config.id2label == dict(enumerate(sorted(LABELS)))
    targets = torch.tensor([sorted(LABELS).index(row["label"]) for row in work.rows])
    expected = expected_metrics("text_classification", logits_of(model, work.inputs()), targets)
    assert evaluated["val_accuracy"] == pytest.approx(expected["accuracy"])

    pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "hf"), top_k=None)
    worst = 0.0
    texts = [row["sentence1"] for row in work.rows]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    for place in (f"--run_dir={run_dir}", f"--init_weights={tmp_path / 'hf'}"):
        run("--mode=predict", place, f"--input={tmp_path / 'texts.txt'}", f"--output={tmp_path / 'out.jsonl'}")
        found = load_lines(tmp_path / "out.jsonl")
        assert [line["text"] for line in found] == texts
        for line, scores in zip(found, pipeline(texts, truncation=True, max_length=LENGTH), strict=True):
            assert line["probabilities"] == pytest.approx({score["label"]: score["score"] for score in scores}, abs=1e-5)
            assert line["prediction"] == max(scores, key=lambda score: score["score"])["label"]
            worst = max(worst, *(abs(line["probabilities"][score["label"]] - score["score"]) for score in scores))
    record("Models", "probabilities of sentences, exported", "transformers' pipeline", "1e-5 of a probability", worst)


BAD = {
    "a metric of another task": (["--best_metric=pearson"], ["--best_metric=pearson", "accuracy", "f1"]),
    "weights without a classifier": (["--mode=eval"], ["pretrained", "no classification head"]),
    "another vocabulary than the weights": (["--vocab_size=5"], ["--vocab_size=5", "300 tokens"]),
    "more tokens than positions": ([f"--tokens_per_sample={LENGTH + 1}"], [f"{LENGTH + 1}", f"{LENGTH}"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_in_one_sentence(work, tmp_path, name):
    flags, said = BAD[name]
    outcome = run(*TRAINED, f"--init_weights={work.pretrained}", f"--data_dir={work.classes}", f"--run_dir={tmp_path / 'run'}", *flags,
                  check=2)
    assert all(part in outcome.stderr for part in said), outcome
    assert "terminate called" not in outcome.stderr


def test_columns_mean_sentences_where_there_are_none(work, tmp_path):
    (tmp_path / "train.parquet").touch()
    refused = run(*TRAINED, f"--init_weights={work.pretrained}", f"--data_dir={tmp_path}", "--label_column=stars", f"--run_dir={tmp_path / 'run'}",
                  check=3).stderr
    assert "there is no 'train' split" in refused and "Parquet" in refused and "masked_lm" not in refused


def test_weights_of_images_for_text_and_the_reverse_are_named(work, tmp_path):
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "images.pth")
    outcome = run(*TRAINED, f"--init_weights={tmp_path / 'images.pth'}", f"--data_dir={work.classes}",
                  f"--run_dir={tmp_path / 'run'}", check=2)
    assert "images.pth has the weights of --model=resnet18, which reads no text" in outcome.stderr
    outcome = run("--model=resnet18", "--data_format=synthetic", "--image_size=32", "--batch_size=2", "--max_steps=1",
                  f"--init_weights={work.pretrained}", f"--run_dir={tmp_path / 'run'}", check=2)
    assert 'model_type is "roberta", expected "resnet"' in outcome.stderr
