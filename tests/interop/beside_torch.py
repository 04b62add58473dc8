"""Helpers for comparisons with PyTorch: the logits of --mode=predict, and a training beside the same one in PyTorch.

Steps amplify rounding, by how much depends on the CPU's instructions and on threads. So the limits of trainings come
from PyTorch itself: it trains in two ways that differ in nothing but the order of additions, and ours may be FACTOR times
as far from the first as the second is."""

import json

import pytest

torch = pytest.importorskip("torch", reason="the reference is PyTorch; scripts/setup.sh --tests installs it")
torchvision = pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")
timm = pytest.importorskip("timm", reason="scripts/setup.sh --tests installs it")

from safetensors.torch import load_file, save_file

from command import losses, run
from truth import record, worst_difference, worst_ratio

TORCH, TORCHVISION, TIMM = (f"{one} {version}" for one, version in (
    ("PyTorch", torch.__version__), ("torchvision", torchvision.__version__), ("timm", timm.__version__)))

torch.set_num_threads(1)

WAYS = ((torch.contiguous_format, 1), (torch.channels_last, 2))  # memory format of the images, threads
THREADS = ((torch.contiguous_format, 1), (torch.contiguous_format, 2))
FACTOR = 10


def in_both_ways(train, ways=WAYS) -> list:
    """Returns train(memory_format) for each of the ways."""
    results = []
    for memory_format, threads in ways:
        torch.set_num_threads(threads)
        try:
            results.append(train(memory_format))
        finally:
            torch.set_num_threads(1)
    return results


def allowed_difference(one: dict, other: dict) -> float:
    """Returns how far a number of ours may be from `one`, if both have PyTorch's tensors after the same training: FACTOR
    times the largest difference between the two, and no less than the last bits of numbers near 10."""
    spread = max((one[name].double() - other[name].double()).abs().max().item() for name in one)
    return max(FACTOR * spread, 1e-6)


def allowed_ratio(one: list[float], other: list[float], least: float = 1e-4) -> float:
    """The same for losses, relative; no less than `least`, which a mistake in a formula exceeds."""
    return max(least, *(FACTOR * abs(a / b - 1) for a, b in zip(one, other, strict=True)))


def predict(inputs: dict, folder, *flags):
    """Returns the logits that the model of `flags` has for these tensors. `folder` is for temporary files."""
    save_file(inputs, folder / "in.safetensors")
    run("--mode=predict", f"--input={folder / 'in.safetensors'}", f"--output={folder / 'out.safetensors'}", *flags)
    return load_file(folder / "out.safetensors")["logits"]


def assert_logits(found, expected, subject: str, peer: str, limit: str = "1e-4", of: str = "logits of about 1") -> None:
    """Asserts that tensors agree to a limit, and leaves a record."""
    assert found.dtype == torch.float32 and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=float(limit))
    record("Models", subject, peer, f"{limit} of {of}", worst_difference(found, expected))


def assert_losses(found: list[float], expected: list[float], other: list[float], kind: str, subject: str, peer: str) -> None:
    """Asserts that losses are `expected`, to what `other` differs by from these, and leaves a record."""
    assert found == pytest.approx(expected, rel=allowed_ratio(expected, other))
    record(kind, subject, peer, "1e-4 of the loss", worst_ratio(found, expected))


def randomise_norms(model) -> None:
    """Gives a model statistics and affine parameters that differ from initial ones."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.3, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.2)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)


def assert_same_steps(points: list[dict], both) -> None:
    """Asserts that the steps agree. `points` are lines of metrics.jsonl, one for each step; `both` are the losses,
    gradient norms and whatever else of the reference's two trainings."""
    (losses, norms, *_), (other_losses, other_norms, *_) = both
    assert [point["loss"] for point in points] == pytest.approx(losses, rel=allowed_ratio(losses, other_losses))
    assert [point["grad_norm"] for point in points] == pytest.approx(norms, rel=allowed_ratio(norms, other_norms, least=1e-3))


def assert_moved_alike(found: dict, before: dict, expected: dict, other: dict) -> None:
    """Asserts that each tensor has moved from `before` to where it is expected, to a hundredth of the way or FACTOR times
    what the reference's other training differs by, and that counters are equal."""
    for name, tensor in expected.items():
        if not tensor.is_floating_point():
            assert found[name] == tensor, name
            continue
        moved, spread = (tensor - before[name]).norm(), (tensor - other[name]).norm()
        assert (found[name] - tensor).norm() <= max(0.01 * moved, FACTOR * spread) + 1e-6, name


def plain_losses(optimizer, loss_of, steps: int, schedule=None) -> list[float]:
    """Trains as a plain script does, and returns the losses. `loss_of` takes the number of a step."""
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        found.append(loss.item())
    return found


def assert_exact_steps(name: str, peer: str, run_dir, train) -> None:
    """Asserts that the losses of a run are the reference's. `train` takes the type of numbers: in float64 it is exact; its
    own rounding in float32 is the measure of ours."""
    ours, exact, rounded = [loss for _, loss in losses(run_dir)], train(torch.float64), train(torch.float32)
    assert ours == pytest.approx(exact, rel=max(1e-6, FACTOR * worst_ratio(rounded, exact)))
    record("Trainings", name, f"{peer} in float64", f"1e-6 of the loss or {FACTOR} times its own rounding", worst_ratio(ours, exact))


def assert_metrics(name: str, peer: str, outcome, expected: dict) -> None:
    """Asserts that an evaluation with --log_format=json found the reference's metrics."""
    last = json.loads(outcome.last_line)
    found = {metric: last[f"val_{metric}"] for metric in expected}
    assert found == pytest.approx(expected, rel=1e-5)
    record("Models", f"metrics {name}", peer, "1e-5 of the metric", worst_ratio(found.values(), expected.values()))
