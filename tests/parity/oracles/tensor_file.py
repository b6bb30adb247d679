"""Writes tensors to a safetensors file, in which oracles return what PyTorch computed. oracle.cc reads the file."""
import torch
from safetensors.torch import save_file


def write(path, tensors):
    """Writes a dict of tensors by name."""
    # The tensors are copied: save_file accepts neither tensors that share memory, as tied weights do, nor strides.
    save_file({name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}, path)
