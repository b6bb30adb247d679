#!/usr/bin/env python3
"""Run every op of the engine's table under torch.autocast and write the dtypes of the results.

Usage: oracle_autocast.py cpu|cuda bfloat16|float16 OUT

OUT receives, as safetensors, for each op by its name ("aten.mm.default") two numbers (int64): what a
float32 input and what an input of the autocast dtype give. 0: float32, 1: the autocast dtype, 2: no floating-point
result, -1: autocast refuses the op, -2: it can't be tried here. Without a GPU, "cuda" runs on fake tensors: no kernel runs, and the dispatcher
takes the very same path through the autocast lists.
"""
import contextlib
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tensor_file

BATCH, CHANNELS, SIZE = 2, 4, 4


def real(*shape):
    return torch.rand(*shape) * 0.5 + 0.25


def labels():
    return torch.zeros(SIZE, dtype=torch.int64)


def ones():
    return torch.ones(CHANNELS)


def images():
    return real(BATCH, CHANNELS, SIZE, SIZE)


def square():
    return real(SIZE, SIZE)


def stack():
    return real(BATCH, SIZE, SIZE)


def recurrent(x, num_states, num_gates):
    """The arguments of one layer over sequences of SIZE positions."""
    states = [x(real(1, BATCH, SIZE)) for _ in range(num_states)]
    rows = num_gates * SIZE
    parameters = [x(real(rows, SIZE)), x(real(rows, SIZE)), x(real(rows)), x(real(rows))]
    return (x(stack()), states if num_states > 1 else states[0], parameters, True, 1, 0.0, True, False, True)


# By op: the arguments, with `x` for what gives floating-point inputs their dtype. Two-armed ops get one float32 arm.
ARGUMENTS = {
    "aten.addmm.default": lambda x: (x(square()), x(square()), x(square())),
    "aten.bmm.default": lambda x: (x(stack()), x(stack())),
    "aten.conv2d.default": lambda x: (x(images()), x(real(CHANNELS, CHANNELS, 3, 3))),
    "aten.convolution.default": lambda x: (x(images()), x(real(CHANNELS, CHANNELS, 3, 3)), None, [1, 1], [0, 0], [1, 1],
                                           False, [0, 0], 1),
    "aten.linear.default": lambda x: (x(square()), x(square())),
    "aten.matmul.default": lambda x: (x(square()), x(square())),
    "aten.mm.default": lambda x: (x(square()), x(square())),
    "aten.scaled_dot_product_attention.default": lambda x: (x(images()), x(images()), x(images())),
    "aten.cross_entropy_loss.default": lambda x: (x(square()), labels()),
    "aten.log_softmax.int": lambda x: (x(square()), 1),
    "aten.mean.default": lambda x: (x(square()),),
    "aten.mean.dim": lambda x: (x(square()), [1]),
    "aten.huber_loss.default": lambda x: (x(square()), x(square())),
    "aten.mse_loss.default": lambda x: (x(square()), x(square())),
    "aten.smooth_l1_loss.default": lambda x: (x(square()), x(square())),
    "aten.nll_loss_nd.default": lambda x: (x(square()), labels()),
    "aten.softmax.int": lambda x: (x(square()), 1),
    "aten.sum.default": lambda x: (x(square()),),
    "aten.sum.dim_IntList": lambda x: (x(square()), [1]),
    "aten.batch_norm.default": lambda x: (x(images()), ones(), ones(), ones(), ones(), True, 0.1, 1e-5, False),
    "aten.layer_norm.default": lambda x: (x(square()), [SIZE], ones(), ones()),
    "aten.add.Tensor": lambda x: (x(square()), square()),
    "aten.cat.default": lambda x: ([x(square()), square()],),
    "aten.mul.Tensor": lambda x: (x(square()), square()),
    "aten.sub.Tensor": lambda x: (x(square()), square()),
    "aten.binary_cross_entropy.default": lambda x: (x(square()), x(square())),
    "aten.binary_cross_entropy_with_logits.default": lambda x: (x(square()), x(square())),
    "aten.adaptive_avg_pool2d.default": lambda x: (x(images()), [1, 1]),
    "aten.argmax.default": lambda x: (x(square()), 1),
    "aten.avg_pool2d.default": lambda x: (x(images()), [2, 2]),
    "aten.detach.default": lambda x: (x(square()),),
    "aten.dropout.default": lambda x: (x(square()), 0.5, True),
    "aten.embedding.default": lambda x: (x(square()), labels()),
    "aten.eq.Tensor": lambda x: (x(square()), x(square())),
    "aten.feature_dropout.default": lambda x: (x(images()), 0.5, True),
    "aten.flatten.using_ints": lambda x: (x(square()),),
    "aten.gelu.default": lambda x: (x(square()),),
    "aten.max_pool2d.default": lambda x: (x(images()), [2, 2]),
    "aten.ones_like.default": lambda x: (x(square()),),
    "aten.permute.default": lambda x: (x(square()), [1, 0]),
    "aten.relu.default": lambda x: (x(square()),),
    "aten.reshape.default": lambda x: (x(square()), [SIZE * SIZE]),
    "aten.select.int": lambda x: (x(square()), 0, 1),
    "aten.sigmoid.default": lambda x: (x(square()),),
    "aten.silu.default": lambda x: (x(square()),),
    "aten.slice.Tensor": lambda x: (x(square()), 0, 0, 2),
    "aten.split.Tensor": lambda x: (x(square()), 2),
    "aten.squeeze.dim": lambda x: (x(real(SIZE, 1)), 1),
    "aten.t.default": lambda x: (x(square()),),
    "aten.tanh.default": lambda x: (x(square()),),
    "aten.transpose.int": lambda x: (x(square()), 0, 1),
    "aten.unsqueeze.default": lambda x: (x(square()), 1),
    "aten.view.default": lambda x: (x(square()), [SIZE * SIZE]),
    "aten.zeros_like.default": lambda x: (x(square()),),
    # What only imported models have.
    "aten.clone.default": lambda x: (x(square()),),
    "aten.contiguous.default": lambda x: (x(square()),),
    "aten.cumsum.default": lambda x: (x(square()), 1),
    "aten.diff.default": lambda x: (x(square()),),
    "aten.div.Tensor": lambda x: (x(square()), square()),
    "aten.elu.default": lambda x: (x(square()),),
    "aten.expand.default": lambda x: (x(square()), [2, SIZE, SIZE]),
    "aten.group_norm.default": lambda x: (x(images()), 2, ones(), ones()),
    "aten.hardsigmoid.default": lambda x: (x(square()),),
    "aten.hardswish.default": lambda x: (x(square()),),
    "aten.hardtanh.default": lambda x: (x(square()),),
    "aten.le.Tensor": lambda x: (x(square()), x(square())),
    "aten.leaky_relu.default": lambda x: (x(square()),),
    "aten.masked_fill.Scalar": lambda x: (x(square()), square() > 0.5, 0.0),
    "aten.ne.Scalar": lambda x: (x(square()), 0),
    "aten.neg.default": lambda x: (x(square()),),
    "aten.pow.Tensor_Scalar": lambda x: (x(square()), 3.0),
    "aten.rsqrt.default": lambda x: (x(square()),),
    "aten.unflatten.int": lambda x: (x(square()), 1, [2, SIZE // 2]),
    "aten.abs.default": lambda x: (x(square()),),
    "aten.arange.default": lambda x: (SIZE,),
    "aten.arange.start": lambda x: (1, SIZE),
    "aten.bernoulli.p": lambda x: (x(square()), 0.5),
    "aten.chunk.default": lambda x: (x(square()), 2),
    "aten.cos.default": lambda x: (x(square()),),
    "aten.empty.memory_format": lambda x: ([SIZE],),
    "aten.eq.Scalar": lambda x: (x(square()), 0),
    "aten.fill.Tensor": lambda x: (x(square()), torch.ones([])),
    "aten.full_like.default": lambda x: (x(square()), 2.0),
    "aten.gt.Scalar": lambda x: (x(square()), 0),
    "aten.log.default": lambda x: (x(square()),),
    "aten.lt.Scalar": lambda x: (x(square()), 0),
    "aten.index.Tensor": lambda x: (x(square()), [labels()]),
    "aten.min.other": lambda x: (x(square()), square()),
    "aten.new_zeros.default": lambda x: (x(square()), [SIZE]),
    "aten.ones.default": lambda x: ([SIZE],),
    "aten.pad.default": lambda x: (x(square()), [0, 1]),
    "aten.roll.default": lambda x: (x(square()), [1], [1]),
    "aten.select_scatter.default": lambda x: (x(square()), x(real(SIZE)), 0, 1),
    "aten.sin.default": lambda x: (x(square()),),
    "aten.slice_scatter.default": lambda x: (x(square()), x(real(1, SIZE)), 0, 1, 2),
    "aten.where.self": lambda x: (square() > 0.5, x(square()), square()),
    "aten.zeros.default": lambda x: ([SIZE],),
    "aten.baddbmm.default": lambda x: (x(stack()), x(stack()), x(stack())),
    "aten.bitwise_not.default": lambda x: (square() > 0.5,),
    "aten.clamp.default": lambda x: (x(square()), 0.0, 0.5),
    "aten.clamp_min.default": lambda x: (x(square()), 0.0),
    "aten.copy.default": lambda x: (x(square()), x(square())),
    "aten.einsum.default": lambda x: ("ij,jk->ik", [x(square()), x(square())]),
    "aten.exp.default": lambda x: (x(square()),),
    "aten.expand_as.default": lambda x: (x(square()), stack()),
    "aten.full.default": lambda x: ([SIZE], 2.0),
    "aten.gt.Tensor": lambda x: (x(square()), x(square())),
    "aten.le.Scalar": lambda x: (x(square()), 0),
    "aten.linalg_vector_norm.default": lambda x: (x(square()), 2, [1]),
    "aten.logical_not.default": lambda x: (x(square()),),
    "aten.numpy_T.default": lambda x: (x(square()),),
    "aten.pow.Tensor_Tensor": lambda x: (x(square()), x(square())),
    "aten.repeat.default": lambda x: (x(square()), [2, 1]),
    "aten.rsub.Scalar": lambda x: (x(square()), 1.0),
    "aten.sqrt.default": lambda x: (x(square()),),
    "aten.swapaxes.default": lambda x: (x(square()), 0, 1),
    "aten.triu.default": lambda x: (x(square()),),
    "aten.unbind.int": lambda x: (x(square()), 0),
    "aten.zero.default": lambda x: (x(square()),),
    "aten.conv_transpose2d.input": lambda x: (x(images()), x(real(CHANNELS, CHANNELS, 3, 3))),
    # Sequences.
    "aten.gather.default": lambda x: (x(square()), 1, torch.zeros(SIZE, 1, dtype=torch.int64)),
    "aten.gru.input": lambda x: recurrent(x, 1, 3),
    "aten.lstm.input": lambda x: recurrent(x, 2, 4),
}


# On a GPU these call cuDNN before the dispatcher tells a dtype, and oneDNN has no LSTM in float16 on every CPU.
NEEDS_ITS_DEVICE = {"aten.gru.input": ("CUDA error", "no NVIDIA driver"),
                    "aten.lstm.input": ("CUDA error", "no NVIDIA driver", "could not create a primitive")}


def code_of(result, low):
    first = result[0] if isinstance(result, (list, tuple)) else result
    if not first.is_floating_point():
        return 2
    return {torch.float32: 0, low: 1}[first.dtype]


def overload(name):
    _, op, kind = name.split(".")
    return getattr(getattr(torch.ops.aten, op), kind)


def run(name, device, low, dtype):
    """The code of one op's result for inputs of one dtype."""
    arguments = ARGUMENTS[name](lambda tensor: tensor.to(dtype))
    # torch.autocast itself turns "cuda" off where there is no GPU.
    torch.set_autocast_dtype(device, low)
    torch.set_autocast_enabled(device, True)
    try:
        return code_of(overload(name)(*arguments), low)
    except RuntimeError as error:
        if any(words in str(error) for words in NEEDS_ITS_DEVICE.get(name, ())):
            return -2
        if "unsafe to autocast" not in str(error):
            raise
        return -1
    finally:
        torch.set_autocast_enabled(device, False)
        torch.clear_autocast_cache()


def main():
    device, low = sys.argv[1], getattr(torch, sys.argv[2])
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    codes = {}
    with FakeTensorMode() if device == "cuda" else contextlib.nullcontext():
        torch.set_default_device(device)
        for name in ARGUMENTS:
            codes[name] = [run(name, device, low, dtype) for dtype in (torch.float32, low)]
    torch.set_default_device(None)
    tensor_file.write(sys.argv[3], {name: torch.tensor(pair) for name, pair in codes.items()})


if __name__ == "__main__":
    main()
