"""The most wanted answers, in five minutes: whether the kernels and NCCL work, how fast a step is, when training
begins, and how a step's time is spent."""

import statistics

import speed
import trace_report
from programs import Failed, LeftOut, Machine, find_test, metrics
from rows import Row

ROUNDS_OF_STARTS = 3


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


def nccl_with_one_rank(arguments, machine: Machine) -> dict:
    if not machine.on_gpu:
        raise LeftOut("NCCL is for GPUs")
    run_dir = machine.folder / "nccl"
    machine.train(run_dir, *speed.size_flags(arguments.smoke), "--data_format=synthetic", "--backend=nccl",
                  "--batch_size=32", "--precision=bf16", "--max_steps=10", "--log_interval=1", "--lr=0.01")
    losses = [point["loss"] for point in metrics(run_dir, "train")]
    return {"ok": len(losses) == 10, "losses": losses, "text": f"{len(losses)} steps"}


def step(arguments, machine: Machine) -> dict:
    where = (arguments, machine, arguments.precisions[0], arguments.batch_sizes[0])
    return speed.compare({"dtrain": lambda: speed.our_synthetic(*where), "eager": lambda: speed.their(*where)}, 1)


def our_start(arguments, machine: Machine, number: int) -> float:
    run_dir = machine.folder / f"start-{number}"
    ended = machine.train(run_dir, *speed.size_flags(arguments.smoke), "--data_format=synthetic", "--max_steps=1",
                          f"--batch_size={arguments.batch_sizes[-1]}", "--log_interval=1", "--resume=none")
    points = metrics(run_dir, "train")
    if not points:
        raise Failed("there is no line of the first step")
    return points[0]["time"] - ended.began


def their_start(arguments, machine: Machine) -> float:
    result = machine.peer(*speed.size_flags(arguments.smoke), "--precision=fp32", "--warmup=0", "--steps=1",
                          f"--batch_size={arguments.batch_sizes[-1]}")
    return result["first_step_time"] - result["began"]


def starts(arguments, machine: Machine) -> dict:
    """Returns the seconds from the start of the process to the end of its first step (fp32, synthetic data)."""
    seconds: dict[str, list] = {"dtrain": [], "eager": []}
    for number in range(1 if arguments.smoke else ROUNDS_OF_STARTS):
        seconds["dtrain"].append(our_start(arguments, machine, number))
        seconds["eager"].append(their_start(arguments, machine))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {"seconds_to_first_step": medians, "rounds": seconds,
            "text": ", ".join(f"{name} {value:.2f} s" for name, value in medians.items())}


def rows(arguments, machine: Machine):
    yield Row("own tests", 0 if arguments.smoke else 30, lambda: own_tests(machine))
    yield Row("NCCL with one rank", 0 if arguments.smoke else 15, lambda: nccl_with_one_rank(arguments, machine))
    yield Row(f"step, {arguments.precisions[0]} batch {arguments.batch_sizes[0]}", 0 if arguments.smoke else 40,
              lambda: step(arguments, machine))
    yield Row("start to first step", 0 if arguments.smoke else 30, lambda: starts(arguments, machine))
    yield Row("what a step consists of", 0 if arguments.smoke else 30,
              lambda: trace_report.check(arguments, machine))
