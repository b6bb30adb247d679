"""Measures the training batches per second of ampd and of LibTorch's and PyTorch's DataLoader, and how long a step
waits for data."""
import array
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

from optimizer_step import Contestant

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES, PIXELS, IMAGES_A_BATCH = 60_000, 28 * 28, 250  # the size that LibTorch's MNIST requires
WINDOWS, WINDOW_TOKENS, WINDOWS_A_BATCH, VOCABULARY = 16_000, 256, 32, 8192
WORKERS = (0, 2)
STEP_PRESETS = ("fp32", "bf16")
STEPS, SMOKE_STEPS = 200, 2
WARM_UP_TURNS = 1
TOLERANCE = 1e-4  # for the sums of all samples, added one by one in fp32

# A program that does the same work in Python, as people usually write it: files in memory, samples from __getitem__,
# default collation.
TORCH_PEER = """
import sys, time
import numpy, torch
from torch.utils.data import DataLoader, Dataset
kind, folder, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(2)
class Images(Dataset):
    def __init__(self):
        pixels = numpy.fromfile(folder + "/train-images-idx3-ubyte", numpy.uint8)[16:]
        self.images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28))
        self.labels = torch.from_numpy(numpy.fromfile(folder + "/train-labels-idx1-ubyte", numpy.uint8)[8:]).long()
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, index):
        return self.images[index].float().div_(255).sub_(0.286).div_(0.353), self.labels[index]
class Windows(Dataset):
    def __init__(self):
        self.tokens = numpy.fromfile(folder + "/tokens.bin", numpy.uint16)
    def __len__(self):
        return (len(self.tokens) - 1) // 256
    def __getitem__(self, index):
        window = torch.from_numpy(self.tokens[256 * index:256 * index + 257].astype(numpy.int64))
        return window[:-1], window[1:]
loader = DataLoader(Images() if kind == "idx" else Windows(), batch_size=250 if kind == "idx" else 32, shuffle=True,
                    num_workers=workers, persistent_workers=workers > 0, drop_last=True)
for line in sys.stdin:
    if line.strip() == "check":
        sums = [0.0, 0.0]
        for batch in loader:
            sums = [total + part.sum(dtype=torch.double).item() for total, part in zip(sums, batch)]
        print(*sums, flush=True)
        continue
    start = time.perf_counter()
    for batch in loader:
        pass
    print(time.perf_counter() - start, flush=True)
"""


def write_files(folder):
    """Writes the files of MNIST with random content, and a headerless file of 16-bit tokens."""
    draw = random.Random(1)
    (folder / "train-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 2051, IMAGES, 28, 28) + draw.randbytes(IMAGES * PIXELS))
    (folder / "train-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 2049, IMAGES) + bytes(i % 10 for i in range(IMAGES)))
    tokens = array.array("H", draw.randbytes(2 * (WINDOWS * WINDOW_TOKENS + 1)))
    (folder / "tokens.bin").write_bytes(array.array("H", (token % VOCABULARY for token in tokens)).tobytes())


def contestants(options, kind, folder):
    peer = [ROOT / ".deps/venv/bin/python", "-c", TORCH_PEER, kind, folder]
    return {"ampd": Contestant([options.bin / "data_bench", "epochs", kind, folder]),
            **{f"libtorch_{n}": Contestant([options.bin / "data_loader_bench", kind, folder, n]) for n in WORKERS},
            **{f"pytorch_{n}": Contestant([*peer, n]) for n in WORKERS}}


def check_equal_work(all_of_them):
    """Checks that all contestants have read the same samples once, by the sums of the samples, which must agree."""
    sums = {name: contestant.ask("check") for name, contestant in all_of_them.items()}
    for column in zip(*sums.values()):
        if max(column) - min(column) > TOLERANCE * max(map(abs, column)):
            sys.exit(f"bench: the contestants gave other samples: {sums}")


def measure(options, kind, folder, num_samples, batch_size):
    all_of_them = contestants(options, kind, folder)
    seconds = {name: [] for name in all_of_them}
    warm_ups = 0 if options.smoke else WARM_UP_TURNS
    try:
        check_equal_work(all_of_them)
        for turn in range(warm_ups + options.rounds):
            for name, contestant in all_of_them.items():
                taken, = contestant.ask("epoch")
                if turn >= warm_ups:
                    seconds[name].append(taken)
    finally:
        for contestant in all_of_them.values():
            contestant.__exit__()
    rates = {name: num_samples / statistics.median(times) for name, times in seconds.items()}

    def times(peer):
        return {f"{n}_workers": round(rates["ampd"] / rates[f"{peer}_{n}"], 1) for n in WORKERS}

    return {"source": kind, "samples": num_samples, "batch_size": batch_size, "turns": options.rounds,
            "samples_per_second": {name: round(rate) for name, rate in rates.items()},
            "times_libtorch": times("libtorch"), "times_pytorch": times("pytorch")}


def measure_wait(options, preset, folder):
    steps = SMOKE_STEPS if options.smoke else STEPS
    environment = {**os.environ, "GOMP_SPINCOUNT": "1000"}  # as an agent sets it for its trainers
    row = json.loads(subprocess.run([options.bin / "data_bench", "steps", folder, preset, str(steps)], check=True,
                                    capture_output=True, text=True, env=environment).stdout)
    return {"precision": preset, "steps": steps, **row,
            "wait_percent": round(100 * row["ms_waited_a_step"] / row["ms_a_step"], 2)}


def bench_data(options):
    """Measures the medians over interleaved epochs, against the peers with each number of workers."""
    with tempfile.TemporaryDirectory(prefix="ampd-bench-") as name:
        folder = pathlib.Path(name)
        write_files(folder)
        return {"data": [measure(options, "idx", folder, IMAGES, IMAGES_A_BATCH),
                         measure(options, "tokens", folder, WINDOWS, WINDOWS_A_BATCH)],
                "lenet_step": [measure_wait(options, preset, folder) for preset in STEP_PRESETS]}
