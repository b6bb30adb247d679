"""Take PyTorch models to ampd, which trains them without Python.

    import ampd
    ampd.export(model, (torch.zeros(4, 3, 32, 32),), "model.pt2")

and in a job file:  model: {exported: {path: <data root>/model.pt2}}
"""
import contextlib
import os
import tempfile

import torch
from torch.export import Dim
from torch.export.pt2_archive._package import package_pt2

from . import bf16_twin
from .compare import check_file, check_model, layers_op_by_op
from .error import ExportError
from .masks import masks_without_vmap
from .python_state import KeptState

__all__ = ["ExportError", "export"]


def export(model, example_inputs, path, dynamic=None):
    """Write a model to `path` (ending in .pt2) as ampd runs it: its training and its evaluation program in one archive.

    `model`: a torch.nn.Module in float32 on the CPU, whose forward takes tensors and gives what a head of the job takes:
    logits, numbers, or with the labels among its inputs the loss itself, as their mean over the batch; of two networks,
    `generator` and `discriminator`, the discriminator's loss and the generator's (docs/imported-models.md). `example_inputs`: a
    tuple of what it takes, with a batch of at least 2 as the first size of each; the batch size is left open, every other
    size is fixed, but for those that `dynamic` names: of each input its {dimension: name}, or a torch.export.Dim with bounds
    in the name's place; sizes of one name are equal. ampd takes the length of a text's samples so, `dynamic=({1: "length"},
    {1: "length"})` for tokens and their mask, and trains with the sequence_length of the job's data.

    Before the file appears at `path`, its programs are compared with the model as it is: outputs, buffers and the gradient
    of every parameter, for the example and for other inputs of another batch size with other parameters. The model is
    called several times for this, in both modes. Its parameters, buffers, modes and attributes are afterwards what they
    were.

    The file tells too which of the model's dtypes are meant, as a norm's that computes in float32, and which follow the
    dtype of what the model is given, as noise's: a copy of the model in bfloat16 is traced, and compared. Where that can't
    be, a warning says why, and the file goes without.

    Raises ExportError, also for a model that does what no file holds: Python code in the backward pass, or Python state; or
    what torch.export raises for a model that it can't trace.
    """
    example_inputs = tuple(example_inputs)
    for tensor in example_inputs:
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0 or tensor.shape[0] < 2:
            raise ExportError("each example input must be a tensor whose first size is a batch of at least 2")
    open_sizes = _open_sizes(example_inputs, dynamic)
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise ExportError(f"{name} is {parameter.dtype} on {parameter.device}; export a float32 model on the CPU, "
                              "the job's precision says the rest")
    check_model(model, example_inputs)
    programs, twin = _traced(model, example_inputs, open_sizes)
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".pt2", delete=False) as file:
        temporary = file.name
    try:
        package_pt2(temporary, exported_programs=programs, extra_files=twin and {bf16_twin.FILE: twin})
        check_file(temporary, model, example_inputs, open_sizes)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _traced(model, example_inputs, open_sizes):
    """The programs by their names, and what the twin tells of them. Leaves the model as it was."""
    kept = KeptState(model)
    try:
        with masks_without_vmap(), layers_op_by_op():
            programs = {}
            for name in ("train", "eval"):
                kept.restore()  # what the first trace has left may be a tensor without numbers
                programs[name] = _trace(model.train(name == "train"), example_inputs, open_sizes)
            kept.restore()
            return programs, bf16_twin.content_of(programs, model, example_inputs,
                                                  lambda other, inputs: _trace(other, inputs, open_sizes))
    finally:
        kept.restore()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _open_sizes(example_inputs, dynamic):
    """What torch.export calls dynamic_shapes."""
    dynamic = ({},) * len(example_inputs) if dynamic is None else tuple(dynamic)
    if len(dynamic) != len(example_inputs):
        raise ExportError(f"dynamic has {len(dynamic)} entries for {len(example_inputs)} inputs; give a dict, which may be "
                          "empty, for each")
    batch = Dim("batch", min=1)
    dims = {size: Dim(size, min=2) if isinstance(size, str) else size for sizes in dynamic for size in sizes.values()}
    if "batch" in dims:
        raise ExportError('dynamic names a size "batch"; the batch size is left open without it')
    for tensor, sizes in zip(example_inputs, dynamic):
        for dimension in sizes:
            if not 0 < dimension < tensor.dim():
                raise ExportError(f"dynamic names dimension {dimension} of an input of {tensor.dim()}; it must be from 1 to "
                                  f"{tensor.dim() - 1}")
    return tuple({0: batch} | {dimension: dims[size] for dimension, size in sizes.items()} for sizes in dynamic)


def _trace(model, example_inputs, open_sizes):
    # What a model asks of a size that only a run knows becomes an assertion, which the import checks for the job's length.
    program = torch.export.export(model, example_inputs, dynamic_shapes=open_sizes,
                                  prefer_deferred_runtime_asserts_over_guards=any(len(sizes) > 1 for sizes in open_sizes))
    graph = program.graph
    for node in reversed(list(graph.nodes)):  # what only prepares a vmap, and can't be saved
        if node.op == "call_function" and "predispatch" in getattr(node.target, "__module__", "") and not node.users:
            graph.erase_node(node)
    return program
