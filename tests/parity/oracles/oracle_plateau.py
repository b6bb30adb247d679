#!/usr/bin/env python3
"""Runs torch.optim.lr_scheduler.ReduceLROnPlateau over random losses and writes the rates.

Usage: oracle_plateau.py SEED EVALUATIONS FACTOR PATIENCE THRESHOLD COOLDOWN MIN_RATE OUT

OUT receives, as safetensors, "losses" (evaluations; a few are NaN) and "rates" (evaluations: the rate after each). The
rate starts at 2**-7.
"""
import random
import sys

import torch

import tensor_file


def make_losses(generator, count):
    """Returns losses that fall with noise and flat stretches. They are float32, so that PyTorch and ampd read the same
    numbers."""
    losses, level = [], 8.0
    for _ in range(count):
        level *= generator.choice([0.9, 0.999] + 8 * [1.0])
        losses.append(level * (1 + 0.001 * generator.random()) if generator.random() > 0.01 else float("nan"))
    return torch.tensor(losses)


def main():
    seed, count = map(int, sys.argv[1:3])
    factor, patience, threshold, cooldown, min_rate = map(float, sys.argv[3:8])
    losses = make_losses(random.Random(seed), count)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2**-7)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=factor, patience=int(patience), threshold=threshold, cooldown=int(cooldown), min_lr=min_rate)
    rates = []
    for loss in losses.tolist():
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    tensor_file.write(sys.argv[8], {"losses": losses, "rates": torch.tensor(rates)})


if __name__ == "__main__":
    main()
