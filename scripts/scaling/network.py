"""Predicts the time of an all-reduce by closed forms of the algorithms of NCCL and Gloo, on nodes with several ranks.

A message costs latency + bytes / bandwidth, links are full-duplex, and no link is shared with anybody else. Bandwidths
are bus bandwidths as nccl-tests and `dtrain_bench collective` print them: measured, not a card's nominal speed.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    bandwidth: float  # bytes/s in each direction, of a whole node
    latency: float = 0.0  # seconds per hop between nodes
    local_ranks: int = 1  # ranks of a node
    local_bandwidth: float = math.inf  # bytes/s between the ranks of a node
    local_latency: float = 0.0  # seconds per hop between them

    def nodes(self, ranks: int) -> int:
        return -(-ranks // self.local_ranks)


def ring(size: float, ranks: int, network: Network) -> float:
    """One ring through all ranks, node by node. Each rank sends 2(N-1)/N of the data, and a chunk passes 2(N-1) hops;
    once around the ring, as many leave a node as there are nodes."""
    if ranks == 1:
        return 0.0
    nodes = network.nodes(ranks)
    turns = 2 * (ranks - 1) / ranks
    if nodes == 1:
        return turns * (ranks * network.local_latency + size / network.local_bandwidth)
    around = nodes * network.latency + (ranks - nodes) * network.local_latency
    return turns * (around + size / min(network.bandwidth, network.local_bandwidth))


def tree(size: float, ranks: int, network: Network) -> float:
    """NCCL's double binary tree: each tree carries half of the data up and down, and inner nodes of one are leaves of
    the other, so that links are used as evenly as in a ring. In a node, ranks are a chain."""
    if ranks == 1:
        return 0.0
    nodes = network.nodes(ranks)
    local = min(ranks, network.local_ranks)
    hops = 2 * (math.ceil(math.log2(nodes)) * network.latency + (local - 1) * network.local_latency)
    times = [2 * (local - 1) / local * size / network.local_bandwidth]
    if nodes > 1:
        times.append(2 * (nodes - 1) / nodes * size / network.bandwidth)
    return hops + max(times)


def hierarchical(size: float, ranks: int, network: Network) -> float:
    """Reduce-scatter in each node, a ring between nodes for each rank's share (all at once, through the node's card),
    and all-gather in each node."""
    if ranks == 1:
        return 0.0
    nodes = network.nodes(ranks)
    local = min(ranks, network.local_ranks)
    inside = 2 * (local - 1) * (network.local_latency + size / local / network.local_bandwidth)
    return inside + 2 * (nodes - 1) * (network.latency + size / nodes / network.bandwidth)


ALGORITHMS = {"ring": ring, "tree": tree, "hierarchical": hierarchical}


def all_reduce(size: float, ranks: int, network: Network, algorithm: str) -> float:
    """Returns the seconds for `size` bytes. "best" is the fastest for this size, as NCCL chooses between ring and
    tree."""
    if algorithm == "best":
        return min(ring(size, ranks, network), tree(size, ranks, network))
    return ALGORITHMS[algorithm](size, ranks, network)


def fit(measured: list[tuple[float, float]], ranks: int) -> Network:
    """Returns the latency and bandwidth of a ring of one rank per node that explain (bytes, seconds) best. Errors count
    relative to the time, so that small sizes weigh as much as large ones."""
    # seconds ≈ intercept + slope · bytes, weighted with 1 / seconds².
    weights = [1 / seconds**2 for _, seconds in measured]
    total = sum(weights)
    mean_size = sum(w * size for w, (size, _) in zip(weights, measured)) / total
    mean_time = sum(w * seconds for w, (_, seconds) in zip(weights, measured)) / total
    spread = sum(w * (size - mean_size) ** 2 for w, (size, _) in zip(weights, measured))
    both = sum(w * (size - mean_size) * (seconds - mean_time) for w, (size, seconds) in zip(weights, measured))
    slope = both / spread
    intercept = max(0.0, mean_time - slope * mean_size)
    turns = 2 * (ranks - 1) / ranks
    return Network(bandwidth=turns / slope, latency=intercept / (2 * (ranks - 1)))


def fit_table(table: dict) -> Network:
    """Fits to the object with which `dtrain_bench collective --json` ends."""
    measured = [(row["bytes"], row["in_place"]["microseconds"] / 1e6) for row in table["results"]
                if row["operation"] == "all_reduce"]
    if len({size for size, _ in measured}) < 2:
        raise ValueError("two sizes of all_reduce or more are needed: dtrain_bench collective --operation=all_reduce")
    return fit(measured, table["world_size"])
