"""Compares whole trainings with PyTorch's: the same weights, the same samples in the same order, one loss per step.

Batch normalisation amplifies rounding, so two trainings that differ in the last bit soon differ in the second digit.
PyTorch itself has four answers, one for each memory format and number of threads, and our loss must be as near to one of
them as FACTOR times what they are to each other. A mistake in a gradient, in the order of samples or in the update shows
already in the second step, where they agree to six digits.
"""

import itertools
import math
import os

import pytest

from beside_torch import FACTOR, TORCH, allowed_ratio, assert_moved_alike, in_both_ways, plain_losses, torch, torchvision

from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import losses, run
from truth import record, worst_ratio

LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"
CLASSES, BATCH, SIDE, SAMPLES = 10, 16, 32, 320
STEPS = 200 if LONG else 5
LR = {"resnet50": 0.005, "efficientnet_b0": 0.001}
WAYS = tuple(itertools.product((torch.contiguous_format, torch.channels_last), (1, 2)))  # memory formats, threads
FLAGS = {"resnet50": (), "efficientnet_b0": ("--dropout=0", "--drop_path=0")}


@pytest.fixture(scope="module")
def samples():
    """A blurred pattern for each class under noise, which a network can learn."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    patterns = F.interpolate(torch.randn(CLASSES, 3, 4, 4, generator=generator), SIDE, mode="bilinear")
    return patterns[labels] + 0.7 * torch.randn(SAMPLES, 3, SIDE, SIDE, generator=generator), labels


def make(name: str):
    torch.manual_seed(0)
    options = {} if name == "resnet50" else {"dropout": 0.0, "stochastic_depth_prob": 0.0}
    return getattr(torchvision.models, name)(num_classes=CLASSES, **options).train()


def torch_losses(name: str, samples, memory_format) -> list[float]:
    model = make(name).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR[name], momentum=0.9, nesterov=True, weight_decay=1e-4)

    def loss_of(step):
        chosen = torch.arange(step * BATCH, (step + 1) * BATCH) % SAMPLES
        images = samples[0][chosen].to(memory_format=memory_format)
        return F.cross_entropy(model(images), samples[1][chosen], label_smoothing=0.1)

    return plain_losses(optimizer, loss_of, STEPS)


# Without batch normalisation, rounding grows little, so ten steps can be held to the last digits. The groups of layers and
# of what decays are timm's: a factor of 0.5 a layer shows a weight in another group.
@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "convnext_atto"])
def test_ten_steps_in_timms_groups(name, samples, tmp_path, run_dir):
    timm = pytest.importorskip("timm", reason="scripts/setup.sh --tests installs it")
    from timm.optim import create_optimizer_v2

    def make_one():
        torch.manual_seed(0)
        options = {"dynamic_img_size": True} if name.startswith(("vit", "deit")) else {}
        return timm.create_model(name, num_classes=CLASSES, **options).train()

    def train(memory_format):
        model = make_one().to(memory_format=memory_format)
        optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.5, layer_decay=0.5, betas=(0.9, 0.999))
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * group["lr_scale"]

        def loss_of(step):
            chosen = torch.arange(step * BATCH, (step + 1) * BATCH) % SAMPLES
            return F.cross_entropy(model(samples[0][chosen].to(memory_format=memory_format)), samples[1][chosen])

        return plain_losses(optimizer, loss_of, 10), model.state_dict()

    before = {key: tensor.contiguous() for key, tensor in make_one().state_dict().items()}
    save_file(before, tmp_path / "weights.safetensors")
    save_file({"images": samples[0], "labels": samples[1]}, tmp_path / "data.safetensors")
    run(f"--model={name}", f"--init_weights={tmp_path / 'weights.safetensors'}", "--shuffle=none", f"--batch_size={BATCH}",
        f"--data_dir={tmp_path / 'data.safetensors'}", "--max_steps=10", "--lr=0.001", "--lr_schedule=constant", "--optimizer=adamw",
        "--weight_decay=0.5", "--nodecay_norm_and_bias", "--layer_decay=0.5", "--log_interval=1", "--save_every_epochs=0",
        f"--run_dir={run_dir}")
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'trained.safetensors'}", "--weights=last", "--weights_naming=timm")
    both = in_both_ways(train, WAYS[::3])
    ours = [loss for _, loss in losses(run_dir)]
    assert ours == pytest.approx(both[0][0], rel=allowed_ratio(both[0][0], both[1][0], least=1e-6))
    assert_moved_alike(load_file(tmp_path / "trained.safetensors"), before, both[0][1], both[1][1])
    record("Trainings", f"{name}, ten steps with layer decay", f"timm {timm.__version__}, its groups", "1e-6 of the loss",
           worst_ratio(ours, both[0][0]))


def apart(one: float, other: float) -> float:
    return abs(math.log(one / other))


@pytest.mark.parametrize("name", LR if LONG else ["resnet50"])  # EfficientNets are trained in test_pasted_commands.py, too
def test_the_loss_stays_within_pytorchs_own_spread(name, samples, tmp_path, run_dir):
    save_file({"images": samples[0], "labels": samples[1]}, tmp_path / "data.safetensors")
    weights = {key: tensor.contiguous() for key, tensor in make(name).state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    run(f"--model={name}", f"--init_weights={tmp_path / 'weights.safetensors'}", "--shuffle=none", *FLAGS[name],
        f"--data_dir={tmp_path / 'data.safetensors'}", f"--batch_size={BATCH}", f"--max_steps={STEPS}",
        f"--lr={LR[name]}", "--lr_schedule=constant", "--nesterov", "--label_smoothing=0.1", "--log_interval=1",
        "--save_every_epochs=0", f"--run_dir={run_dir}", timeout=1200)
    ours = [loss for _, loss in losses(run_dir)]
    trainings = in_both_ways(lambda memory_format: torch_losses(name, samples, memory_format), WAYS)
    plain, *_, other = trainings
    assert len(ours) == STEPS and ours != plain
    spread, worst = 0.0, 0.0  # the widest so far, because two trainings sometimes approach each other again
    for step, (own, *theirs) in enumerate(zip(ours, *trainings)):
        spread = max(spread, apart(max(theirs), min(theirs)))
        nearest = min(apart(own, one) for one in theirs)
        assert nearest <= FACTOR * spread + 1e-6, f"step {step}: {own}, {theirs}"
        worst = max(worst, nearest)
    assert ours[:2] == pytest.approx(plain[:2], rel=allowed_ratio(plain[:2], other[:2]))
    learned = sum(ours[-20:]) / len(ours[-20:])
    assert not LONG or learned < 0.8 * ours[0]
    record("Trainings", f"{name}, {STEPS} steps: the loss", TORCH,
           f"ln of the losses' ratio, {FACTOR} times that of its four trainings: {spread:.1e}", worst)
