#!/usr/bin/env python3
"""The networks gpt2-124m and resnet50 of policy_report in PyTorch: its peer on the same device.

  gpu_peers.py NETWORK MODE DEVICE MODELS [--tiny]   MODE: eager, compile or compile-only; DEVICE: cuda or cpu;
                                                     MODELS: the folder of oracle_models.py

For each line "N" on stdin takes N steps on one batch: forward under autocast in bf16, backward, clipping and fused AdamW
on fp32 parameters. Prints the seconds per step, the last loss and the peak of allocated bytes (0 on a CPU). Weights and
samples are those of policy_report: the same seeds and sizes, drawn on the CPU. `compile-only` takes two steps and ends,
so that a later `compile` finds the compiled code in TorchInductor's cache.
"""
import sys
import time
import types

import torch
from torch import nn

WEIGHT_SEED, DATA_SEED = 7, 11  # As in tests/bench/policy_report_*.cc.
TINY_BATCH = 2


def batch_of(network, tiny):
    torch.manual_seed(DATA_SEED)
    if network == "resnet50":
        count = TINY_BATCH if tiny else 256
        side = 8 if tiny else 32
        return torch.rand(count, 3, side, side), torch.randint(0, 10, (count,))
    vocabulary, shape = (512, (TINY_BATCH, 32)) if tiny else (50257, (8, 1024))
    tokens = torch.randint(0, vocabulary, shape)
    return tokens, (3 * tokens + 1).remainder(vocabulary).flatten()


def model_of(network, tiny, models):
    # oracle_models writes files of tensors with a module that needs another package; nothing is written here.
    sys.modules["tensor_file"] = types.ModuleType("tensor_file")
    sys.path.insert(0, models)
    from oracle_models import Gpt, Resnet
    torch.manual_seed(WEIGHT_SEED)
    if network == "resnet50":
        blocks = [2, 2, 2, 2] if tiny else [3, 4, 6, 3]
        return Resnet([64, 128, 256, 512], blocks, 3, 10, bottlenecks=not tiny)
    return Gpt(2, 64, 2, 512, 32, tied=True) if tiny else Gpt(12, 768, 12, 50257, 1024, tied=True)


class Trainer:
    def __init__(self, network, mode, device, models, tiny):
        inputs, self._labels = (tensor.to(device) for tensor in batch_of(network, tiny))
        self._device = device
        model = model_of(network, tiny, models).to(device).train()
        if network == "resnet50":
            model, inputs = (what.to(memory_format=torch.channels_last) for what in (model, inputs))
        self._inputs = inputs
        self._parameters = list(model.parameters())
        self._optimizer = torch.optim.AdamW(self._parameters, lr=1e-3, weight_decay=0.1, fused=True)
        self._forward = model if mode == "eager" else torch.compile(model)
        torch.set_default_device(device)  # for the positions that the model makes in its forward pass

    def step(self):
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device, torch.bfloat16):
            loss = nn.functional.cross_entropy(self._forward(self._inputs), self._labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        return loss.detach()

    def turn(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        return loss.item(), (time.perf_counter() - start) / steps  # item() waits for the device.

    def peak_bytes(self):
        return torch.cuda.max_memory_allocated() if self._device == "cuda" else 0


def main():
    network, mode, device, models = sys.argv[1:5]
    trainer = Trainer(network, mode, device, models, "--tiny" in sys.argv[5:])
    if mode == "compile-only":
        trainer.turn(2)
        return
    for line in sys.stdin:
        loss, seconds = trainer.turn(int(line))
        print(f"{seconds:.9f} {loss:.6f} {trainer.peak_bytes()}", flush=True)


if __name__ == "__main__":
    main()
