"""Asks a training at /healthz, as Kubernetes' kubelet does."""

import urllib.error
import urllib.request


def probe(port: int, seconds: float = 10) -> tuple[int | None, str]:
    """Returns the status, which is a success from 200 to 399, and the text; None if there is no answer in time."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:  # refused, or silent
        return None, ""
