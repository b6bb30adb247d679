"""PyTorch on a CPU that computes its products of bfloat16 in float32, as ampd's "ampd.*_wide" ops do."""
import contextlib
from unittest import mock

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["wide_products"]

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
# Of linear layers, convolutions and attention, in the forward pass and in the backward pass.
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.convolution.default, aten.convolution_backward.default, ATTENTION,
            aten._scaled_dot_product_flash_attention_for_cpu_backward.default)


@contextlib.contextmanager
def wide_products():
    """Within it, operands of PRODUCTS in bfloat16 are widened to float32, and their results rounded once to bfloat16.
    Gives an object whose `num_widened` is how many there were.

    PyTorch takes a linear layer over an input that is not contiguous apart into products by batch, of which it rounds each,
    then their sums and those with the bias: here it is one product.
    """
    linear = functional.linear
    whole = lambda input, weight, bias=None: linear(input.contiguous(), weight, bias)
    with _Widening() as widening, mock.patch.object(functional, "linear", whole):
        yield widening


class _Widening(TorchDispatchMode):
    """Stands below autograd, whose own products in the backward pass it sees too."""

    def __init__(self):
        super().__init__()
        self.num_widened = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in PRODUCTS or args[0].dtype != torch.bfloat16:
            return func(*args, **kwargs)
        self.num_widened += 1
        args, kwargs = _cast((args, kwargs), torch.bfloat16, torch.float32)
        result = func(*args, **kwargs)
        if func == ATTENTION:
            return _cast(result[0], torch.float32, torch.bfloat16), result[1]  # the sums of exponentials stay float32
        return _cast(result, torch.float32, torch.bfloat16)


def _cast(values, given, wanted):
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(wanted) if tensor.dtype == given else tensor, values)
