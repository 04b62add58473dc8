"""Ten training steps of ResNet-50 in each precision beside PyTorch's: the same weights, the same batches, the same GPU.

Two runs of the same mathematics differ by rounding, which training amplifies. How much is not guessed but measured:
PyTorch is run in two memory formats, and the difference between these two is the scale for ours.
"""

from pathlib import Path

import torch
import torchvision

import programs

STEPS = 10
LR = 0.0005  # gentle: what is compared is the arithmetic
MOMENTUM = 0.9
DECAY = 1e-4
LOSS_SCALE = 1024
# How often PyTorch's own difference is allowed, and what is always allowed: the last digits of the precision.
FACTOR = 4
ALWAYS = {"fp32": 1e-5, "tf32": 1e-3, "bf16": 1e-2, "fp16": 2e-3}


def sizes(smoke: bool) -> dict:
    if smoke:
        return {"model": "resnet18", "batch_size": 8, "image_size": 32, "num_classes": 10}
    return {"model": "resnet50", "batch_size": 32, "image_size": 224, "num_classes": 1000}


def initial_model(size: dict) -> torch.nn.Module:
    """Residual branches that say little at first, so that rounding does not grow by itself."""
    torch.manual_seed(0)
    model = getattr(torchvision.models, size["model"])(num_classes=size["num_classes"])
    for name, module in model.named_modules():
        if name.endswith(".bn3" if size["model"] == "resnet50" else ".bn2"):
            module.weight.data *= 0.05
    return model


def exact_float32(precision: str) -> None:
    allowed = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def torch_training(weights: dict, data: dict, size: dict, precision: str, device: str, memory_format) -> tuple:
    exact_float32(precision)
    model = getattr(torchvision.models, size["model"])(num_classes=size["num_classes"])
    model.load_state_dict(weights)
    model = model.to(device=device, memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    # As --loss_scale=NUMBER: it does not grow.
    scaler = torch.amp.GradScaler(device, init_scale=LOSS_SCALE, growth_interval=10**6, enabled=precision == "fp16")
    losses = []
    for step in range(STEPS):
        rows = slice(step * size["batch_size"], (step + 1) * size["batch_size"])
        images = data["images"][rows].to(device).contiguous(memory_format=memory_format)
        labels = data["labels"][rows].to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, low or torch.bfloat16, enabled=low is not None):
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).double().cpu().tolist(), {name: t.float().cpu() for name, t in
                                                         model.state_dict().items() if t.is_floating_point()}


def dtrain_training(arguments, folder: Path, size: dict, precision: str) -> tuple:
    run_dir = folder / f"parity-{precision}"
    flags = [f"--{name}={value}" for name, value in size.items()]
    if precision == "fp16":
        flags.append(f"--loss_scale={LOSS_SCALE}")
    programs.run(arguments.bin / "dtrain_main", *flags, f"--data_dir={folder / 'parity.safetensors'}",
                 f"--init_weights={folder / 'weights.safetensors'}", "--data_format=safetensors", "--shuffle=none",
                 f"--max_steps={STEPS}", f"--lr={LR}", "--lr_schedule=constant", f"--momentum={MOMENTUM}",
                 f"--weight_decay={DECAY}", "--log_interval=1", f"--precision={precision}", f"--run_dir={run_dir}",
                 "--save_every_epochs=0", programs.backend(arguments.device))
    weights = programs.read_safetensors(run_dir / "model.safetensors")
    return ([point["loss"] for point in programs.metrics(run_dir, "train")],
            {name: t.float() for name, t in weights.items() if t.is_floating_point()})


def largest_difference(ours: list, theirs: list) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def movement_difference(ours: dict, theirs: dict, start: dict) -> float:
    """The distance between the two results, in units of how far the training moved."""
    apart = sum(float((ours[name] - theirs[name]).square().sum()) for name in theirs)
    moved = sum(float((theirs[name] - start[name]).square().sum()) for name in theirs)
    return (apart / moved) ** 0.5


def check(arguments, folder: Path) -> dict:
    size = sizes(arguments.smoke)
    generator = torch.Generator().manual_seed(1)
    rows = STEPS * size["batch_size"]
    data = {"images": torch.randn(rows, 3, size["image_size"], size["image_size"], generator=generator),
            "labels": torch.randint(size["num_classes"], (rows,), generator=generator)}
    data["labels"][:size["num_classes"]] = torch.arange(size["num_classes"])[:rows]
    start = {name: tensor.clone() for name, tensor in initial_model(size).state_dict().items()}
    programs.write_safetensors(folder / "parity.safetensors", data)
    programs.write_safetensors(folder / "weights.safetensors", start)
    result = {"ok": True, "sizes": size, "precisions": {}, "summary": []}
    for precision in arguments.precisions:
        theirs, their_weights = torch_training(start, data, size, precision, arguments.device, torch.channels_last)
        others, other_weights = torch_training(start, data, size, precision, arguments.device, torch.contiguous_format)
        one = {"torch_losses": theirs,
               "torch_difference": largest_difference(others, theirs),
               "torch_movement_difference": movement_difference(other_weights, their_weights, start)}
        try:
            ours, our_weights = dtrain_training(arguments, folder, size, precision)
            one |= {"dtrain_losses": ours, "difference": largest_difference(ours, theirs),
                    "movement_difference": movement_difference(our_weights, their_weights, start)}
            one["allowed"] = max(FACTOR * one["torch_difference"], ALWAYS[precision])
            one["ok"] = one["difference"] <= one["allowed"]
            text = (f"{precision}: loss differs by {one['difference']:.1e} at most (allowed {one['allowed']:.1e}; PyTorch's "
                    f"two memory formats: {one['torch_difference']:.1e}), weights by {one['movement_difference']:.1e} of "
                    f"their movement ({one['torch_movement_difference']:.1e})")
        except (RuntimeError, ValueError, KeyError) as error:
            one |= {"ok": False, "error": str(error)}
            text = f"{precision}: {error}"
        result["precisions"][precision] = one
        result["ok"] &= one["ok"]
        result["summary"].append(("" if one["ok"] else "NOT OK ") + text)
    return result
