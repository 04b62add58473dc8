#!/usr/bin/env python3
"""Prints manifests with ${VARIABLE}s from the environment; names the ones that are not set, and exits with 2.

    IMAGE=… scripts/aws/eks/render.py scripts/aws/eks/indexed_job.yaml | kubectl apply -f -
"""

import os
import re
import sys
from pathlib import Path


def render(text: str, variables: dict) -> str:
    missing = sorted({name for name in re.findall(r"\$\{(\w+)\}", text) if not variables.get(name)})
    if missing:
        raise KeyError(", ".join(missing))
    return re.sub(r"\$\{(\w+)\}", lambda match: variables[match.group(1)], text)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    # Comments may name variables that need not be set.
    texts = ["\n".join(line for line in Path(name).read_text(encoding="utf-8").splitlines()
                       if not line.lstrip().startswith("#")) for name in sys.argv[1:]]
    try:
        print(render("\n---\n".join(texts), dict(os.environ)))
    except KeyError as error:
        print(f"error: not set: {error.args[0]}\n  what to do: export them; scripts/aws/eks/set_up.sh shows their values",
              file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
