#!/usr/bin/env python3
"""Exports a model of two branches, each with torchvision's stochastic depth.

Usage: oracle_stochastic_depth.py ARCHIVE SIZE PROBABILITY PROBABILITY OUTPUT. ARCHIVE: the .pt2 file to write. SIZE:
the size of a sample. PROBABILITY: that a branch leaves a sample out. OUTPUT is a safetensors file without tensors.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "python"))

import torch
from torch import nn
from torchvision.ops import StochasticDepth

import ampd
import tensor_file


class Branch(nn.Module):
    def __init__(self, size, probability):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.depth = StochasticDepth(probability, "row")

    def forward(self, x):
        return self.depth(x * self.weight)


class TwoBranches(nn.Module):
    def __init__(self, size, first, second):
        super().__init__()
        self.first = Branch(size, first)
        self.second = Branch(size, second)

    def forward(self, x):
        return self.first(x) + self.second(x)


def main():
    archive, size, first, second, output = sys.argv[1:]
    ampd.export(TwoBranches(int(size), float(first), float(second)), (torch.zeros(2, int(size)),), archive)
    tensor_file.write(output, {})


if __name__ == "__main__":
    main()
