#!/usr/bin/env python3
"""Compares fine-tuning with Transformers' Trainer on the CPU: the accuracies that both reach over several seeds, and speed.

    .venv/bin/python scripts/dev/peers/fine_tune_compare.py [--weights=FOLDER] [--data=DIR] [--epochs=3] [--seeds=3]
    .venv/bin/python scripts/dev/peers/fine_tune_compare.py --weights=FOLDER --limit_steps=12 --seeds=2   # speed

--weights is a folder for `from_pretrained` with its tokenizer, such as what scripts/roberta_demo.sh makes. --data has
train.tsv and val.tsv (scripts/prepare_reviews.py). Both programs train a RobertaForSequenceClassification with AdamW (no
decay of biases and norms), a linear schedule with warmup, gradients clipped to 1. For each seed both get the same rows in
the same order, which is another one in each epoch; with --same_head also the same new classifier, so that nothing but
dropout differs.

What is drawn at random (the new classifier, dropouts) is each one's own. The programs take turns, each run is a fresh
process. Speed is that of the steps alone: their median without the first three. Needs scripts/build.sh, scripts/setup.sh
--tests, and accelerate, which the Trainer needs (pip install accelerate).
"""

import argparse
import json
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

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "release" / "bin" / "dtrain_main"
SKIPPED = 3  # steps that are not timed


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=ROOT / "demo" / "roberta" / "exported")
    parser.add_argument("--data", type=Path, default=ROOT / "demo" / "reviews")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit_steps", type=int, default=0, help="ends after so many steps; accuracies say nothing then")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--warmup", type=float, default=0.06, help="part of the steps")
    parser.add_argument("--same_head", action="store_true", help="both begin with the same classifier")
    parser.add_argument("--dropout", type=float, help="default: those of the weights' config.json")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dtrain_main", type=Path, default=PROGRAM)
    parser.add_argument("--python_run", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


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


def run(command: list, threads: int) -> str:
    """Runs a program and returns what it wrote to stdout."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), USE_TF="0", TRANSFORMERS_VERBOSITY="error")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"error: '{command[0]}' ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def of_python(given: dict, settings: argparse.Namespace) -> dict:
    command = [sys.executable, __file__, f"--python_run={json.dumps(given)}"]
    return json.loads(run(command, settings.threads).splitlines()[-1])


def python_run(given: dict) -> None:
    import torch

    torch.set_num_threads(given["threads"])
    torch.manual_seed(given["seed"])
    found = train_text(given)
    ends = found.pop("ends")
    print(json.dumps({**found, "step_seconds": [after - before for before, after in zip(ends, ends[1:])]}))


def of_dtrain(given: dict, settings: argparse.Namespace) -> dict:
    folder = Path(given["output"])
    run([settings.dtrain_main, *text_flags(given), f"--init_weights={given['weights']}", f"--data_dir={given['data']}",
         f"--batch_size={given['batch_size']}", f"--precision={given['precision']}", f"--seed={given['seed']}", "--log_interval=1",
         "--save_every_epochs=0", "--eval_every_epochs=0", f"--run_dir={folder}"], settings.threads)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {"accuracy": json.loads((folder / "result.json").read_text(encoding="utf-8"))["val_accuracy"],
            "step_seconds": [line["step_seconds"] for line in lines if line["kind"] == "train"][1:]}


def measure(settings: argparse.Namespace, folder: Path) -> dict:
    rounds: dict[str, list[dict]] = {"dtrain": [], "Trainer": []}
    for seed in range(1, settings.seeds + 1):
        data = folder / f"data{seed}"
        steps = write_rows(settings, data, seed)
        start = with_head(settings.weights, folder / f"head{seed}", seed) if settings.same_head else settings.weights
        for name, program in (("dtrain", of_dtrain), ("Trainer", of_python)):
            given = {"weights": str(start), "data": str(data), "output": str(folder / f"{name}{seed}"), "seed": seed,
                     "warmup_steps": int(settings.warmup * steps),
                     **{key: getattr(settings, key) for key in ("batch_size", "lr", "dropout", "precision", "threads")}}
            one = program(given, settings)
            one["samples_per_second"] = settings.batch_size / statistics.median(one.pop("step_seconds")[SKIPPED - 1:])
            rounds[name].append(one)
            print(f"    seed {seed}: {name} accuracy {one['accuracy']:.2f}, {one['samples_per_second']:.1f} samples/s",
                  file=sys.stderr, flush=True)
    return rounds


def print_table(rounds: dict, settings: argparse.Namespace) -> None:
    mean = {name: statistics.mean(one["accuracy"] for one in of) for name, of in rounds.items()}
    speed = {name: statistics.median(one["samples_per_second"] for one in of) for name, of in rounds.items()}
    for name, of in rounds.items():
        accuracies = " ".join(f"{one['accuracy']:.1f}" for one in of)
        print(f"{name:7} accuracy {mean[name]:.2f} ({accuracies}), {speed[name]:.1f} samples/s")
    ratio = speed["dtrain"] / speed["Trainer"]
    print(f"dtrain's accuracy {mean['dtrain'] - mean['Trainer']:+.2f}, its speed {ratio:.2f} times the Trainer's")
    versions = ", ".join(f"{name} {version}" for name, version in rounds["Trainer"][0]["versions"].items())
    print(f"{settings.threads} threads, {settings.precision}, {versions}")
    print(shlex.join(["scripts/dev/peers/fine_tune_compare.py", *sys.argv[1:]]))


def main() -> None:
    settings = parse_arguments()
    if settings.python_run:
        return python_run(settings.python_run)
    with tempfile.TemporaryDirectory() as folder:
        print_table(measure(settings, Path(folder)), settings)
    return None


if __name__ == "__main__":
    main()
