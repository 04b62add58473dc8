"""Reports how a training step's time is spent, and every place in it where the host waits for the GPU. It reads the
trace that --profile_steps writes (all kernels and all calls into CUDA, as CUPTI saw them)."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import speed
from programs import Failed, Machine

# Calls that return only when the device is done. A synchronous copy is among them; an asynchronous one between pinned
# memory and the device is not.
WAITING = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpy2D",
           "cudaMemset", "cudaFree", "cudaFreeHost", "cudaMalloc", "cudaHostAlloc", "cuStreamSynchronize",
           "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2")
FIRST, LAST = 8, 12
SHOWN = 15


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


def top(events: list[dict], category: str, divisor: int) -> list[dict]:
    """Returns microseconds and calls per step for each name, the longest first."""
    times: Counter = Counter()
    counts: Counter = Counter()
    for event in events:
        if event.get("cat") == category:
            times[event["name"]] += event["dur"]
            counts[event["name"]] += 1
    total = sum(times.values()) or 1
    return [{"name": name, "microseconds": time / divisor, "calls": counts[name] / divisor, "share": time / total}
            for name, time in times.most_common(SHOWN)]


def summarize(events: list[dict]) -> dict:
    steps = steps_of(events)
    category = "kernel" if any(event.get("cat") == "kernel" for event in events) else "cpu_op"
    busy = sum(event["dur"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    return {"steps": len(steps), "step_microseconds": sum(step["dur"] for step in steps) / max(1, len(steps)),
            "kernels_from": category, "top": top(events, category, max(1, len(steps))),
            "gpu_busy_microseconds": busy / max(1, len(steps)), "host_waits": host_waits(events)}


def check(arguments, machine: Machine) -> dict:
    """Checks a step with decoded data in the first of the requested precisions. The trace is kept, compressed, beside
    the report."""
    precision, batch_size = arguments.precisions[0], arguments.batch_sizes[0]
    run_dir = machine.folder / "profile"
    size = speed.sizes(arguments.smoke)
    machine.train(run_dir, f"--model={size['model']}", f"--image_size={size['image_size']}",
                  f"--data_dir={speed.make_images(machine, arguments.smoke)}", f"--batch_size={batch_size}", "--lr=0.01",
                  f"--precision={precision}", f"--max_steps={LAST + 2}", "--epochs=1000000", f"--log_interval={LAST + 1}",
                  f"--profile_steps={FIRST}:{LAST}")
    trace = run_dir / "profile" / "rank-0.json"
    if not trace.exists():
        raise Failed("--profile_steps has left no trace")
    kept = arguments.out.with_suffix(".trace.json.gz")
    with trace.open("rb") as plain, gzip.open(kept, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    result = summarize(read_trace(trace)) | {"trace": str(kept)}
    if result["steps"] != LAST - FIRST + 1 or (machine.on_gpu and result["kernels_from"] != "kernel"):
        raise Failed("the trace lacks steps or kernels")
    waits = Counter((wait["call"], wait["in"]) for wait in result["host_waits"])
    lines = [f"{result['step_microseconds']:.0f} us a step on the host, {result['gpu_busy_microseconds']:.0f} us of work on "
             "the GPU",
             *[f"NOT OK the host waits: {call} in {where}, {count} times in {result['steps']} steps"
               for (call, where), count in waits.items()],
             *[f"{100 * entry['share']:5.1f} % {entry['microseconds']:9.0f} us {entry['calls']:6.1f} x {entry['name'][:90]}"
               for entry in result["top"]]]
    return result | {"ok": not waits, "text": "\n    ".join(lines)}
