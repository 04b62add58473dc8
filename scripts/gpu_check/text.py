"""Compares tokens/s and memory of a masked language model: dtrain, Hugging Face's eager and compiled, and the gain from
not computing on padding."""

import importlib.util

import speed
from programs import LeftOut, Machine, backend, write_safetensors
from rows import Row

BATCH_SIZE, SMALL_BATCH = 32, 8
VOCABULARY = 50265


def sizes(smoke: bool) -> dict:
    if smoke:
        return {"model": "roberta_tiny", "tokens_per_sample": 16, "vocab_size": 100}
    return {"model": "roberta_base", "tokens_per_sample": 512, "vocab_size": VOCABULARY}


def size_flags(smoke: bool) -> list[str]:
    return [f"--{name}={value}" for name, value in sizes(smoke).items()]


def our_step(arguments, machine: Machine, precision: str, batch_size: int, *flags: str) -> dict:
    return machine.bench("step", *size_flags(arguments.smoke), f"--batch_size={batch_size}", f"--precision={precision}",
                         "--optimizer=adamw", "--weight_decay=0.01", *speed.plan(arguments.smoke),
                         backend(machine.device), *flags)


def their_step(arguments, machine: Machine, precision: str, batch_size: int, *flags: str) -> dict:
    return machine.peer(*size_flags(arguments.smoke), f"--precision={precision}", f"--batch_size={batch_size}",
                        *speed.plan(arguments.smoke), *flags)


def beside_hugging_face(arguments, machine: Machine, precision: str, batch_size: int) -> dict:
    if importlib.util.find_spec("transformers") is None:
        raise LeftOut("this python3 has no transformers")
    where = (arguments, machine, precision, batch_size)
    makers = {"dtrain": lambda: our_step(*where), "eager": lambda: their_step(*where)}
    if not arguments.smoke:
        makers["eager, attention written out"] = lambda: their_step(*where, "--attention=eager")
        makers["compile default"] = lambda: their_step(*where, "--compile=default")
    return speed.compare(makers, arguments.rounds, "tokens")


def unpadding(arguments, machine: Machine, precision: str, batch_size: int) -> dict:
    """Uses rows of all lengths, half of whose places are padding. Only tokens that are not padding count."""
    import torch

    size = sizes(arguments.smoke)
    length, count = size["tokens_per_sample"], 8 if arguments.smoke else 4096
    folder = machine.folder / "tokens"
    if not folder.exists():
        folder.mkdir()
        torch.manual_seed(0)
        lengths = torch.randint(2, length + 1, (count, 1))
        attended = torch.arange(length).unsqueeze(0) < lengths
        ids = torch.randint(4, size["vocab_size"] - 1, (count, length)).masked_fill(~attended, 1)
        write_safetensors(folder / "train.safetensors", {"input_ids": ids, "attention_mask": attended.to(torch.uint8)})

    def trained(name: str, *flags: str) -> dict:
        run_dir = machine.folder / f"{name}-{len(list(machine.folder.iterdir()))}"
        warmup, interval, seconds = (1, 1, 0) if arguments.smoke else (speed.WARMUP_STEPS, 10, speed.TIMED_SECONDS)

        def timed(points: list[dict]) -> list[dict]:
            return speed.window(points, warmup)

        points = machine.train_until(
            run_dir, lambda points: len(timed(points)) >= 2 and interval * sum(
                point["step_seconds"] for point in timed(points)) >= seconds,
            *size_flags(arguments.smoke), f"--data_dir={folder}", "--data_format=safetensors",
            f"--batch_size={batch_size}", f"--precision={precision}", "--optimizer=adamw", "--lr=0.0001",
            "--max_steps=1000000", "--epochs=1000000", f"--log_interval={interval}", *flags)
        seconds_spent = sum(point["step_seconds"] for point in timed(points))
        tokens = sum(point["tokens_per_second"] * point["step_seconds"] for point in timed(points))
        return {"tokens_per_second": tokens / seconds_spent, "loss": timed(points)[-1]["loss"]}

    return speed.compare({"dtrain": lambda: trained("padded"), "dtrain --unpad": lambda: trained("packed", "--unpad")},
                         arguments.rounds, "tokens")


def rows(arguments, machine: Machine):
    def seconds(needed: float) -> float:
        return 0 if arguments.smoke else needed

    first = arguments.precisions[0]
    batch_sizes = (2,) if arguments.smoke else (BATCH_SIZE, SMALL_BATCH)
    for batch_size in batch_sizes:
        yield Row(f"{first} batch {batch_size}", seconds(80 * arguments.rounds),
                  lambda batch_size=batch_size: beside_hugging_face(arguments, machine, first, batch_size))
    # Flash attention supports only half types; packed fp32 takes another kernel.
    for precision in dict.fromkeys((first, "fp32")):
        yield Row(f"half of it padding, {precision} batch {batch_sizes[0]}", seconds(40 * arguments.rounds),
                  lambda precision=precision: unpadding(arguments, machine, precision, batch_sizes[0]))
