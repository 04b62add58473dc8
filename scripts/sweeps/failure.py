"""The error with which a sweep ends: one sentence, what to do, and an exit code of dtrain_main's list."""

USAGE = 2
DATA = 3
DIVERGED = 6
OUT_OF_MEMORY = 7
PREEMPTED = 75


class Failure(Exception):
    def __init__(self, what: str, remedy: str, code: int = USAGE):
        super().__init__(what)
        self.remedy = remedy
        self.code = code
