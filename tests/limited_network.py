"""Hosts that are network namespaces of this machine, on one switch, behind links of a chosen speed.

A veth pair leads from each host to a bridge; a token bucket (tc tbf) at both of its ends limits both directions. It
needs root, and leaves nothing behind.
"""

import os
import shutil
import subprocess

# How much may pass at once: a moment's worth, but at least the segments that the kernel hands over in one piece.
BURST_SECONDS, LEAST_BURST = 0.004, 2**17
QUEUE = "200ms"  # longer than TCP needs, so that only the rate limits


class Unavailable(Exception):
    """There can be no such network here; the text says why."""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"'{' '.join(command)}' failed: {done.stderr.strip()}")


class LimitedNetwork:
    """A `with` block in which `hosts` namespaces exist. Raises Unavailable with the reason."""

    def __init__(self, hosts: int, megabits: float):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces and tc need root")
        missing = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
        if missing:
            raise Unavailable(f"{' and '.join(missing)} not found: iproute2 comes with scripts/setup.sh --tests")
        self._prefix = f"dtrain{os.getpid()}"
        self._switch = f"{self._prefix}-switch"
        self._megabits = megabits
        self.hosts = [f"{self._prefix}-{number}" for number in range(hosts)]
        self.addresses = [f"10.213.77.{number + 1}" for number in range(hosts)]

    def __enter__(self) -> "LimitedNetwork":
        try:
            for name in (self._switch, *self.hosts):
                _run("ip", "netns", "add", name)
            _run("ip", "-n", self._switch, "link", "add", "bridge0", "type", "bridge")
            _run("ip", "-n", self._switch, "link", "set", "bridge0", "up")
            for number in range(len(self.hosts)):
                self._connect(number)
            _run(*self.command_on(0, ["true"]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self, number: int) -> None:
        host, port = self.hosts[number], f"port{number}"
        _run("ip", "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
        _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge0", "up")
        _run("ip", "-n", host, "address", "add", f"{self.addresses[number]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", host, "link", "set", device, "up")
        self.slow_down(number, self._megabits)

    def slow_down(self, number: int, megabits: float) -> None:
        """Gives one host another speed."""
        burst = max(LEAST_BURST, int(megabits * 1e6 / 8 * BURST_SECONDS))
        for namespace, device in ((self.hosts[number], "eth0"), (self._switch, f"port{number}")):
            _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{megabits}mbit",
                 "burst", str(burst), "latency", QUEUE)

    def __exit__(self, *_) -> None:
        for name in (self._switch, *self.hosts):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def command_on(self, host: int, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.hosts[host], *command]
