"""--teacher: ten steps of distillation beside the same lines of PyTorch, whose losses and gradients agree to the last digits.
The students have no batch normalisation, which would amplify rounding."""

import json

import pytest

from beside_torch import FACTOR, WAYS, assert_moved_alike, in_both_ways, randomise_norms, timm, torch, torchvision

from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from torchvision.transforms import v2

from command import losses, metrics, run
from test_mixing import drawn
from truth import record, worst_ratio

CLASSES, BATCH, SIDE, STEPS, TEACHER_SIDE = 10, 8, 32, 10, 48
OURS = torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1), torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)


@pytest.fixture(scope="module")
def samples(module_dir):
    """Bytes, so that the student's and the teacher's normalisations differ."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(256, (STEPS * BATCH, SIDE, SIDE, 3), generator=generator, dtype=torch.uint8)
    labels = torch.randint(CLASSES, (STEPS * BATCH,), generator=generator)
    save_file({"images": images, "labels": labels}, module_dir / "data.safetensors")
    return images.permute(0, 3, 1, 2).contiguous(), labels


@pytest.fixture(scope="module")
def teacher(module_dir):
    """A ResNet-18 in a folder as timm leaves it, made for larger images that are normalised otherwise."""
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=CLASSES)
    randomise_norms(model)
    torch.nn.init.normal_(model.fc.weight, std=0.3)  # so that it is sure of some of its predictions
    folder = module_dir / "teacher"
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(
        {"architecture": "resnet18", "num_classes": CLASSES,
         "pretrained_cfg": {"input_size": [3, TEACHER_SIDE, TEACHER_SIDE], "mean": [0.5, 0.4, 0.3], "std": [0.5, 0.6, 0.7]}}))
    return model.eval()


def seen_by_teacher(mixed):
    images = (mixed - torch.tensor((0.5, 0.4, 0.3)).view(3, 1, 1)) / torch.tensor((0.5, 0.6, 0.7)).view(3, 1, 1)
    return F.interpolate(images, size=(TEACHER_SIDE, TEACHER_SIDE), mode="bicubic", antialias=True)


def distillation(kind: str, temperature: float, student, taught):
    if kind == "hard":
        return F.cross_entropy(student, taught.argmax(1))
    return temperature**2 * F.kl_div(F.log_softmax(student / temperature, 1), F.log_softmax(taught / temperature, 1),
                                     reduction="batchmean", log_target=True)


def student_of(name: str):
    torch.manual_seed(0)
    options = {} if name.startswith("convnext") else {"dynamic_img_size": True}
    model = timm.create_model(name, num_classes=CLASSES, **options).train()
    if "distilled" in name:
        model.set_distilled_training(True)
    return model


CASES = [("convnext_atto", "soft", 0.9, 2, 0.8), ("deit_tiny_distilled_patch16_224", "hard", 0.5, 1, 0)]


@pytest.mark.parametrize("name, kind, weight, temperature, mixup", CASES)
def test_ten_steps_with_a_teacher(name, kind, weight, temperature, mixup, samples, teacher, module_dir, tmp_path, run_dir):
    images, labels = samples
    shares = [row[0] for row in drawn(mixup, 0, (SIDE, SIDE), STEPS)] if mixup else [1.0] * STEPS

    def train(memory_format):
        model = student_of(name).to(memory_format=memory_format)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        found, norms = [], []
        for step, share in enumerate(shares):
            of_step = slice(step * BATCH, (step + 1) * BATCH)
            mixed, targets, mix = images[of_step] / 255, labels[of_step], v2.MixUp(num_classes=CLASSES)
            if mixup:
                params = {"lam": share, "labels": targets, "batch_size": BATCH}
                mixed, targets = mix.transform(mixed, params), mix.transform(targets, params)
            with torch.no_grad():
                taught = teacher(seen_by_teacher(mixed))
            heads = model(((mixed - OURS[0]) / OURS[1]).to(memory_format=memory_format))
            heads = heads if isinstance(heads, tuple) else (heads, heads)
            loss = ((1 - weight) * F.cross_entropy(heads[0], targets, label_smoothing=0.1)
                    + weight * distillation(kind, temperature, heads[1], taught))
            optimizer.zero_grad()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
            optimizer.step()
            found.append(loss.item())
        return found, norms, {key: tensor.clone() for key, tensor in model.state_dict().items()}

    before = {key: tensor.contiguous() for key, tensor in student_of(name).state_dict().items()}
    save_file(before, tmp_path / "student.safetensors")
    run(f"--model={name}", f"--init_weights={tmp_path / 'student.safetensors'}", f"--image_size={SIDE}", "--shuffle=none",
        f"--data_dir={module_dir / 'data.safetensors'}", f"--batch_size={BATCH}", f"--max_steps={STEPS}", "--epochs=1",
        f"--teacher={module_dir / 'teacher'}", f"--distill={kind}", f"--distill_weight={weight}",
        f"--distill_temperature={temperature}", f"--mixup={mixup}", "--label_smoothing=0.1", "--lr=0.01",
        "--lr_schedule=constant", "--drop_path=0", "--log_interval=1",
        "--save_every_epochs=0", f"--run_dir={run_dir}")
    run("--mode=export", f"--input={run_dir}", f"--output={tmp_path / 'trained.safetensors'}", "--weights=last", "--weights_naming=timm")
    both = in_both_ways(train, WAYS)
    ours, (theirs, norms, after), other = [loss for _, loss in losses(run_dir)], both[0], both[1]
    apart = worst_ratio(theirs, other[0])
    assert ours == pytest.approx(theirs, rel=max(1e-6, FACTOR * apart))
    assert [point["grad_norm"] for point in metrics(run_dir, "train")] == pytest.approx(norms, rel=max(1e-5, FACTOR * apart))
    assert_moved_alike(load_file(tmp_path / "trained.safetensors"), before, after, other[2])
    record("Trainings", f"{name} taught by a ResNet-18 that sees {TEACHER_SIDE} pixels, {kind}, weight {weight:g}, temperature "
           f"{temperature:g}, mixup {mixup:g}: ten steps", f"PyTorch {torch.__version__}, timm {timm.__version__}",
           "1e-6 of the loss", worst_ratio(ours, theirs))
