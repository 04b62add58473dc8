"""Records of the comparisons with other programs: what is compared with what, and the worst difference. Each comparison
leaves a record in the build folder, from which scripts/dev/truth.py makes docs/truth.md."""

import hashlib
import json

from command import leave_record


def record(kind: str, subject: str, reference: str, tolerance: str, worst: float) -> None:
    """Leaves a record. `kind` is a heading of the page; `worst` is the worst difference found, in the terms of
    `tolerance`."""
    name = hashlib.sha256(json.dumps([kind, subject, reference]).encode()).hexdigest()[:16]
    leave_record("truth", name, {"kind": kind, "subject": subject, "reference": reference, "tolerance": tolerance,
                                 "worst": float(worst)})


def worst_difference(found, expected) -> float:
    """Returns the largest absolute difference of two tensors, or lists of numbers."""
    pairs = zip(found.flatten().tolist(), expected.flatten().tolist()) if hasattr(found, "flatten") else zip(found, expected)
    return max((abs(a - b) for a, b in pairs), default=0.0)


def worst_ratio(found, expected) -> float:
    """Returns the largest relative difference of two lists of numbers, none of which is 0."""
    return max(abs(a / b - 1) for a, b in zip(found, expected, strict=True))
