"""The commands of the wheel (scripts/wheel.sh). Each becomes a program or a script of the bundle; `python -m dtrain` is
dtrain_main. Python is asked where its torch is, without importing it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

BUNDLE = Path(__file__).resolve().parent / "bundle"
SCRIPTS = {"dtrain_cross_validate": "cross_validate.py", "dtrain_report": "report.py", "dtrain_sweep": "sweep.py"}
EVENTS = {path.stem.removeprefix("events_to_"): path.name for path in sorted((BUNDLE / "scripts").glob("events_to_*.py"))}


def main() -> None:
    command, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    if command == "dtrain_events":
        if not arguments or arguments[0] not in EVENTS:
            print(f"usage: dtrain_main … --on_event='dtrain_events {'|'.join(EVENTS)} [--flag=value …]'", file=sys.stderr)
            sys.exit(0 if arguments == ["--help"] else 2)
        script = EVENTS[arguments.pop(0)]
    else:
        script = SCRIPTS.get(command)
    if script:
        os.execv(sys.executable, [sys.executable, BUNDLE / "scripts" / script, *arguments])
    torch = find_spec("torch")
    if torch is not None:
        os.environ.setdefault("DTRAIN_TORCH_DIR", torch.submodule_search_locations[0])
    program = BUNDLE / "bin" / ("dtrain_main" if command == "__main__.py" else command)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
