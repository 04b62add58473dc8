"""Reports how a training step's time on the GPU is spent, by families of kernels, and every place in the step where the
host waits for the GPU. It reads the trace that --profile_steps writes: all kernels and all calls into CUDA, as CUPTI saw
them. A step that is replayed as one CUDA graph shows its kernels, but no host that could wait."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import inputs
from families import DEVICE_WORK, family_of
from processes import Failed
from programs import Machine
from rows import Row
from workloads import CONVNEXT, EFFICIENTNET, MODERNBERT, RESNET50, ROBERTA, VIT, Case, cases

# Calls that return only when the device is done. A synchronous copy is among them; an asynchronous one between pinned
# memory and the device is not.
WAITING = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpy2D",
           "cudaMemset", "cudaFree", "cudaFreeHost", "cudaMalloc", "cudaHostAlloc", "cuStreamSynchronize",
           "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2")
FIRST, LAST = 9, 11
KEPT, SHOWN = 40, 6  # names of kernels, in the file and in the table
RECORDED = ("--cuda_graphs=auto",)
UNRECORDED = ("--cuda_graphs=off",)
# Microseconds of a step by docs/performance.md: what the kernels move, at 3.0 TB/s.
PREDICTED = {MODERNBERT.model: {"norms": 2900, "units, rotations": 4000}, VIT.model: {"norms": 5100, "units, rotations": 8100},
             CONVNEXT.model: {"norms": 5500, "units, rotations": 7300}}
EXTRAS = ("--ema_decay=0.999", "--clip_norm=1", "--mixup=0.2")


def read_trace(path: Path) -> list[dict]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [event for event in content["traceEvents"] if event.get("ph") == "X"]


def steps_of(events: list[dict]) -> list[dict]:
    """Returns the marks of the training steps, without their copies on the GPU's timeline."""
    return [event for event in events if event["name"].startswith("train_step ") and event.get("cat") == "user_annotation"]


def thread_of(event: dict) -> tuple:
    return event["pid"], event["tid"]


def host_waits(events: list[dict]) -> list[dict]:
    """Returns the waits during a step on the threads that compute: the loop's own and the backward pass's. The loader's
    threads run no operators that the profiler sees, and may wait for storage and pinned memory."""
    waits = []
    for step in steps_of(events):
        end = step["ts"] + step["dur"]
        during = [event for event in events if step["ts"] <= event["ts"] < end]
        operators = [event for event in during if event.get("cat") == "cpu_op"]
        threads = {thread_of(step), *map(thread_of, operators)}
        for wait in during:
            if (wait.get("cat") not in ("cuda_runtime", "cuda_driver") or wait["name"] not in WAITING
                    or thread_of(wait) not in threads):
                continue
            around = [op for op in operators if thread_of(op) == thread_of(wait)
                      and op["ts"] <= wait["ts"] < op["ts"] + op["dur"]]
            outermost = max(around, key=lambda op: op["dur"])["name"] if around else "outside of operators"
            waits.append({"step": step["name"], "call": wait["name"], "in": outermost, "microseconds": wait["dur"]})
    return waits


def totals(events: list[dict], categories: tuple[str, ...], steps: int, kind: str, name_of) -> list[dict]:
    """Returns microseconds and calls per step for what name_of() makes of each event's name, the longest first."""
    times: Counter = Counter()
    calls: Counter = Counter()
    for event in events:
        if event.get("cat") in categories:
            times[name_of(event["name"])] += event["dur"]
            calls[name_of(event["name"])] += 1
    total = sum(times.values()) or 1
    return [{kind: name, "microseconds": time / steps, "calls": calls[name] / steps, "share": time / total}
            for name, time in times.most_common(KEPT)]


def busy_and_span(events: list[dict]) -> tuple[float, float]:
    """Returns the time in which the GPU worked at something, and the time from its first work to its last."""
    work = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") in DEVICE_WORK)
    busy, until = 0.0, float("-inf")
    for begin, end in work:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return busy, until - work[0][0] if work else 0.0


def summarize(events: list[dict]) -> dict:
    steps = steps_of(events)
    count = max(1, len(steps))
    category = "kernel" if any(event.get("cat") == "kernel" for event in events) else "cpu_op"
    busy, span = busy_and_span(events)
    return {"steps": len(steps), "step_microseconds": sum(step["dur"] for step in steps) / count,
            "kernels_from": category, "top": totals(events, (category,), count, "name", str),
            "families": totals(events, DEVICE_WORK, count, "family", family_of),
            "gpu_busy_microseconds": busy / count, "gpu_span_microseconds": span / count,
            "recorded": any(event["name"] == "cudaGraphLaunch" for event in events), "host_waits": host_waits(events)}


def text_of(result: dict) -> str:
    waits = Counter((wait["call"], wait["in"]) for wait in result["host_waits"])
    predicted = result.get("predicted", {})
    entries = [(entry["family"] + (f", predicted {predicted[entry['family']]} us" if entry["family"] in predicted else ""),
                entry) for entry in result["families"]]
    entries += [(f"- {entry['name'][:90]}", entry) for entry in result["top"][:SHOWN]]
    lines = [f"{result['step_microseconds']:.0f} us a step on the host{', recorded' if result['recorded'] else ''}, "
             f"{result['gpu_busy_microseconds']:.0f} of work in {result['gpu_span_microseconds']:.0f} us on the GPU",
             *[f"NOT OK the host waits: {call} in {where}, {count} times in {result['steps']} steps"
               for (call, where), count in waits.items()],
             *[f"{100 * entry['share']:5.1f} % {entry['microseconds']:9.0f} us {entry['calls']:6.1f} x {name}"
               for name, entry in entries]]
    return "\n    ".join(lines)


def check(arguments, machine: Machine, case: Case, label: str, *flags: str) -> dict:
    """Profiles steps that are fed with decoded images or with tokens from a file. The trace is kept, compressed, beside
    the report."""
    run_dir = machine.folder / f"profile-{label}"
    data = (inputs.make_tokens(machine, case.workload) if case.workload.text
            else inputs.make_images(machine, arguments.smoke))
    machine.train(run_dir, *case.flags(), f"--data_dir={data}", f"--max_steps={LAST + 2}", "--epochs=1000000",
                  f"--log_interval={LAST + 1}", f"--profile_steps={FIRST}:{LAST}", *flags)
    trace = run_dir / "profile" / "rank-0.json"
    if not trace.exists():
        raise Failed("--profile_steps has left no trace")
    kept = arguments.out.with_suffix(f".{label}.trace.json.gz")
    with trace.open("rb") as plain, gzip.open(kept, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    result = summarize(read_trace(trace)) | {"trace": str(kept), "predicted": PREDICTED.get(case.workload.model, {})}
    if result["steps"] != LAST - FIRST + 1 or (machine.on_gpu and result["kernels_from"] != "kernel"):
        raise Failed("the trace lacks steps or kernels")
    return result | {"ok": not result["host_waits"], "text": text_of(result)}


def rows(arguments, machine: Machine):
    seconds = 0 if arguments.smoke else 20

    def row(name: str, case: Case, label: str, *flags: str) -> Row:
        return Row(f"trace, {name}", seconds, lambda: check(arguments, machine, case, label, *flags))

    for case in cases(arguments.smoke, Case(RESNET50, 256), Case(EFFICIENTNET, 256), Case(ROBERTA, 32),
                      Case(MODERNBERT, 32), Case(VIT, 256), Case(CONVNEXT, 256)):
        yield row(case.name, case, case.workload.model, *UNRECORDED)
    if not arguments.smoke:
        yield row("with loss scale, average of weights, clipping, mixup", Case(RESNET50, 256, "fp16"), "extras", *UNRECORDED,
                  *EXTRAS)
        yield row("recorded", Case(RESNET50, 256), "recorded", *RECORDED)
