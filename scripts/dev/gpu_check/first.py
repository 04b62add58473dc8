"""The most wanted answers, in seven minutes: whether the kernels and NCCL work, how fast a step is and could be, when
training begins, and how a step's time is spent."""

import statistics

import compare
import trace_report
from processes import Failed, LeftOut
from programs import Machine, find_test, metrics
from rows import Row
from workloads import CONVNEXT, EFFICIENTNET, MODERNBERT, RESNET50, ROBERTA, VIT, Case, cases

STEPS = (Case(RESNET50, 256), Case(RESNET50, 64), Case(EFFICIENTNET, 256), Case(ROBERTA, 32), Case(ROBERTA, 8),
         Case(MODERNBERT, 32), Case(VIT, 256), Case(CONVNEXT, 256))
STARTED = Case(RESNET50, 64)
ROUNDS_OF_STARTS = 2


def own_tests(machine: Machine) -> dict:
    """The tests exit with 77 if there is no GPU, which is a failure here. With --device=cpu the build may have no tests
    of GPUs."""
    if not machine.on_gpu:
        raise LeftOut("no GPU")
    ended = machine.run(find_test(machine.bin), code=None)
    lines = [line for line in ended.stdout.splitlines() if "[  FAILED  ]" in line or "[  PASSED  ]" in line
             or "[  SKIPPED ]" in line or line.startswith("skipped")]
    ok = ended.code == 0
    return {"ok": ok, "exit_code": ended.code, "text": "; ".join(dict.fromkeys(line.strip() for line in lines)),
            "output": "" if ok else (ended.stdout + ended.stderr)[-6000:]}


def nccl_with_one_rank(machine: Machine, case: Case) -> dict:
    if not machine.on_gpu:
        raise LeftOut("NCCL is for GPUs")
    run_dir = machine.folder / "nccl"
    machine.train(run_dir, *case.flags(), "--data_format=synthetic", "--backend=nccl", "--max_steps=10", "--log_interval=1")
    losses = [point["loss"] for point in metrics(run_dir, "train")]
    return {"ok": len(losses) == 10, "losses": losses, "text": f"{len(losses)} steps"}


def step(machine: Machine, case: Case) -> dict:
    result = compare.our_synthetic(machine, case)
    unit = case.workload.unit
    text = (f"{result['step_milliseconds']:.2f} ms, {result[f'{unit}_per_second']:.0f} {unit}/s, "
            f"{result['peak_memory_mib']:.0f} MiB")
    return {"result": result, "text": f"{text}; {result['roof']}" if machine.on_gpu else text}


def our_start(machine: Machine, case: Case, number: int) -> float:
    run_dir = machine.folder / f"start-{number}"
    ended = machine.train(run_dir, *case.flags(), "--data_format=synthetic", "--max_steps=1", "--log_interval=1",
                          "--resume=none")
    points = metrics(run_dir, "train")
    if not points:
        raise Failed("there is no line of the first step")
    return points[0]["time"] - ended.began


def their_start(machine: Machine, case: Case, **options) -> float:
    answer = machine.ask(case.request() | {"warmup": 0, "steps": 1} | options, fresh=not machine.smoke)
    return answer["first_step_time"] - answer["began"]


def starts(machine: Machine, case: Case) -> dict:
    """Returns the seconds from the start of the process to the end of its first step (synthetic data)."""
    seconds: dict[str, list] = {"dtrain": [], "eager": []}
    for number in range(1 if machine.smoke else ROUNDS_OF_STARTS):
        seconds["dtrain"].append(our_start(machine, case, number))
        seconds["eager"].append(their_start(machine, case))
    if not machine.smoke:
        seconds["eager, no algorithms timed"] = [their_start(machine, case, benchmark=False)]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {"seconds_to_first_step": medians, "rounds": seconds,
            "text": ", ".join(f"{name} {value:.2f} s" for name, value in medians.items())}


def rows(arguments, machine: Machine):
    started = cases(arguments.smoke, STARTED)[0]
    yield Row("own tests", 30, lambda: own_tests(machine))
    for case in cases(arguments.smoke, *STEPS):
        yield Row(f"step, {case.name}", 12, lambda case=case: step(machine, case))
    yield from trace_report.rows(arguments, machine)
    yield Row("NCCL with one rank", 15, lambda: nccl_with_one_rank(machine, started))
    yield Row(f"start to first step, {started.name}", 60, lambda: starts(machine, started))
