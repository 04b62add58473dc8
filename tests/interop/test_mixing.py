"""Mixup and CutMix: the draws follow torchvision's distribution, and mixed batches give torchvision's loss, or timm's
binary cross entropy."""

import tempfile

import numpy as np
import pytest

from beside_torch import TIMM, TORCHVISION, timm, torch

import timm.data.mixup
import timm.loss
from torch.nn import functional as F
from torchvision.models import resnet18
from torchvision.transforms import v2

from command import losses, run
from safetensors.torch import save_file
from test_image_preprocessing import command
from truth import record, worst_ratio

CLASSES = 10


def drawn(mixup: float, cutmix: float, size: tuple[int, int], count: int, seed: int = 0) -> np.ndarray:
    """Returns a row for each batch: share of the own image, x, y, width and height of the box."""
    with tempfile.NamedTemporaryFile() as file:
        command("mix", mixup, cutmix, *size, seed, count, file.name)
        return np.loadtxt(file.name, ndmin=2)


def distance(ours, theirs) -> float:
    """Returns the distance of Kolmogorov and Smirnov between two samples, as a multiple of the one that chance exceeds
    once in a thousand times."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    points = np.concatenate([ours, theirs])
    apart = np.abs(np.searchsorted(ours, points, "right") / len(ours) -
                   np.searchsorted(theirs, points, "right") / len(theirs)).max()
    return apart / (1.95 * np.sqrt((len(ours) + len(theirs)) / (len(ours) * len(theirs))))


def apart_from_0_and_1(shares) -> np.ndarray:
    """Their values are float32, whose greatest number below 1 differs."""
    return np.clip(shares, 1e-6, 1 - 1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 1.0, 4.0])
def test_mixup_shares_have_torchvisions_law(alpha):
    torch.manual_seed(1)
    transform = v2.MixUp(alpha=alpha, num_classes=CLASSES)
    ours = drawn(alpha, 0, (224, 224), 4000)
    assert (ours[:, 1:] == 0).all()
    theirs = [transform.make_params([])["lam"] for _ in range(4000)]
    apart = distance(apart_from_0_and_1(ours[:, 0]), apart_from_0_and_1(theirs))
    assert apart < 1
    record("Augmentation", f"mixup {alpha:g}, 4000 draws", "torchvision's v2.MixUp", "distributions nearer than 1", apart)
    other = [v2.MixUp(alpha=2 * alpha, num_classes=CLASSES).make_params([])["lam"] for _ in range(4000)]
    assert distance(apart_from_0_and_1(ours[:, 0]), apart_from_0_and_1(other)) > 1  # the test would notice


@pytest.mark.parametrize("alpha, size", [(1.0, (224, 224)), (0.5, (160, 96))])
def test_cutmix_boxes_have_torchvisions_law(alpha, size):
    torch.manual_seed(2)
    transform = v2.CutMix(alpha=alpha, num_classes=CLASSES)
    ours = drawn(0, alpha, size, 4000)
    image = torch.zeros(1, 3, size[1], size[0])
    theirs = []
    for _ in range(4000):
        params = transform.make_params([image])
        x1, y1, x2, y2 = (int(corner) for corner in params["box"])
        theirs.append((params["lam_adjusted"], x1, y1, x2 - x1, y2 - y1))
    theirs = np.array(theirs, float)
    np.testing.assert_allclose(ours[:, 0], 1 - ours[:, 3] * ours[:, 4] / (size[0] * size[1]), atol=1e-12)
    worst = 0.0
    for column, name in enumerate(("share", "x", "y", "width", "height")):
        # An empty box has no particular position.
        cut, theirs_cut = ours[ours[:, 3] * ours[:, 4] > 0], theirs[theirs[:, 3] * theirs[:, 4] > 0]
        worst = max(worst, distance(cut[:, column], theirs_cut[:, column]))
        assert worst < 1, name
    record("Augmentation", f"cutmix {alpha:g}, {size[0]}x{size[1]}, 4000 draws", "torchvision's v2.CutMix",
           "distributions nearer than 1", worst)


def test_with_both_each_batch_draws_one():
    both = drawn(0.2, 1.0, (224, 224), 4000)
    cut = (both[:, 3] * both[:, 4] > 0).mean()
    assert 0.45 < cut < 0.55  # fewer than one of a hundred boxes are empty


SMOOTHING = 0.1


def cross_entropy(logits, labels, mix=None):
    """`mix`: (share of the own image, targets that are blended accordingly)."""
    return F.cross_entropy(logits, labels if mix is None else mix[1], label_smoothing=SMOOTHING).item()


def binary_cross_entropy(logits, labels, mix=None):
    """timm's smoothing is in the targets if these are dense: its own mixup puts it there."""
    if mix is None:
        return timm.loss.BinaryCrossEntropy(smoothing=SMOOTHING)(logits, labels).item()
    off = SMOOTHING / CLASSES
    one, other = (timm.data.mixup.one_hot(chosen, CLASSES, on_value=1 - SMOOTHING + off, off_value=off)
                  for chosen in (labels, labels.roll(1)))
    return timm.loss.BinaryCrossEntropy(smoothing=SMOOTHING)(logits, mix[0] * one + (1 - mix[0]) * other).item()


LOSSES = {"ce": (cross_entropy, TORCHVISION),
          "bce": (binary_cross_entropy, TIMM)}


@pytest.mark.parametrize("mixup, cutmix, loss", [(0.4, 1.0, "ce"), (0.4, 1.0, "bce")])
def test_the_loss_of_a_mixed_batch_is_the_reference_s(tmp_path, mixup, cutmix, loss):
    """The weights do not change (--lr=0), so that each step's loss depends on its batch alone, of which some are blended and
    some are cut."""
    steps, batch, side = 4, 8, 32
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(steps * batch, 3, side, side, generator=generator)
    labels = torch.randint(CLASSES, (steps * batch,), generator=generator)
    torch.manual_seed(0)
    model = resnet18(num_classes=CLASSES).train()
    save_file({"images": images, "labels": labels}, tmp_path / "data.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, tmp_path / "model.safetensors")
    run("--model=resnet18", f"--data_dir={tmp_path / 'data.safetensors'}", f"--num_classes={CLASSES}",
        f"--image_size={side}", f"--batch_size={batch}", f"--max_steps={steps}", "--epochs=1", "--lr=0",
        "--shuffle=none", "--log_interval=1", f"--label_smoothing={SMOOTHING}", f"--mixup={mixup}", f"--cutmix={cutmix}",
        f"--loss={loss}",
        f"--init_weights={tmp_path / 'model.safetensors'}", f"--run_dir={tmp_path / 'run'}")
    ours = [value for _, value in losses(tmp_path / "run")]

    criterion, reference = LOSSES[loss]
    theirs, plain = [], []
    for step, (share, x, y, width, height) in enumerate(drawn(mixup, cutmix, (side, side), steps)):
        of_step = slice(step * batch, (step + 1) * batch)
        # A batch that is to be cut but has an empty box stays unchanged, as if it were blended with a share of 1.
        if width * height > 0 or share == 1:
            transform = v2.CutMix(num_classes=CLASSES)
            params = {"box": (int(x), int(y), int(x + width), int(y + height)), "lam_adjusted": share}
        else:
            transform = v2.MixUp(num_classes=CLASSES)
            params = {"lam": share}
        params |= {"labels": labels[of_step], "batch_size": batch}
        with torch.no_grad():
            targets = transform.transform(params["labels"], params)
            mixed = transform.transform(images[of_step], params)
            theirs.append(criterion(model(mixed), labels[of_step], (share, targets)))
            plain.append(criterion(model(images[of_step]), labels[of_step]))
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert worst_ratio(ours, plain) > 1e-3
    record("Losses", f"{loss}, smoothing {SMOOTHING:g}, mixup {mixup:g}, cutmix {cutmix:g}", reference, "1e-4 of the loss",
           worst_ratio(ours, theirs))
