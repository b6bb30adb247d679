#!/usr/bin/env python3
"""Writes Grafana's dashboards into helm/ampd/dashboards.

Usage: build.py [--check]. With --check, writes nothing, and fails if a file differs from what it would write.
"""
import pathlib
import sys

import fleet
import job
import service
import worker
from grafana_foundation_sdk.cog.encoder import JSONEncoder

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "helm/ampd/dashboards"
DASHBOARDS = {"fleet": fleet, "job": job, "worker": worker, "service": service}


def main():
    stale = []
    for name, module in DASHBOARDS.items():
        text = JSONEncoder(sort_keys=True, indent=1).encode(module.make()) + "\n"
        path = FOLDER / f"{name}.json"
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what tools/dashboards/build.py writes: {', '.join(stale)}; run scripts/dashboards")


if __name__ == "__main__":
    main()
