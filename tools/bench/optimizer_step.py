"""Measures the optimizer step over GPT-2 124M's parameters: ampd, LibTorch's C++ optimizer and PyTorch's, turn by
turn."""
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS, VOCABULARY = 12, 50257
SMOKE_LAYERS, SMOKE_VOCABULARY = 1, 1000
BYTES_A_PARAMETER = 30  # bf16 gradient read twice; master and both moments read and written; bf16 copy written
BANDWIDTH_BYTES = {"copy": 8, "read": 4, "triad": 12}
WARM_UP = 3
TOLERANCE = 1e-6  # for the sums of all parameters

# A program that takes one step per line on stdin: unscale_, clip_grad_norm_(foreach=True) and AdamW(fused=True) on
# fp32 gradients, without the casts that autocast and fp32 gradients cost elsewhere. unscale_ and clipping write the
# gradients, so they are restored before the clock starts. "check" prints the sum of all absolute parameters.
TORCH_PEER = """
import sys, time
import torch
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
WIDTH = 768
shapes = [(int(sys.argv[3]), WIDTH), (1024, WIDTH)]
for _ in range(int(sys.argv[2])):
    for a, b in ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)):
        shapes += [(a, b), (b,)]
    shapes += [(WIDTH,)] * 4
shapes += [(WIDTH,)] * 2
parameters, gradients = [], []
for shape in shapes:
    parameters.append(torch.nn.Parameter(torch.randn(shape).mul_(0.02)))
    gradients.append(torch.randn(shape).mul_(1e-3 * 65536).bfloat16().float())
    parameters[-1].grad = gradients[-1].clone()
optimizer = torch.optim.AdamW(parameters, lr=6e-4, weight_decay=0.1, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=10**9)
scaler.scale(torch.zeros(1))
for line in sys.stdin:
    if line.strip() == "check":
        print(sum(p.detach().abs().sum(dtype=torch.double).item() for p in parameters), flush=True)
        continue
    torch._foreach_copy_([p.grad for p in parameters], gradients)
    start = time.perf_counter()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    scaler.step(optimizer)
    scaler.update()
    print(time.perf_counter() - start, flush=True)
"""


class Contestant:
    """A process that takes one step for each line that it reads, and answers with the seconds of the step."""

    def __init__(self, arguments, environment=()):
        # Without GOMP_SPINCOUNT the process that waits for its turn would spin on the cores of the other.
        environment = {**os.environ, "GOMP_SPINCOUNT": "1000", **dict(environment)}
        self._process = subprocess.Popen([str(part) for part in arguments], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def ask(self, what):
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._process.stdout.readline().split()]


def check_equal_work(ours, peer):
    """Checks that all three have taken the same steps from the same numbers, by their parameters, which must agree."""
    sums = [*ours.ask("check"), *peer.ask("check")]
    if max(sums) - min(sums) > TOLERANCE * min(sums):
        sys.exit(f"bench: the contestants did different work: {sums}")


def sizes(options):
    return (SMOKE_LAYERS, SMOKE_VOCABULARY) if options.smoke else (LAYERS, VOCABULARY)


def num_parameters(layers, vocabulary, width=768):
    return (vocabulary + 1024 + 2) * width + layers * (12 * width * width + 13 * width)


def measure(options, threads):
    seconds = {name: [] for name in ("ours", "torch", "libtorch", *BANDWIDTH_BYTES)}
    parameters = num_parameters(*sizes(options))
    with Contestant([options.bin / "optimizer_step_bench", threads, *sizes(options)]) as ours, \
         Contestant([ROOT / ".deps/venv/bin/python", "-c", TORCH_PEER, threads, *sizes(options)]) as peer:
        warm_ups = 0 if options.smoke else WARM_UP
        for turn in range(warm_ups + options.rounds):
            taken = {name: (peer if name == "torch" else ours).ask(name)[0] for name in seconds}
            if turn >= warm_ups:
                for name, value in taken.items():
                    seconds[name].append(value)
        check_equal_work(ours, peer)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "threads": threads,
        "ms": {name: round(value * 1e3, 2) for name, value in median.items()},
        "times_torch": round(median["torch"] / median["ours"], 3),
        "times_libtorch": round(median["libtorch"] / median["ours"], 3),
        "gb_per_second": {
            "ours": round(BYTES_A_PARAMETER * parameters / median["ours"] / 1e9, 1),
            **{name: round(size * parameters / median[name] / 1e9, 1) for name, size in BANDWIDTH_BYTES.items()},
        },
    }


def bench_optimizer_step(options):
    return {"parameters": num_parameters(*sizes(options)), "pairs": options.rounds,
            "optimizer_step": [measure(options, threads) for threads in (1, 2)]}
