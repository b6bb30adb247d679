"""Measures whole training steps of an MLP, a CNN and a GPT: ampd in fp32 and bf16, PyTorch's eager mode and
torch.compile."""
import os
import pathlib
import statistics
import subprocess
import sys

from optimizer_step import Contestant

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS_A_TURN = {"mlp": 4, "cnn": 4, "gpt": 1}
WARM_UP_TURNS = 2
LOSS_TOLERANCE = 0.02  # relative to the first loss: bf16 rounds in other places

# Trains the networks of train_step_bench, with the same weights and samples (same seeds and sizes), under CPU autocast
# in bf16: clipping and fused AdamW on fp32 parameters. For each line N on stdin takes N steps, and prints the seconds
# per step and the loss.
TORCH_PEER = """
import sys, time
import torch
from torch import nn
sys.path.insert(0, sys.argv[4])
from oracle_models import Gpt, Mlp, Resnet
network, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(threads)
torch.manual_seed(11)
if network == "mlp":
    inputs, labels = torch.rand(256, 784), torch.randint(0, 10, (256,))
elif network == "cnn":
    inputs, labels = torch.rand(64, 3, 32, 32), torch.randint(0, 10, (64,))
else:
    inputs, labels = torch.randint(0, 2048, (8, 256)), torch.randint(0, 2048, (8, 256)).flatten()
torch.manual_seed(7)
model = {"mlp": lambda: Mlp(784, [2048, 2048], 10), "cnn": lambda: Resnet([16, 32, 64], [2, 2, 2], 3, 10),
         "gpt": lambda: Gpt(6, 384, 6, 2048, 256, tied=True)}[network]().train()
if network == "cnn":
    model, inputs = model.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
forward = torch.compile(model) if mode == "compile" else model
def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(forward(inputs), labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        loss = step()
    print((time.perf_counter() - start) / int(line), loss, flush=True)
"""


def contestants(options, network, threads):
    peer = [ROOT / ".deps/venv/bin/python", "-c", TORCH_PEER, network]
    models = ROOT / "tests/parity/oracles"
    ours = options.bin / "train_step_bench"
    # A smoke run disables the compilation, which takes minutes, but not the rest of that contestant.
    compiled = {"TORCHDYNAMO_DISABLE": "1"} if options.smoke else {}
    return {
        "ampd_fp32": Contestant([ours, network, "fp32", threads]),
        "ampd_bf16": Contestant([ours, network, "bf16", threads]),
        "eager_bf16": Contestant([*peer, "eager", threads, models]),
        "compile_bf16": Contestant([*peer, "compile", threads, models], compiled),
    }


def networks(options):
    """Returns the networks to measure. A smoke run takes one: the gpt takes a minute a step on a CPU without AVX-512."""
    return ["mlp"] if options.smoke else list(STEPS_A_TURN)


def num_steps(options, network):
    return 1 if options.smoke else STEPS_A_TURN[network]


def num_warm_ups(options):
    return 0 if options.smoke else WARM_UP_TURNS


def measure(options, network, threads):
    """Returns the medians over turns. Each contestant takes the same number of steps, so their last losses must
    agree."""
    all_of_them = contestants(options, network, threads)
    steps = num_steps(options, network)
    warm_ups = num_warm_ups(options)
    seconds = {name: [] for name in all_of_them}
    losses = {}
    first_loss = None
    try:
        for turn in range(warm_ups + options.rounds):
            for name, contestant in all_of_them.items():
                answer = contestant.ask(str(steps))
                if len(answer) != 2:
                    sys.exit(f"bench: {name} of {network} did not answer")
                first_loss = first_loss or answer[1]
                losses[name] = answer[1]
                if turn >= warm_ups:
                    seconds[name].append(answer[0])
    finally:
        for contestant in all_of_them.values():
            contestant.__exit__()
    if max(losses.values()) - min(losses.values()) > LOSS_TOLERANCE * first_loss:
        sys.exit(f"bench: the contestants of {network} ended at different losses: {losses}")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    pairs = list(zip(seconds["ampd_fp32"], seconds["ampd_bf16"], seconds["eager_bf16"]))
    return {
        "network": network,
        "threads": threads,
        "ms_a_step": {name: round(median * 1e3, 2) for name, median in medians.items()},
        "bf16_over_fp32": round(statistics.median(fp32 / bf16 for fp32, bf16, _ in pairs), 2),
        "bf16_over_eager": round(statistics.median(eager / bf16 for _, bf16, eager in pairs), 2),
        "last_loss": {name: round(loss, 4) for name, loss in losses.items()},
        "turns": options.rounds,
        "steps_a_turn": steps,
    }


def bench_train_step(options):
    threads = os.cpu_count() or 1
    return {"train_step": [measure(options, network, min(threads, 2)) for network in networks(options)]}
