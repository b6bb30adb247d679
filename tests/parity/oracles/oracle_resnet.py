#!/usr/bin/env python3
"""Lists the tensors of torchvision's residual networks.

Usage: oracle_resnet.py OUT

OUT receives, as safetensors, tensors named "<model>/<name>" with the shapes of the state_dicts of resnet18, resnet34
and resnet50.
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
