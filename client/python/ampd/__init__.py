"""Take PyTorch models to ampd, which trains them without Python.

    import ampd
    ampd.export(model, (torch.zeros(4, 3, 32, 32),), "model.pt2")

and in a job file:  model: {exported: {path: <data root>/model.pt2}}
"""
import contextlib
import os
import tempfile
import warnings

import torch
from torch.export import Dim
from torch.export.pt2_archive._package import package_pt2

from . import bf16_twin
from .compare import check_file, check_model, layers_op_by_op
from .error import ExportError
from .masks import masks_without_vmap
from .modes import frozen_modules, put_in_mode
from .python_state import KeptState

__all__ = ["ExportError", "export"]

MOST_NAMES = 4  # modules that a warning names


def export(model, example_inputs, path, dynamic=None):
    """Write a model to `path` (ending in .pt2) for ampd: its training and its evaluation program in one archive.

    `model`: a torch.nn.Module in float32 on the CPU. Its forward takes tensors and returns what a head of the job
    accepts: logits, numbers, or, if the labels are among its inputs, the loss itself as their mean over the batch. If
    it has two networks, `generator` and `discriminator`, it returns the discriminator's and the generator's loss
    (docs/imported-models-reference.md).

    `example_inputs`: a tuple of the forward's inputs. The first size of each is the batch, at least 2.

    The batch size stays open and every other size is fixed, except those in `dynamic`: for each input a dict
    {dimension: name}, with a torch.export.Dim in place of the name to set bounds. Sizes with the same name are equal.
    For a text's length, pass `dynamic=({1: "length"}, {1: "length"})` for tokens and their mask; ampd then trains with
    the sequence_length of the job's data.

    Before the file appears at `path`, its programs are compared with the model: outputs, buffers and the gradient of
    every parameter, for the example and for other inputs with another batch size and other parameters. This calls the
    model several times in both modes. Afterwards its parameters, buffers, modes and attributes are as before.

    The training program is the model after model.train(), and the evaluation program the model after model.eval(). If
    some modules of the given model are in training mode and others in evaluation mode, such as frozen norms, the
    training program keeps the mode of each module, and a warning names the modules in evaluation mode.

    The file also records which of the model's dtypes are intended (a norm that computes in float32) and which only
    follow the dtype of the model's inputs (noise). For this, a bfloat16 copy of the model is traced and compared. If
    that fails, a warning gives the reason and the file omits the record.

    Raises ExportError, also if the model does what a file can't hold: Python code in the backward pass, or Python
    state. Errors of torch.export for a model that it can't trace are passed on.
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
    if frozen := frozen_modules(model):
        warnings.warn(f"the training program keeps in evaluation mode what is so in the given model: {_listed(frozen)}; if "
                      "it must train, call model.train() before ampd.export", stacklevel=2)
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
    """Returns the traced programs by name, and the content of the file about the bfloat16 twin. Leaves the model as it
    was."""
    kept = KeptState(model)
    try:
        with masks_without_vmap(), layers_op_by_op():
            programs = {}
            for name in ("train", "eval"):
                kept.restore()  # the first trace may leave tensors without values
                programs[name] = _trace(put_in_mode(model, name), example_inputs, open_sizes)
            kept.restore()
            return programs, bf16_twin.content_of(programs, model, example_inputs,
                                                  lambda other, inputs: _trace(other, inputs, open_sizes))
    finally:
        kept.restore()


def _listed(names):
    """Returns the first names as text, with the number of the others."""
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _open_sizes(example_inputs, dynamic):
    """Returns the dynamic_shapes argument of torch.export."""
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
    # A condition on a size that is only known at run time becomes an assertion; the import checks it for the job's
    # length.
    program = torch.export.export(model, example_inputs, dynamic_shapes=open_sizes,
                                  prefer_deferred_runtime_asserts_over_guards=any(len(sizes) > 1 for sizes in open_sizes))
    graph = program.graph
    for node in reversed(list(graph.nodes)):  # nodes that only prepare a vmap can't be saved
        if node.op == "call_function" and "predispatch" in getattr(node.target, "__module__", "") and not node.users:
            graph.erase_node(node)
    return program
