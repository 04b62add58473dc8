"""The commands of the pages of transformers' examples and of fairseq's fine-tuning, pasted: rates of all steps, which
weights decay, and ten losses beside the loops of those programs.

The commands are as published but for the data, a tiny model, what names the folders, and batches of a few rows, of which
each step is logged. --shuffle=none takes the rows in their order, and the models have no dropout."""

import json

import numpy as np
import pytest

from beside_torch import FACTOR, torch
from optimizer_formulas import FairseqAdam
from small_families import new_model
from small_roberta import PEER, new_wordpiece
from torch.nn import functional as F

from command import DATA, metrics, run
from test_fine_tuning import LABELS, LENGTH, WORDS, Work as Sentences, loaded as classifier, table, write_tsv, transformers
from test_token_classification import Work as Words, loaded as tagger
from test_token_blocks import DUMP, joined, write_lines
from truth import record, worst_ratio

tokenizers = pytest.importorskip("tokenizers")
STEPS, BATCH = 10, 4
SHORTENED = ("--shuffle=none", "--logging_steps=1", f"--max_steps={STEPS}", "--num_train_epochs=100", f"--per_device_train_batch_size={BATCH}")


@pytest.fixture(scope="module")
def words(module_dir):
    (module_dir / "words").mkdir()
    return Words(module_dir / "words")


@pytest.fixture(scope="module")
def sentences(module_dir):
    (module_dir / "sentences").mkdir()
    return Sentences(module_dir / "sentences")


def losses_of_trainer(model, batches, rate=5e-5, decay=0.0) -> tuple[list[float], list[float]]:
    """Returns the rates and losses of the Trainer's loop: its groups, AdamW, a linear schedule, gradients clipped at 1."""
    decayed = transformers.Trainer.get_decay_parameter_names(None, model)
    groups = [{"params": [p for n, p in model.named_parameters() if (n in decayed) == does], "weight_decay": decay * does}
              for does in (True, False)]
    assert all(group["params"] for group in groups)
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_scheduler("linear", optimizer, 0, len(batches))
    model.train()
    rates, losses = [], []
    for batch in batches:
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
        model.zero_grad()
        losses.append(loss.item())
    return rates, losses


def in_turn(inputs: dict, labels, steps=STEPS, batch=BATCH) -> list[dict]:
    chosen = [torch.arange(step * batch, (step + 1) * batch) % len(labels) for step in range(steps)]
    return [{name: tensor[rows] for name, tensor in {**inputs, "labels": labels}.items()} for rows in chosen]


def compare(name, run_dir, expected, exact, peer=PEER):
    """`expected` and `exact` are rates and losses in float32 and in float64."""
    points = metrics(run_dir, "train")
    assert [point["lr"] for point in points] == pytest.approx(exact[0], rel=1e-9)
    losses = [point["loss"] for point in points]
    assert losses == pytest.approx(exact[1], rel=max(1e-6, FACTOR * worst_ratio(expected[1], exact[1])))
    record("Pasted commands", f"{name}, {STEPS} steps", f"{peer} in float64", f"1e-6 of the loss or {FACTOR} times its own rounding",
           worst_ratio(losses, exact[1]))


def trained_both_ways(make, batches, **settings):
    return [losses_of_trainer(model, batches, **settings) for model in (make(), make().double())]


def test_run_ner(words, tmp_path, run_dir):
    """Without the script's name: the lists in the file tell what it is."""
    for split in ("train", "dev"):
        lines = [json.dumps({"id": str(n), "tokens": list(text), "ner_tags": list(tags)}) for n, (text, tags) in enumerate(words.rows)]
        (tmp_path / f"{split}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    outcome = run("--model_name_or_path", words.folder, "--train_file", tmp_path / "train.json", "--validation_file", tmp_path / "dev.json",
                  "--output_dir", run_dir, "--do_train", "--do_eval", "--return_entity_level_metrics", "--weight_decay=0.5",
                  "--learning_rate=3e-3", *SHORTENED)
    assert "as Hugging Face's Trainer: " in outcome.stderr + outcome.stdout
    compare("run_ner.py", run_dir, *trained_both_ways(lambda: tagger(words.folder), in_turn(*words.inputs()), rate=3e-3, decay=0.5))
    assert "best_f1" in json.loads((run_dir / "result.json").read_text())


def test_run_glue(sentences, tmp_path, run_dir):
    for split in ("train", "dev"):
        write_tsv(tmp_path / f"{split}.tsv", sentences.rows, ["sentence1", "sentence2", "label"])
        text = (tmp_path / f"{split}.tsv").read_text(encoding="utf-8").replace(",", "").replace("\t", ",")
        (tmp_path / f"{split}.tsv").unlink()
        (tmp_path / f"{split}.csv").write_text(text, encoding="utf-8")
    run("run_glue.py", "--model_name_or_path", sentences.classifier, "--train_file", tmp_path / "train.csv", "--validation_file",
        tmp_path / "dev.csv", "--do_train", "--do_eval", "--max_seq_length", LENGTH, "--learning_rate", "2e-3", "--output_dir", run_dir,
        "--weight_decay=0.5", *SHORTENED)
    labels = torch.tensor([LABELS.index(row["label"]) for row in sentences.rows])
    compare("run_glue.py", run_dir, *trained_both_ways(lambda: classifier(sentences.classifier), in_turn(sentences.inputs(), labels), rate=2e-3, decay=0.5))


def masked_rows(folder, mode, length, tokenizer, epoch) -> list[dict]:
    lines = run(folder, mode, length, tokenizer, 42, epoch, program=DUMP).lines
    numbers = [torch.tensor([int(number) for number in line.split()]) for line in lines]
    return [{"input_ids": ids, "labels": labels} for ids, labels in zip(numbers[::2], numbers[1::2], strict=True)]


def padded(rows: list[dict], pad: int) -> dict:
    fill = {"input_ids": pad, "labels": -100, "attention_mask": 0}
    rows = [row | {"attention_mask": torch.ones_like(row["input_ids"])} for row in rows]
    return {name: torch.nn.utils.rnn.pad_sequence([row[name] for row in rows], batch_first=True, padding_value=value)
            for name, value in fill.items()}


@pytest.fixture(scope="module")
def language_model(request, sentences, module_dir):
    """A folder with a model that guesses words, its tokenizer, and its class."""
    if request.param == "roberta":
        return sentences.pretrained, sentences.tokenizer, transformers.RobertaForMaskedLM
    folder = module_dir / "bert"
    folder.mkdir()
    tokenizer = new_wordpiece(folder, WORDS)
    new_model("bert", max_position_embeddings=LENGTH).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, tokenizer, transformers.BertForMaskedLM


@pytest.mark.skipif(not DUMP.exists(), reason=f"{DUMP} is not built")
@pytest.mark.parametrize("language_model, by_line", [("roberta", ()), ("bert", ("--line_by_line",))], indirect=["language_model"])
def test_run_mlm(language_model, tmp_path, run_dir, by_line):
    """From a file of text: the tokens of its rows are run_mlm.py's, which masks them anew in each epoch as we do, but draws
    other places; so the loop beside it has ours."""
    folder, tokenizer, model = language_model
    length, mode = 16, "lines" if by_line else "joined"
    lines = [row["sentence1"] if n % 5 else " " * (n % 2) for n, row in enumerate(table(30, 3))]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run("run_mlm.py", "--model_name_or_path", folder, "--train_file", tmp_path / "train.txt", "--validation_file", tmp_path / "dev.txt",
        "--per_device_eval_batch_size", "8", "--do_train", "--do_eval", "--output_dir", run_dir, "--max_seq_length", length,
        "--mlm_probability", "0.15", "--learning_rate=3e-3", "--weight_decay=0.5", *by_line, *SHORTENED)
    if by_line:
        rows = tokenizer([line for line in lines if line and not line.isspace()], truncation=True, max_length=length)["input_ids"]
    else:
        rows = joined(tokenizer(lines)["input_ids"], length)
    of_epochs = [masked_rows(tmp_path, mode, length, folder, epoch) for epoch in range(-(-STEPS * BATCH // len(rows)))]
    for masked in of_epochs:  # with their answers they are run_mlm.py's
        assert [torch.where(row["labels"] >= 0, row["labels"], row["input_ids"]).tolist() for row in masked] == rows
    assert of_epochs[0][0]["input_ids"].tolist() != of_epochs[1][0]["input_ids"].tolist()
    stream = [row for masked in of_epochs for row in masked]
    batches = [padded(stream[step * BATCH:(step + 1) * BATCH], tokenizer.pad_token_id) for step in range(STEPS)]
    compare(f"run_mlm.py {' '.join(by_line)}".strip() + f", {folder.name}", run_dir,
            *trained_both_ways(lambda: model.from_pretrained(folder), batches, rate=3e-3, decay=0.5))
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'exported'}", "--weights=last")
    assert len(transformers.pipeline("fill-mask", model=str(tmp_path / "exported"))(f"the {tokenizer.mask_token} is good")) == 5


# ---- fairseq ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imdb(sentences, module_dir):
    """fairseq's folders, as its preprocessing writes them, and a checkpoint under its names."""
    folder, rows = module_dir / "IMDB-bin", table(96, 5)
    for split in ("train", "valid"):
        (module_dir / f"{split}.txt").write_text("\n".join(row["sentence1"] for row in rows) + "\n", encoding="utf-8")
        run("tokenize", f"--tokenizer={sentences.pretrained}", f"--input={module_dir / f'{split}.txt'}", f"--output={folder / 'input0' / split}",
            program=DATA)
        (folder / "label").mkdir(exist_ok=True)
        write_lines(folder / "label" / split, [2] * len(rows))
        tokens = [(4 + LABELS.index(row["label"]), 2) for row in rows]
        (folder / "label" / split).with_suffix(".bin").write_bytes(np.array(tokens, np.uint16).tobytes())
    (folder / "label/dict.txt").write_text("".join(f"{label} 9\n" for label in LABELS), encoding="utf-8")
    run("--mode=export", f"--input={sentences.classifier}", f"--output={module_dir / 'model.pt'}", "--weights_naming=fairseq")
    return folder, module_dir / "model.pt", rows


def fairseq_losses(model, batches, rate_of, micro_batches: int) -> tuple[list[float], list[float]]:
    """trainer.py with the criterion sentence_prediction: the sum of the micro-batches' losses over all of their sentences;
    its Adam, with decay on everything."""
    optimizer = FairseqAdam([p for p in model.parameters() if p.requires_grad], lr=0, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1)
    model.train()
    rates, losses = [], []
    for step in range(STEPS):
        total = sentences = 0.0
        for micro in batches[step * micro_batches:(step + 1) * micro_batches]:
            labels = micro["labels"]
            logits = model(**{name: tensor for name, tensor in micro.items() if name != "labels"}).logits
            loss = F.nll_loss(F.log_softmax(logits, dim=-1), labels, reduction="sum")
            loss.backward()
            total, sentences = total + loss.item(), sentences + len(labels)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= sentences
        optimizer.param_groups[0]["lr"] = rate_of(step)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        model.zero_grad()
        losses.append(total / sentences)
    return rates, losses


def without_types(model):
    """fairseq has no token types: the row of all words is in its positions, which decay, but for that of padding."""
    embeddings = model.roberta.embeddings
    types, positions = embeddings.token_type_embeddings.weight.requires_grad_(False), embeddings.position_embeddings
    with torch.no_grad():
        positions.weight += types * (torch.arange(len(positions.weight)) != positions.padding_idx)[:, None]
        types.zero_()
    return model


IMDB = ("--max-positions {length} --batch-size 2 --max-tokens 4400 --task sentence_prediction --reset-optimizer --reset-dataloader "
        "--reset-meters --required-batch-size-multiple 1 --init-token 0 --separator-token 2 --arch roberta --model_config {config} "
        "--criterion sentence_prediction --classification-head-name imdb_head --num-classes 3 --dropout 0.0 --attention-dropout 0.0 "
        "--weight-decay 0.1 --optimizer adam --adam-betas (0.9,0.98) --adam-eps 1e-06 --clip-norm 0.0 --lr-scheduler polynomial_decay "
        "--lr 1e-03 --total-num-update 40 --warmup-updates 4 --max-epoch 10 --best-checkpoint-metric accuracy "
        "--maximize-best-checkpoint-metric --shorten-method truncate --find-unused-parameters --update-freq 4")
HYDRA = """# @package _group_
common:
  fp16: false
  log_format: json
  log_interval: 1
task:
  _name: sentence_prediction
  data: ???
  init_token: 0
  separator_token: 2
  num_classes: 3
  max_positions: {length}
checkpoint:
  restore_file: ???
  reset_optimizer: true
  reset_dataloader: true
  reset_meters: true
  best_checkpoint_metric: accuracy
  maximize_best_checkpoint_metric: true
  no_epoch_checkpoints: true
distributed_training:
  find_unused_parameters: true
  distributed_world_size: 1
criterion:
  _name: sentence_prediction
dataset:
  batch_size: 2
  required_batch_size_multiple: 1
  max_tokens: 4400
optimizer:
  _name: adam
  weight_decay: 0.1
  adam_betas: (0.9,0.98)
  adam_eps: 1e-06
lr_scheduler:
  _name: polynomial_decay
  warmup_updates: 4
optimization:
  clip_norm: 0.0
  lr: [1e-03]
  max_update: 40
  max_epoch: 10
  update_freq: [4]
model:
  _name: roberta
  dropout: 0.0
  attention_dropout: 0.0
"""


@pytest.mark.parametrize("page", ("IMDB", "GLUE"))
def test_fairseqs_fine_tuning(sentences, imdb, tmp_path, run_dir, page):
    """The page's command for IMDB, and fairseq-hydra-train with a file of settings as examples/roberta/config/finetuning has."""
    folder, weights, rows = imdb
    config = sentences.classifier / "config.json"
    if page == "IMDB":
        command = [folder, "--restore-file", weights, *IMDB.format(length=LENGTH, config=config).split()]
    else:
        (tmp_path / "rte.yaml").write_text(HYDRA.format(length=LENGTH), encoding="utf-8")
        command = ["fairseq-hydra-train", "-config-dir", tmp_path, "--config-name", "rte", f"task.data={folder}",
                   f"checkpoint.restore_file={weights}", f"--model_config={config}"]
    run(*command, "--shuffle=none", "--log_interval=1", f"--limit_train_steps={STEPS}", "--disable-validation", f"--save-dir={run_dir}")
    inputs = dict(sentences.tokenizer([row["sentence1"] for row in rows], truncation=True, max_length=LENGTH, padding=True,
                                     return_tensors="pt"))
    batches = in_turn(inputs, torch.tensor([LABELS.index(row["label"]) for row in rows]), steps=4 * STEPS, batch=2)

    def rate_of(update):  # polynomial_decay, beginning with step_update(0)
        return 1e-3 * update / 4 if update <= 4 else 1e-3 * max(0, 1 - (update - 4) / 36)

    made = [without_types(classifier(sentences.classifier)) for _ in range(2)]
    found = [fairseq_losses(model, batches, rate_of, 4) for model in (made[0], made[1].double())]
    compare(f"fairseq's page on {page}", run_dir, *found, peer="fairseq's criterion and Adam, written down,")
    plan = json.loads(run(*command, "--dry_run", "--log_format=json").last_line)["learning_rates"]
    assert [rate for _, rate in plan] == pytest.approx([rate_of(step) for step, _ in plan], rel=1e-9, abs=1e-15)
    assert len(plan) >= 40
