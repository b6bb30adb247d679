#!/usr/bin/env python3
"""Runs a torch.optim optimizer over given gradients and writes the final parameters.

Usage: oracle_optimizer.py OPTIMIZER STEPS OUT     OPTIMIZER: adamw, adam, sgd, nesterov or plain

OUT receives, as safetensors, the initial "weight" and "bias", "weight_gradients" and "bias_gradients" (steps, ...), the
final "weight_after" and "bias_after", and their exponential averages "weight_average" and "bias_average"
(torch.optim.swa_utils, starting with the initial values). The bias is a parameter group of its own.
"""
import sys

import torch

import tensor_file

DECAY = 0.9375
BIAS = {"lr": 2**-6, "weight_decay": 0.0}
OPTIMIZERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=2**-7, weight_decay=2**-4),
    "adam": lambda groups: torch.optim.Adam(groups, lr=2**-7, weight_decay=2**-4),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=2**-7, momentum=0.875, dampening=0.25, weight_decay=2**-4),
    "nesterov": lambda groups: torch.optim.SGD(groups, lr=2**-7, momentum=0.875, nesterov=True, weight_decay=2**-4),
    "plain": lambda groups: torch.optim.SGD(groups, lr=2**-7, weight_decay=2**-4),
}


def main():
    name, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    generator = torch.Generator().manual_seed(11)
    tensors = {}
    for key, shape in (("weight", (40, 25)), ("bias", (40,))):
        tensors[key] = torch.randn(shape, generator=generator)
        tensors[f"{key}_gradients"] = torch.randn((steps, *shape), generator=generator)
    parameters = {key: torch.nn.Parameter(tensors[key].clone()) for key in ("weight", "bias")}
    averages = [parameter.detach().clone() for parameter in parameters.values()]
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(DECAY)
    optimizer = OPTIMIZERS[name]([{"params": parameters["weight"]}, {"params": parameters["bias"], **BIAS}])
    for step in range(steps):
        for key, parameter in parameters.items():
            parameter.grad = tensors[f"{key}_gradients"][step].clone()
        optimizer.step()
        average(averages, [parameter.detach() for parameter in parameters.values()], step)
    for (key, parameter), mean in zip(parameters.items(), averages):
        tensors[f"{key}_after"] = parameter.detach()
        tensors[f"{key}_average"] = mean
    tensor_file.write(out, tensors)


if __name__ == "__main__":
    main()
