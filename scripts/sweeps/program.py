"""The command of a sweep: the words before its flags (a launcher or a script), and the checks of its flags and values
by the program itself before anything is trained."""

import contextlib
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from reports.run import SMALLER_IS_BETTER
from safe_files import DATA, DISK, OUT_OF_MEMORY, USAGE, Failure, parse_json, why
from sweeps.space import RESERVED, Space, as_flag_value

PROGRAM = "dtrain_main"
ROOT = Path(__file__).resolve().parents[2]
BUILT = (ROOT / "build" / "release" / "bin" / PROGRAM, ROOT / "bin" / PROGRAM)  # in the sources, and in a bundle
SECONDS_TO_ANSWER = 120
LONGEST_ANSWER = 300  # characters of a message that are repeated
FLAG = re.compile(r"^  --(\[no\])?(\w+)(?:=(\S+))?", re.MULTILINE)


def find(word: str) -> str:
    """Returns a path unchanged. A bare name is looked up on the PATH, else the program of the build or the bundle is
    used."""
    found = shutil.which(word)
    if found is None and word == PROGRAM:
        found = next((str(path) for path in BUILT if path.exists()), None)
    if found is None:
        raise Failure(f"there is no program {word}", "build it with scripts/build.sh, or name its path after --")
    return found


@dataclass
class Command:
    start: list[str]        # the words up to the program, or a script in its place
    flags: list[str]        # the flags of every trial
    program: str | None     # the program that is asked about flags; None: no checks
    # What check() asks the program for: the ranks that it starts here, the numbers of result.json of which less is better.
    local_ranks: int = field(default=1, init=False)
    smaller_is_better: list | None = field(default=None, init=False)

    @property
    def is_direct(self) -> bool:
        """Says whether the command is the program itself, without a launcher that sets the threads of its ranks."""
        return self.program is not None and len(self.start) == 1 and Path(self.start[0]).name == PROGRAM

    @classmethod
    def parse(cls, words: list[str], program: str | None) -> "Command":
        if not words:
            raise Failure("the command is missing", f"end with: -- {PROGRAM} FLAGS…")
        place = next((number for number, word in enumerate(words) if Path(word).name == PROGRAM), None)
        if place is None:
            start, flags = [find(words[0])], words[1:]
        else:
            asked = find(words[place])
            program = program or asked
            start, flags = [*words[:place], asked if shutil.which(words[place]) is None else words[place]], words[place + 1:]
            start[0] = find(start[0])
        for word in flags:
            name = word.lstrip("-").split("=")[0].replace("-", "_")
            if word.startswith("-") and name in RESERVED - {"flagfile"}:
                raise Failure(f"--{name} belongs to the sweep itself", "leave it out of the command")
        return cls(start, flags, find(program) if program else None)

    def trial(self, params: dict) -> list[str]:
        return [*self.start, *self.flags, *(f"--{name}={as_flag_value(value)}" for name, value in params.items())]

    def text(self, params: dict, environment: dict[str, str], cores: list[int]) -> str:
        """Returns the trial as a line for a shell that gives the same result: with its variables, and on its cores if a
        launcher divides those among its ranks."""
        words = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
        if cores and not self.is_direct:
            words += ["taskset", "-c", ",".join(map(str, cores))]
        return shlex.join([*words, *self.trial(params)])

    def _ask(self, *flags: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        try:
            return subprocess.run([self.program, *flags], capture_output=True, encoding="utf-8", errors="surrogateescape",
                                  timeout=SECONDS_TO_ANSWER, stdin=subprocess.DEVNULL, check=False, env=environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"{self.program} does not answer: {why(error)[:LONGEST_ANSWER]}", "try it with --help alone") from None

    def kinds(self) -> dict[str, str] | None:
        """Returns the kind of value of each flag, as --help lists it."""
        if self.program is None:
            return None
        done = self._ask("--help")
        kinds = {name: "BOOL" if negated else kind for negated, name, kind in FLAG.findall(done.stdout)}
        if done.returncode != 0 or "run_dir" not in kinds:
            raise Failure(f"{self.program} --help ended with {done.returncode} and lists no flags: {done.stderr.strip()[:LONGEST_ANSWER]}",
                          f"name {PROGRAM} by its path")
        return kinds

    def check(self, space: Space, folder: Path, environment: dict[str, str] | None = None) -> None:
        """Each listed value and each end of a range goes through the program's own checks, and the data is looked at. A
        value that is refused only together with another flag's value is found by the trial that draws both. Nothing is
        written to `folder`, the sweep's. `environment` is that of a trial."""
        if self.program is None:
            return
        for number, params in enumerate(space.corners()):
            mode = ["--dry_run", "--log_format=json", f"--run_dir={folder / 'trial'}"] if number == 0 else ["--print_config"]
            refusal = self._refusal(mode, params, environment)
            if refusal is None:
                continue
            if refusal.code != USAGE:
                raise refusal
            for name, value in params.items():
                alone = self._refusal(mode, {name: value}, environment)
                if alone is not None:
                    raise alone

    def _refusal(self, mode: list[str], params: dict, environment: dict[str, str] | None) -> Failure | None:
        values = [f"--{name}={as_flag_value(value)}" for name, value in params.items()]
        done = self._ask(*self.flags, *values, *mode, environment=environment)
        if done.returncode in (0, OUT_OF_MEMORY):  # too large a batch is a result
            self._learn(done.stdout)
            return None
        message = done.stderr.strip().splitlines() or ["no message"]
        said = next((line for line in message if "failed (" in line), message[-1])
        with contextlib.suppress(ValueError, KeyError, TypeError):  # with --log_format=json a failure is an object
            failure = parse_json(said)
            said = f"exit code {failure['exit_code']}: {failure['message']}"
        return Failure(f"{PROGRAM} refuses {' '.join(values)[:LONGEST_ANSWER]}: {said[:LONGEST_ANSWER]}",
                       "correct the space, or the flags after --", done.returncode if done.returncode in (DATA, DISK) else USAGE)

    def _learn(self, plan: str) -> None:
        """Takes them from the plan of --dry_run. --print_config prints none."""
        with contextlib.suppress(AttributeError, ValueError, IndexError, KeyError, TypeError, OverflowError):
            found = parse_json(plan.strip().splitlines()[-1])
            self.smaller_is_better = found.get(SMALLER_IS_BETTER, self.smaller_is_better)
            self.local_ranks = max(1, int(found["spawns"]), int(found["local_world_size"]))
