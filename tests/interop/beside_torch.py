"""Helpers for comparisons with PyTorch: the logits of --mode=predict, and a training beside the same one in PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the reference is PyTorch; scripts/setup.sh --tests installs it")

from safetensors.torch import load_file, save_file

from command import run

torch.set_num_threads(1)


def predict(inputs: dict, folder, *flags):
    """Returns the logits that the model of `flags` has for these tensors. `folder` is for temporary files."""
    save_file(inputs, folder / "in.safetensors")
    run("--mode=predict", f"--input={folder / 'in.safetensors'}", f"--output={folder / 'out.safetensors'}", *flags)
    return load_file(folder / "out.safetensors")["logits"]


def assert_same_steps(points: list[dict], losses: list[float], norms: list[float]) -> None:
    """Asserts that the steps agree. `points` are lines of metrics.jsonl, one for each step."""
    assert [point["loss"] for point in points] == pytest.approx(losses, rel=1e-4)
    assert [point["grad_norm"] for point in points] == pytest.approx(norms, rel=1e-3)


def assert_moved_alike(found: dict, before: dict, expected: dict) -> None:
    """Asserts that each tensor has moved from `before` to where it is expected, to a hundredth of the way, and that
    counters are equal."""
    for name, tensor in expected.items():
        if not tensor.is_floating_point():
            assert found[name] == tensor, name
            continue
        moved = (tensor - before[name]).norm()
        assert (found[name] - tensor).norm() <= 0.01 * moved + 1e-6, name
