#!/usr/bin/env python3
"""Puts the dashboard grafana.json into a Grafana, in place of the one that is there; prints its address.

    GRAFANA_TOKEN=… scripts/monitoring/deploy_grafana.py https://grafana.example.org

The token is a service account's with the role Editor. (In EKS set_up.sh --grafana brings Grafana with the dashboard.)
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parent / "grafana.json"


def put(address: str, token: str) -> str:
    body = {"dashboard": json.loads(DASHBOARD.read_text(encoding="utf-8")), "overwrite": True}
    request = urllib.request.Request(f"{address.rstrip('/')}/api/dashboards/db", data=json.dumps(body).encode(), method="POST",
                                     headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return address.rstrip("/") + json.load(answer)["url"]


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].startswith(("http://", "https://")):
        print(__doc__.strip())
        return 0 if sys.argv[1:2] in (["-h"], ["--help"]) else 2
    token = os.environ.get("GRAFANA_TOKEN", "")
    try:
        if not token:
            raise ValueError("GRAFANA_TOKEN is not set")
        print(put(sys.argv[1], token))
    except (OSError, ValueError, KeyError) as error:
        print(f"error: the dashboard is not in {sys.argv[1]!a}: {str(error)!a}\n  what to do: is the address Grafana's, and "
              "GRAFANA_TOKEN that of a service account with the role Editor?", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
