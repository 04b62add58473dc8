"""PyTorch's side of a measurement, in a process of its own: it trains and prints one JSON object.

It does what a careful user would write: channels_last, autocast, the fused optimizer, cuDNN's benchmark mode,
normalisation on the device, and torch.compile in the mode that is asked for.
"""

import argparse
import importlib
import json
import resource
import sys
import time

import torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--num_classes", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30, help="minimum number of timed steps")
    parser.add_argument("--seconds", type=float, default=0, help="minimum seconds to time; 0: --steps decides")
    parser.add_argument("--benchmark_limit", type=int, default=10, help="number of algorithms that cuDNN times; 0: all")
    parser.add_argument("--tokens_per_sample", type=int, default=512, help="length of the samples of roberta_* models")
    parser.add_argument("--vocab_size", type=int, default=50265)
    parser.add_argument("--attention", default="sdpa", help="Hugging Face's attn_implementation")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--data_dir", default="", help="folder of images; empty: one synthetic batch on the device")
    parser.add_argument("--compile", default="", help="mode of torch.compile; empty: eager")
    return parser.parse_args()


def decoded_batches(arguments):
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose([v2.RandomResizedCrop(arguments.image_size, antialias=True), v2.RandomHorizontalFlip(),
                            v2.PILToTensor()])
    dataset = ImageFolder(arguments.data_dir, transform)
    endless = 10**9  # runs until the caller stops
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=endless)
    cuda = arguments.device == "cuda"
    loader = torch.utils.data.DataLoader(dataset, arguments.batch_size, sampler=sampler, num_workers=arguments.workers,
                                         pin_memory=cuda)
    mean = 255 * torch.tensor(MEAN, device=arguments.device).view(1, 3, 1, 1)
    std = 255 * torch.tensor(STD, device=arguments.device).view(1, 3, 1, 1)
    for images, labels in loader:
        images = images.to(arguments.device, non_blocking=True, memory_format=torch.channels_last)
        yield (images.float() - mean) / std, labels.to(arguments.device, non_blocking=True)


def synthetic_batches(arguments):
    size = arguments.image_size
    images = torch.randn(arguments.batch_size, 3, size, size, device=arguments.device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(arguments.num_classes, (arguments.batch_size,), device=arguments.device)
    while True:
        yield images, labels


def model_of(arguments) -> torch.nn.Module:
    import torchvision

    model = getattr(torchvision.models, arguments.model)(num_classes=arguments.num_classes)
    return model.to(device=arguments.device, memory_format=torch.channels_last).train()


def batches(arguments):
    return decoded_batches(arguments) if arguments.data_dir else synthetic_batches(arguments)


def loss_of(forward, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(forward(images), labels)


def optimizer_of(parameters, cuda: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True, fused=True if cuda else None)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def steps_to_time(arguments, seconds_of_one: float) -> int:
    return max(arguments.steps, int(arguments.seconds / seconds_of_one) + 1)


def main() -> None:
    arguments = parse_arguments()
    cuda = arguments.device == "cuda"
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = arguments.benchmark_limit
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = arguments.precision == "tf32"
    text = arguments.model.startswith("roberta")
    task = importlib.import_module("peer_text") if text else sys.modules[__name__]
    model = task.model_of(arguments)
    optimizer = task.optimizer_of(model.parameters(), cuda)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(arguments.precision)
    scaler = torch.amp.GradScaler(arguments.device, enabled=arguments.precision == "fp16")
    forward = torch.compile(model, mode=arguments.compile) if arguments.compile else model

    def step(*batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, low or torch.bfloat16, enabled=low is not None):
            loss = task.loss_of(forward, *batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    first_step, steps, probes = 0.0, arguments.steps, 3
    # The last steps of the warm-up show how many steps fill the time.
    for number, batch in enumerate(task.batches(arguments)):
        if number in (arguments.warmup - probes, arguments.warmup):
            synchronize(arguments.device)
            now = time.perf_counter()
            if number == arguments.warmup and number >= probes:
                steps = steps_to_time(arguments, (now - began) / probes)
            began = now
        if number == arguments.warmup + steps:
            break
        step(*batch)
        if number == 0:
            synchronize(arguments.device)
            first_step = time.time()
    synchronize(arguments.device)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    device = next(model.parameters()).device
    samples_per_second = arguments.batch_size * steps / seconds
    speed = ({"tokens_per_second": samples_per_second * arguments.tokens_per_sample} if text
             else {"images_per_second": samples_per_second})
    print(json.dumps(speed | {"steps": steps, "seconds": seconds,
                              "peak_memory_mib": peak / 2**20, "first_step_time": first_step, "device": str(device),
                              "device_name": torch.cuda.get_device_name(device) if cuda else "cpu"}))


if __name__ == "__main__":
    main()
