"""Makes the data that a GPU is fed with: JPEGs, and rows of tokens."""

from pathlib import Path

import torch

from programs import Machine, write_safetensors
from workloads import Workload


def make_images(machine: Machine, smoke: bool) -> Path:
    """Makes JPEGs of the size of ImageNet's in 10 classes: smooth shapes with noise, which compress like
    photographs."""
    import numpy
    from PIL import Image

    folder = machine.folder / "images"
    if folder.exists():
        return folder
    random = numpy.random.default_rng(0)
    width, height = (80, 60) if smoke else (500, 375)
    for number in range(20 if smoke else 512):
        target = folder / "train" / f"class{number % 10}"
        target.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=numpy.uint8))
        pixels = numpy.asarray(coarse.resize((width, height), Image.BICUBIC), dtype=numpy.int16)
        noisy = (pixels + random.integers(-12, 13, pixels.shape)).clip(0, 255).astype(numpy.uint8)
        Image.fromarray(noisy).save(target / f"{number}.jpg", quality=90)
    return folder


def make_tokens(machine: Machine, workload: Workload, ragged: bool = False) -> Path:
    """Makes rows of random tokens. Ragged ones end in padding; a third of each is tokens on average."""
    length = workload.tokens_per_sample
    count = 4096 if length > 100 else 8
    folder = machine.folder / f"tokens-{length}-{workload.vocab_size}{'-ragged' if ragged else ''}"
    if folder.exists():
        return folder
    folder.mkdir()
    torch.manual_seed(0)
    ids = torch.randint(4, workload.vocab_size - 1, (count, length))
    if ragged:
        ids[torch.arange(length) >= torch.randint(1, max(2, 2 * length // 3), (count, 1))] = workload.padding_id
    write_safetensors(folder / "train.safetensors", {"input_ids": ids})
    return folder
