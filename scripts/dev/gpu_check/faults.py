"""Checks what must work when features are used together, and what happens when something fails: each option for several
ranks with the one rank that a GPU has, a kill, a full GPU, a step that is not finite."""

import ctypes
import hashlib
import math
from dataclasses import replace

from inputs import make_tokens
from processes import Failed, LeftOut
from programs import Machine, metrics
from rows import Row
from workloads import RESNET50, TINY_TEXT, Case

STEPS = 10
# Relative difference of the loss at each step; training amplifies the changes by rounding and compression.
TOLERANCE = 0.05
VARIANTS = {
    "compression": ("--grad_compression=bf16",),
    "sync BN": ("--sync_bn",),
    "accumulation": ("--grad_accum_steps=2",),
    "clipping": ("--clip_norm=0.5",),
}
# These change the sums of one rank, with NCCL or without it.
CHANGES_THE_RUN = {"--grad_accum_steps=2", "--clip_norm=0.5"}
# Of 512 tokens, since the order in which attention's backward pass adds shows in longer sequences alone.
LONG_TEXT = Case(replace(TINY_TEXT, tokens_per_sample=512), 8)
TEXTS = {"padded": (), "unpadded": ("--unpad",)}


def common_flags(machine: Machine, precision: str = "bf16") -> list[str]:
    if machine.smoke:  # a text model is the smallest to save
        case = Case(TINY_TEXT, 2, "fp32")
        return [*case.flags(), f"--data_dir={make_tokens(machine, TINY_TEXT)}", "--log_interval=1"]
    return [*Case(RESNET50, 64, precision).flags(), "--data_format=synthetic", "--log_interval=1"]


def text_flags(machine: Machine, *flags: str) -> list[str]:
    case = Case(TINY_TEXT, 2, "fp32") if machine.smoke else LONG_TEXT
    folder = make_tokens(machine, case.workload, ragged=True)
    return [*case.flags(), f"--data_dir={folder}", "--log_interval=1", *flags]


def losses_of(machine: Machine, name: str, flags: list[str]) -> list[float]:
    run_dir = machine.folder / name.replace(" ", "-")
    machine.train(run_dir, *flags, f"--max_steps={STEPS}")
    losses = [point["loss"] for point in metrics(run_dir, "train")]
    if len(losses) != STEPS or not all(map(math.isfinite, losses)):
        raise Failed(f"{name}: the losses are {losses}")
    return losses


def agreement(ours: list[float], wanted: list[float], tolerance: float) -> dict:
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours, wanted, strict=True))
    return {"ok": apart <= tolerance, "losses": ours, "wanted": wanted, "difference": apart,
            "text": f"losses of {STEPS} steps differ by {apart:.1e} at most (allowed {tolerance:.0e})"}


def with_ranks_options(machine: Machine, name: str) -> dict:
    """Compares a run over NCCL (Gloo has no use with one rank) with the plain step."""
    require_nccl(machine)
    flags = common_flags(machine)
    plain = losses_of(machine, f"plain {name}", [*flags, *(flag for flag in VARIANTS[name] if flag in CHANGES_THE_RUN)])
    return agreement(losses_of(machine, name, [*flags, "--backend=nccl", *VARIANTS[name]]), plain, TOLERANCE)


def weights_of(run_dir) -> str:
    return hashlib.sha256((run_dir / "model.safetensors").read_bytes()).hexdigest()


def killed_and_resumed(machine: Machine, name: str, common: list[str]) -> dict:
    """The resumed run must be equal bit for bit, with --deterministic=run."""
    flags = [*common, "--deterministic=run", f"--max_steps={STEPS}"]
    whole, broken = machine.folder / f"whole-{name}", machine.folder / f"broken-{name}"
    machine.train(whole, *flags)
    saved = broken / "latest"
    machine.train_until(broken, lambda points: len(points) >= 6 and saved.exists(), *flags[:-1], "--max_steps=10",
                        "--save_every_seconds=0.01")
    ended = machine.train(broken, *flags, "--save_every_seconds=1000")
    resumed = "resuming from" in ended.stdout + ended.stderr
    same = weights_of(whole) == weights_of(broken)
    return {"ok": same and resumed, "resumed": resumed,
            "text": "the same bits" if same and resumed else "went on, with other bits" if resumed else "did not resume"}


def nccl_version() -> int:
    """Returns 22809 for NCCL 2.28.9: that of the library which is loaded, not the one that PyTorch was built with."""
    version = ctypes.c_int()
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(version))
    return version.value


def require_nccl(machine: Machine, ranks: int = 1) -> None:
    """More than one rank share the GPU."""
    if not machine.on_gpu:
        raise LeftOut("NCCL is for GPUs")
    if ranks > 1 and nccl_version() < 23000:
        raise LeftOut(f"NCCL {nccl_version()} does not let ranks share a GPU (23000 does)")


IMAGES = [*Case(RESNET50, 16).flags(), "--data_format=synthetic", "--ema_decay=0.9", "--clip_norm=1"]


def same_bits(machine: Machine, name: str, ranks: int, *variants: list[str], common: list[str] | None = None) -> dict:
    """Trains the same with the flags of each variant, on so many ranks at most, and compares the weights."""
    require_nccl(machine, ranks)
    bits = []
    for number, flags in enumerate(variants):
        run_dir = machine.folder / f"{name}-{number}"
        machine.train(run_dir, *(common or IMAGES), "--backend=nccl", f"--max_steps={STEPS}", *flags, env={"NCCL_MULTI_RANK_GPU_ENABLE": "1"})
        bits.append(weights_of(run_dir))
    return {"ok": len(set(bits)) == 1, "bits": bits, "text": "the same bits" if len(set(bits)) == 1 else "other bits"}


def recorded_text(machine: Machine, name: str, ranks: int) -> dict:
    """Compares recorded steps of long text with unrecorded ones, and these with each other."""
    flags = ["--deterministic=run", f"--nproc_per_node={ranks}"]
    return same_bits(machine, f"{name}-text-{ranks}", ranks, *([*flags, f"--cuda_graphs={graphs}"] for graphs in ("on", "off", "off")),
                     common=text_flags(machine, *TEXTS[name]))


def recorded(machine: Machine, ranks: int) -> dict:
    """Compares recorded steps over NCCL with unrecorded ones."""
    flags = ["--sync_bn", "--deterministic=run", f"--nproc_per_node={ranks}"]
    return same_bits(machine, f"recorded-{ranks}", ranks, *([*flags, f"--cuda_graphs={graphs}"] for graphs in ("on", "off")))


def elastic(machine: Machine) -> dict:
    """Compares numbers of ranks, which share the GPU."""
    flags = ["--deterministic=elastic", "--elastic_shards=3", "--global_batch_size=16", "--mixup=0.2"]
    return same_bits(machine, "elastic", 3, *([*flags, f"--nproc_per_node={ranks}"] for ranks in (1, 2, 3)))


def full_gpu(machine: Machine) -> dict:
    if not machine.on_gpu:
        raise LeftOut("no GPU")
    ended = machine.train(machine.folder / "full", *common_flags(machine, "fp32"), "--batch_size=8192",
                          "--prefetch_batches=1", "--max_steps=2", code=7)
    said = "--batch_size" in ended.stdout + ended.stderr
    return {"ok": said, "text": "exit code 7, with what to lower" if said else ended.words()}


def not_finite(machine: Machine) -> dict:
    """Uses a scale that no gradient survives: each step is skipped, until three have been."""
    ended = machine.train(machine.folder / "nan", *common_flags(machine, "fp32"), "--loss_scale=3e38",
                          "--max_skipped_steps=3", f"--max_steps={STEPS}", code=6)
    return {"text": "exit code 6 after three skipped steps", "words": ended.words()[-500:]}


def rows(arguments, machine: Machine):
    yield Row("killed and resumed", 60, lambda: killed_and_resumed(machine, "run", common_flags(machine)))
    for name, flags in list(TEXTS.items())[-1 if arguments.smoke else 0:]:
        yield Row(f"{name} text, killed and resumed", 30,
                  lambda name=name, flags=flags: killed_and_resumed(machine, name, text_flags(machine, *flags)))
        for ranks in (1, 2):
            yield Row(f"{name} text, recorded steps, ranks: {ranks}", 30,
                      lambda name=name, ranks=ranks: recorded_text(machine, name, ranks))
    for name in VARIANTS:
        yield Row(f"NCCL, {name}", 30, lambda name=name: with_ranks_options(machine, name))
    for ranks in (1, 2):
        yield Row(f"recorded steps over NCCL, ranks: {ranks}", 30, lambda ranks=ranks: recorded(machine, ranks))
    yield Row("elastic, ranks: 1, 2 and 3", 30, lambda: elastic(machine))
    yield Row("out of memory", 45, lambda: full_gpu(machine))
    yield Row("steps that are not finite", 15, lambda: not_finite(machine))
