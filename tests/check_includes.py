#!/usr/bin/env python3
"""Checks which files may include which, and where flags, logging and threads may appear. CTest runs it: check_includes.py ROOT.

    check_includes.py ROOT         prints each violation as FILE:LINE with what to do; exit code 1 if there is one
    check_includes.py --self-test  plants one violation of each rule, and checks that it is caught

The rules are the tables below. A rule is a pattern of files, the includes that are forbidden for them, and what to do
instead.
"""

import fnmatch
import re
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple

SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
TORCH = r"(torch|ATen|c10|caffe2)/"


class Rule(NamedTuple):
    files: tuple[str, ...]  # patterns; * also matches /
    forbidden: str          # regular expression, matched at the start of the included path
    advice: str
    excepted: tuple[str, ...] = ()


INCLUDE_RULES = [
    Rule(("data/*",), r"(models|trainer)/",
         "data knows neither models nor the trainer; pass what it needs as a parameter"),
    Rule(("models/*",), r"(data|trainer)/",
         "models knows neither data nor the trainer; pass what it needs as a parameter"),
    Rule(("data/*", "models/*"), r"gflags|torch/csrc/distributed|c10d/|nccl",
         "data and models know neither flags nor ranks; the trainer passes values in"),
    Rule(("*",), r"glog/",
         "only trainer/report/log.cc includes glog (it clashes with c10's LOG); include trainer/report/log.h",
         excepted=("trainer/report/log.cc",)),
    Rule(("data/formats/*", "data/image/codecs*", "data/image/jpeg*", "data/image/png*", "data/machine/*",
          "data/pipeline/sampler*", "data/prepare/*", "data/sentences/*", "data/text/*",
          *(f"data/{name}*" for name in ("folder_names", "main", "random", "storage", "written_file"))),
         TORCH,
         "files that parse include no torch: they compile fast and fuzz easily; make tensors in the loader"),
    Rule(("trainer/device/cuda_plugin_library.cc",), r"ATen/(?!ops/empty\.h)",
         "an operator of ATen may wait for the GPU where no test without one sees it (batch_norm_gather_stats did): "
         "write a kernel, or name the operator in tests/check_includes.py once you have read what it does for CUDA"),
    Rule(("trainer/config/*", "trainer/control/*", "trainer/launch/*", "trainer/report/*"), TORCH,
         "config, control, launch and report include no torch: they compile fast; move the part that needs it"),
]

# The trainer's folders depend in one direction: each may include the folders above it that it names. Among the files
# beside the folders, the two with a main() may include what makes a run.
TRAINER_FOLDERS = {
    "config": set(),
    "checkpoint": set(),
    "launch": {"config"},
    "report": {"checkpoint", "launch"},  # only durable files and addresses
    "optim": {"config", "launch", "report"},
    "control": {"config", "launch", "report"},
    "device": {"config", "launch", "report", "control", "optim"},
    "distributed": {"config", "launch", "report", "control", "device"},
    "weights": {"config", "report", "checkpoint", "optim"},
    "tasks": {"config", "launch", "report", "checkpoint", "optim", "control", "device", "distributed", "weights"},
}
TRAINER_FOLDERS["loop"] = TRAINER_FOLDERS["tasks"] | {"tasks"}
TRAINER_FOLDERS["modes"] = TRAINER_FOLDERS["loop"] | {"loop"}
TRAINER_FOLDERS["doctor"] = TRAINER_FOLDERS["modes"] | {"modes"}
TRAINER_FOLDERS["bench"] = TRAINER_FOLDERS["modes"] | {"modes"}
RUN_FOLDERS = ("tasks", "loop", "modes", "doctor", "bench")

# A thread that is not a data::Thread forgets what each must do first. (this_thread is no thread of its own.)
THREAD = re.compile(r"\bstd::(jthread|thread\b(?!::)|async)\b|\bpthread_create\b|\bthrd_create\b")
THREAD_HOME = "data/machine/thread.h"

MAINS = {"trainer/main.cc", "trainer/bench_main.cc"}
FLAGS_HOME = "trainer/config/flags.cc"
GLOG_HOME = "trainer/report/log.cc"  # glog is set up through flags of its own


class Violation(NamedTuple):
    file: str
    line: int
    message: str


def matches(file: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns)


def without_comments(text: str) -> list[str]:
    """Returns the lines with comments blanked. String literals are kept, so an include stays readable."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    return [re.sub(r"(^|\s)//.*", "", line) for line in text.split("\n")]


def include_problems(file: str, included: str) -> Iterator[str]:
    for rule in INCLUDE_RULES:
        if matches(file, rule.files) and not matches(file, rule.excepted) and re.match(rule.forbidden, included):
            yield f"includes {included}: {rule.advice}"
    source, target = file.split("/"), included.split("/")
    if source[0] == target[0] == "trainer" and len(source) > 2 and len(target) > 2:
        allowed = TRAINER_FOLDERS.get(source[1])
        if allowed is None:
            yield f"trainer/{source[1]} is new: say in TRAINER_FOLDERS (tests/check_includes.py) what it may include"
        elif target[1] != source[1] and target[1] not in allowed:
            names = ", ".join(sorted(allowed)) or "no other folder of the trainer"
            yield f"includes {included}: trainer/{source[1]} may include {names}; move the code, or pass a value"
    elif len(source) == 2 and len(target) > 2 and target[1] in RUN_FOLDERS and file not in MAINS:
        yield f"includes {included}: only {' and '.join(sorted(MAINS))} include from {target[1]}; move the code into it"


def check_file(file: str, text: str) -> Iterator[Violation]:
    for number, line in enumerate(without_comments(text), start=1):
        found = INCLUDE.match(line)
        if found:
            for message in include_problems(file, found.group(1)):
                yield Violation(file, number, message)
        elif re.search(r"\bFLAGS_\w", re.sub(r'"(\\.|[^"\\])*"', "", line)) and file not in (FLAGS_HOME, GLOG_HOME):
            yield Violation(file, number, f"reads a FLAGS_ variable: only {FLAGS_HOME} does; use Config")
        elif THREAD.search(line) and file != THREAD_HOME:
            yield Violation(file, number, f"starts a thread by itself: make it a data::Thread ({THREAD_HOME})")


def check_tree(root: Path) -> tuple[list[Violation], int]:
    violations: list[Violation] = []
    files = sorted(p for top in ("data", "models", "trainer") for p in (root / top).rglob("*") if p.suffix in SUFFIXES)
    for path in files:
        file = path.relative_to(root).as_posix()
        violations += check_file(file, path.read_text(encoding="utf-8"))
    return violations, len(files)


# One violation of each rule: file, line.
PLANTED = [
    ("data/pipeline/loader.cc", '#include "trainer/config/config.h"'),
    ("data/pipeline/loader.h", '#include "models/registry.h"'),
    ("models/resnet.cc", '#include "data/pipeline/batch.h"'),
    ("models/layers.h", "#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>"),
    ("data/pipeline/device_feed.cc", "#  include <gflags/gflags.h>"),
    ("models/kernels/relu.cu", "#include <nccl.h>"),
    ("trainer/report/console.cc", "#include <glog/logging.h>"),
    ("data/formats/tfrecord.cc", "#include <ATen/ATen.h>"),
    ("data/random.h", "#include <c10/util/Half.h>"),
    ("trainer/device/cuda_plugin_library.cc", "#include <ATen/ops/batch_norm_gather_stats.h>"),
    ("trainer/config/problems.cc", '#include "trainer/launch/launch.h"'),
    ("trainer/report/console.h", '#include "trainer/control/join.h"'),
    ("trainer/optim/ema.cc", '#include "trainer/checkpoint/store.h"'),
    ("trainer/tasks/image_task.cc", '#include "trainer/loop/trainer.h"'),
    ("trainer/failure.cc", '#include "trainer/modes/run.h"'),
    ("trainer/surprise/new.cc", '#include "trainer/config/config.h"'),
    ("trainer/optim/sgd.cc", "const double lr = FLAGS_lr;"),
    ("data/pipeline/loader.cc", "std::vector<std::thread> threads_;"),
    ("trainer/launch/launch.cc", "const std::jthread thread([] {});"),
]
INNOCENT = [
    ("trainer/main.cc", '#include "trainer/loop/trainer.h"'),
    ("trainer/loop/trainer.cc", '#include "trainer/checkpoint/store.h"'),
    ("trainer/config/flags.cc", "config.optimizer.lr = FLAGS_lr;"),
    ("trainer/report/log.cc", "#include <glog/logging.h>"),
    ("trainer/optim/adam.cc", '// FLAGS_lr is read elsewhere; /* not here */'),
    ("trainer/optim/adam.h", '/* #include "trainer/loop/trainer.h"\n*/'),
    ("trainer/optim/lars.cc", 'Fail("FLAGS_lr is a name");'),
    ("data/machine/thread.h", "class Thread : public std::jthread {"),
    ("data/machine/limits.cc", "cores = std::thread::hardware_concurrency();"),
    ("data/formats/tfrecord.cc", '#include "data/record_source.h"'),
]


def self_test() -> int:
    failures = []
    for cases, expected in ((PLANTED, 1), (INNOCENT, 0)):
        for file, line in cases:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / file
                path.parent.mkdir(parents=True)
                path.write_text(f"// a comment\n{line}\n", encoding="utf-8")
                violations, checked = check_tree(Path(folder))
            if checked != 1 or len(violations) != expected or any(v.line != 2 for v in violations):
                failures.append(f"{file} with {line!r}: expected {expected} violation in line 2, got {violations}")
    counts = f"{len(PLANTED)} planted violations caught, {len(INNOCENT)} others let pass"
    print("\n".join(failures) or f"self-test: {counts}")
    return 1 if failures else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "trainer").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    violations, checked = check_tree(Path(sys.argv[1]))
    for violation in violations:
        print(f"{violation.file}:{violation.line}: {violation.message}")
    print(f"{checked} files checked, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
