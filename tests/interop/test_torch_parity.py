"""The same numbers as PyTorch and torchvision, from the same weights and samples: metrics, losses, gradients,
learning rates, files. Each comparison with an option also checks that the option makes a difference to be seen."""

import json
import math
import os
import socket

import pytest

from beside_torch import TORCH, TORCHVISION, allowed_ratio, assert_losses, assert_moved_alike, assert_same_steps, in_both_ways, predict, randomise_norms, torch, torchvision

from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import DEADLINE, metrics, run, wait_until
from gentle_training import CLASSES, SAMPLES, data, loaded, resnet18, samples  # noqa: F401 (fixtures)
from truth import record, worst_difference, worst_ratio

STEPS = 10
LR = 0.0005
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def new_model(name: str, seed: int = 0):
    torch.manual_seed(seed)
    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    randomise_norms(model)
    return model


def saved(model, path):
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    return path


def logits_of(model_name, weights, images, folder):
    return predict({"images": images}, folder, f"--model={model_name}", f"--init_weights={weights}", "--batch_size=3")


# ---- Models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_weights_of_other_types_are_converted(samples, tmp_path, dtype):
    """bfloat16: test_weights.py."""
    model = new_model("resnet18").to(dtype)
    path = saved(model, tmp_path / "weights.safetensors")
    with torch.no_grad():
        expected = model.float().eval()(samples[0][:2])
    found = logits_of("resnet18", path, samples[0][:2], tmp_path)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    record("Models", f"resnet18, weights of {dtype}".replace("torch.", ""), TORCHVISION,
           "1e-4 of logits of about 1", worst_difference(found, expected))


# ---- Evaluation ------------------------------------------------------------------------------------------------------


def evaluate(weights, path, *flags) -> dict:
    outcome = run("--mode=eval", "--model=resnet18", f"--init_weights={weights}", f"--data_dir={path}",
                  "--batch_size=16", "--log_format=json", *flags)
    return json.loads(outcome.lines[0])


def reference_metrics(weights, images, labels) -> dict:
    model = loaded(weights).eval()
    with torch.no_grad():
        logits = model(images)
    hits = logits.topk(5).indices == labels[:, None]
    return {"top1": 100 * hits[:, 0].float().mean().item(), "top5": 100 * hits.any(1).float().mean().item(),
            "loss": F.cross_entropy(logits, labels).item()}


def assert_metrics(found: dict, expected: dict) -> None:
    assert found["top1"] == pytest.approx(expected["top1"], abs=1e-4)
    assert found["top5"] == pytest.approx(expected["top5"], abs=1e-4)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)


def test_evaluation_is_torchs(data, samples, resnet18):
    expected = reference_metrics(resnet18, *samples)
    assert 0 < expected["top5"] < 100
    found = evaluate(resnet18, data)
    assert_metrics(found, expected)
    assert_metrics(evaluate(resnet18, data, "--label_smoothing=0.1"), expected)  # used in training only
    record("Models", "resnet18, loss of an evaluation", TORCHVISION, "1e-4 of the loss",
           worst_ratio([found["loss"]], [expected["loss"]]))


def test_bytes_are_normalised_like_torchvision(tmp_path):
    weights = saved(new_model("resnet18"), tmp_path / "weights.safetensors")
    generator = torch.Generator().manual_seed(2)
    pixels = torch.randint(256, (SAMPLES, 3, 40, 56), dtype=torch.uint8, generator=generator)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=generator)
    save_file({"images": pixels.permute(0, 2, 3, 1).contiguous(), "labels": labels.to(torch.int32)}, tmp_path / "val.safetensors")
    normalised = torchvision.transforms.functional.normalize(
        pixels / 255, MEAN.flatten().tolist(), STD.flatten().tolist())
    expected = reference_metrics(weights, normalised, labels)
    found = evaluate(weights, tmp_path)
    assert_metrics(found, expected)
    record("Transforms", "bytes to normalised numbers, NHWC: loss of an evaluation",
           TORCHVISION, "1e-4 of the loss", worst_ratio([found["loss"]], [expected["loss"]]))
    other = evaluate(weights, tmp_path, "--mean=0.5,0.5,0.5", "--std=1,1,1")
    assert abs(other["loss"] - expected["loss"]) > 1e-2
    assert_metrics(other, reference_metrics(weights, pixels / 255 - 0.5, labels))


# ---- Training --------------------------------------------------------------------------------------------------------


def train(data, weights, run_dir, *flags):
    """Trains ten steps of 8 samples in file order, by default with SGD at a constant rate without momentum or decay."""
    run("--model=resnet18", f"--init_weights={weights}", f"--data_dir={data}", "--shuffle=none", "--batch_size=8",
        f"--max_steps={STEPS}", f"--lr={LR}", "--lr_schedule=constant", "--momentum=0", "--weight_decay=0",
        "--log_interval=1", "--save_every_epochs=0", f"--run_dir={run_dir}", *flags)
    return metrics(run_dir, "train")


def parameter_groups(model, decay: float, all_parameters: bool):
    if all_parameters:
        return [{"params": list(model.parameters()), "weight_decay": decay}]
    parameters = dict(model.named_parameters())
    return [{"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in parameters.values() if p.dim() <= 1], "weight_decay": 0}]


def torch_training(weights, samples, memory_format, momentum=0.0, nesterov=False, decay=0.0, decay_all=True, smoothing=0.0,
                   clip=math.inf, accumulation=1, by_class=None):
    """Returns (losses, gradient norms, the state afterwards) of a plain PyTorch script."""
    model = loaded(weights)
    optimizer = torch.optim.SGD(parameter_groups(model, decay, decay_all), lr=LR, momentum=momentum, nesterov=nesterov)
    images, labels = samples[0].to(memory_format=memory_format), samples[1]
    class_weights = by_class(torch.bincount(labels, minlength=CLASSES).float()) if by_class else None
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_sum = 0.0
        for part in range(accumulation):
            first = (step * accumulation + part) * 8
            chosen = torch.arange(first, first + 8) % SAMPLES
            loss = F.cross_entropy(model(images[chosen]), labels[chosen], class_weights, label_smoothing=smoothing) / accumulation
            loss.backward()
            loss_sum += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        optimizer.step()
        losses.append(loss_sum)
    return losses, norms, model.state_dict()


TRAININGS = {
    "decay of weights only": (["--momentum=0.9", "--weight_decay=1", "--nodecay_norm_and_bias"],
                              {"momentum": 0.9, "decay": 1.0, "decay_all": False}),
    "class weights": (["--class_weights=inverse", "--label_smoothing=0.1"], {"by_class": lambda counts: torch.where(counts > 0, 1 / counts, 0), "smoothing": 0.1}),
    "accumulation": (["--momentum=0.9", "--grad_accum_steps=2"], {"momentum": 0.9, "accumulation": 2}),
    "all": (["--momentum=0.9", "--nesterov", "--weight_decay=0.1", "--label_smoothing=0.1", "--clip_norm=0.5"],
            {"momentum": 0.9, "nesterov": True, "decay": 0.1, "smoothing": 0.1, "clip": 0.5}),
}


@pytest.fixture(scope="module")
def earlier():
    """The reference's losses in each training so far."""
    return {}


@pytest.mark.parametrize("name", TRAININGS)
def test_ten_steps_are_torchs(data, samples, resnet18, run_dir, earlier, name):
    flags, options = TRAININGS[name]
    both = in_both_ways(lambda memory_format: torch_training(resnet18, samples, memory_format, **options))
    losses, _, state = both[0]
    points = train(data, resnet18, run_dir, *flags)
    assert_same_steps(points, both)
    record("Optimizers", f"SGD, ten steps of resnet18: {name}", TORCH, "1e-4 of the loss",
           worst_ratio([point["loss"] for point in points], losses))
    for other in earlier.values():  # so that agreement cannot come from an option without any effect
        assert worst_ratio(losses, other) > 5 * allowed_ratio(losses, both[1][0])
    earlier[name] = losses
    assert_moved_alike(load_file(run_dir / "model.safetensors"), load_file(resnet18), state, both[1][2])


# ---- Two ranks -------------------------------------------------------------------------------------------------------


def ddp_rank(rank: int, port: int, weights, data, results) -> None:
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    samples = load_file(data / "train.safetensors")

    def train_rank(memory_format) -> list[float]:
        model = loaded(weights)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=1e-3)
        losses = []
        for step in range(5):
            chosen = torch.arange(step * 16 + rank * 8, step * 16 + rank * 8 + 8) % SAMPLES
            optimizer.zero_grad()
            images = samples["images"][chosen].to(memory_format=memory_format)
            loss = F.cross_entropy(parallel(images), samples["labels"][chosen])
            loss.backward()
            optimizer.step()
            mean = loss.detach()
            torch.distributed.all_reduce(mean)
            losses.append(mean.item() / 2)
        return losses

    both = in_both_ways(train_rank)
    if rank == 0:
        results.write_text(json.dumps(both), encoding="utf-8")
    torch.distributed.barrier()
    os._exit(0)  # an orderly end sometimes waits for ever for threads of a rank that has gone already


def test_two_ranks_are_torchs_ddp(data, resnet18, run_dir, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = tmp_path / "losses.json"
    # A process that has threads must not fork; one that has imported what takes long forks both. They share nothing but files.
    torch.multiprocessing.set_forkserver_preload(["torch", "torchvision", "timm"])
    ranks = torch.multiprocessing.start_processes(ddp_rank, (port, resnet18, data, results), nprocs=2, join=False, start_method="forkserver")
    try:
        wait_until(lambda: ranks.join(timeout=1), "the end of PyTorch's ranks", 2 * DEADLINE)
    finally:
        for process in ranks.processes:
            process.kill()
    expected, other = json.loads(results.read_text(encoding="utf-8"))
    points = train(data, resnet18, run_dir, "--nproc_per_node=2", "--momentum=0.9", "--weight_decay=0.001",
                   "--max_steps=5")
    assert len(expected) == 5
    assert_losses([point["loss"] for point in points], expected, other, "Trainings", "resnet18 on two ranks", f"PyTorch {torch.__version__}'s DistributedDataParallel")


# ---- Files -----------------------------------------------------------------------------------------------------------


def layout_of(path):
    """Returns the place of each tensor, and the bytes of all of them."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__")
    return list(header.items()), content[end:]


def test_python_reads_what_we_write_and_the_other_way_round(data, resnet18, run_dir, tmp_path, samples):
    train(data, resnet18, run_dir, "--max_steps=1")
    ours = run_dir / "model.safetensors"
    state = load_file(ours)
    assert {tensor.dtype for tensor in state.values()} == {torch.float32, torch.int64}
    rewritten = tmp_path / "rewritten.safetensors"
    save_file(state, rewritten, metadata={"format": "pt"})
    assert layout_of(rewritten) == layout_of(ours)  # equal to the byte, except for the header's description of the tensors
    record("Files", "weights as safetensors", "the safetensors package", "the same bytes", 0)
    model = torchvision.models.resnet18(num_classes=CLASSES).eval()
    model.load_state_dict(state, strict=True)
    with torch.no_grad():
        expected = model(samples[0][:4])
    torch.testing.assert_close(logits_of("resnet18", rewritten, samples[0][:4], tmp_path), expected, rtol=1e-4,
                               atol=1e-4)
