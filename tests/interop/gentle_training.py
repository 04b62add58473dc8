"""Fixtures for tests that train beside a reference: a ResNet whose residual branches contribute little, and samples for it. With
larger branches, the rounding of two memory formats alone grows to 1e-3 in ten steps, PyTorch against PyTorch; with these, and a
gentle rate, it stays below 1e-6 (gradient norms 1e-6, movements of single parameters 5e-4)."""

import pytest
import torchvision
from safetensors.torch import load_file, save_file

from beside_torch import torch

CLASSES, SAMPLES, BATCH = 10, 64, 8


@pytest.fixture(scope="module")
def resnet18(module_dir):
    """A file of weights."""
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=CLASSES)
    for name, module in model.named_modules():
        if name.endswith(".bn2"):
            module.weight.data *= 0.05
    path = module_dir / "resnet18.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    return path


def loaded(weights):
    model = torchvision.models.resnet18(num_classes=CLASSES).train()
    model.load_state_dict(load_file(weights))
    return model


@pytest.fixture(scope="module")
def samples():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(SAMPLES, 3, 32, 32, generator=generator), torch.randint(CLASSES, (SAMPLES,), generator=generator)


@pytest.fixture(scope="module")
def data(samples, module_dir):
    """The folder of `samples`, which are also for validation."""
    (module_dir / "data").mkdir()
    for split in ("train", "val"):
        save_file({"images": samples[0], "labels": samples[1]}, module_dir / "data" / f"{split}.safetensors")
    return module_dir / "data"
