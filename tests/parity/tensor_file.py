"""Tensors in a file, for oracles to hand over what PyTorch computed.

    file   = tensor*
    tensor = name length (u32), name, dtype (u8: 0 float32, 1 int64), rank (u32), sizes (i64 each), row-major content

All numbers are little-endian. The reader is oracle.cc.
"""
import struct

import torch

DTYPES = {torch.float32: 0, torch.int64: 1}


def write(path, tensors):
    """Writes a dict of tensors, name by name."""
    with open(path, "wb") as file:
        for name, tensor in tensors.items():
            encoded = name.encode()
            file.write(struct.pack("<I", len(encoded)) + encoded)
            file.write(struct.pack("<BI", DTYPES[tensor.dtype], tensor.dim()))
            file.write(struct.pack(f"<{tensor.dim()}q", *tensor.shape))
            file.write(tensor.detach().contiguous().numpy().tobytes())
