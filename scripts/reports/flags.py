"""The flags by which runs differ, from their config.json: those that somebody has given, without those that say only
where a run lies, who runs it and what it prints."""

import json
from collections.abc import Iterable

from reports.run import Run

NOT_COMPARED = frozenset((
    "start", "mode", "dry_run", "print_config", "run_dir", "input", "output", "flagfile", "resume", "weights", "clear_log",
    "keep_checkpoints", "save_every_epochs", "save_every_seconds", "expected_hours_between_faults", "save_every_steps", "log_format", "log_interval", "tensorboard",
    "profile_steps", "on_event", "index_dir", "nproc_per_node", "nnodes", "node_rank", "max_restarts", "rank", "world_size",
    "local_rank", "master_addr", "master_port", "run_token", "metrics_port", "metrics_address", "metrics_file", "init_timeout",
    "comm_timeout"))
IN_THE_TABLE = frozenset(("model", "global_batch_size"))  # in columns of their own


def given(run: Run) -> Iterable[str]:
    """Returns the names of the flags that were given. A run that does not say so has given all."""
    start = run.config.get("start")
    names = start.get("given") if isinstance(start, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else run.config


def differing(runs: list[Run]) -> dict[str, list]:
    """Returns the values of all runs for each flag that differs; None where a run has none. Sizes that were derived from
    other flags do not count."""
    names = dict.fromkeys(name for run in runs for name in given(run) if name not in NOT_COMPARED)
    values = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: of_runs for name, of_runs in values.items() if len({words(value) for value in of_runs}) > 1}


def words(value) -> str:
    """Returns a value as it is given after --flag=."""
    if value is None or value == "":
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(one, (list, dict)) for one in value):
        return ",".join(map(words, value))
    return "…" if isinstance(value, (list, dict)) else json.dumps(value)
