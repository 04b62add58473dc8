"""Compares the parts of recipes with their references: optimizers, schedules, losses and averages of timm, torch and
torchvision's scripts."""

import json
import math

import numpy as np
import pytest

from beside_torch import FACTOR, TIMM, TORCH, allowed_difference, allowed_ratio, assert_losses, in_both_ways, timm, torch

import timm.loss
import timm.optim
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from small_roberta import PEER, transformers
from optimizer_formulas import StableAdamW

from command import final_numbers, metrics, run
from gentle_training import BATCH, CLASSES, data, loaded, resnet18, samples  # noqa: F401
from truth import record, worst_ratio

STEPS = 6

torch.set_num_threads(1)


def train(data, weights, run_dir, *flags):
    return run("--model=resnet18", f"--init_weights={weights}", f"--data_dir={data}", "--data_format=safetensors",
               "--shuffle=none", f"--batch_size={BATCH}", f"--max_steps={STEPS}", "--lr_schedule=constant",
               "--log_interval=1", "--save_every_epochs=0", "--eval_every_epochs=0", f"--run_dir={run_dir}", *flags)


def groups(model, decay: float):
    """Makes groups like timm: parameters of one dimension neither decay nor are adapted."""
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0}]


def torch_losses(model, optimizer, samples, criterion, memory_format):
    images, labels = samples[0].to(memory_format=memory_format), samples[1]
    losses = []
    for step in range(STEPS):
        chosen = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = criterion(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- Optimizers ------------------------------------------------------------------------------------------------------

# Gentle settings, whose steps depend on the gradients rather than on their signs: the signs of rounding errors would be
# rounding errors. Norms and biases, which LARS does not adapt, use its rate directly. fairseq's Adam: test_roberta.py.
OPTIMIZERS = {
    "adam": (["--lr=1e-4", "--adam_eps=1", "--adam_betas=0.8,0.99"], 0.1, TORCH,
             lambda g: torch.optim.Adam(g, lr=1e-4, eps=1, betas=(0.8, 0.99), fused=True)),
    "adamw": (["--lr=1e-4", "--adam_eps=1", "--adam_betas=0.8,0.99"], 0.1, TORCH,
              lambda g: torch.optim.AdamW(g, lr=1e-4, eps=1, betas=(0.8, 0.99), fused=True)),
    "stable_adamw": (["--lr=1e-5", "--adam_eps=1e-3", "--adam_betas=0.8,0.9"], 0.1, "torch-optimi 0.3.3's formulas",
                     lambda g: StableAdamW(g, lr=1e-5, eps=1e-3, betas=(0.8, 0.9))),
    "lars": (["--lr=0.001", "--lars_trust=0.2", "--nesterov"], 0.01, TIMM,
             lambda g: timm.optim.Lars(g, lr=0.001, momentum=0.9, nesterov=True, trust_coeff=0.2)),
    "larc": (["--optimizer=lars", "--lars_clip", "--lr=0.004", "--lars_trust=0.001"], 0.01, TIMM,
             lambda g: timm.optim.Lars(g, lr=0.004, momentum=0.9, trust_coeff=0.001, trust_clip=True)),
    "lamb": (["--lr=1e-4", "--adam_eps=1e-3", "--adam_betas=0.8,0.99", "--clip_norm=1"], 0.1, TIMM,
             lambda g: timm.optim.Lamb(g, lr=1e-4, eps=1e-3, betas=(0.8, 0.99), max_grad_norm=1.0)),
    "rmsprop_tf": (["--lr=0.0005", "--rmsprop_eps=0.01", "--rmsprop_alpha=0.8"], 0.1, TIMM,
                   lambda g: timm.optim.RMSpropTF(g, lr=0.0005, alpha=0.8, eps=0.01, momentum=0.9)),
    "rmsprop": (["--lr=0.0005", "--rmsprop_eps=1", "--rmsprop_alpha=0.8"], 0.1, TORCH,
                lambda g: torch.optim.RMSprop(g, lr=0.0005, alpha=0.8, eps=1, momentum=0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_six_steps_are_the_reference_s(data, samples, resnet18, run_dir, name):
    flags, decay, reference, make = OPTIMIZERS[name]

    def trained(memory_format):
        model = loaded(resnet18)
        optimizer = make(groups(model, decay))
        losses = torch_losses(model, optimizer, samples, F.cross_entropy, memory_format)
        assert getattr(optimizer, "lowered", 1) > 0
        return losses, {name: parameter.detach() for name, parameter in model.named_parameters()}

    (expected, parameters), (other_losses, other_parameters) = in_both_ways(trained)
    train(data, resnet18, run_dir, *([] if name == "larc" else [f"--optimizer={name}"]), f"--weight_decay={decay}",
          "--nodecay_norm_and_bias", *flags)
    losses = [point["loss"] for point in metrics(run_dir, "train")]
    assert losses == pytest.approx(expected, rel=allowed_ratio(expected, other_losses))
    found, before = load_file(run_dir / "model.safetensors"), load_file(resnet18)
    apart = {key: (found[key] - tensor).abs().max().item() for key, tensor in parameters.items()}
    allowed = allowed_difference(parameters, other_parameters)
    assert max(apart.values()) < allowed, max(apart, key=apart.get)
    assert max((tensor - before[key]).abs().max().item() for key, tensor in parameters.items()) > 10 * allowed
    record("Optimizers", f"{name}, six steps of resnet18: loss", reference, "1e-4 of the loss", worst_ratio(losses, expected))
    record("Optimizers", f"{name}, six steps of resnet18: weights", reference, f"{FACTOR} times its own spread", max(apart.values()))


# ---- Parts of a model ------------------------------------------------------------------------------------------------


def test_frozen_parts_and_a_slow_backbone_are_torchs(data, samples, resnet18, run_dir):
    """Parameters without a gradient, norms in evaluation mode, parameter groups with rates of their own, and top-1 of
    the training images."""
    frozen, lr = ("conv1", "bn1", "layer1", "layer2.0"), 0.002

    def trained(memory_format):
        model = loaded(resnet18)
        for name, module in model.named_modules():
            if any(name == part or name.startswith(part + ".") for part in frozen):
                module.requires_grad_(False).eval()
        head = list(model.fc.parameters())
        backbone = [p for name, p in model.named_parameters() if p.requires_grad and not name.startswith("fc.")]
        optimizer = torch.optim.SGD([{"params": backbone, "lr": 0.1 * lr}, {"params": head, "lr": lr}], momentum=0.9,
                                    weight_decay=0.01)
        hits = []

        def criterion(logits, labels):
            hits.append((logits.argmax(1) == labels).float().mean().item() * 100)
            return F.cross_entropy(logits, labels)

        losses = torch_losses(model, optimizer, samples, criterion, memory_format)
        return losses, hits, model.state_dict()

    (expected, hits, state), (other_losses, _, other_state) = in_both_ways(trained)
    train(data, resnet18, run_dir, "--freeze=" + ",".join(frozen), "--backbone_lr_factor=0.1", f"--lr={lr}",
          "--weight_decay=0.01")
    points = metrics(run_dir, "train")
    assert_losses([point["loss"] for point in points], expected, other_losses, "Optimizers",
                  "frozen parts and a slow backbone, six steps of resnet18: loss", TORCH)
    assert [point["top1"] for point in points] == pytest.approx(hits)
    found, before = load_file(run_dir / "model.safetensors"), load_file(resnet18)
    apart = {}
    for key, tensor in state.items():
        if key.startswith(tuple(part + "." for part in frozen)):
            assert torch.equal(found[key], before[key]), key
        else:
            apart[key] = (found[key].double() - tensor.double()).abs().max().item()
    assert max(apart.values()) < allowed_difference(state, other_state), max(apart, key=apart.get)


# ---- Schedules -------------------------------------------------------------------------------------------------------

PEAK, WARMUP, TOTAL = 0.4, 5, 60


def rates_of(data, *flags) -> list[float]:
    outcome = run("--dry_run", "--log_format=json", f"--data_dir={data}", "--data_format=safetensors",
                  "--model=resnet18", "--batch_size=6", "--epochs=6", f"--lr={PEAK}", *flags)
    return [rate for _, rate in json.loads(outcome.last_line)["learning_rates"]]


@pytest.fixture(scope="module")
def sixty(module_dir):
    """60 samples: 10 steps of 6 per epoch."""
    folder = module_dir / "sixty"
    folder.mkdir()
    save_file({"images": torch.zeros(60, 3, 40, 40), "labels": torch.arange(60) % CLASSES}, folder / "train.safetensors")
    return folder


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)


def torch_rates(make) -> list[float]:
    """Puts a warmup before a schedule like torchvision's references."""
    chosen = optimizer()
    warmup = torch.optim.lr_scheduler.LinearLR(chosen, start_factor=0.01, total_iters=WARMUP)
    scheduler = torch.optim.lr_scheduler.SequentialLR(chosen, [warmup, make(chosen)], milestones=[WARMUP])
    return stepped(chosen, scheduler)


def stepped(chosen, scheduler) -> list[float]:
    rates = []
    for _ in range(TOTAL):
        rates.append(chosen.param_groups[0]["lr"])
        chosen.step()
        scheduler.step()
    return rates


def tensorflow_rates(alpha: float, beta: float, periods: float) -> list[float]:
    """TensorFlow's tf.compat.v1.train.linear_cosine_decay by its formula, after a linear warmup."""
    rates = [PEAK * (0.01 + 0.99 * step / WARMUP) for step in range(WARMUP)]
    for done in (step / LATER for step in range(LATER)):
        rates.append(PEAK * ((alpha + 1 - done) * 0.5 * (1 + math.cos(math.pi * 2 * periods * done)) + beta))
    return rates


def wsd_rates(decay: int, form: str) -> list[float]:
    """transformers' get_wsd_schedule, whose warmup and decay have the same lowest rate."""
    chosen = optimizer()
    return stepped(chosen, transformers.get_wsd_schedule(chosen, WARMUP, decay, num_training_steps=TOTAL, decay_type=form,
                                                         min_lr_ratio=0.01))


LATER = TOTAL - WARMUP
SCHEDULERS = torch.optim.lr_scheduler
SCHEDULES = {
    "torch cosine": (["--lr_schedule=cosine", "--end_lr=0.001"],
                     lambda: torch_rates(lambda o: SCHEDULERS.CosineAnnealingLR(o, LATER, eta_min=0.001))),
    "torch exponential": (["--lr_schedule=exponential", "--lr_decay_epochs=0.1", "--lr_decay_factor=0.97"],
                          lambda: torch_rates(lambda o: SCHEDULERS.ExponentialLR(o, gamma=0.97))),
    "TensorFlow linear_cosine with waves": (
        ["--lr_schedule=linear_cosine", "--cosine_periods=2.3", "--cosine_alpha=0.2", "--cosine_beta=0.01"],
        lambda: tensorflow_rates(0.2, 0.01, 2.3)),
    "transformers wsd": (["--lr_schedule=wsd", "--wsd_decay=20", "--end_lr=0.004"], lambda: wsd_rates(20, "1-sqrt")),
    "transformers wsd, linear": (["--lr_schedule=wsd", "--wsd_decay=0.25", "--wsd_form=linear", "--end_lr=0.004"],
                                 lambda: wsd_rates(15, "linear")),
    "transformers wsd, cosine": (["--lr_schedule=wsd", "--wsd_decay=1e9", "--wsd_form=cosine", "--end_lr=0.004"],
                                 lambda: wsd_rates(LATER, "cosine")),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_the_reference_s(sixty, name):
    flags, reference = SCHEDULES[name]
    found = rates_of(sixty, f"--warmup_steps={WARMUP}", f"--warmup_start_lr={0.01 * PEAK}", *flags)
    expected = reference()
    assert found == pytest.approx(expected, rel=1e-6)
    assert len(set(np.round(found, 12))) > WARMUP + 2
    references = {"torch": f"torch {torch.__version__}'s schedulers",
                  "TensorFlow": "TensorFlow's formula", "transformers": f"{PEER}'s schedule"}
    record("Schedules", f"{name}, with warmup", references[name.split()[0]], "1e-6 of the learning rate",
           worst_ratio(found, expected))


# ---- Losses ----------------------------------------------------------------------------------------------------------


def test_binary_cross_entropy_is_timm_s(data, samples, resnet18, run_dir):
    def trained(memory_format):
        model = loaded(resnet18)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        return torch_losses(model, optimizer, samples, timm.loss.BinaryCrossEntropy(smoothing=0.1), memory_format), model

    (expected, model), (other_losses, other_model) = in_both_ways(trained)
    outcome = train(data, resnet18, run_dir, "--loss=bce", "--label_smoothing=0.1", "--lr=0.01", "--weight_decay=0")
    losses = [point["loss"] for point in metrics(run_dir, "train")]
    assert_losses(losses, expected, other_losses, "Losses", "binary cross entropy, smoothing 0.1, six steps", TIMM)
    with torch.no_grad():  # an evaluation has plain cross entropy
        plain, other = (F.cross_entropy(one.eval()(samples[0]), samples[1]).item() for one in (model, other_model))
    assert final_numbers(outcome.last_line)["val_loss"] == pytest.approx(plain, rel=allowed_ratio([plain], [other]), abs=1e-4)

