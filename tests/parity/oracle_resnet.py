#!/usr/bin/env python3
"""List the tensors of torchvision's residual networks.

Usage: oracle_resnet.py OUT

OUT receives, as safetensors, the shape of each tensor of a state_dict as "<model>/<name>", for resnet18,
resnet34 and resnet50.
"""
import sys

import torch
import torchvision

import tensor_file


def main():
    shapes = {}
    for name in ("resnet18", "resnet34", "resnet50"):
        state = getattr(torchvision.models, name)().state_dict()
        shapes |= {f"{name}/{key}": torch.tensor(value.shape, dtype=torch.int64) for key, value in state.items()}
    tensor_file.write(sys.argv[1], shapes)


if __name__ == "__main__":
    main()
