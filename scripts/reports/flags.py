"""The flags by which runs differ, from their config.json: those that somebody has given, without those of which it tells
that they say only where a run lies, who runs it and what it prints."""

import json

from reports.run import Run

IN_THE_TABLE = frozenset(("model", "global_batch_size"))  # in columns of their own


def given(run: Run) -> list[str]:
    """Returns the names of the flags that were given and can change the result. A run of an earlier version says less."""
    names, idle = run.start.get("given"), run.start.get("changes_no_result", ["run_dir"])
    names = names if isinstance(names, list) else [name for name in run.config if name != "start"]
    return [name for name in names if isinstance(name, str) and not (isinstance(idle, list) and name in idle)]


def differing(runs: list[Run]) -> dict[str, list]:
    """Returns the values of all runs for each flag that differs; None where a run has none. Sizes that were derived from
    other flags do not count."""
    names = dict.fromkeys(name for run in runs for name in given(run))
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
