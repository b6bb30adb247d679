#!/usr/bin/env python3
"""Runs torch.amp.GradScaler over random overflow flags and writes its trace.

Usage: oracle_scaler.py SEED STEPS INTERVAL ONE_IN OUT

OUT receives, as safetensors, "flags" (steps, int64: 1 is an overflow) and "scales" (steps: the scale after each
update). Every step goes through the scaler's public calls: scale, unscale_ by step, update.
"""
import random
import sys

import torch

import tensor_file


def main():
    seed, steps, interval, one_in = map(int, sys.argv[1:5])
    generator = random.Random(seed)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=interval)
    flags, scales = [], []
    for _ in range(steps):
        flag = generator.randrange(one_in) == 0
        scaler.scale(torch.zeros(()))
        parameter.grad = torch.full((1,), float("inf") if flag else 1.0)
        scaler.step(optimizer)
        scaler.update()
        flags.append(int(flag))
        scales.append(scaler.get_scale())
    tensor_file.write(sys.argv[5], {"flags": torch.tensor(flags), "scales": torch.tensor(scales)})


if __name__ == "__main__":
    main()
