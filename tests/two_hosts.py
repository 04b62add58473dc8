"""Two hosts on this machine: network namespaces with a cable between them, which a test can pull."""

import os
import shutil
import subprocess

import pytest

from command import wait_until

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class TwoHosts:
    """In the `with` block `at(host)` is what a command is to begin with. The namespaces live as long as the processes
    in them: nothing is left behind, whatever becomes of the test. Skips, saying why, where the system forbids it."""

    addresses = ("10.31.7.1", "10.31.7.2")

    def __init__(self):
        self._holders: list[subprocess.Popen] = []

    def __enter__(self) -> "TwoHosts":
        if os.geteuid() != 0:
            pytest.skip("network namespaces are root's to make, and this is not root")
        if shutil.which("ip", path=PATH) is None:
            pytest.skip("ip is not installed (scripts/setup.sh --tests)")
        try:
            self._connect()
        except (AssertionError, subprocess.CalledProcessError) as error:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {error} {getattr(error, 'stderr', '')}")
        return self

    def __exit__(self, *_) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _connect(self) -> None:
        own = os.readlink("/proc/self/ns/net")
        for _ in self.addresses:
            holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stderr=subprocess.DEVNULL)
            self._holders.append(holder)
            wait_until(lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != own,
                       "a network namespace", 10)
            assert holder.poll() is None, "unshare --net failed."
        peer = str(self._holders[1].pid)
        self.ip(0, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", peer)
        for host, address in enumerate(self.addresses):
            self.ip(host, "address", "add", f"{address}/24", "dev", "cable")
            self.ip(host, "link", "set", "lo", "up")
            self.ip(host, "link", "set", "cable", "up")

    def at(self, host: int) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net"]

    def ip(self, host: int, *arguments: str) -> None:
        subprocess.run([*self.at(host), "ip", *arguments], check=True, capture_output=True, text=True,
                       env={**os.environ, "PATH": PATH})

    def pull_cable(self, host: int) -> None:
        """At this host's end: that host loses its interface, the other one the signal."""
        self.ip(host, "link", "set", "cable", "down")

    def plug_cable(self, host: int) -> None:
        self.ip(host, "link", "set", "cable", "up")


@pytest.fixture
def two_hosts():
    with TwoHosts() as hosts:
        yield hosts
