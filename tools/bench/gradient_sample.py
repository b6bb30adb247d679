"""Measures the cost of sampling gradients: steps that sample all gradients beside steps that sample none."""
import os
import statistics
import sys

from optimizer_step import Contestant
from train_step import networks, num_steps, num_warm_ups

SAMPLE_EVERY_STEPS = 100  # as in worker/train/plan/attempt_plan.cc
PRESET = "bf16"  # sampling in fp16 costs as much, but beside a step that is slower on a CPU


def measure(options, network, threads):
    """Returns the medians over turns. In each turn both take the same steps."""
    command = [options.bin / "train_step_bench", network, PRESET, threads]
    plain, sampled = Contestant(command), Contestant([*command, "sampled"])
    steps, warm_ups = num_steps(options, network), num_warm_ups(options)
    pairs = []
    try:
        for turn in range(warm_ups + options.rounds):
            answers = [contestant.ask(str(steps)) for contestant in (plain, sampled)]
            if any(len(answer) != 2 for answer in answers):
                sys.exit(f"bench: train_step_bench of {network} did not answer")
            if answers[0][1] != answers[1][1]:
                sys.exit(f"bench: sampling changed the loss of {network}: {answers}")
            if turn >= warm_ups:
                pairs.append((answers[0][0], answers[1][0]))
    finally:
        plain.__exit__()
        sampled.__exit__()
    step = statistics.median(without for without, _ in pairs)
    sample = statistics.median(with_samples - without for without, with_samples in pairs)
    return {
        "network": network,
        "threads": threads,
        "ms_a_step": round(step * 1e3, 2),
        "ms_a_sample": round(sample * 1e3, 2),
        f"percent_at_one_in_{SAMPLE_EVERY_STEPS}": round(100 * sample / step / SAMPLE_EVERY_STEPS, 3),
        "turns": options.rounds,
        "steps_a_turn": steps,
    }


def bench_gradient_sample(options):
    threads = os.cpu_count() or 1
    return {"gradient_sample": [measure(options, network, min(threads, 2)) for network in networks(options)]}
