"""Tensors in a safetensors file, for oracles to hand over what PyTorch computed. The reader is oracle.cc's."""
import torch
from safetensors.torch import save_file


def write(path, tensors):
    """Writes a dict of tensors by their names."""
    # Copies: save_file takes no two tensors that share memory, as tied weights do, and no strides.
    save_file({name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}, path)
