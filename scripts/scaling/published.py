"""Published runs of ResNet-50 on AWS, and the model's predictions for them.

Known of each run are GPUs, images/s and scaling efficiency. The assumptions about everything else are in this file and
are printed with the table. A GPU's own speed follows from the figures (images/s ÷ GPUs ÷ efficiency); dtrain_bench
measures how its step is divided into forward, backward and the arrival of gradients.
"""

from dataclasses import dataclass, replace

from scaling.network import Network
from scaling.step import Plan, Step, efficiency

V100S_OF_A_NODE = 8
BATCH_OF_A_GPU = 256
# Gradients are fp16, half of the bytes that dtrain_bench measures in fp32.
FP16 = 0.5

# NVLink between the V100s of a node. We have not measured it, and it hardly matters beside the links between nodes.
LOCAL_BANDWIDTH, LOCAL_LATENCY = 130e9, 5e-6
# The largest bus bandwidths of all-reduce in AWS's EKS post: sockets, and one EFA card of 100 Gbit/s. The published runs
# were on p3.16xlarge, which have 25 Gbit/s; the other network is only drawn, for what a faster one would give.
NETWORK = Network(2.38e9, 50e-6, V100S_OF_A_NODE, LOCAL_BANDWIDTH, LOCAL_LATENCY)
FASTER_NETWORK = Network(5.89e9, 25e-6, V100S_OF_A_NODE, LOCAL_BANDWIDTH, LOCAL_LATENCY)

ASSUMPTIONS = (
    "nodes of 8 V100, batch 256 and fp16 gradients (51 MB) per GPU, one ring through all GPUs",
    "25 Gbit/s (p3.16xlarge): 2.38 GB/s, the best that AWS's EKS post shows for sockets; 50 µs a hop",
    "in a node: 130 GB/s, 5 µs a hop",
    "no time for data; no computation is slowed by communication",
)


@dataclass(frozen=True)
class Published:
    name: str
    gpus: int
    images_per_second: float
    efficiency: float
    baseline_gpus: int = 1  # the run that counts as 100 %
    all_reduce: bool = True  # the model is of all-reduce; parameter servers communicate in another way

    @property
    def images_per_second_alone(self) -> float:
        return self.images_per_second / self.gpus / self.efficiency


# The first run is the one that the model is fitted to. The post on 160 GPUs counts from one node on, and its "linear" is
# read off a curve.
RUNS = (
    Published("64 V100, TensorFlow + Horovod", 64, 41_000, 0.90),
    Published("64 V100, MXNet, parameter servers", 64, 44_000, 0.92, all_reduce=False),
    Published("160 V100, over one node", 160, 100_000, 1.0, baseline_gpus=V100S_OF_A_NODE),
    Published("256 V100, CUDA 9", 256, 143_000, 0.85),
    Published("256 V100, CUDA 10", 256, 171_000, 0.90),
)


def step_of(run: Published, measured: Step) -> Step:
    """Returns a V100's step of the published length, in the measured proportions."""
    seconds = BATCH_OF_A_GPU / run.images_per_second_alone
    step = measured.scaled(seconds / measured.seconds).narrowed(FP16)
    return replace(step, images=BATCH_OF_A_GPU)


def efficiency_of(run: Published, measured: Step, jitter: float) -> float:
    return efficiency(step_of(run, measured), run.gpus, NETWORK, Plan(jitter=jitter), run.baseline_gpus)


def explaining_jitter(run: Published, measured: Step) -> float:
    """Returns how much a rank's step must vary for the model to give the published efficiency, or 0 if the model's is
    lower without any variation."""
    low, high = 0.0, 0.5
    for _ in range(40):
        middle = (low + high) / 2
        if efficiency_of(run, measured, middle) > run.efficiency:
            low = middle
        else:
            high = middle
    return low


def compare(measured: Step) -> dict:
    """Fits one figure, the jitter, to the first run, and predicts the others with it. `guess_error_points` is how far off
    one would be by expecting the first run's efficiency everywhere: a model is worth something if it does better."""
    fitted, jitter = RUNS[0], explaining_jitter(RUNS[0], measured)
    rows = []
    for run in RUNS:
        predicted = efficiency_of(run, measured, jitter)
        rows.append({"run": run.name, "gpus": run.gpus, "all_reduce": run.all_reduce,
                     "published_percent": 100 * run.efficiency,
                     "communication_only_percent": 100 * efficiency_of(run, measured, 0.0),
                     "with_jitter_percent": 100 * predicted,
                     "error_points": 100 * (predicted - run.efficiency),
                     "guess_error_points": 100 * (fitted.efficiency - run.efficiency)})
    return {"rows": rows, "jitter": jitter, "fitted_to": fitted.name, "assumptions": list(ASSUMPTIONS)}


def curves(measured: Step, jitter: float, most_gpus: int = 1024) -> dict[str, list[tuple[int, float]]]:
    """Returns, by name, (GPUs, efficiency) from one GPU to `most_gpus`, for the first run's step."""
    step = step_of(RUNS[0], measured)
    counts = [2**power for power in range(most_gpus.bit_length())]
    lines = {"25 Gbit/s, communication only": (NETWORK, 0.0), "25 Gbit/s, and jitter": (NETWORK, jitter),
             "100 Gbit/s, and jitter": (FASTER_NETWORK, jitter)}
    return {name: [(gpus, efficiency(step, gpus, network, Plan(jitter=varied))) for gpus in counts]
            for name, (network, varied) in lines.items()}
