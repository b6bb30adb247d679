#!/usr/bin/env python3
"""Benchmarks of the running service.

Usage: bench.py --bin FOLDER submit|submit-network|first-step|step|optimizer-step|train-step|gradient-sample|data|
                estimate|checkpoint
                [--json] [--seconds N] [--rounds N] [--smoke]
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request

from checkpoint import bench_checkpoint
from data_loading import bench_data
from gradient_sample import bench_gradient_sample
from optimizer_step import bench_optimizer_step
from programs import json_line, program, wait_for
from submit_network import bench_submit_network
from train_step import bench_train_step

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTSTANDING = (1, 32, 256)

# The peer of first-step: a Python process that imports torch, makes a linear model and takes one step of SGD.
COLD_PYTHON = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = torch.nn.functional.cross_entropy(model(torch.randn(64, 784)), torch.randint(0, 10, (64,)))
loss.backward()
optimizer.step()
print(float(loss))
"""

FIRST_STEP_JOB = """
name: first-step
model: {mlp: {in_features: 784, hidden: [256], num_classes: 10}}
data:
  train: {synthetic: {shape: [784], num_classes: 10, num_samples: 1024, seed: 1}}
  batch_size: 64
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 0.1}}
train: {steps: 1, seed: 0}
"""

# Trains the network of step_bench with the same batch and optimizer in PyTorch's eager mode: channels-last, fused
# AdamW, autocast. Prints the steps per second of one round.
EAGER_STEPS = """
import contextlib, sys, time
import torch
from torch import nn
preset, batch_size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(2)
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10)).to(memory_format=torch.channels_last)
images = torch.rand(batch_size, 1, 28, 28).to(memory_format=torch.channels_last)
labels = torch.randint(0, 10, (batch_size,))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
def step():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16) if preset == "bf16" else contextlib.nullcontext():
        loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
for _ in range(steps):
    step()
start = time.perf_counter()
for _ in range(steps):
    step()
print(steps / (time.perf_counter() - start))
"""
STEP_PRESETS = ("fp32", "bf16", "fp16")
STEP_BATCH_SIZE = 128
SMOKE_BATCH_SIZE = 8
STEPS_A_ROUND = 20


def counter(metrics_address, name):
    """Returns the sum of a counter's samples on a metrics page."""
    with urllib.request.urlopen(f"http://{metrics_address}/metrics") as page:
        text = page.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.M))


def bench_submit(options):
    rows, flushes = [], []
    with tempfile.TemporaryDirectory(prefix="ampd-bench-") as name:
        folder = pathlib.Path(name)
        ports = folder / "ports"
        server = [options.bin / "ampd-server", "--allow-unauthenticated-loopback", "--listen", "127.0.0.1:0",
                  "--metrics-listen", "127.0.0.1:0",
                  "--data-dir", folder / "data", "--port-file", ports]
        with program(server, folder / "server.log") as process:
            wait_for(lambda: ports.exists() and ports.read_text().count("\n") >= 2, "ampd-server", process)
            grpc_port, metrics_port = ports.read_text().split()[:2]
            for outstanding in OUTSTANDING:
                flushes.append(json_line(options.bin / "submit_bench", "--flushes", folder,
                                         min(2, options.seconds))["flushes_per_second"])
                before = counter(f"127.0.0.1:{metrics_port}", "ampd_journal_flushes_total")
                row = json_line(options.bin / "submit_bench", f"127.0.0.1:{grpc_port}", outstanding, options.seconds)
                taken = counter(f"127.0.0.1:{metrics_port}", "ampd_journal_flushes_total") - before
                row["jobs_per_flush"] = round(row["calls"] / taken, 2) if taken else None
                rows.append(row)
    return {"submit": rows, "disk_flushes_per_second": flushes}


def first_step_seconds(ampctl, folder):
    """Returns the seconds from CreateJob to the first finished step, by the server's clock."""
    job = subprocess.run([ampctl, "job", "submit", "-q", "-f", "job.yaml"], cwd=folder, check=True,
                         capture_output=True, text=True).stdout.strip()
    subprocess.run([ampctl, "job", "wait", job], cwd=folder, check=True, capture_output=True)
    points = json.loads(subprocess.run([ampctl, "job", "points", job, "-o", "json"], cwd=folder, check=True,
                                       capture_output=True, text=True).stdout)
    show = json.loads(subprocess.run([ampctl, "job", "show", job, "-o", "json"], cwd=folder, check=True,
                                     capture_output=True, text=True).stdout)
    created = show["createTime"].rstrip("Z")
    whole, _, fraction = created.partition(".")
    created_micros = int(time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone) * 10**6
    created_micros += int((fraction + "000000")[:6])
    return (int(points["segments"][0]["steps"]["timeUnixMicros"][0]) - created_micros) / 1e6


def cold_python_seconds():
    start = time.monotonic()
    subprocess.run([ROOT / ".deps/venv/bin/python", "-c", COLD_PYTHON], check=True, capture_output=True)
    return time.monotonic() - start


def bench_first_step(options):
    ours, cold = [], []
    with tempfile.TemporaryDirectory(prefix="ampd-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "job.yaml").write_text(FIRST_STEP_JOB)
        ampctl = str(options.bin / "ampctl")
        dev = [ampctl, "dev", "--port", "0", "--metrics-port", "0"]
        with program(dev, folder / "dev.log", stop=signal.SIGINT) as process:
            wait_for(lambda: subprocess.run([ampctl, "health"], cwd=folder, capture_output=True).returncode == 0,
                     "ampctl dev", process)
            first_step_seconds(ampctl, folder)  # warms up the worker
            for _ in range(options.rounds):
                ours.append(first_step_seconds(ampctl, folder))
                cold.append(cold_python_seconds())
    return {
        "first_step_ms": {"p50": round(statistics.median(ours) * 1e3, 1), "max": round(max(ours) * 1e3, 1),
                          "rounds": len(ours)},
        "cold_python_ms": {"p50": round(statistics.median(cold) * 1e3, 1)},
    }


def eager_rate(preset, batch_size):
    return float(subprocess.run(
        [ROOT / ".deps/venv/bin/python", "-c", EAGER_STEPS, preset, str(batch_size), str(STEPS_A_ROUND)],
        check=True, capture_output=True, text=True).stdout)


def bench_step(options):
    """Measures the medians over interleaved rounds. fp16 has no peer: eager mode has no fp16 matrix products on a
    CPU."""
    os.environ["GOMP_SPINCOUNT"] = "1000"  # as an agent sets it for its trainers; also for eager mode
    batch_size = SMOKE_BATCH_SIZE if options.smoke else STEP_BATCH_SIZE
    ours = {preset: [] for preset in STEP_PRESETS}
    eager = {preset: [] for preset in STEP_PRESETS if preset != "fp16"}
    for _ in range(options.rounds):
        for preset, rates in ours.items():
            rates.append(json_line(options.bin / "step_bench", batch_size, 1, preset)["steps_per_second"])
            if preset in eager:
                eager[preset].append(eager_rate(preset, batch_size))
    return {"ampd_steps_per_second": {preset: round(statistics.median(rates), 1) for preset, rates in ours.items()},
            "eager_steps_per_second": {preset: round(statistics.median(rates), 1) for preset, rates in eager.items()},
            "rounds": options.rounds, "steps_a_round": STEPS_A_ROUND}


def bench_estimate(options):
    return {"estimate": [json_line(options.bin / "estimate_bench", network, options.rounds)
                         for network in ("lenet", "resnet50", "gpt2", "gpt2-xl")],
            "rounds": options.rounds}


BENCHES = {"submit": bench_submit, "submit-network": bench_submit_network, "first-step": bench_first_step, "step": bench_step,
           "optimizer-step": bench_optimizer_step, "train-step": bench_train_step,
           "gradient-sample": bench_gradient_sample, "data": bench_data, "estimate": bench_estimate,
           "checkpoint": bench_checkpoint}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=list(BENCHES))
    parser.add_argument("--bin", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, help="default 15; of optimizer-step 30, of data 7")
    parser.add_argument("--smoke", action="store_true",
                        help="one round of everything without warm-up, some of it smaller: shows that it runs")
    options = parser.parse_args()
    options.rounds = options.rounds or {"optimizer-step": 30, "data": 7}.get(options.what, 15)
    if options.smoke:
        options.rounds, options.seconds = 1, 0.2
    result = BENCHES[options.what](options)
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
