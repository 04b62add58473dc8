"""Rows 8, 9 and 10 of the faults: failures while ranks look for each other."""

import json
import shutil
import socket
import threading

import pytest

from command import TINY, Background, load_json, run, wait_until
from ranks import FLAGS, Ranks, free_port

TIMEOUT = 3
BOUND = TIMEOUT + 2


class Listener:
    """Listens at rank 0's address. `answer` is sent to every client; None sends nothing."""

    def __init__(self, answer: bytes | None):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._answer, self._connections, self.heard = answer, [], []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            if self._answer is not None:
                connection.sendall(self._answer)
            else:
                self.heard.append(connection.recv(4096))

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for connection in (*self._connections, self._socket):
            connection.close()


@pytest.fixture
def flags(few_images, run_dir):
    return f"--data_dir={few_images}", f"--run_dir={run_dir}", "--max_steps=2", f"--init_timeout={TIMEOUT}"


@pytest.mark.fault(8, "the port is taken by a server that is none of ours, or answers nothing",
                   "an error that says so on every rank")
@pytest.mark.parametrize("answer, code, said", [
    (None, 4, "accepts connections, but does not answer"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", 2, "is not rank 0 of dtrain; it answered 'HTTP/1.1 400 Bad Request"),
    (bytes(range(128, 256)) + b"\n" + bytes(range(128, 256)), 2, "is not rank 0 of dtrain"),
])
def test_the_port_is_taken(flags, answer, code, said):
    """Rank 0 cannot listen, and the others meet another program there."""
    with Listener(answer) as listener, Ranks(*flags, port=listener.port) as ranks:
        outcomes = ranks.outcomes(ranks.began, BOUND, margin=10)
    assert (outcomes[0].code, outcomes[1].code) == (2, code), outcomes
    assert f"rank 0 cannot listen on 127.0.0.1:{listener.port}" in outcomes[0].stderr
    assert said in outcomes[1].stderr and str(listener.port) in outcomes[1].stderr, outcomes


def test_no_launcher_tells_that_its_ranks_have_ended_with_a_lost_peer(flags):
    """Who listens there by then may be rank 0 of the next attempt, which would end, too."""
    with Listener(None) as listener:
        run(*TINY, *flags, "--init_timeout=1", "--nnodes=2", "--node_rank=1", "--nproc_per_node=2", "--master_addr=127.0.0.1",
            f"--master_port={listener.port}", check=4)
    assert sorted(json.loads(hello)["rank"] for hello in listener.heard) == [2, 3]


@pytest.mark.fault(8, "a rank of another run, with a wrong token", "refused; the run goes on")
def test_a_rank_of_another_run_is_refused_and_the_run_goes_on(flags):
    port = free_port()
    with Ranks(*flags, "--run_token=ours", "--init_timeout=30", port=port, only=[0]) as ours:
        with Ranks(*flags, "--run_token=theirs", "--init_timeout=30", port=port, only=[1]) as foreign:
            refused = foreign[1].wait()
        assert refused.code == 2 and "belongs to another run" in refused.stderr, refused
        with Ranks(*flags, "--run_token=ours", "--init_timeout=30", port=port, only=[1]) as rest:
            outcomes = ours[0].wait(), rest[1].wait()
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert "refused: rank 1 (host " in outcomes[0].stderr and "belongs to another run" in outcomes[0].stderr, outcomes


@pytest.mark.fault(28, "the run token", "in no file; garbage and strangers without it are ignored")
def test_the_token_is_in_no_file_and_strangers_without_it_do_nothing(flags, run_dir):
    """A hello without the token admits nobody, whatever follows it. What else strangers send: hostile_peers_test.cc."""
    port, secret = free_port(), "a-secret-of-this-test"
    hello = {"kind": "hello", "magic": "dtrain control", "version": 2, "nonce": "00", "world_size": 2, "host": "h\x1b[2J",
             "pid": 7}
    lies = [{"kind": "proof", "proof": "0" * 64}, {"kind": "death", "rank": 1, "reason": "killed"}, {"kind": "stop"},
            {"kind": "config", "config": {"lr": 7}}]  # in the place of rank 1 first
    with Ranks(*flags, f"--run_token={secret}", "--init_timeout=30", port=port) as ranks:
        told = 0
        while told < 10 and ranks[0].process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0)) as stranger:  # never with itself
                    lines = [hello | {"rank": (told + 2) % 3 - 1}, lies[told % 5 % 4]]
                    stranger.sendall("".join(json.dumps(line) + "\n" for line in lines).encode() if told % 5 < 4 else b"GET / HTTP/1.0\r\n\r\n")
                    while stranger.recv(4096):  # until the server disconnects
                        pass
                    told += 1
            except OSError:  # not listening yet, or has hung up
                continue
        outcomes = ranks.outcomes(ranks.began, 60)
    assert [outcome.code for outcome in outcomes.values()] == [0, 0], outcomes
    assert told > 0 and "\x1b" not in outcomes[0].stderr, outcomes
    for file in run_dir.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file


def test_a_name_that_is_loopback_on_rank_zeros_machine(flags):
    """As with the line `127.0.1.1 NAME` of /etc/hosts. 2130706433 is 127.0.0.1 to every resolver."""
    place = (*FLAGS, *flags, "--init_timeout=30", "--nnodes=2", "--master_addr=2130706433", f"--master_port={free_port()}")
    with Background(*place, "--node_rank=0") as first, Background(*place, "--node_rank=1") as second:
        outcomes = first.wait(), second.wait()
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return  # there is no network
        assert f"its ranks take {probe.getsockname()[0]}" in outcomes[0].stderr, outcomes


def test_without_rank_zero(flags):
    with Ranks(*flags, only=[1]) as ranks:
        outcome = ranks.outcomes(ranks.began, BOUND, margin=10)[1]
    assert outcome.code == 4 and "rank 0 does not answer at 127.0.0.1:" in outcome.stderr, outcome


@pytest.mark.fault(9, "a rank is there twice", "refused by name")
def test_a_rank_that_is_there_twice_is_refused_by_name(flags):
    """While a third one is awaited. Which of the two comes first is open."""
    port = free_port()
    with Ranks(*flags, "--init_timeout=30", port=port, world=3, only=(0, 1)) as ranks, Ranks(*flags, "--init_timeout=30", port=port, world=3, only=(1,)) as other:
        both = ranks[1], other[1]
        wait_until(lambda: any(one.process.poll() is not None for one in both), "a refusal")
        refused, = (one.wait() for one in both if one.process.poll() is not None)
        assert refused.code == 2 and "rank 1 joined twice" in refused.stderr, refused
        assert ranks[0].process.poll() is None


@pytest.mark.fault(9, "a rank is missing", "named after --init_timeout")
def test_missing_ranks_are_named(flags):
    with Ranks(*flags, world=4, only=(0, 2)) as ranks:
        outcomes = ranks.outcomes(ranks.began, BOUND, margin=10)
    for outcome in outcomes.values():
        assert outcome.code == 4 and "waiting for 2 of 4 ranks: 1, 3 not there" in outcome.stderr, outcomes


@pytest.mark.fault(9, "another world size", "refused by name")
def test_another_world_size(flags):
    with Ranks(*flags, own={1: ("--world_size=3",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, BOUND, margin=10)
    for outcome in outcomes.values():
        assert outcome.code == 2 and "has a world size of 3, but rank 0 has 2" in outcome.stderr, outcomes


@pytest.mark.fault(10, "one flag differs on one rank", "the key is named before step 0")
def test_another_configuration(flags, run_dir):
    with Ranks(*flags, own={1: ("--lr=0.3",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, BOUND, margin=10)
    for outcome in outcomes.values():
        assert outcome.code == 2 and "rank 1 disagrees with rank 0: lr is 0.3, not 0.005" in outcome.stderr, outcomes
    assert load_json(run_dir / "error.json")["exit_code"] == 2
    assert not (run_dir / "model.safetensors").exists()


@pytest.mark.fault(10, "the data differs on one rank", "the key is named before step 0")
@pytest.mark.parametrize("place, key", [("train/red/000.jpg", "data_"), ("val", "data_val_fingerprint")])
def test_other_data(flags, own_images, place, key):
    """Without the check, the numbers would be wrong (an image is missing), or all would wait (there is no split)."""
    missing = own_images / place
    shutil.rmtree(missing) if missing.is_dir() else missing.unlink()
    with Ranks(*flags, own={1: (f"--data_dir={own_images}",)}) as ranks:
        outcomes = ranks.outcomes(ranks.began, BOUND, margin=10)
    for outcome in outcomes.values():
        assert outcome.code == 2 and f"rank 1 disagrees with rank 0: {key}" in outcome.stderr, outcomes
        assert "what to do: the same files must be in --data_dir on all machines" in outcome.stderr, outcomes
