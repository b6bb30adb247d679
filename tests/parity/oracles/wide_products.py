"""Makes PyTorch on a CPU compute its bfloat16 products in float32, as ampd's "ampd.*_wide" ops do."""
import contextlib
from unittest import mock

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["wide_products"]

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
# The products of linear layers, convolutions and attention, in the forward and in the backward pass.
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.convolution.default, aten.convolution_backward.default, ATTENTION,
            aten._scaled_dot_product_flash_attention_for_cpu_backward.default)


@contextlib.contextmanager
def wide_products():
    """While the context lasts, bfloat16 operands of PRODUCTS are widened to float32, and their results are rounded once
    to bfloat16. Yields an object whose `num_widened` counts the products.

    For an input that is not contiguous, PyTorch itself splits a linear layer into one product per batch element, and
    rounds each product, their sums, and the sums with the bias. In this context the layer is one product, rounded once.
    """
    linear = functional.linear
    whole = lambda input, weight, bias=None: linear(input.contiguous(), weight, bias)
    with _Widening() as widening, mock.patch.object(functional, "linear", whole):
        yield widening


class _Widening(TorchDispatchMode):
    """Widens products as wide_products() says. It runs below autograd, so it also sees the products of the backward
    pass."""

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
