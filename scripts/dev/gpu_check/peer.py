"""PyTorch's side of a measurement, in a process of its own. It reads one request a line, as JSON, trains what the request
says, and answers with one JSON object a line. A model that was compiled once stays so.

It does what a careful user would write: channels_last, autocast, the fused optimizer, cuDNN's benchmark mode,
normalisation on the device, Hugging Face's models with scaled-dot-product attention, and torch.compile for fixed shapes
in the mode that is asked for.
"""

import argparse
import functools
import itertools
import json
import os
import resource
import sys
import time

import torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MASKED = 0.15
PROBES = 3
LENGTHS = 16  # batches of ragged samples that differ
DEFAULTS = {"mode": "eager", "benchmark": True, "data_dir": "", "ragged": False, "warmup": 10, "steps": 10, "seconds": 0,
            "workers": len(os.sched_getaffinity(0))}
# By dtrain's name: the beginning of transformers' classes, and the differences from their configuration's defaults.
ROBERTA = {"type_vocab_size": 1}
TEXTS = {
    "roberta_tiny": ("Roberta", ROBERTA | {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
                                           "intermediate_size": 512}),
    "roberta_base": ("Roberta", ROBERTA),
    "roberta_large": ("Roberta", ROBERTA | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                                            "intermediate_size": 4096}),
    "xlm_roberta_base": ("XLMRoberta", ROBERTA),
    "bert_base": ("Bert", {}),
    "distilbert_base": ("DistilBert", {}),
    "modernbert_base": ("ModernBert", {"reference_compile": False}),
}


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def decoded_batches(request: dict, device: str):
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose([v2.RandomResizedCrop(request["image_size"], antialias=True), v2.RandomHorizontalFlip(),
                            v2.PILToTensor()])
    dataset = ImageFolder(request["data_dir"], transform)
    endless = 10**9  # runs until the caller stops
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=endless)
    loader = torch.utils.data.DataLoader(dataset, request["batch_size"], sampler=sampler, num_workers=request["workers"],
                                         pin_memory=device == "cuda")
    mean = 255 * torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    std = 255 * torch.tensor(STD, device=device).view(1, 3, 1, 1)
    for images, labels in loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        yield (images.float() - mean) / std, labels.to(device, non_blocking=True)


def synthetic_images(request: dict, device: str):
    size = request["image_size"]
    images = torch.randn(request["batch_size"], 3, size, size, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(request["num_classes"], (request["batch_size"],), device=device)
    while True:
        yield images, labels


def masked_tokens(request: dict, device: str):
    shape = (request["batch_size"], request["tokens_per_sample"])
    ids = torch.randint(4, request["vocab_size"], shape, device=device)
    labels = ids.masked_fill(torch.rand(shape, device=device) >= MASKED, -100)
    if not request["ragged"]:
        while True:
            yield {"input_ids": ids, "labels": labels},
    lengths = torch.randint(1, max(2, 2 * shape[1] // 3), (LENGTHS, shape[0], 1), device=device)
    for number in itertools.count():
        attended = torch.arange(shape[1], device=device) < lengths[number % LENGTHS]
        yield {"input_ids": ids, "labels": labels.masked_fill(~attended, -100), "attention_mask": attended.long()},


def batches_of(request: dict, device: str):
    if "tokens_per_sample" in request:
        return masked_tokens(request, device)
    return decoded_batches(request, device) if request["data_dir"] else synthetic_images(request, device)


def text_model(name: str, tokens_per_sample: int, vocab_size: int) -> torch.nn.Module:
    os.environ.setdefault("USE_TF", "0")  # transformers would load TensorFlow if it is installed
    import transformers

    classes, fields = TEXTS[name]
    config = getattr(transformers, f"{classes}Config")(vocab_size=vocab_size, max_position_embeddings=tokens_per_sample + 2,
                                                       attn_implementation="sdpa", **fields)
    return getattr(transformers, f"{classes}ForMaskedLM")(config)


def image_model(name: str, num_classes: int) -> torch.nn.Module:
    import torchvision

    if hasattr(torchvision.models, name):
        return getattr(torchvision.models, name)(num_classes=num_classes)
    import timm

    return timm.create_model(name, num_classes=num_classes)


class Training:
    """A model with its optimizer, and its compiled forms. All cases of the model share it."""

    def __init__(self, request: dict, device: str):
        torch.manual_seed(0)
        self.text = "tokens_per_sample" in request
        fused = True if device == "cuda" else None
        if self.text:
            with torch.device(device):
                self.model = text_model(request["model"], request["tokens_per_sample"], request["vocab_size"]).train()
        else:
            model = image_model(request["model"], request["num_classes"])
            self.model = model.to(device=device, memory_format=torch.channels_last).train()
        if request["adamw"]:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                             nesterov=True, fused=fused)
        self.device = device
        self.forwards = {"eager": self.model}
        self.peaks: dict[tuple, float] = {}

    def step_of(self, request: dict):
        """Returns a function that trains one batch."""
        mode = request["mode"]
        if mode not in self.forwards:
            torch._dynamo.config.recompile_limit = 64  # each shape and precision is compiled on its own
            self.forwards[mode] = torch.compile(self.model, mode=mode, dynamic=False)
        forward = self.forwards[mode]
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(request["precision"])
        scaler = torch.amp.GradScaler(self.device, enabled=low is torch.float16)

        def loss_of(values, labels=None) -> torch.Tensor:
            return forward(**values).loss if self.text else torch.nn.functional.cross_entropy(forward(values), labels)

        def step(*batch) -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device, low or torch.bfloat16, enabled=low is not None):
                loss = loss_of(*batch)
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()

        return step

    def own_bytes(self) -> int:
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [*self.model.parameters(), *self.model.buffers(), *filter(torch.is_tensor, states)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@functools.cache
def training_of(model: str, device: str, shape: str) -> Training:
    return Training(json.loads(shape), device)


def peak_memory(training: Training, request: dict, others: float) -> float:
    """Returns MiB, without those that other models and recorded graphs keep in this process. A graph allocates only while
    it is recorded, so the most that was seen of a case counts."""
    if training.device != "cuda":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    case = request["mode"], request["precision"], request["batch_size"], request["ragged"]
    peak = (torch.cuda.max_memory_allocated() - others) / 2**20
    training.peaks[case] = max(peak, training.peaks.get(case, 0))
    return training.peaks[case]


def train(request: dict, device: str) -> dict:
    torch.backends.cudnn.benchmark = request["benchmark"]
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = request["precision"] == "tf32"
    shape = {name: request[name] for name in ("model", "adamw", "image_size", "num_classes", "tokens_per_sample", "vocab_size")
             if name in request}
    training = training_of(request["model"], device, json.dumps(shape))
    training.optimizer.zero_grad(set_to_none=True)
    others = torch.cuda.memory_allocated() - training.own_bytes() if device == "cuda" else 0
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step = training.step_of(request)
    # The loader's workers have prepared two batches each when the first step begins.
    warmup = request["warmup"] if not request["data_dir"] else max(request["warmup"], 2 * request["workers"])
    first_step, steps, began = 0.0, request["steps"], time.perf_counter()
    batches = batches_of(request, device)
    for number, batch in enumerate(batches):
        if number in (warmup - PROBES, warmup):
            synchronize(device)
            now = time.perf_counter()
            # The last steps of the warm-up show how many steps fill the time.
            if number == warmup and warmup >= PROBES:
                steps = max(steps, int(request["seconds"] * PROBES / (now - began)) + 1)
            # Choosing algorithms takes memory that the training does not need.
            if number == warmup and device == "cuda" and request["mode"] != "reduce-overhead":
                torch.cuda.reset_peak_memory_stats()
            began = now
        if number == warmup + steps:
            break
        step(*batch)
        if number == 0:
            synchronize(device)
            first_step = time.time()
    synchronize(device)
    seconds = time.perf_counter() - began
    batches.close()
    unit, samples = (("samples", 1) if request["ragged"] else ("tokens", request["tokens_per_sample"]) if training.text
                     else ("images", 1))
    return {f"{unit}_per_second": request["batch_size"] * samples * steps / seconds, "steps": steps, "seconds": seconds,
            "peak_memory_mib": peak_memory(training, request, others), "first_step_time": first_step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device = parser.parse_args().device
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for line in sys.stdin:
        request = DEFAULTS | json.loads(line)
        answer = train(request, device)
        if device == "cuda":
            torch.cuda.empty_cache()  # the memory is needed by the other side
        name = torch.cuda.get_device_name(0) if device == "cuda" else "cpu"
        print(json.dumps(answer | {"device": str(torch.empty(0, device=device).device), "device_name": name}),
              file=answers, flush=True)


if __name__ == "__main__":
    main()
