"""Compares the speed and memory of dtrain with PyTorch eager and torch.compile (torchvision's image models, Hugging Face's
masked language models), which take turns in one run."""

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import inputs
import peers
from processes import Failed, LeftOut, NoTime
from programs import Machine, backend
from rows import Row
from workloads import (BERT, CONVNEXT, EFFICIENTNET, EFFICIENTNETV2, LONG_MODERNBERT, MODERNBERT, RESNET50, ROBERTA, ROBERTA_LARGE,
                       SMALL_VIT, VIT, XLM_ROBERTA, Case, cases, plan, plan_flags)

SYNTHETIC = (Case(RESNET50, 256), Case(RESNET50, 64), Case(EFFICIENTNET, 256), Case(RESNET50, 256, "fp16"))
DECODED = (Case(RESNET50, 256, decoded=True), Case(RESNET50, 64, decoded=True))
TEXTS = (Case(ROBERTA, 32), Case(ROBERTA, 8), Case(ROBERTA_LARGE, 8))
FAMILIES = (Case(VIT, 256), Case(CONVNEXT, 256), Case(MODERNBERT, 32), Case(BERT, 32), Case(SMALL_VIT, 256), Case(EFFICIENTNETV2, 256),
            Case(LONG_MODERNBERT, 4), Case(MODERNBERT, 32, ragged=True), Case(BERT, 32, ragged=True), Case(XLM_ROBERTA, 32))
FAMILIES_DECODED = tuple(replace(case, decoded=True) for case in FAMILIES[:2])
MODES = ("default", "reduce-overhead")
AHEAD_SECONDS = 150
RECORDING = 300  # steps in which the graphs of ragged batches' shapes are recorded


def our_synthetic(machine: Machine, case: Case, *flags: str) -> dict:
    return machine.bench("step", *case.flags(), *plan_flags(machine.smoke), backend(machine.device), *flags)


def window(points: list[dict], warmup: int) -> list[dict]:
    """Returns the lines after the warm-up."""
    return [point for point in points if point["step"] > warmup]


def timed_training(machine: Machine, warmup: int, *flags: str) -> tuple[list[dict], float]:
    """Trains until the lines of the log after the warm-up fill the time. Returns these lines, and their seconds."""
    wanted, interval = plan(machine.smoke), 1 if machine.smoke else 10
    run_dir = machine.folder / f"run-{len(list(machine.folder.iterdir()))}"

    def spent(points: list[dict]) -> float:
        return sum(point["step_seconds"] * interval for point in window(points, warmup))

    points = machine.train_until(
        run_dir, lambda points: len(window(points, warmup)) >= 2 and spent(points) >= wanted["seconds"], *flags,
        "--max_steps=1000000", "--epochs=1000000", f"--log_interval={interval}")
    return window(points, warmup), spent(points)


def our_training(machine: Machine, case: Case) -> dict:
    """Trains from files: JPEGs, or ragged rows of tokens."""
    data = inputs.make_images(machine, machine.smoke) if case.decoded else inputs.make_tokens(machine, case.workload, ragged=True)
    warmup = plan(machine.smoke)["warmup"] if case.decoded or machine.smoke else RECORDING
    lines, seconds = timed_training(machine, warmup, *case.flags(), f"--data_dir={data}", *(["--unpad"] if case.ragged else []))
    steps = len(lines) * (1 if machine.smoke else 10)
    waited = sum(line["data_seconds"] for line in lines) / sum(line["step_seconds"] for line in lines)
    return {f"{case.unit}_per_second": case.batch_size * steps / seconds, "steps": steps, "waited_for_data": waited}


def title(mode: str) -> str:
    return mode if mode == "eager" else f"compile {mode}"


def their_request(machine: Machine, case: Case, mode: str) -> dict:
    source = {"data_dir": str(inputs.make_images(machine, machine.smoke) / "train")} if case.decoded else {}
    return case.request() | plan(machine.smoke) | {"mode": mode} | source


def measure(machine: Machine, makers: dict, rounds: int) -> tuple[dict[str, list], dict[str, str], dict[str, str]]:
    """Measures each contender in turn, `rounds` times or until the time is up. Returns what was measured, what failed and
    what there was no time for."""
    results: dict[str, list] = {name: [] for name in makers}
    failed, late = {}, {}
    slowest = 0.0
    for number in range(rounds):
        for name, make in makers.items():
            if name in failed or name in late or (number > 0 and machine.seconds_left() < slowest):
                continue
            began = time.monotonic()
            try:
                results[name].append(make())
            except NoTime as reason:
                late[name] = str(reason)
            except (Failed, KeyError, OSError) as error:
                failed[name] = str(error)
            if number == 0:  # this round also loads, compiles and chooses algorithms
                slowest = max(slowest, time.monotonic() - began)
    return results, failed, late


def compare(machine: Machine, makers: dict, rounds: int, unit: str) -> dict:
    """Returns the medians of each contender, and ours over the best of the others."""
    results, failed, late = measure(machine, makers, rounds)
    speeds = {name: statistics.median(one[f"{unit}_per_second"] for one in some)
              for name, some in results.items() if some}
    if not speeds and not failed:
        raise NoTime
    memory = {name: max(one["peak_memory_mib"] for one in some) for name, some in results.items()
              if some and "peak_memory_mib" in some[0]}
    row = {f"{unit}_per_second": speeds, "peak_memory_mib": memory, "rounds": results, "no_time": late,
           "ok": not failed}
    ours = max((speed for name, speed in speeds.items() if name.startswith("dtrain")), default=0)
    others = [speed for name, speed in speeds.items() if not name.startswith("dtrain")]
    text = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items()) + f" {unit}/s"
    if ours and others:
        row["ratio_to_best_peer"] = ours / max(others)
        text += f", ratio {row['ratio_to_best_peer']:.2f}"
    if memory:
        text += "; peak " + ", ".join(f"{name} {value:.0f}" for name, value in memory.items()) + " MiB"
    if late:
        text += f"; no time for {', '.join(late)}"
    return row | {"text": text + "".join(f"; NOT OK {name}: {error}" for name, error in failed.items())}


class Contest:
    """Compares one case after another with the peers."""

    def __init__(self, machine: Machine, rounds: int, modes: tuple[str, ...]):
        self.machine, self.rounds, self.modes = machine, rounds, modes
        self.fastest_mode: dict[Case, str] = {}

    def contenders(self, case: Case) -> dict[str, Callable[[], dict]]:
        """Compiling takes a minute on a CPU and is left out of the smoke test. With JPEGs only that mode takes part that
        was the fastest with synthetic batches."""
        ours = our_training if case.decoded or case.ragged else our_synthetic
        found: dict[str, Callable[[], dict]] = {"dtrain": lambda: ours(self.machine, case)}
        fastest = self.fastest_mode.get(replace(case, decoded=False))
        modes = () if self.machine.smoke else (fastest,) if fastest else self.modes
        for mode in ("eager", *modes):
            found[title(mode)] = lambda mode=mode: self.machine.ask(their_request(self.machine, case, mode))
        return found

    def compare(self, case: Case) -> dict:
        result = compare(self.machine, self.contenders(case), self.rounds, case.unit)
        speeds = result[f"{case.unit}_per_second"]
        compiled = [mode for mode in self.modes if title(mode) in speeds]
        if compiled and not case.decoded:
            self.fastest_mode[case] = max(compiled, key=lambda mode: speeds[title(mode)])
        return result


def compiled_ahead(machine: Machine, cases: list[Case], modes: tuple[str, ...]) -> dict:
    """Fills the cache from which the comparisons compile."""
    if machine.smoke or not machine.on_gpu:
        raise LeftOut("compiling takes minutes on a CPU")
    requests = [their_request(machine, case, mode) for case in cases for mode in modes]
    errors = peers.compile_ahead(machine.device, machine.folder, requests, machine.limit(AHEAD_SECONDS))
    return {"errors": errors, "text": f"{len(requests) - len(errors)} of {len(requests)} models and modes"}


def rows(arguments, machine: Machine, compiled: tuple[Case, ...], wanted: tuple[Case, ...], modes: tuple[str, ...] = MODES):
    yield Row("compiling", 0, lambda: compiled_ahead(machine, list(compiled), modes))
    contest = Contest(machine, arguments.rounds, modes)
    for case in cases(arguments.smoke, *wanted):
        yield Row(case.name, 40, lambda case=case: contest.compare(case))


def images(arguments, machine: Machine):
    if not arguments.smoke:
        inputs.make_images(machine, arguments.smoke)
    wanted = (*SYNTHETIC[:2], DECODED[0], SYNTHETIC[2], DECODED[1], SYNTHETIC[3])
    yield from rows(arguments, machine, SYNTHETIC, DECODED if arguments.smoke else wanted)  # other parts try synthetic batches


def texts(arguments, machine: Machine):
    def without_transformers() -> dict:
        raise LeftOut("this python3 has no transformers")

    if importlib.util.find_spec("transformers") is None:
        yield Row("beside Hugging Face", 0, without_transformers)
    else:
        yield from rows(arguments, machine, TEXTS, TEXTS)


def families(arguments, machine: Machine):
    """Large batches, for which both modes of compile are as fast as each other: one is compiled."""
    wanted = FAMILIES if arguments.smoke else (*FAMILIES, *FAMILIES_DECODED)
    yield from rows(arguments, machine, FAMILIES, wanted, MODES[:1])
