#!/usr/bin/env python3
"""Runs every op of the engine's table, in every form of op_forms.py, under torch.autocast.

Usage: oracle_autocast.py cpu|cuda|none bfloat16|float16 OUT

OUT receives, as safetensors, "cases", the bytes of a JSON list with an object for each case:
  op, arguments  by the schema's names; a tensor is {"slot": i}, a list of tensors {"slots": [i, null, ...]}, a number
                 with a decimal point {"real": "0.5"}
  slots          for each tensor "kind" (of op_forms.Slot, or "constant"), "dtype" and "shape"
  results        dtype and shape of each result if all floating-point inputs are float32 and nothing is cast
  gives          the dtypes of the results under autocast; or
  fails          PyTorch's error instead of a result
and the tensors of case n: "<n>.slot.<i>" and, on a CPU, "<n>.result.<i>" and "<n>.gradient.<i>". The latter is the
gradient of slot i if the gradient of each result is gradient_for(). With "none" no op runs under autocast, and cases
have no "gives". Without a GPU, "cuda" runs on fake tensors: no kernel runs, but the dispatcher takes the same path
through the autocast lists.
"""
import contextlib
import json
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import op_forms
import tensor_file

# Ops whose cases fail if the device at hand cannot run them. For "cuda" they call cuDNN before the dispatcher decides
# on a dtype. On some CPUs oneDNN has no LSTM in float16.
RECURRENT = ("aten.gru.input", "aten.lstm.input")
NEEDS_ITS_DEVICE = "needs its device"
# In place of this op, its in-place form is run: models call that form, and it has a derivative.
COPY = "aten.copy.default"
NO_DERIVATIVE = "aten.bernoulli.p"


def overload(name):
    _, op, kind = name.split(".")
    return getattr(getattr(torch.ops.aten, op), kind)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def described(tensor):
    return {"dtype": name_of(tensor.dtype), "shape": list(tensor.shape)}


def arguments_of(op, arguments, named):
    """Returns the call's arguments by name, with tensors as slot numbers."""
    count = iter(range(100))

    def encode(argument):
        if isinstance(argument, (torch.Tensor, op_forms.Slot)):
            return {"slot": next(count)}
        if isinstance(argument, (list, tuple)) and any(isinstance(a, (torch.Tensor, op_forms.Slot)) for a in argument):
            return {"slots": [None if entry is None else next(count) for entry in argument]}
        if isinstance(argument, float):
            return {"real": repr(argument)}  # JSON has no infinity
        return {"dtype": name_of(argument)} if isinstance(argument, torch.dtype) else argument

    names = [argument.name for argument in overload(op)._schema.arguments]
    encoded = {name: encode(argument) for name, argument in zip(names, arguments)}
    return encoded | {name: encode(argument) for name, argument in named.items()}


def results_of(op, arguments, named, tensors):
    positional, keywords = op_forms.filled(arguments, named, tensors)
    result = positional[0].clone().copy_(positional[1]) if op == COPY else overload(op)(*positional, **keywords)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def under_autocast(device, low, run):
    # torch.autocast itself disables "cuda" if there is no GPU.
    torch.set_autocast_dtype(device, low)
    torch.set_autocast_enabled(device, True)
    try:
        return run()
    finally:
        torch.set_autocast_enabled(device, False)
        torch.clear_autocast_cache()


def gradient_for(result):
    """Returns varying numbers, so that no op can replace them by one constant."""
    numbers = torch.arange(result.numel(), dtype=torch.float32)
    return (numbers.remainder(7) / 8 + 0.25).reshape(result.shape).to(result.dtype)


def gradients_of(results, tensors):
    trained = [i for i, tensor in enumerate(tensors) if tensor.requires_grad]
    led = [result for result in results if result.requires_grad]
    if not led or not trained:
        return {}
    found = torch.autograd.grad(led, [tensors[i] for i in trained], [gradient_for(one) for one in led], allow_unused=True)
    return {i: gradient for i, gradient in zip(trained, found) if gradient is not None}


def plain_results(low):
    """Yields the results of each case in float32 on a CPU."""
    for op, arguments, named, slots, _ in op_forms.cases(low):
        wide = [slot.tensor.detach().clone() for slot in slots]
        yield [described(result) for result in results_of(op, arguments, named, wide)]


def run_case(op, arguments, named, slots, dtypes, device, low):
    """Returns the case for JSON, without its "results", and its tensors."""
    case = {"op": op, "arguments": arguments_of(op, arguments, named)}
    given = [slot.tensor.detach().to(dtype, copy=True) for slot, dtype in zip(slots, dtypes)]
    case["slots"] = [{"kind": slot.kind} | described(tensor) for slot, tensor in zip(slots, given)]
    tensors = {f"slot.{i}": tensor.clone() for i, tensor in enumerate(given)}
    if device == "none":
        return case, tensors
    for slot, tensor in zip(slots, given):
        tensor.requires_grad_(slot.kind in ("input", "parameter") and tensor.is_floating_point())
    # Without AVX-512 autocast either refuses an LSTM or, if the dtypes of its operands differ, computes it in fp32.
    lacks_lstm = device == "cuda" or not torch.cpu._is_avx512_supported()
    if lacks_lstm and op in RECURRENT:
        return case | {"fails": NEEDS_ITS_DEVICE}, tensors
    try:
        results = under_autocast(device, low, lambda: results_of(op, arguments, named, given))
        case["gives"] = [name_of(result.dtype) for result in results]
    except RuntimeError as error:
        lacks_16_bits = op in RECURRENT and "could not create a primitive" in str(error)
        return case | {"fails": NEEDS_ITS_DEVICE if lacks_16_bits else str(error)}, tensors
    if device == "cpu":
        tensors |= {f"result.{i}": result for i, result in enumerate(results)}
        gradients = {} if op == NO_DERIVATIVE else gradients_of(results, given)
        tensors |= {f"gradient.{i}": gradient for i, gradient in gradients.items()}
    return case, tensors


def main():
    device, low = sys.argv[1], getattr(torch, sys.argv[2])
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    cases, tensors = [], {}
    results = list(plain_results(low))
    with FakeTensorMode() if device == "cuda" else contextlib.nullcontext():
        torch.set_default_device(device if device == "cuda" else "cpu")
        for number, case in enumerate(op_forms.cases(low)):
            described_case, found = run_case(*case, device, low)
            cases.append(described_case | {"results": results[number]})
            if device != "cuda":
                tensors |= {f"{number}.{name}": tensor for name, tensor in found.items()}
    torch.set_default_device(None)
    tensors["cases"] = torch.frombuffer(bytearray(json.dumps(cases).encode()), dtype=torch.uint8)
    tensor_file.write(sys.argv[3], tensors)


if __name__ == "__main__":
    main()
