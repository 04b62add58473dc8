"""A machine with broken hardware is taken out of service (scripts/guard_node.sh), with a fifo as the kernel's log."""

import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from command import ROOT, make_program, wait_until

SCRIPT = ROOT / "scripts" / "guard_node.sh"
LOST = "3,1287,5140900,-;NVRM: Xid (PCI:0000:10:1c): 79, pid='<unknown>', GPU has fallen off the bus.\n"
OF_A_PROGRAM = "3,1286,5140800,-;NVRM: Xid (PCI:0000:10:1c): 31, pid=1234, name=dtrain_main, MMU Fault: ENGINE 79, x\n"


@pytest.fixture
def guard(tmp_path):
    """Starts the script with a kernel's log that a test writes."""
    os.mkfifo(tmp_path / "log")
    begun = []

    def start(*command: str, **variables):
        begun.append(subprocess.Popen([SCRIPT, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0,
                                      env=os.environ | {"KERNEL_LOG": str(tmp_path / "log"), "PATH": f"{tmp_path}:{os.environ['PATH']}",
                                                        "SLOW_FILE": str(tmp_path / "run" / "slow"), **variables}))
        return begun[-1]

    yield start
    for one in begun:
        os.killpg(one.pid, 9)
        one.communicate()


def test_a_node_of_kubernetes_is_cordoned(guard, tmp_path):
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_PATCH(self):
            asked.append((self.path, dict(self.headers), json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(503 if len(asked) == 1 else 200)  # it is asked again
            self.end_headers()

        def log_message(self, *_):
            pass

    (tmp_path / "token").write_text("secret", encoding="utf-8")
    (tmp_path / "ca.crt").touch()
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running = guard("cordon", NODE_NAME="gpu-1", SERVICE_ACCOUNT=str(tmp_path), API_SERVER=f"http://127.0.0.1:{server.server_port}")
        with (tmp_path / "log").open("w") as log:
            log.write(OF_A_PROGRAM)
            log.write(LOST)
        wait_until(lambda: len(asked) == 2, "the node to be cordoned")
        server.shutdown()
    path, headers, body = asked[1]
    assert path == "/api/v1/nodes/gpu-1" and headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json" and body["spec"] == {"unschedulable": True}
    assert "79 pidunknown GPU has fallen off the bus." in body["metadata"]["annotations"]["dtrain/out-of-service"]
    assert "out of service: Xid (PCI:0000:10:1c): 79," in running.stdout.readline()


@pytest.mark.parametrize("gpus, failure, states, said", [
    (8, 0, "ACTIVE ACTIVE", ""), (7, 0, "ACTIVE ACTIVE", "7 of 8 GPUs answer"), (8, 1, "ACTIVE ACTIVE", "memory of a GPU could not be repaired"),
    (8, 0, "ACTIVE DOWN", "1 of 2 EFA devices have a link")])
def test_what_says_nothing_in_the_log_is_asked(guard, tmp_path, gpus, failure, states, said):
    make_program(tmp_path / "nvidia-smi", f"""#!/bin/bash
case $1 in -L) for i in $(seq {gpus}); do echo "GPU $i: NVIDIA H100"; done ;; *) printf '0\\n{failure}\\n' ;; esac
""")
    for number, state in enumerate(states.split()):
        (tmp_path / f"rdmap{number}" / "ports" / "1").mkdir(parents=True)
        (tmp_path / f"rdmap{number}" / "ports" / "1" / "state").write_text(f"4: {state}\n", encoding="utf-8")
    guard("bash", "-c", f'echo "$0" >{tmp_path}/done', GPUS="8", EFA_DEVICES="2", EFA_FOLDER=str(tmp_path), CHECK_SECONDS="0")
    with (tmp_path / "log").open("w") as log:
        log.write("6,1,1,-;a line\n6,2,2,-;another one\n")
    if said:
        wait_until(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == said + "\n", said)
    else:
        (tmp_path / "log").open("w").close()  # is read only after the lines before it
        assert not (tmp_path / "done").exists()


def test_a_machine_whose_network_was_found_slow(guard, tmp_path):
    (tmp_path / "run").mkdir()
    slow = tmp_path / "run" / "slow"
    slow.write_text("the network of machine 9 is slow: of an earlier start\n", encoding="utf-8")
    guard("bash", "-c", f'echo "$0" >{tmp_path}/done')
    (tmp_path / "log").open("w").close()
    wait_until(lambda: not slow.exists(), "the old file to be gone")
    assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o1777  # trainings are not root
    said = "the network of machine 2 is slow: at best 3.1 GB/s"
    slow.write_text(said + "\n", encoding="utf-8")
    wait_until(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == said + "\n", said)


def test_neither_a_program_that_hangs_nor_an_empty_file_stops_it(guard, tmp_path):
    make_program(tmp_path / "nvidia-smi", "#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "run").mkdir()
    slow = tmp_path / "run" / "slow"
    slow.touch()
    guard("bash", "-c", f'echo "$0" >{tmp_path}/done', GPUS="8", CHECK_SECONDS="0", ANSWER_SECONDS="1")
    wait_until(lambda: not slow.exists(), "the old file to be gone")
    slow.touch()
    (tmp_path / "log").write_text("6,1,1,-;a line\n", encoding="utf-8")
    wait_until(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == "0 of 8 GPUs answer\n", "a check")


def test_machines_of_batch_know_the_same_errors():
    codes = re.compile(r"NVRM: Xid \S+: \(([\d|]+)\)")
    found = {codes.search(path.read_text(encoding="utf-8")).group(1) for path in
             (SCRIPT, ROOT / "scripts" / "aws" / "batch" / "environment.yaml")}
    assert len(found) == 1
