"""Images with several labels, or with numbers, beside timm, torch and scikit-learn: ten steps, mixed batches, metrics with
a label that no image has, predictions in the labels' unit, a folder that timm and transformers load."""

import csv
import json
import shutil

import numpy as np
import pytest

from beside_torch import TIMM, TORCH, assert_exact_steps, assert_metrics, plain_losses, timm, torch
from small_roberta import PEER, transformers

sklearn_metrics = pytest.importorskip("sklearn.metrics")
scipy_stats = pytest.importorskip("scipy.stats")

import timm.loss
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import Outcome, load_table, losses, run
from test_mixing import drawn
from truth import record, worst_difference, worst_ratio

NAME, SIDE, ROWS, STEPS, BATCH = "convnext_atto", 32, 41, 10, 8
MEAN, STD = (torch.tensor(of).view(3, 1, 1) for of in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
LABELS, COLUMNS = ["cat", "dog", "fish", "unicorn"], ["age", "weight in g"]  # in the order of a table's labels
TRAINED = (f"--model={NAME}", f"--image_size={SIDE}", f"--eval_resize={SIDE}", "--augment=none", "--optimizer=adamw", "--lr=0.001",
           "--adam_betas=0.9,0.999", "--adam_eps=1e-8", "--weight_decay=0.05", "--decay_norm_and_bias", "--lr_schedule=constant",
           "--drop_path=0", "--shuffle=none", "--log_interval=1", f"--batch_size={BATCH}", f"--max_steps={STEPS}", "--epochs=1000",
           "--save_every_epochs=0", "--eval_every_epochs=0")
MULTILABEL = ("--task=image_multilabel", "--label_separator=|", "--label_threshold=0.45")
REGRESSION = ("--task=image_regression", f"--label_column={','.join(COLUMNS)}")


class Work:
    def __init__(self, folder):
        random = np.random.default_rng(0)
        pixels = random.integers(0, 256, (ROWS, SIDE, SIDE, 3), np.uint8)
        self.folder, self.images = folder, (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - MEAN) / STD
        self.held = torch.from_numpy((random.random((ROWS, len(LABELS))) < 0.4).astype(np.float32))
        self.held[:, LABELS.index("unicorn")] = torch.arange(ROWS) == 1
        self.numbers = torch.from_numpy((random.normal(0, 1, (ROWS, 2)) * (12.5, 3e4) + (40, 1e6)).round(1).astype(np.float32))
        for split in ("train", "val"):
            (folder / split).mkdir()
            for number, picture in enumerate(pixels):
                Image.fromarray(picture).save(folder / split / f"{number:02}.png")
        # The validation has no unicorn.
        rows = [*(("train", row) for row in range(ROWS)), *(("val", row) for row in range(ROWS) if row != 1)]
        self.val = [row for split, row in rows if split == "val"]
        with open(folder / "labels.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["file", "split", "label", *COLUMNS])
            table.writerows([f"{split}/{row:02}.png", split, "|".join(self.names_of(row)), *map(repr, self.numbers[row].tolist())]
                            for split, row in rows)
        self.data = f"--labels={folder / 'labels.csv'}"

    def names_of(self, row) -> list[str]:
        return [name for name, holds in zip(LABELS, self.held[row], strict=True) if holds]

    def weights(self, outputs: int):
        """A file of timm's weights. A head of timm's begins near 0."""
        torch.manual_seed(outputs)
        model = timm.create_model(NAME, num_classes=outputs, drop_path_rate=0.0)
        torch.nn.init.normal_(model.head.fc.weight, std=0.2)
        path = self.folder / f"{outputs}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
        return path

    def outputs(self, weights, rows=slice(None)):
        with torch.no_grad():
            return loaded(weights)(self.images[rows])


def loaded(weights, dtype=torch.float32):
    tensors = load_file(weights)
    model = timm.create_model(NAME, num_classes=len(tensors["head.fc.bias"]), drop_path_rate=0.0)
    model.load_state_dict(tensors)
    return model.eval().to(dtype)


def exported(run_dir, path):
    run("--mode=export", f"--input={run_dir}", f"--output={path}", "--weights=last", "--weights_naming=timm")
    return path


def torch_losses(model, images, targets, criterion) -> list[float]:
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3, weight_decay=0.05)

    def loss_of(step):
        chosen = torch.arange(step * BATCH, step * BATCH + BATCH) % ROWS
        return criterion(model(images[chosen]), targets[chosen])

    return plain_losses(optimizer, loss_of, STEPS)


@pytest.fixture(scope="module")
def work(module_dir):
    return Work(module_dir)


@pytest.fixture(scope="module")
def multilabel(work):
    """A run with weights of the labels, and the file of them."""
    (work.folder / "weights.csv").write_text("unicorn,7\ncat,0.5\ndog,2\nfish,1\n", encoding="utf-8")
    run(*TRAINED, *MULTILABEL, work.data, f"--class_weights={work.folder / 'weights.csv'}",
        f"--init_weights={work.weights(len(LABELS))}", f"--run_dir={work.folder / 'multilabel'}")
    return work.folder / "multilabel"


@pytest.fixture(scope="module")
def regression(work):
    run(*TRAINED, *REGRESSION, work.data, f"--init_weights={work.weights(2)}", f"--run_dir={work.folder / 'regression'}")
    return work.folder / "regression"


def test_ten_steps_of_several_labels(work, multilabel):
    def train(dtype):
        weight = torch.tensor([0.5, 2, 1, 7], dtype=dtype)
        return torch_losses(loaded(work.weights(len(LABELS)), dtype), work.images.to(dtype), work.held.to(dtype),
                            torch.nn.BCEWithLogitsLoss(pos_weight=weight))
    assert_exact_steps("image_multilabel, pos_weight, ten steps", TORCH, multilabel, train)


@pytest.mark.parametrize("loss, criterion", [("l2", F.mse_loss), ("smooth_l1", F.smooth_l1_loss)])
def test_ten_steps_of_numbers(work, regression, run_dir, loss, criterion):
    if loss == "l2":  # the default
        run_dir = regression
    else:
        run(*TRAINED, *REGRESSION, work.data, f"--loss={loss}", f"--init_weights={work.weights(2)}", f"--run_dir={run_dir}")

    def train(dtype):
        numbers = work.numbers.double()
        mean, deviation = numbers.mean(0), numbers.std(0, correction=0)
        model = loaded(work.weights(2), torch.float64)
        with torch.no_grad():  # the given head predicts in the labels' unit
            model.head.fc.bias.sub_(mean).div_(deviation)
            model.head.fc.weight.div_(deviation.unsqueeze(1))
        return torch_losses(model.to(dtype), work.images.to(dtype), ((numbers - mean) / deviation).to(dtype), criterion)
    assert_exact_steps(f"image_regression, {loss}, ten steps", TORCH, run_dir, train)


@pytest.mark.parametrize("mixup, cutmix", [(0.4, 0), (0, 1.0)])
def test_targets_are_mixed_by_their_share(work, tmp_path, mixup, cutmix):
    """The weights do not change (--lr=0). CutMix keeps pixels, so that the share is all that the targets see of it."""
    steps, weights = ROWS // BATCH, work.weights(len(LABELS))
    run(*TRAINED, *MULTILABEL, work.data, f"--mixup={mixup}", f"--cutmix={cutmix}", "--lr=0", "--weight_decay=0", f"--max_steps={steps}",
        "--loss=bce", "--bce_sum", f"--init_weights={weights}", f"--run_dir={tmp_path / 'run'}")
    criterion, expected = timm.loss.BinaryCrossEntropy(smoothing=0, sum_classes=True), []
    for step, (share, x, y, width, height) in enumerate(drawn(mixup, cutmix, (SIDE, SIDE), steps)):
        rows = torch.arange(step * BATCH, (step + 1) * BATCH)
        images, others, targets = work.images[rows], work.images[rows.roll(1)], work.held[rows]
        if cutmix:
            images = images.clone()
            box = (..., slice(int(y), int(y + height)), slice(int(x), int(x + width)))
            images[box] = others[box]
        else:
            images = share * images + (1 - share) * others
        with torch.no_grad():
            expected.append(criterion(loaded(weights)(images), share * targets + (1 - share) * targets.roll(1, 0)).item())
    ours = [loss for _, loss in losses(tmp_path / "run")]
    assert ours == pytest.approx(expected, rel=1e-5)
    record("Losses", f"several labels, summed, mixup {mixup:g}, cutmix {cutmix:g}", TIMM, "1e-5 of the loss", worst_ratio(ours, expected))


def evaluated(tmp_path, run_dir, work) -> tuple[Outcome, list[dict]]:
    outcome = run("--mode=eval", f"--run_dir={run_dir}", work.data, "--batch_size=3", "--log_format=json", "--nproc_per_node=2",
                  f"--predictions={tmp_path / 'all.csv'}", f"--output={tmp_path / 'eval'}", "--weights=last")
    return outcome, load_table(tmp_path / "all.csv")


def test_metrics_of_several_labels(work, multilabel, tmp_path):
    outcome, rows = evaluated(tmp_path, multilabel, work)
    held, logits = work.held[work.val], work.outputs(exported(multilabel, tmp_path / "w.safetensors"), work.val)
    decided = (logits.sigmoid() >= 0.45).int()
    expected = {"loss": F.binary_cross_entropy_with_logits(logits, held).item(),
                "f1_micro": 100 * sklearn_metrics.f1_score(held, decided, average="micro"),
                "f1_macro": 100 * sklearn_metrics.f1_score(held, decided, average="macro", zero_division=0)}
    said = torch.tensor([[float(row[f"probability_{name}"]) for name in LABELS] for row in rows])
    expected["map"] = 100 * np.mean([sklearn_metrics.average_precision_score(held[:, i], logits[:, i]) if held[:, i].any() else 0
                                     for i in range(len(LABELS))])
    assert_metrics("of image_multilabel", "scikit-learn", outcome, expected)
    assert [row["label"] for row in rows] == ["|".join(work.names_of(row)) for row in work.val]
    torch.testing.assert_close(said, logits.sigmoid(), rtol=0, atol=1e-5)
    assert [row["prediction"] for row in rows] == ["|".join(n for n, p in zip(LABELS, row, strict=True) if p >= 0.45)
                                                   for row in said.tolist()]
    assert [int(row["samples"]) for row in load_table(tmp_path / "eval" / "class_accuracy.csv")] == held.sum(0).int().tolist()


def test_metrics_of_numbers(work, regression, tmp_path):
    outcome, rows = evaluated(tmp_path, regression, work)
    wanted = work.numbers[work.val].double()
    predicted = work.outputs(exported(regression, tmp_path / "w.safetensors"), work.val).double()
    of_each = {"mae": sklearn_metrics.mean_absolute_error(wanted, predicted, multioutput="raw_values"),
               "rmse": sklearn_metrics.root_mean_squared_error(wanted, predicted, multioutput="raw_values"),
               "r2": sklearn_metrics.r2_score(wanted, predicted, multioutput="raw_values"),
               "pearson": [scipy_stats.pearsonr(wanted[:, i], predicted[:, i]).statistic for i in range(2)]}
    expected = {f"val_{name}_{column}": value for name, values in of_each.items()
                for column, value in zip(("age", "weight_in_g"), values, strict=True)}
    expected |= {f"val_{name}": np.mean(values) for name, values in of_each.items()}
    found = json.loads(outcome.last_line)
    ours = {name: found[name] for name in expected}
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-4)
    record("Models", "metrics of image_regression", "scikit-learn and scipy", "1e-4, or that part of the metric",
           worst_ratio(ours.values(), expected.values()))
    said = torch.tensor([[float(row[f"prediction_{name}"]) for name in COLUMNS] for row in rows]).double()
    assert worst_difference(said / predicted, torch.ones(1)) < 1e-4
    labels = [[float(cell) for cell in row["label"].split(",")] for row in rows]
    assert labels == [pytest.approx(row, rel=1e-6) for row in wanted.tolist()]


def predictions(tmp_path, work, *weights) -> list[dict]:
    run("--mode=predict", *weights, f"--input={work.folder / 'train'}", f"--output={tmp_path / 'out.csv'}")
    return load_table(tmp_path / "out.csv")


@pytest.mark.parametrize("task, names", [("multilabel", LABELS), ("regression", COLUMNS)])
def test_others_load_the_export_and_predict_the_same(work, tmp_path, task, names, request):
    """A folder that timm and transformers load says the same as the run that it is of, and so does dtrain of that folder."""
    run_dir = request.getfixturevalue(task)
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'timm'}", "--weights=last")
    run("--mode=export", f"--input={run_dir / 'model.safetensors'}", f"--output={tmp_path / 'of_file'}")
    weights, of_file = (load_file(tmp_path / name / "model.safetensors") for name in ("timm", "of_file"))
    assert all(torch.equal(weights[name], of_file[name]) for name in weights)
    config = json.loads((tmp_path / "timm" / "config.json").read_text(encoding="utf-8"))
    assert config["pretrained_cfg"]["label_names"] == names
    theirs = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "timm").eval()
    assert theirs.config.problem_type == ("multi_label_classification" if task == "multilabel" else "regression")
    assert list(theirs.config.id2label.values()) == names
    with torch.no_grad():
        expected = theirs(pixel_values=work.images).logits.double()
    column = "probability" if task == "multilabel" else "prediction"
    expected = expected.sigmoid() if task == "multilabel" else expected
    save_file(load_file(tmp_path / "timm" / "model.safetensors"), tmp_path / "again.safetensors", {"format": "pt"})  # as others write it
    shutil.copytree(tmp_path / "timm", tmp_path / "others")
    shutil.move(tmp_path / "again.safetensors", tmp_path / "others" / "model.safetensors")
    run("--mode=export", f"--input={tmp_path / 'others'}", f"--output={tmp_path / 'of_others.safetensors'}")
    for weights in ((f"--run_dir={run_dir}", "--weights=last"), (f"--init_weights={tmp_path / 'timm'}",),
                    (f"--init_weights={tmp_path / 'others'}",), (f"--init_weights={tmp_path / 'of_others.safetensors'}",)):
        rows = predictions(tmp_path, work, *weights)
        assert [row["file"][-6:] for row in rows] == [f"{row:02}.png" for row in range(ROWS)]
        said = torch.tensor([[float(row[f"{column}_{name}"]) for name in names] for row in rows]).double()
        assert worst_difference(said / expected, torch.ones(1)) < 1e-4
    record("Models", f"predictions of image_{task}, exported", f"{PEER} with timm's model",
           "1e-4 of the prediction", worst_difference(said / expected, torch.ones(1)))
