#!/usr/bin/env python3
"""List the tensors of torchvision's residual networks.

Usage: oracle_resnet.py OUT

OUT receives, in the format of tensor_file.py, the shape of each tensor of a state_dict as "<model>/<name>", for resnet18,
resnet34 and resnet50. Fails unless each takes, strictly, a state_dict without num_batches_tracked, as it has no
_metadata when it comes from a safetensors file.
"""
import sys

import torch
import torchvision

import tensor_file


def main():
    shapes = {}
    for name in ("resnet18", "resnet34", "resnet50"):
        model = getattr(torchvision.models, name)()
        state = dict(model.state_dict())
        shapes |= {f"{name}/{key}": torch.tensor(value.shape, dtype=torch.int64) for key, value in state.items()}
        model.load_state_dict({key: value for key, value in state.items() if "num_batches_tracked" not in key}, strict=True)
    tensor_file.write(sys.argv[1], shapes)


if __name__ == "__main__":
    main()
