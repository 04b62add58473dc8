"""MXNet's train_imagenet.py with data, pasted: its network, its formulas of steps, its record files. MXNet itself has no
program that runs here, so the references are its sources (1.9.1), written down."""

import pytest

from beside_torch import allowed_difference, allowed_ratio, assert_logits, in_both_ways, predict, torch

from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from command import DATA, metrics, run
from gentle_training import BATCH, CLASSES, SAMPLES, data, samples  # noqa: F401
from truth import record, worst_ratio

STEPS = 14
STEPS_OF_EPOCH = SAMPLES // BATCH


def network(weights, x, training=False):
    """symbols/resnet.py, with batch normalisation of eps 2e-5. fix_gamma of bn_data: its gamma is 1."""
    def norm(name, x):
        return F.batch_norm(x, weights[f"{name}.running_mean"], weights[f"{name}.running_var"], weights[f"{name}.weight"], weights[f"{name}.bias"],
                            training, 0.1, 2e-5)

    x = F.max_pool2d(F.relu(norm("bn0", F.conv2d(norm("bn_data", x), weights["conv0.weight"], None, 2, 3))), 3, 2, 1)
    for unit in sorted({name.rsplit(".", 2)[0] for name in weights if ".conv" in name}):
        convolutions = sorted(name for name in weights if name.startswith(f"{unit}.conv"))
        stride = 2 if unit.endswith(".0") and not unit.startswith("stage1") else 1
        y = first = F.relu(norm(f"{unit}.bn1", x))
        for i, name in enumerate(convolutions, 1):
            strides_here = i == len(convolutions) - 1  # the 3x3 of three, the first of two
            y = y if i == 1 else F.relu(norm(f"{unit}.bn{i}", y))
            y = F.conv2d(y, weights[name], None, stride if strides_here else 1, weights[name].shape[-1] // 2)
        x = y + (F.conv2d(first, weights[f"{unit}.sc.weight"], None, stride) if unit.endswith(".0") else x)
    return F.linear(F.relu(norm("bn1", x)).mean((2, 3)), weights["fc1.weight"], weights["fc1.bias"])


def initial(layers, folder):
    run(f"--model=resnet{layers}_v2", f"--num_classes={CLASSES}", "--data_format=synthetic", "--image_size=32", "--batch_size=2", "--max_steps=1", "--lr=0",
        "--eval_every_epochs=0", f"--run_dir={folder / 'initial'}")
    return load_file(folder / "initial" / "model.safetensors")


def randomised(layers, folder):
    """Returns weights and their file: norms of all values, and residual branches that contribute little, as in gentle_training.py."""
    weights, generator = initial(layers, folder), torch.Generator().manual_seed(0)
    for name, tensor in weights.items():
        if name.endswith(f"conv{3 if layers >= 50 else 2}.weight"):
            tensor *= 0.1
        elif tensor.dim() == 1 and name != "bn_data.weight":
            shift = -0.2 if name.endswith(("bias", "mean")) else 0.8
            tensor.copy_(shift + 0.4 * torch.rand(tensor.shape, generator=generator))
    save_file(weights, folder / "weights.safetensors")
    return weights, folder / "weights.safetensors"


@pytest.mark.parametrize("layers", [18, 50])
def test_logits_are_those_of_its_symbols(tmp_path, layers):
    weights, path = randomised(layers, tmp_path)
    images = torch.randn(4, 3, 64, 80, generator=torch.Generator().manual_seed(1))
    expected = network(weights, images)
    found = predict({"images": images}, tmp_path, f"--model=resnet{layers}_v2", f"--init_weights={path}")
    assert expected.std() > 0.05
    assert_logits(found, expected, f"resnet{layers}_v2", "MXNet's symbols in PyTorch")


def test_initial_weights_are_its(tmp_path):
    """Xavier of common/fit.py: normal, with a variance of 2 / fan-in, the classifier's, too."""
    weights = initial(18, tmp_path)
    drawn = [tensor for tensor in weights.values() if tensor.dim() > 1]
    found, expected = [tensor.std().item() for tensor in drawn], [(2 / tensor[0].numel()) ** 0.5 for tensor in drawn]
    assert found == pytest.approx(expected, rel=0.05)
    record("Models", "resnet18_v2, deviations of initial weights", "MXNet's formula", "5 % of each, which are drawn", worst_ratio(found, expected))
    assert weights["fc1.bias"].abs().max() == 0 and weights["bn1.weight"].min() == 1


def steps_of_mxnet(path, samples, memory_format):
    """SGDMomKernel of optimizer_op-inl.h after _get_lr_scheduler: the momentum holds the rates; weights and gammas decay."""
    weights = load_file(path)
    learned = {name: tensor.requires_grad_() for name, tensor in weights.items() if name.endswith(("weight", "bias")) and name != "bn_data.weight"}
    images = samples[0].to(memory_format=memory_format)
    momentum, losses = dict.fromkeys(learned, 0), []
    for step in range(STEPS):
        place = step % STEPS_OF_EPOCH * BATCH
        loss = F.cross_entropy(network(weights, images[place:place + BATCH], training=True), samples[1][place:place + BATCH])
        losses.append(loss.item())
        rate = 2e-3 * (0.1 if step >= STEPS_OF_EPOCH else 1)
        with torch.no_grad():
            for (name, parameter), gradient in zip(learned.items(), torch.autograd.grad(loss, learned.values()), strict=True):
                decay = 0.5 if name.endswith("weight") else 0
                momentum[name] = 0.9 * momentum[name] - rate * decay * parameter - rate * gradient
                parameter += momentum[name]
    return losses, {name: tensor.detach() for name, tensor in weights.items() if tensor.is_floating_point()}


def test_steps_are_its(data, samples, tmp_path):
    """With --nolr_in_momentum, or with --decay_bias, weights would be more than ten times as far apart as is allowed."""
    _, weights = randomised(18, tmp_path)
    (expected, moved), (other, other_moved) = in_both_ways(lambda memory_format: steps_of_mxnet(weights, samples, memory_format))
    run("train_imagenet.py", "--data-train", data / "train.safetensors", "--data-val", data / "val.safetensors", "--network", "resnet",
        "--num-layers", "18", "--num-classes", CLASSES, "--num-examples", SAMPLES, "--batch-size", BATCH, "--lr", "0.002", "--lr-step-epochs", "1",
        "--wd", "0.5", "--kv-store", "device", "--augment=none", "--hflip=0.5", f"--init_weights={weights}", "--shuffle=none",
        f"--limit_train_steps={STEPS}", "--disp-batches", "1", "--save_every_epochs=0", "--eval_every_epochs=0", f"--run_dir={tmp_path / 'run'}")
    points, found = metrics(tmp_path / "run", "train"), load_file(tmp_path / "run" / "model.safetensors")
    losses = [point["loss"] for point in points]
    assert [point["lr"] for point in points] == pytest.approx([2e-3] * STEPS_OF_EPOCH + [2e-4] * (STEPS - STEPS_OF_EPOCH), rel=1e-9)
    assert losses == pytest.approx(expected, rel=allowed_ratio(expected, other))
    allowed = allowed_difference(moved, other_moved)
    apart = {name: (found[name] - tensor).abs().max().item() for name, tensor in moved.items()}
    assert max(apart.values()) <= allowed, max(apart, key=apart.get)
    record("Pasted commands", "MXNet's train_imagenet.py, 14 steps: loss", "its formulas in PyTorch", "1e-4 of the loss", worst_ratio(losses, expected))
    record("Pasted commands", "MXNet's train_imagenet.py, 14 steps: weights", "its formulas in PyTorch", "10 times its own spread", max(apart.values()))


def test_its_command_trains_on_its_files(tmp_path):
    generator = torch.Generator().manual_seed(2)
    for split, count in (("train", 6), ("val", 3)):
        for label in range(2):
            for i in range(count):
                path = tmp_path / "photos" / split / f"class{label}" / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                pixels = torch.randint(256, (50 + i, 60, 3), generator=generator, dtype=torch.uint8) // 4 + 150 * label
                Image.fromarray(pixels.numpy()).save(path)
    run("pack", f"--data_dir={tmp_path / 'photos'}", f"--output={tmp_path / 'packed'}", "--output_format=recordio", program=DATA)
    files = {split: next((tmp_path / "packed").glob(f"{split}*.rec")) for split in ("train", "val")}
    outcome = run("train_imagenet.py", "--data-train", files["train"], "--data-val", files["val"], "--num-classes", "2", "--num-examples", "12",
                  "--image-shape", "3,40,40", "--num-layers", "18", "--batch-size", "4", "--num-epochs", "3", "--lr", "0.01", "--random-crop", "1",
                  "--random-mirror", "1", "--max-random-h", "36", "--max-random-s", "50", "--max-random-l", "50", "--min-random-scale", "0.7",
                  "--kv-store", "device", f"--run_dir={tmp_path / 'run'}")
    assert "as MXNet's train_imagenet.py" in outcome.stderr
    assert [point["step"] for point in metrics(tmp_path / "run", "val")] == [3, 6, 9]
    again = run("--mode=eval", f"--input={tmp_path / 'run'}", f"--data_dir={tmp_path / 'packed'}", f"--val_split={files['val'].stem}", "--batch_size=4",
                "--weights=last")
    assert f"{metrics(tmp_path / 'run', 'val')[-1]['loss']:.4f}" in again.stdout
