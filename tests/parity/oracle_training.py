#!/usr/bin/env python3
"""Train the MNIST CNN in PyTorch, in fp32 or under CPU autocast in bf16, and write the losses.

Usage: oracle_training.py PRESET OPTIMIZER STEPS OUT     PRESET: fp32 or bf16; OPTIMIZER: adamw or sgd

OUT receives, in the format of tensor_file.py, "images" (batches, B, 1, 28, 28), "labels" (batches, B), and the loss of
each step with 2 threads, "losses", and with 1 thread, "losses_one_thread". Batches are used in turn.
"""
import sys

import torch

import tensor_file
from oracle_models import Lenet

SEED = 20
NUM_BATCHES = 20
BATCH_SIZE = 64
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=2**-13, weight_decay=2**-6),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=2**-8, momentum=0.875, weight_decay=2**-6),
}


def make_batches():
    """Class prototypes under noise as large: it can be learned, and the rates are low enough that rounding does not grow."""
    generator = torch.Generator().manual_seed(SEED)
    prototypes = torch.randn(10, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (NUM_BATCHES, BATCH_SIZE), generator=generator)
    images = prototypes[labels] + torch.randn(NUM_BATCHES, BATCH_SIZE, 1, 28, 28, generator=generator)
    return images, labels


def losses(preset, optimizer_name, steps, images, labels, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    model = Lenet(1, 28, [32, 64], 128, 10)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    trace = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=preset == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(images[step % NUM_BATCHES]), labels[step % NUM_BATCHES])
        loss.backward()
        optimizer.step()
        trace.append(loss.item())
    return torch.tensor(trace)


def main():
    preset, optimizer, steps, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    images, labels = make_batches()
    tensor_file.write(out, {
        "images": images,
        "labels": labels,
        "losses": losses(preset, optimizer, steps, images, labels, 2),
        "losses_one_thread": losses(preset, optimizer, steps, images, labels, 1),
    })


main()
