"""EC2's notice that a Spot instance goes leads to a save (scripts/with_notices.sh), against a stand-in for the metadata service."""

import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from command import MAIN, ROOT, TINY, run

SCRIPT = ROOT / "scripts" / "with_notices.sh"
SPOT, REBALANCE = "spot/instance-action", "events/recommendations/rebalance"


class Metadata(BaseHTTPRequestHandler):
    """Version 2: whoever shows no token learns nothing."""

    answers: dict[str, str] = {}

    def do_PUT(self):
        known = self.path == "/latest/api/token" and int(self.headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
        self.answer("the-token" if known else None)

    def do_GET(self):
        path = self.path.removeprefix("/latest/meta-data/")
        self.answer(self.answers.get(path) if self.headers["X-aws-ec2-metadata-token"] == "the-token" else None)

    def answer(self, text):
        self.send_response(404 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    """Returns the notices, which a test sets, and the environment in which they are found."""
    Metadata.answers = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Metadata.answers, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "AWS_EC2_METADATA_DISABLED": "", "http_proxy": "http://127.0.0.1:1"}
    server.shutdown()
    server.server_close()


def notice_time(seconds: float) -> str:
    return f'{{"noticeTime": "{time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))}"}}'


def test_a_notice_saves_and_the_run_goes_on_elsewhere(service, few_images, run_dir):
    answers, variables = service
    flags = (MAIN, *TINY, f"--data_dir={few_images}", f"--run_dir={run_dir}", "--nproc_per_node=2", "--save_every_epochs=0")
    # It is there before the program handles signals, which must not kill it.
    answers[SPOT] = '{"action": "terminate", "time": "2026-01-19T08:22:00Z"}'
    stopped = run(*flags, "--max_steps=100000", program=SCRIPT, env=variables, check=75)
    assert stopped.stderr.count("EC2 announces") == 1
    answers.clear()
    assert "resuming from" in run(*flags, "--max_steps=6", program=SCRIPT, env=variables).stderr


def test_who_watches_and_what_counts(service):
    answers, variables = service
    program = (SCRIPT, "bash", "-c", 'trap "exit 75" USR1; sleep 6 & wait')

    def begin(**more) -> subprocess.Popen:
        return subprocess.Popen(program, env=os.environ | variables | more, stdin=subprocess.DEVNULL)

    answers[REBALANCE] = notice_time(60)
    ranks = [begin(**{name: rank}) for name in ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK") for rank in "01"]
    elsewhere = [begin(AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:1"), begin(AWS_EC2_METADATA_DISABLED="true")]
    assert [one.wait(60) for one in ranks + elsewhere] == [75, 0, 75, 0, 75, 0, 0, 0]
    # Back on the same machine, for which the recommendation still stands.
    answers[REBALANCE] = notice_time(-60)
    again = begin()
    assert again.wait(60) == 0
