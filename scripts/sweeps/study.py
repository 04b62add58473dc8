"""The study: all trials of a sweep, in one place that every worker shares.

By default it is a file in the sweep's folder, DIR/study.journal; it is a database if --study is a URL. Locks are
flock's, in DIR, because the kernel releases those of a killed process. A trial belongs to the process that holds
DIR/trial-NNNN.lock. The training itself holds it, too, so that nobody resumes a trial while some of its processes still
run.
"""

import json
import os
import warnings
from pathlib import Path

import optuna
from optuna.trial import TrialState

from safe_files import DISK, USAGE, Failure, is_number, why
from sweeps.journal import Journal, lock, locked
from sweeps.space import Space

warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # for constant_liar, which is as old as TPE's parallel use
optuna.logging.set_verbosity(optuna.logging.ERROR)
STARTUP_TRIALS = 4  # nothing is pruned before these have ended, and no trial at its first validation
SEEDS = 1 << 32
SUMMARIES = ("best.json", "trials.csv", "averages.csv", "history.png", "parallel_coordinates.png", "trial-0000", "trial-0000.log")
MARKER = "study.lock"


def open_storage(where: str | None, folder: Path):
    if where and "://" in where:
        try:
            return optuna.storages.RDBStorage(where)
        except Exception as error:  # SQLAlchemy and each driver have exceptions of their own
            raise Failure(f"the study {where.split('@')[-1]} cannot be opened: {why(error)[:300]}",
                          "--study is a URL such as sqlite:///FILE or postgresql://USER@HOST/NAME, or a file") from None
    return optuna.storages.JournalStorage(Journal(Path(where) if where else folder / "study.journal"))


def claim(folder: Path) -> None:
    """Makes the folder. Refuses a run's, and one in which the sweep would replace files that it did not write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = set(os.listdir(folder))
    except OSError as error:
        raise Failure(f"{folder} cannot be written: {why(error)}", "choose another --output", DISK) from None
    if MARKER in names:
        return
    theirs = sorted(names & {*SUMMARIES, "config.json", "metrics.jsonl", "checkpoints"})
    if theirs:
        raise Failure(f"{folder} has a {theirs[0]} that no sweep has written", "choose another --output", USAGE)


class Study:
    """The trials of one space. Decides which one comes next."""

    def __init__(self, where: str | None, folder: Path, space: Space, flags: list[str], sampler: str, seed: int, prune: bool):
        self._folder, self._space, self._sampler, self._seed = folder, space, sampler, seed
        self._grid = space.grid() if sampler == "grid" else None
        claim(folder)
        with locked(folder / MARKER):
            try:
                self._study = optuna.create_study(
                    storage=open_storage(where, folder), study_name="sweep" if not where else folder.resolve().name,
                    direction="maximize" if space.maximize else "minimize", load_if_exists=True,
                    pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, n_warmup_steps=2) if prune else optuna.pruners.NopPruner())
                self._compare({**space.identity(), "grid": sampler == "grid", "command": flags})
            except (Failure, OSError):
                raise
            except Exception as error:  # Optuna replays whatever the journal or the database says
                raise Failure(f"the study of {folder} cannot be read: {type(error).__name__}: {why(error)[:300]}",
                              "name another one with --study, or another --output", DISK) from None

    def _compare(self, ours: dict) -> None:
        ours = json.loads(json.dumps(ours))
        theirs = self._study.user_attrs.get("space")
        trials = self.trials()
        if not trials:
            self._study.set_user_attr("space", ours)
            return
        if theirs != ours:
            theirs = theirs if isinstance(theirs, dict) else {}
            keys = [key for key in ours if theirs.get(key) != ours[key]]
            if "flags" in keys and isinstance(theirs.get("flags"), dict):
                names = {**theirs["flags"], **ours["flags"]}
                keys = [f"--{name}" for name in names if theirs["flags"].get(name) != ours["flags"].get(name)]
            raise Failure(f"the study in {self._folder} belongs to another space: it differs in {', '.join(keys)}",
                          "use the space, sampler and command that it was started with, or name another --output")
        for one in trials:
            values = [*one.intermediate_values.values(), *(one.values or [])]
            is_ours = one.state != TrialState.COMPLETE or one.distributions == self._space.distributions
            if not is_ours or not all(map(is_number, values)):
                raise Failure(f"trial {one.number} of the study in {self._folder} was not written by a sweep",
                              "name another study with --study, or another --output", DISK)

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def next(self, wanted: int) -> tuple[optuna.Trial, int] | None:
        """Returns a trial that was begun and that nobody runs, else a new one if there are fewer than `wanted`, with
        the descriptor of its lock."""
        with locked(self._folder / MARKER):
            trials = self.trials()
            for known in trials:
                if known.state != TrialState.RUNNING or (held := self._lock_trial(known.number)) is None:
                    continue
                if self.trials()[known.number].state == TrialState.RUNNING:
                    return self._resume(known), held
                os.close(held)  # its worker has told its end meanwhile
            # A worker that was killed may have left a trial that waits for its values.
            waiting = next((one.number for one in trials if one.state == TrialState.WAITING), None)
            if self._grid is not None:
                wanted = min(wanted, len(self._grid))
            if waiting is None and len(trials) >= wanted:
                return None
            number = len(trials) if waiting is None else waiting
            self._study.sampler = self._make_sampler(number)
            if self._grid is not None and waiting is None:
                self._study.enqueue_trial(self._grid[number])
            trial = self._study.ask(self._space.distributions)
            return trial, self._lock_trial(trial.number)

    def _resume(self, known: optuna.trial.FrozenTrial) -> optuna.Trial:
        """Returns the trial. Its worker may have been killed before it had drawn all values: those that are missing are
        drawn as they would have been."""
        self._study.sampler = self._make_sampler(known.number)
        trial = optuna.Trial(self._study, known._trial_id)  # noqa: SLF001  there is no public way
        for name, kind in self._space.distributions.items():
            if name in known.params:
                self._study.sampler.sample_independent(self._study, known, name, kind)
            else:
                trial._suggest(name, kind)  # noqa: SLF001
        return trial

    def _make_sampler(self, number: int):
        """Makes a new sampler for each trial, so that its draws do not depend on when the sweep was stopped."""
        seed = (self._seed + number) % SEEDS
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
