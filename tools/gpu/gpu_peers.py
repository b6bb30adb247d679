#!/usr/bin/env python3
"""The networks gpt2-124m and resnet50 of policy_report in PyTorch: its peer on the same device.

  gpu_peers.py NETWORK MODE DEVICE MODELS [--format=FORMAT] [--tiny]
                                             DEVICE: cuda or cpu; MODELS: the folder of oracle_models.py

For each line "N" on stdin takes N steps on one batch: forward, backward, clipping and fused AdamW on fp32 parameters.
Prints the seconds per step, the last loss and the peak of allocated bytes (0 on a CPU). Weights and samples are those of
policy_report: the same seeds and sizes, drawn on the CPU. MODE is one of

  eager         op by op
  compile       model and loss by torch.compile
  graphs        the same with CUDA graphs (torch.compile's mode reduce-overhead)
  compile-only, graphs-only
                takes two steps and ends, so that later processes find the compiled code in TorchInductor's cache

FORMAT is one of

  bf16      autocast in bf16 (the default)
  fp16      autocast in fp16, with torch.amp.GradScaler
  o2        as Apex's O2: an fp16 model with BatchNorm in fp32, fp32 master weights and GradScaler
  defaults  fp32 as PyTorch comes: convolutions may use TF32, matrix products may not
  tf32      fp32 with TF32 in convolutions and matrix products
  fp32      fp32 without TF32

Images are in the memory format channels-last, except under `defaults`.
"""
import argparse
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


class Parameters:
    """The parameters of a model and their optimizer step, with the loss scale of the format."""

    def __init__(self, model, number_format, device):
        self._model = list(model.parameters())
        self._masters = self._model
        self._copies = []  # Pairs of an fp32 master weight and the fp16 parameter of the model.
        if number_format == "o2":
            self._masters = [parameter.detach().float() for parameter in self._model]
            self._copies = list(zip(self._masters, self._model))
        self._scaler = torch.amp.GradScaler(device, enabled=number_format in ("fp16", "o2"))
        self._optimizer = torch.optim.AdamW(self._masters, lr=1e-3, weight_decay=0.1, fused=True)

    def backward(self, loss):
        for parameter in self._model:
            parameter.grad = None
        self._scaler.scale(loss).backward()
        for master, parameter in self._copies:
            master.grad = parameter.grad.float()
        self._scaler.unscale_(self._optimizer)

    @torch.no_grad()
    def step(self):
        nn.utils.clip_grad_norm_(self._masters, 1.0)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        for master, parameter in self._copies:
            parameter.copy_(master)


class Trainer:
    def __init__(self, network, mode, device, models, number_format, tiny):
        torch.backends.cuda.matmul.allow_tf32 = number_format == "tf32"
        torch.backends.cudnn.allow_tf32 = number_format in ("tf32", "defaults")
        inputs, self._labels = (tensor.to(device) for tensor in batch_of(network, tiny))
        self._device = device
        model = model_of(network, tiny, models).to(device).train()
        if network == "resnet50" and number_format != "defaults":
            model, inputs = (what.to(memory_format=torch.channels_last) for what in (model, inputs))
        if number_format == "o2":
            inputs = inputs.half() if inputs.is_floating_point() else inputs
            for module in model.half().modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):  # pylint: disable=protected-access
                    module.float()
        self._inputs = inputs
        self._parameters = Parameters(model, number_format, device)
        self._autocast = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(number_format)
        self._model = model
        self._graphs = mode.startswith("graphs")
        compiler_mode = "reduce-overhead" if self._graphs else None
        self._loss = self._loss_of if mode == "eager" else torch.compile(self._loss_of, mode=compiler_mode)

    def _loss_of(self, inputs, labels):
        return nn.functional.cross_entropy(self._model(inputs).float(), labels)

    def step(self):
        if self._graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(self._device, self._autocast, enabled=self._autocast is not None):
            loss = self._loss(self._inputs, self._labels)
        self._parameters.backward(loss)
        self._parameters.step()
        return loss.detach().clone()  # A CUDA graph writes its outputs to the same memory in each step.

    def turn(self, steps):
        start = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        return loss.item(), (time.perf_counter() - start) / steps  # item() waits for the device.

    def peak_bytes(self):
        return torch.cuda.max_memory_allocated() if self._device == "cuda" else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=["gpt2-124m", "resnet50"])
    parser.add_argument("mode", choices=["eager", "compile", "graphs", "compile-only", "graphs-only"])
    parser.add_argument("device", choices=["cuda", "cpu"])
    parser.add_argument("models")
    parser.add_argument("--format", default="bf16", choices=["bf16", "fp16", "o2", "defaults", "tf32", "fp32"])
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    trainer = Trainer(options.network, options.mode, options.device, options.models, options.format, options.tiny)
    if options.mode.endswith("-only"):
        trainer.turn(2)
        return
    for line in sys.stdin:
        loss, seconds = trainer.turn(int(line))
        print(f"{seconds:.9f} {loss:.6f} {trainer.peak_bytes()}", flush=True)


if __name__ == "__main__":
    main()
