"""Ten training steps of ResNet-50 in each precision beside PyTorch's: the same weights, the same batches, the same GPU.

Two runs of the same mathematics differ by rounding, which training amplifies. The scale of that difference is measured:
PyTorch runs with its algorithms chosen in several ways, and the largest difference between these runs is the scale for
ours.
"""

import torch
import torchvision

import programs
from processes import Failed
from programs import Machine
from rows import Row

LR = 0.0005  # a gentle rate, because the arithmetic is compared
MOMENTUM = 0.9
DECAY = 1e-4
LOSS_SCALE = 1024
# The factor on PyTorch's own difference that is allowed, and the difference that is always allowed: the last digits of
# the precision.
FACTOR = 4
ALWAYS = {"fp32": 1e-5, "tf32": 1e-3, "bf16": 1e-2, "fp16": 2e-3}


def sizes(smoke: bool) -> dict:
    if smoke:
        return {"model": "resnet18", "batch_size": 8, "image_size": 32, "num_classes": 10, "max_steps": 4}
    return {"model": "resnet50", "batch_size": 32, "image_size": 224, "num_classes": 1000, "max_steps": 10}


def initial_model(size: dict) -> torch.nn.Module:
    """Returns a model whose residual branches contribute little at first, so that rounding does not grow by itself."""
    torch.manual_seed(0)
    model = getattr(torchvision.models, size["model"])(num_classes=size["num_classes"])
    for name, module in model.named_modules():
        if name.endswith(".bn3" if size["model"] == "resnet50" else ".bn2"):
            module.weight.data *= 0.05
    return model


def torch_training(weights: dict, data: dict, size: dict, precision: str, device: str, way: str) -> tuple:
    """Trains with PyTorch. `way` says which algorithms cuDNN takes, fastest or deterministic, or planes: another memory format."""
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = way == "fastest", way == "deterministic"
    memory_format = torch.contiguous_format if way == "planes" else torch.channels_last
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model = getattr(torchvision.models, size["model"])(num_classes=size["num_classes"])
    model.load_state_dict(weights)
    model = model.to(device=device, memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    # Like --loss_scale=NUMBER, it does not grow.
    scaler = torch.amp.GradScaler(device, init_scale=LOSS_SCALE, growth_interval=10**6, enabled=precision == "fp16")
    losses = []
    for step in range(size["max_steps"]):
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


def dtrain_training(machine: Machine, size: dict, precision: str) -> tuple:
    folder = machine.folder
    run_dir = folder / f"parity-{precision}"
    flags = [f"--{name}={value}" for name, value in size.items()]
    if precision == "fp16":
        flags.append(f"--loss_scale={LOSS_SCALE}")
    machine.train(run_dir, *flags, f"--data_dir={folder / 'parity.safetensors'}",
                  f"--init_weights={folder / 'weights.safetensors'}", "--data_format=safetensors", "--shuffle=none",
                  f"--lr={LR}", "--lr_schedule=constant", f"--momentum={MOMENTUM}",
                  f"--weight_decay={DECAY}", "--log_interval=1", f"--precision={precision}")
    weights = programs.read_safetensors(run_dir / "model.safetensors")
    return ([point["loss"] for point in programs.metrics(run_dir, "train")],
            {name: t.float() for name, t in weights.items() if t.is_floating_point()})


def largest_difference(ours: list, theirs: list) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def movement_difference(ours: dict, theirs: dict, start: dict) -> float:
    """Returns the distance between the two results, in units of the distance that training moved."""
    apart = sum(float((ours[name] - theirs[name]).square().sum()) for name in theirs)
    moved = sum(float((theirs[name] - start[name]).square().sum()) for name in theirs)
    return (apart / moved) ** 0.5


def prepare(machine: Machine, size: dict) -> tuple[dict, dict]:
    """Makes the weights with which all runs begin, and the batches."""
    generator = torch.Generator().manual_seed(1)
    rows_of_data = size["max_steps"] * size["batch_size"]
    data = {"images": torch.randn(rows_of_data, 3, size["image_size"], size["image_size"], generator=generator),
            "labels": torch.randint(size["num_classes"], (rows_of_data,), generator=generator)}
    data["labels"][:size["num_classes"]] = torch.arange(size["num_classes"])[:rows_of_data]
    start = {name: tensor.clone() for name, tensor in initial_model(size).state_dict().items()}
    programs.write_safetensors(machine.folder / "parity.safetensors", data)
    programs.write_safetensors(machine.folder / "weights.safetensors", start)
    return start, data


def check(machine: Machine, size: dict, precision: str) -> dict:
    start, data = prepare(machine, size)
    theirs, their_weights = torch_training(start, data, size, precision, machine.device, "deterministic")
    one = {"torch_losses": theirs, "torch_difference": 0.0, "torch_movement_difference": 0.0}
    for way in ("fastest", "planes") if machine.on_gpu else ("planes",):
        others, other_weights = torch_training(start, data, size, precision, machine.device, way)
        one["torch_difference"] = max(one["torch_difference"], largest_difference(others, theirs))
        one["torch_movement_difference"] = max(one["torch_movement_difference"],
                                               movement_difference(other_weights, their_weights, start))
    ours, our_weights = dtrain_training(machine, size, precision)
    if len(ours) != size["max_steps"]:
        raise Failed(f"dtrain_main logged {len(ours)} steps of {size['max_steps']}")
    one |= {"dtrain_losses": ours, "difference": largest_difference(ours, theirs),
            "movement_difference": movement_difference(our_weights, their_weights, start)}
    one["allowed"] = max(FACTOR * one["torch_difference"], ALWAYS[precision])
    one["ok"] = one["difference"] <= one["allowed"]
    one["text"] = (f"loss differs by {one['difference']:.1e} at most (allowed {one['allowed']:.1e}; PyTorch's algorithms "
                   f"among themselves: {one['torch_difference']:.1e}), weights by {one['movement_difference']:.1e} of "
                   f"their movement ({one['torch_movement_difference']:.1e})")
    return one


def rows(arguments, machine: Machine):
    size = sizes(arguments.smoke)
    for precision in arguments.precisions:
        yield Row(precision, 40, lambda precision=precision: check(machine, size, precision))
