"""The fault matrix: which fault is survived, how often that was tried, and how long it took at most. A test with
`@pytest.mark.fault(NUMBER, "the fault", "the bound")` that passes leaves a record in the build folder, from which
scripts/dev/fault_matrix.py makes docs/faults.md. Its number says which row of the page it belongs to."""

import hashlib

import pytest

from command import leave_record

SECONDS, CASES = [], []  # of the test under way


def measured(seconds: float) -> None:
    """Notes the time from a fault to what the bound is about."""
    SECONDS.append(seconds)


def tried(cases: int) -> None:
    """Notes that the test has tried the fault so many times; once, unless this is called."""
    CASES.append(cases)


def record(name: str, row: int, fault: str, bound: str) -> None:
    leave_record("faults", name, {"row": row, "fault": fault, "bound": bound, "cases": sum(CASES) if CASES else 1,
                                  "seconds": max(SECONDS, default=None)})


class Recorder:
    """A plugin of pytest that leaves the records."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        SECONDS.clear()
        CASES.clear()
        outcome = yield
        mark = item.get_closest_marker("fault")
        if mark is not None and outcome.excinfo is None:
            record(hashlib.sha256(item.nodeid.encode()).hexdigest()[:16], *mark.args)
