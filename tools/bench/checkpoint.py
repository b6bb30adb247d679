"""Measures the cost of a checkpoint for ampd, torch.save and safetensors, with tensors of the same shapes on the same
disk."""
import os
import pathlib
import statistics
import sys
import tempfile
import time

from optimizer_step import Contestant

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS, WIDTH = 7, 3450  # weights and both moments: 1.0 GB
SMOKE_LAYERS, SMOKE_WIDTH = 2, 1000
SETTLE_SECONDS = 3
SIZE_TOLERANCE = 0.01  # allows for headers and manifests

# A program that saves the tensors of checkpoint_bench for each line on stdin, and prints the seconds and the bytes. The
# line "torch" leaves the file in the page cache; the others make it durable.
TORCH_PEER = """
import os, sys, time
import torch
from safetensors.torch import save_file
folder, layers, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
state = {f"{kind}layers.{2 * layer}.{part}": torch.rand(shape)
         for kind in ("", "exp_avg.", "exp_avg_sq.") for layer in range(layers)
         for part, shape in (("weight", (width, width)), ("bias", (width,)))}
path = os.path.join(folder, "checkpoint")
for line in sys.stdin:
    how = line.strip()
    start = time.perf_counter()
    if how == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    if how != "torch":
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    taken = time.perf_counter() - start
    print(taken, os.path.getsize(path), flush=True)
    os.remove(path)
"""
PEERS = {"torch_save": "torch", "torch_save_fsync": "torch_fsync", "safetensors_fsync": "safetensors"}


def bench_checkpoint(options):
    layers, width = (SMOKE_LAYERS, SMOKE_WIDTH) if options.smoke else (LAYERS, WIDTH)
    seconds = {name: [] for name in ("stall", "ours_fsync", *PEERS)}
    with tempfile.TemporaryDirectory(prefix="checkpoint-bench-", dir=options.bin.parent) as folder, \
         Contestant([options.bin / "checkpoint_bench", folder, layers, width]) as ours, \
         Contestant([ROOT / ".deps/venv/bin/python", "-c", TORCH_PEER, folder, layers, width]) as peer:
        first_stall, _, size = answer_of("ours", ours.ask("save"), 3)  # the first copy goes into fresh memory
        for turn in range(options.rounds):
            for name in rotated(["ours_fsync", *PEERS], turn):
                settle(options)
                if name == "ours_fsync":
                    stall, taken, saved = answer_of(name, ours.ask("save"), 3)
                    seconds["stall"].append(stall)
                else:
                    taken, saved = answer_of(name, peer.ask(PEERS[name]), 2)
                if abs(saved - size) > SIZE_TOLERANCE * size:
                    sys.exit(f"bench: {name} saved {saved} bytes and ours {size}")
                seconds[name].append(taken)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {"checkpoint": {
        "bytes": int(size),
        "ms": {"first_stall": round(first_stall * 1e3, 1),
               **{name: round(value * 1e3, 1) for name, value in median.items()}},
        "mb_per_second": {name: round(size / median[name] / 1e6, 1)
                          for name in ("ours_fsync", "torch_save_fsync", "safetensors_fsync")},
        "torch_save_over_stall": ratio(seconds, "torch_save", "stall"),
        "torch_save_over_ours": ratio(seconds, "torch_save_fsync", "ours_fsync"),
        "safetensors_over_ours": ratio(seconds, "safetensors_fsync", "ours_fsync"),
        "rounds": options.rounds,
    }}


def settle(options):
    """Brings the machine into the state that it has minutes after the last checkpoint: the disk has trimmed removed
    files, and a virtual machine has returned freed memory to its host."""
    os.sync()
    if not options.smoke:
        time.sleep(SETTLE_SECONDS)


def rotated(names, turn):
    """Returns the names in another order for each turn, so that each contestant is first sometimes."""
    first = turn % len(names)
    return names[first:] + names[:first]


def ratio(seconds, peer, ours):
    """Returns the median of the ratios of the turns. The ratio of a turn is fair, because both used the same disk
    under the same conditions."""
    return round(statistics.median(theirs / mine for theirs, mine in zip(seconds[peer], seconds[ours])), 2)


def answer_of(name, numbers, count):
    if len(numbers) != count:
        sys.exit(f"bench: {name} did not answer")
    return numbers
