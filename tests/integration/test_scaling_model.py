"""Tests the scaling model's arithmetic by closed forms and by hand, its program from outside, and its predictions
against steps that are measured behind slow links."""

import json
import math
import sys
import xml.etree.ElementTree

import pytest

from command import BENCH, ROOT, run

sys.path.insert(0, str(ROOT / "scripts"))

from scaling import network, published, step  # noqa: E402
from scaling.limited_network import LimitedNetwork, Unavailable  # noqa: E402
from scaling.network import Network  # noqa: E402
from scaling.step import Plan, Step  # noqa: E402

MODEL, CHECK = ROOT / "scripts" / "scaling_model.py", ROOT / "scripts" / "scaling_check.py"
SIZE, BANDWIDTH, LATENCY = 1e8, 1e9, 1e-3


# ---- All-reduce ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 64])
def test_a_ring_between_equals(ranks):
    """The time is 2(N-1)/N · S/B and 2(N-1) hops."""
    expected = 2 * (ranks - 1) / ranks * SIZE / BANDWIDTH + 2 * (ranks - 1) * LATENCY
    assert network.ring(SIZE, ranks, Network(BANDWIDTH, LATENCY)) == pytest.approx(expected)


@pytest.mark.parametrize("ranks,hops", [(1, 0), (2, 2), (3, 4), (4, 4), (256, 16)])
def test_a_tree_passes_few_hops(ranks, hops):
    assert network.tree(0, ranks, Network(BANDWIDTH, LATENCY)) == pytest.approx(hops * LATENCY)
    assert network.tree(SIZE, ranks, Network(BANDWIDTH)) == pytest.approx(network.ring(SIZE, ranks, Network(BANDWIDTH)))


def test_nodes_of_several_ranks():
    """Four nodes of eight ranks, whose own links are ten times as fast."""
    nodes = Network(BANDWIDTH, LATENCY, local_ranks=8, local_bandwidth=10 * BANDWIDTH, local_latency=LATENCY / 10)
    turns = 2 * 31 / 32
    assert network.ring(SIZE, 32, nodes) == pytest.approx(turns * (4 * LATENCY + 28 * LATENCY / 10 + SIZE / BANDWIDTH))
    inside = 2 * 7 / 8 * SIZE / (10 * BANDWIDTH) + 2 * 7 * LATENCY / 10
    between = 2 * 3 / 4 * SIZE / BANDWIDTH + 2 * 3 * LATENCY
    assert network.hierarchical(SIZE, 32, nodes) == pytest.approx(inside + between)
    assert network.hierarchical(SIZE, 8, nodes) == pytest.approx(inside)
    assert network.ring(SIZE, 8, nodes) == pytest.approx(inside)  # with one node, the ring does not leave it
    assert network.tree(SIZE, 32, nodes) == pytest.approx(2 * (2 * LATENCY + 7 * LATENCY / 10) + 1.5 * SIZE / BANDWIDTH)


def test_the_best_is_the_tree_for_small_sizes():
    links = Network(BANDWIDTH, LATENCY)
    assert network.all_reduce(100, 64, links, "best") == network.tree(100, 64, links) < network.ring(100, 64, links)


@pytest.mark.parametrize("algorithm", network.ALGORITHMS)
def test_one_rank_has_nothing_to_reduce(algorithm):
    assert network.all_reduce(SIZE, 1, Network(BANDWIDTH, LATENCY, 8, BANDWIDTH, LATENCY), algorithm) == 0


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_fit_finds_the_network_that_was_measured(ranks):
    links = Network(BANDWIDTH, LATENCY)
    found = network.fit([(size, network.ring(size, ranks, links)) for size in (8, 1000, 1e6, 1e8)], ranks)
    assert (found.bandwidth, found.latency) == (pytest.approx(BANDWIDTH), pytest.approx(LATENCY))


def test_a_fit_reads_the_table_of_dtrain_bench():
    output = run("collective", "--operation=all_reduce", "--min_bytes=1024", "--max_bytes=1048576", "--steps=2",
                 "--json", "--nproc_per_node=2", program=BENCH)
    found = network.fit_table(json.loads(output.last_line))
    assert 1e6 < found.bandwidth < 1e12 and 0 <= found.latency < 1
    with pytest.raises(ValueError, match="two sizes"):
        network.fit_table({"results": [], "world_size": 2})


# ---- Steps -----------------------------------------------------------------------------------------------------------


def test_buckets_are_closed_by_the_gradient_that_fills_them():
    gradients = [(4, 1.0), (7, 2.0), (5, 3.0), (4, 4.0), (30, 5.0), (1, 6.0)]
    assert step.buckets(gradients, 10, first_bytes=4) == [(4, 1.0), (12, 3.0), (34, 5.0), (1, 6.0)]
    assert step.buckets(gradients, 1000, first_bytes=4) == [(4, 1.0), (47, 6.0)]
    assert step.buckets(gradients, 3, first_bytes=4) == list(gradients[:5]) + [(1, 6.0)]


@pytest.mark.parametrize("reductions,end", [
    ([], 10),
    ([(2, 3), (6, 1)], 10),  # both hidden
    ([(2, 3), (10, 4)], 14),  # the last is ready when the pass is over
    ([(2, 7), (3, 6), (10, 1)], 16),  # one reduction waits for the other
    ([(10, 3), (10, 4)], 17),  # not overlapped
])
def test_overlap_by_hand(reductions, end):
    assert step.backward_end(10, reductions) == end


STEP = Step(forward=1, backward=2, update=0.5, gradients=((2**20, 0.5), (2**20, 2.0)), exchange_bytes=1024, images=8)


def test_a_step_alone_does_not_communicate():
    found = step.predict(STEP, 1, Network(1, 1), Plan(jitter=0.1))
    assert (found.seconds, found.communication) == (pytest.approx(3.5), 0)
    assert found.images_per_second == pytest.approx(8 / 3.5)


def test_a_step_by_hand():
    """Two ranks, 1 MiB/s, no latency: a bucket takes a second, the exchange a thousandth."""
    links = Network(2**20)
    overlapped, after = (step.predict(STEP, 2, links, Plan(2**20, overlap=overlap)) for overlap in (True, False))
    exchange = 2**-10
    assert overlapped.seconds == pytest.approx(1 + 3 + exchange + 0.5)  # from 2 to 3 s: the second bucket
    assert after.seconds == pytest.approx(1 + 4 + exchange + 0.5)
    assert overlapped.communication == after.communication == pytest.approx(2 + exchange)
    assert (overlapped.hidden, after.hidden) == (pytest.approx(1 / (2 + exchange)), pytest.approx(0, abs=1e-12))
    assert step.efficiency(STEP, 2, links, Plan(2**20)) == pytest.approx(3.5 / overlapped.seconds)


@pytest.mark.parametrize("ranks,mean", [(1, 0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi)),
                                        (100, 2.5076)])
def test_the_slowest_of_several(ranks, mean):
    """Known means of the largest of N normal draws."""
    assert step.slowest_of(ranks) == pytest.approx(mean, abs=2e-3)
    late = step.predict(STEP, ranks, Network(math.inf), Plan(jitter=0.1))
    assert late.seconds == pytest.approx(3.5 * (1 + 0.1 * mean), rel=1e-3)


# ---- The programs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benched(module_dir):
    """The whole output of dtrain_bench step on two ranks, and its object."""
    output = run("step", "--model=resnet18", "--image_size=32", "--batch_size=4", "--steps=1", "--warmup=1",
                 "--num_classes=10", "--bucket_cap_mb=4", "--json", "--nproc_per_node=2", program=BENCH)
    path = module_dir / "step.txt"
    path.write_text(output.stdout, encoding="utf-8")
    return path, json.loads(output.last_line)


def test_the_models_buckets_are_the_reducers(benched):
    _, found = benched
    made = step.buckets(found["gradients"], 4 * 2**20)
    assert sorted(size for size, _ in made) == pytest.approx(sorted(found["bucket_bytes"]), rel=0.02)


def model(*flags, check=0):
    return run(MODEL, *flags, program=sys.executable, check=check)


def test_predictions_are_printed_and_drawn(benched, tmp_path):
    path, found = benched
    drawing = tmp_path / "curve.svg"
    outcome = model(f"--step={path}", "--bandwidth_gbyte=0.1", "--latency_us=10", "--ranks=1,4", "--json",
                    f"--draw={drawing}")
    one, four = json.loads(outcome.last_line)["predictions"]
    assert one["step_milliseconds"] == pytest.approx(found["compute_milliseconds"])
    assert (one["efficiency_percent"], one["communication_milliseconds"]) == (100, 0)
    # 44.7 MB through 0.1 GB/s, 2 · 3/4 times.
    assert four["communication_milliseconds"] == pytest.approx(671, rel=0.01)
    assert four["efficiency_percent"] == pytest.approx(100 * one["step_milliseconds"] / four["step_milliseconds"])
    assert f"{four['step_milliseconds']:.1f}" in outcome.stdout
    assert xml.etree.ElementTree.parse(drawing).getroot().tag.endswith("svg")


# As the posts have them: (GPUs, images/s, efficiency in %). The runs of 64 were on p3.16xlarge; only one of them reduced
# its gradients with all-reduce.
POSTS = {"64 V100, TensorFlow + Horovod": (64, 41_000, 90), "64 V100, MXNet, parameter servers": (64, 44_000, 92),
         "160 V100, over one node": (160, 100_000, 100), "256 V100, CUDA 9": (256, 143_000, 85),
         "256 V100, CUDA 10": (256, 171_000, 90)}


def test_published_runs_are_compared(benched, tmp_path):
    path, _ = benched
    assert {run.name: (run.gpus, run.images_per_second, 100 * run.efficiency) for run in published.RUNS} == POSTS
    found = json.loads(model(f"--step={path}", "--json", f"--draw={tmp_path / 'curve.svg'}").last_line)
    fitted, *others = found["rows"]
    assert found["fitted_to"] == fitted["run"] == "64 V100, TensorFlow + Horovod"
    assert fitted["error_points"] == pytest.approx(0, abs=0.01)
    for row in others:
        assert row["with_jitter_percent"] < row["communication_only_percent"]
        assert row["error_points"] == pytest.approx(row["with_jitter_percent"] - row["published_percent"])
        assert row["guess_error_points"] == pytest.approx(90 - row["published_percent"])
    assert [row["run"] for row in found["rows"] if not row["all_reduce"]] == ["64 V100, MXNet, parameter servers"]


@pytest.mark.parametrize("content", ["", "no object", "{broken", "{" * 5000, '{"step_milliseconds": 1}', "[1]",
                                     '{"forward_milliseconds": "a", "backward_milliseconds": [], "update_milliseconds": 0, "gradients": 1, "exchange_bytes": 0, "batch_size": 1}',
                                     '{"forward_milliseconds": 0, "backward_milliseconds": 0, "update_milliseconds": 0, "gradients": [[1, 1]], "exchange_bytes": 0, '
                                     '"batch_size": 1, "step_milliseconds": 1}'])
def test_a_step_that_cannot_be_read_is_refused(tmp_path, content):
    (tmp_path / "step.json").write_text(content, encoding="utf-8")
    outcome = model(f"--step={tmp_path / 'step.json'}", check=3)
    assert "error: " in outcome.stderr and "Traceback" not in outcome.stderr


def test_a_drawing_replaces_no_input(tmp_path):
    for name in ("step.json", "step.svg"):
        path = tmp_path / name
        path.write_text("{}", encoding="utf-8")
        model(f"--step={path}", "--bandwidth_gbyte=1", f"--draw={path}", check=2)
        assert path.read_text(encoding="utf-8") == "{}"
    model(f"--step={tmp_path / 'step.svg'}", "--bandwidth_gbyte=0", check=2)
    model(f"--step={tmp_path / 'none'}", "--bandwidth_gbyte=1", check=3)


def test_steps_behind_slow_links_are_compared_with_predictions():
    """No step may be faster than its links. How near the predictions are is printed: others may use this machine."""
    megabits, gradients = 200, 4 * 11_181_642  # of ResNet-18 with ten classes, in bytes
    try:
        with LimitedNetwork(2, megabits):
            pass
    except Unavailable as reason:
        pytest.skip(f"no limited network here: {reason}")
    outcome = run(CHECK, "--ranks=2", f"--megabits={megabits}", "--batch_size=4", "--steps=1", "--json",
                  f"--bench={BENCH}", program=sys.executable)
    print(outcome.stdout)
    row, = json.loads(outcome.last_line)["rows"]
    for kind in ("afterwards", "overlapped"):
        found = row[kind]
        assert found["measured"] > 0.9 * 1e3 * gradients / (megabits * 1e6 / 8)  # a tenth may pass in bursts
        assert found["predicted"] > row["compute_milliseconds"]
        assert found["error_percent"] == pytest.approx(100 * (found["predicted"] / found["measured"] - 1))
