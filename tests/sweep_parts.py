"""What the tests of scripts/sweep.py share: its modules."""

import sys

import pytest

from command import ROOT

pytest.importorskip("optuna", reason="scripts/setup.sh --tests installs it")
sys.path.insert(0, str(ROOT / "scripts"))

import sweep as script  # noqa: E402, F401
from safe_files import Failure, exit_code, shown  # noqa: E402, F401
from sweeps.machine import Share  # noqa: E402, F401
from sweeps.program import Command  # noqa: E402, F401
from sweeps.space import read_space  # noqa: E402, F401
from sweeps.study import Study  # noqa: E402, F401

SPACE = "{metric: val_top1, flags: {momentum: [0.25, 0.5, 0.75]}}"
