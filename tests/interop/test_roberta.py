"""The same numbers as transformers' RobertaForMaskedLM in PyTorch from the same weights and tokens: logits, metrics,
and ten steps of fairseq's optimizer, of unequal weight, on one rank, accumulated, on two ranks, and without padding."""

import json
import math

import pytest

from beside_torch import assert_logits, assert_moved_alike, assert_same_steps, predict, torch
from optimizer_formulas import FairseqAdam
from small_roberta import LENGTH, PEER, WORDS, folder, loaded  # noqa: F401, folder is a fixture
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import metrics, run
from truth import record, worst_ratio

ROWS = 16
STEPS = 10
PAD = 1
NO_LOSS = -100


@pytest.fixture(scope="module")
def rows():
    """Rows of unequal length with unequal numbers of tokens to predict, one of them without any."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(4, WORDS, (ROWS, LENGTH), generator=generator)
    lengths = torch.randint(3, LENGTH + 1, (ROWS,), generator=generator)
    lengths[0] = LENGTH
    mask = torch.arange(LENGTH) < lengths[:, None]
    ids[~mask] = PAD
    guessed = (torch.rand(ROWS, LENGTH, generator=generator) < torch.rand(ROWS, 1, generator=generator)) & mask
    guessed[5] = False
    labels = torch.where(guessed, torch.randint(4, WORDS, (ROWS, LENGTH), generator=generator), NO_LOSS)
    return {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}


@pytest.fixture(scope="module")
def data(rows, module_dir):
    path = module_dir / "rows.safetensors"
    save_file(rows, path)
    return path


def test_logits_from_a_file_and_its_configuration(folder, rows, tmp_path):
    given = {"input_ids": rows["input_ids"].int()}
    found = predict(given, tmp_path, "--model=roberta", f"--model_config={folder / 'config.json'}",
                    f"--init_weights={folder / 'model.safetensors'}")
    with torch.no_grad():
        expected = loaded(folder).eval()(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits
    real = rows["attention_mask"].bool()
    assert_logits(found[real], expected[real], "RoBERTa from a file and its configuration", PEER)


def reference_metrics(model, rows) -> dict:
    guessed = rows["labels"] != NO_LOSS
    with torch.no_grad():
        logits = model.eval()(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits[guessed]
    answers = rows["labels"][guessed]
    loss = F.cross_entropy(logits, answers).item()
    return {"loss": loss, "perplexity": math.exp(loss),
            "accuracy": 100 * (logits.argmax(1) == answers).float().mean().item()}


@pytest.mark.parametrize("unpad", ["--unpad", "--nounpad"])
def test_evaluation_is_torchs(folder, rows, data, unpad):
    outcome = run("--mode=eval", "--model=roberta", f"--init_weights={folder}", f"--data_dir={data}",
                  f"--tokens_per_sample={LENGTH}", "--batch_size=5", "--log_format=json", unpad)
    point = json.loads(outcome.lines[0])
    expected = reference_metrics(loaded(folder), rows)
    assert {name: point[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    record("Models", f"RoBERTa {unpad}, loss of an evaluation", PEER, "1e-4 of the loss",
           worst_ratio([point["loss"]], [expected["loss"]]))
    assert json.loads(outcome.last_line)["val_perplexity"] == point["perplexity"]


def train(data, folder, run_dir, *flags):
    """Trains ten steps of 8 rows in file order."""
    run("--model=roberta", f"--init_weights={folder}", f"--data_dir={data}", f"--tokens_per_sample={LENGTH}",
        "--shuffle=none", "--global_batch_size=8", f"--max_steps={STEPS}", "--optimizer=fairseq_adam", "--lr=0.001",
        "--adam_betas=0.9,0.98", "--adam_eps=1e-6", "--weight_decay=0.01", "--clip_norm=1", "--lr_schedule=constant",
        "--log_interval=1", "--save_every_epochs=0", f"--run_dir={run_dir}", *flags)
    return metrics(run_dir, "train")


def trained(folder, rows, dtype):
    """Returns (losses, gradient norms, the state afterwards) of a plain PyTorch script with fairseq's optimizer."""
    model = loaded(folder).to(dtype).train()
    optimizer = FairseqAdam(model.parameters(), lr=0.001, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    losses, norms = [], []
    for step in range(STEPS):
        chosen = torch.arange(step * 8, step * 8 + 8) % ROWS
        optimizer.zero_grad()
        logits = model(input_ids=rows["input_ids"][chosen], attention_mask=rows["attention_mask"][chosen]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), rows["labels"][chosen].flatten(), ignore_index=NO_LOSS)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, model.state_dict()


@pytest.fixture(scope="module")
def torch_training(folder, rows):
    """The training, and the same one in float64: the distance of the two is the rounding of the first."""
    return trained(folder, rows, torch.float32), trained(folder, rows, torch.float64)


@pytest.mark.parametrize("flags", [
    ["--batch_size=1", "--activation_checkpointing"],
    ["--batch_size=2", "--nproc_per_node=2", "--unpad"],
], ids=" ".join)
def test_ten_steps_are_torchs(folder, data, run_dir, torch_training, flags):
    (losses, _, state), (_, _, exact_state) = torch_training
    points = train(data, folder, run_dir, *flags)
    assert_same_steps(points, torch_training)
    record("Trainings", f"RoBERTa, ten steps: {' '.join(flags)}", PEER,
           "1e-4 of the loss", worst_ratio([point["loss"] for point in points], losses))
    assert "tokens_per_second" in points[0]
    found = load_file(run_dir / "model.safetensors")
    expected = {name: tensor for name, tensor in state.items() if ".decoder." not in name}
    assert set(found) == set(expected)
    # A softmax does not see what is added to all of its scores: these gradients are rounding, of which Adam makes steps.
    moved = {name: tensor for name, tensor in expected.items() if not name.endswith(".key.bias")}
    assert_moved_alike(found, load_file(folder / "model.safetensors"), moved, exact_state)


@pytest.mark.parametrize("flags", [["--precision=fp16"], ["--precision=bf16"], ["--memory_efficient_fp16"]], ids=" ".join)
def test_half_precision_stays_near(folder, data, run_dir, torch_training, flags):
    losses = torch_training[0][0]
    points = train(data, folder, run_dir, "--batch_size=8", "--loss_scale=128", *flags)
    assert [point["loss"] for point in points] == pytest.approx(losses, rel=0.02)
    record("Trainings", f"RoBERTa, ten steps: {' '.join(flags)}", f"{PEER} in fp32",
           "0.02 of the loss", worst_ratio([point["loss"] for point in points], losses))
    stored = load_file(run_dir / "model.safetensors")
    half = flags == ["--memory_efficient_fp16"]
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16 if half else torch.float32}
