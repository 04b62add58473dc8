"""Predicts the time of a training step on N ranks, from the computation of one rank and all-reduces that run beside its
backward pass.

Buckets are filled as by c10d's reducer and reduced one after the other as they become full. The model ignores the
resources that communication takes from computation (cores, memory, a GPU's multiprocessors), other users of the
network, and data.
"""

import statistics
from dataclasses import dataclass, replace
from functools import lru_cache

from scaling import network as networks
from scaling.network import Network

FIRST_BUCKET_BYTES = 2**20  # c10d's first bucket is smaller, so that reducing begins early


@dataclass(frozen=True)
class Step:
    """One rank's step without communication, in seconds."""
    forward: float
    backward: float
    update: float
    gradients: tuple[tuple[float, float], ...]  # (bytes, seconds since the backward pass began), as they arrive
    exchange_bytes: float = 0  # reduced between the backward pass and the update: running statistics
    images: float = 1  # batch of one rank

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + self.update

    def scaled(self, factor: float) -> "Step":
        return replace(self, forward=self.forward * factor, backward=self.backward * factor,
                       update=self.update * factor,
                       gradients=tuple((size, ready * factor) for size, ready in self.gradients))

    def narrowed(self, factor: float) -> "Step":
        """Returns the step with gradients of another size, as in fp16."""
        return replace(self, gradients=tuple((size * factor, ready) for size, ready in self.gradients))


def from_bench(found: dict) -> Step:
    """Reads the object with which `dtrain_bench step --json` ends. Its parts were measured separately, which slows them
    on a GPU, so they are scaled to the step that was measured as a whole."""
    step = Step(found["forward_milliseconds"] / 1e3, found["backward_milliseconds"] / 1e3,
                found["update_milliseconds"] / 1e3,
                tuple((size, milliseconds / 1e3) for size, milliseconds in found["gradients"]),
                found["exchange_bytes"], found["batch_size"])
    alone = found.get("compute_milliseconds", found["step_milliseconds"]) / 1e3
    return step.scaled(alone / step.seconds)


def buckets(gradients, cap_bytes: float, first_bytes: float = FIRST_BUCKET_BYTES) -> list[tuple[float, float]]:
    """Returns (bytes, ready) in the order of reduction. The gradient that fills a bucket closes it; the last one may be
    smaller."""
    made: list[tuple[float, float]] = []
    size = 0.0
    for number, (bytes_, ready) in enumerate(gradients):
        size += bytes_
        if size >= (cap_bytes if made else min(first_bytes, cap_bytes)) or number == len(gradients) - 1:
            made.append((size, ready))
            size = 0.0
    return made


def backward_end(backward: float, reductions: list[tuple[float, float]]) -> float:
    """Returns when the last gradient is reduced. `reductions` are (ready, seconds), one at a time, in order; all times
    are seconds since the backward pass began."""
    end = 0.0
    for ready, seconds in reductions:
        end = max(end, ready) + seconds
    return max(backward, end)


@dataclass(frozen=True)
class Plan:
    """The choices about the communication."""
    bucket_cap_bytes: float = 25 * 2**20
    algorithm: str = "ring"
    overlap: bool = True
    jitter: float = 0.0  # standard deviation of a rank's time for a step, as a fraction of it


@dataclass(frozen=True)
class Prediction:
    ranks: int
    seconds: float
    communication: float  # seconds of all reductions and the exchange, hidden or not
    waiting: float  # seconds of waiting for the slowest rank
    hidden: float  # the part of the communication, 0 to 1, that costs no time
    images_per_second: float


@lru_cache(maxsize=None)
def slowest_of(ranks: int) -> float:
    """Returns the mean of the largest of N standard normal draws: how many deviations the slowest rank is late on
    average."""
    normal = statistics.NormalDist()
    steps = 20_000
    return sum(normal.inv_cdf(((i + 0.5) / steps) ** (1 / ranks)) for i in range(steps)) / steps


def predict(step: Step, ranks: int, network: Network, plan: Plan) -> Prediction:
    late = 1 + plan.jitter * slowest_of(ranks)
    slowest = step.scaled(late)

    def reduce(size: float) -> float:
        return networks.all_reduce(size, ranks, network, plan.algorithm)

    made = buckets(slowest.gradients, plan.bucket_cap_bytes)
    reductions = [(ready if plan.overlap else slowest.backward, reduce(size)) for size, ready in made]
    exchange = reduce(step.exchange_bytes) if step.exchange_bytes else 0.0
    backward = backward_end(slowest.backward, reductions)
    seconds = slowest.forward + backward + exchange + slowest.update
    communication = sum(duration for _, duration in reductions) + exchange
    exposed = seconds - slowest.seconds
    return Prediction(ranks, seconds, communication, waiting=slowest.seconds - step.seconds,
                      hidden=1 - exposed / communication if communication > 0 else 0.0,
                      images_per_second=ranks * step.images / seconds)


def efficiency(step: Step, ranks: int, network: Network, plan: Plan, baseline_ranks: int = 1) -> float:
    """Returns images/s per rank, relative to those of `baseline_ranks`."""
    baseline = predict(step, baseline_ranks, network, plan)
    return baseline.seconds / predict(step, ranks, network, plan).seconds
