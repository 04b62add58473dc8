"""The study: all trials of a sweep, in one place that every worker shares.

By default it is a file in the sweep's folder, DIR/study.journal; it is a database if --study is a URL. Locks are
flock's, in DIR, because the kernel releases those of a killed process. A trial belongs to the process that holds
DIR/trial-NNNN.lock. The training itself holds it, too, so that nobody resumes a trial while some of its processes still
run.
"""

import contextlib
import errno
import fcntl
import json
import os
import warnings
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from sweeps.failure import Failure
from sweeps.space import Space

warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # for constant_liar, which is as old as TPE's parallel use
STARTUP_TRIALS = 4  # nothing is pruned before these have ended, and no trial at its first validation
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def lock(path: Path, wait: bool) -> int | None:
    """Returns a descriptor that holds the lock, or None if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if error.errno in WITHOUT_LOCKS:
            raise Failure(f"files in {path.parent} cannot be locked", "mount Lustre with the option flock", 5) from None
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path):
    descriptor = lock(path, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


class JournalLock:
    """A lock with the interface of Optuna's own, which are files that a killed process leaves behind."""

    def __init__(self, path: Path):
        self._path = path
        self._descriptor = None

    def acquire(self) -> bool:
        self._descriptor = lock(self._path, wait=True)
        return True

    def release(self) -> None:
        os.close(self._descriptor)
        self._descriptor = None


def open_storage(where: str | None, folder: Path):
    if where and "://" in where:
        try:
            return optuna.storages.RDBStorage(where)
        except Exception as error:  # SQLAlchemy and each driver have exceptions of their own
            raise Failure(f"the study {where.split('@')[-1]} cannot be opened: {' '.join(str(error).split())[:300]}",
                          "--study is a URL such as sqlite:///FILE or postgresql://USER@HOST/NAME, or a file") from None
    path = Path(where) if where else folder / "study.journal"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return optuna.storages.JournalStorage(JournalFileBackend(str(path), JournalLock(folder / "journal.lock")))
    except (OSError, ValueError) as error:
        raise Failure(f"the study {path} cannot be read: {error}", "name another file with --study", 5) from None


class Study:
    """The trials of one space. Decides which one comes next."""

    def __init__(self, where: str | None, folder: Path, space: Space, flags: list[str], sampler: str, seed: int, prune: bool):
        self._folder, self._space, self._sampler, self._seed = folder, space, sampler, seed
        self._grid = space.grid() if sampler == "grid" else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / "study.lock"):
                self._study = optuna.create_study(
                    storage=open_storage(where, folder), study_name="sweep" if not where else folder.resolve().name,
                    direction="maximize" if space.maximize else "minimize", load_if_exists=True,
                    pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, n_warmup_steps=2) if prune else optuna.pruners.NopPruner())
                self._compare({**space.identity(), "grid": sampler == "grid", "command": flags})
        except OSError as error:
            raise Failure(f"{folder} cannot be written: {error.strerror}", "choose another --output", 5) from None

    def _compare(self, ours: dict) -> None:
        ours = json.loads(json.dumps(ours))
        theirs = self._study.user_attrs.get("space")
        if not self._study.get_trials(deepcopy=False):
            self._study.set_user_attr("space", ours)
            return
        if theirs == ours:
            return
        keys = [key for key in ours if not theirs or theirs.get(key) != ours[key]]
        if "flags" in keys and theirs:
            names = {**theirs["flags"], **ours["flags"]}
            keys = [f"--{name}" for name in names if theirs["flags"].get(name) != ours["flags"].get(name)]
        raise Failure(f"the study in {self._folder} belongs to another space: it differs in {', '.join(keys)}",
                      "use the space, sampler and command that it was started with, or name another --output")

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def next(self, wanted: int) -> tuple[optuna.Trial, int] | None:
        """Returns a trial that was begun and that nobody runs, else a new one if there are fewer than `wanted`, with
        the descriptor of its lock."""
        with locked(self._folder / "study.lock"):
            trials = self.trials()
            for known in trials:
                if known.state == TrialState.RUNNING and (held := self._lock_trial(known.number)) is not None:
                    return optuna.Trial(self._study, known._trial_id), held  # noqa: SLF001  there is no public way
            if self._grid is not None:
                wanted = min(wanted, len(self._grid))
            if len(trials) >= wanted:
                return None
            number = len(trials)
            self._study.sampler = self._make_sampler(number)
            if self._grid is not None:
                self._study.enqueue_trial(self._grid[number])
            trial = self._study.ask(self._space.distributions)
            return trial, self._lock_trial(trial.number)

    def _make_sampler(self, number: int):
        """Makes a new sampler for each trial, so that its draws do not depend on when the sweep was stopped."""
        seed = self._seed + number
        if self._sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=2 * STARTUP_TRIALS)
        return optuna.samplers.RandomSampler(seed=seed)

    def _lock_trial(self, number: int) -> int | None:
        return lock(self._folder / f"trial-{number:04}.lock", wait=False)

    def running_elsewhere(self) -> list[int]:
        return [one.number for one in self.trials() if one.state == TrialState.RUNNING]

    def tell(self, trial: optuna.Trial, state: TrialState, value: float | None = None, **facts) -> None:
        for name, fact in facts.items():
            trial.set_user_attr(name, fact)
        self._study.tell(trial, value, state=state)

    def best(self) -> optuna.trial.FrozenTrial | None:
        done = [one for one in self.trials() if one.state == TrialState.COMPLETE]
        order = max if self._space.maximize else min
        return order(done, key=lambda one: one.value) if done else None
