"""Compares autocast and the loss scaler with torch.amp, step by step: losses, scales, and skipped steps. All on the CPU, where the same kernels run: in half precision, another memory format
leads elsewhere in a few steps, so ours has PyTorch's, and the limits come from threads."""

import math

import pytest

from beside_torch import FACTOR, THREADS, allowed_ratio, in_both_ways, torch

from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from test_torch_parity import LR, SAMPLES, loaded, resnet18, samples, train  # noqa: F401 (fixtures)
from truth import record, worst_ratio

STEPS = {"fp16": 3, "bf16": 7}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def save_overflowing(images, labels, step, path):
    """Saves the samples, one of the given step's (counted from 0) beyond the range of fp16. Returns `path`."""
    images = images.clone()
    images[step * 8 % SAMPLES] *= 1e5
    save_file({"images": images, "labels": labels}, path)
    return path


@pytest.fixture(scope="module")
def overflowing(samples, module_dir):  # noqa: F811
    return save_overflowing(*samples, 4, module_dir / "overflowing.safetensors")


def amp_training(weights, data, precision, make_optimizer, steps):
    """Returns (losses, scales after each step, final parameters) of the training that PyTorch's documentation of
    torch.amp shows."""
    scaler = torch.amp.GradScaler("cpu", growth_interval=1, enabled=precision == "fp16")
    model = loaded(weights)
    optimizer = make_optimizer(model.parameters())
    images, labels = (load_file(data)[name] for name in ("images", "labels"))
    losses, scales = [], []
    for step in range(steps):
        optimizer.zero_grad()
        chosen = torch.arange(step * 8, step * 8 + 8) % SAMPLES
        with torch.autocast("cpu", dtype=DTYPES.get(precision), enabled=precision in DTYPES):
            logits = model(images[chosen])
        loss = F.cross_entropy(logits.float(), labels[chosen])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return losses, scales, dict(model.named_parameters())


def finite(losses: list[float]) -> list[float]:
    return [loss for loss in losses if math.isfinite(loss)]


def distance(one: dict, other: dict) -> float:
    return sum((tensor - other[name]).double().square().sum().item() for name, tensor in one.items())**0.5


def assert_same_course(points, run_dir, weights, both, least):
    """Asserts that losses and parameters are as near to the first of `both` as FACTOR times the second is, or `least`."""
    (losses, _, parameters), (other_losses, _, other_parameters) = both
    allowed = allowed_ratio(finite(losses), finite(other_losses), least)
    for point, loss in zip(points, losses, strict=True):
        assert (point["loss"] is None) == (not math.isfinite(loss))
        if point["loss"] is not None:
            assert point["loss"] == pytest.approx(loss, rel=allowed)
    found = load_file(run_dir / "model.safetensors")
    moved, spread = distance(parameters, load_file(weights)), distance(parameters, other_parameters)
    assert distance(parameters, found) <= max(100 * least * moved, FACTOR * spread)
    assert all(tensor.isfinite().all() for tensor in found.values())  # running statistics, too


def record_course(precision, points, losses):
    pairs = [(point["loss"], loss) for point, loss in zip(points, losses) if math.isfinite(loss)]
    record("Trainings", f"resnet18 in {precision}, {STEPS[precision]} steps", f"torch.amp of PyTorch {torch.__version__}",
           f"1e-3 of the loss or {FACTOR} times its own spread", worst_ratio(*zip(*pairs)))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=LR, momentum=0.9)


def test_fp16_is_torch_amps(samples, resnet18, module_dir, run_dir):  # noqa: F811
    """Few steps on small images: fp16 is slow on a CPU."""
    data = save_overflowing(samples[0][:, :, :16, :16], samples[1], 1, module_dir / "small.safetensors")
    both = in_both_ways(lambda _: amp_training(resnet18, data, "fp16", sgd, STEPS["fp16"]), THREADS)
    losses, scales, _ = both[0]
    assert [i for i, loss in enumerate(losses) if not math.isfinite(loss)] == [1]
    points = train(data, resnet18, run_dir, "--precision=fp16", "--loss_scale_window=1", "--momentum=0.9",
                   f"--max_steps={STEPS['fp16']}", "--nochannels_last")
    assert [point["loss_scale"] for point in points] == pytest.approx(scales, rel=1e-6)
    assert len(set(scales)) > 1  # with the instructions of some CPUs it grows before it backs off
    record_course("fp16", points, losses)
    assert_same_course(points, run_dir, resnet18, both, least=1e-3)


def test_bf16_is_torch_amps(overflowing, resnet18, run_dir):  # noqa: F811
    both = in_both_ways(lambda _: amp_training(resnet18, overflowing, "bf16", sgd, STEPS["bf16"]), THREADS)
    losses = both[0][0]
    assert all(math.isfinite(loss) for loss in losses)  # the range of fp32
    points = train(overflowing, resnet18, run_dir, "--precision=bf16", "--momentum=0.9", f"--max_steps={STEPS['bf16']}",
                   "--nochannels_last")
    assert "loss_scale" not in points[0]
    assert {tensor.dtype for tensor in load_file(run_dir / "model.safetensors").values()} == {torch.float32, torch.int64}
    record_course("bf16", points, losses)
    assert_same_course(points, run_dir, resnet18, both, least=1e-3)


@pytest.fixture(scope="module")
def with_nans(samples, module_dir):  # noqa: F811
    images = samples[0].clone()
    images[12] = math.nan  # in the second step, on the second of two ranks
    path = module_dir / "nans.safetensors"
    save_file({"images": images, "labels": samples[1]}, path)
    return path


@pytest.mark.fault(22, "a NaN on one rank", "all ranks skip the same step")
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_nan_on_one_rank_skips_the_step_on_all(with_nans, resnet18, run_dir, ranks):  # noqa: F811
    flags = [f"--nproc_per_node={ranks}", "--batch_size=4" if ranks == 2 else "--batch_size=8", "--momentum=0.9"]
    points = train(with_nans, resnet18, run_dir, *flags, "--max_steps=4")
    assert [point["loss"] is None for point in points] == [False, True, False, False]
    state = load_file(run_dir / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in state.values())
