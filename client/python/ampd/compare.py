"""Checks that the programs of a file compute what the model computes: outputs, buffers, and every parameter's gradient.

The model is called as the user calls it, without the export's changes for tracing. To tell rounding from real
differences, the model itself is the measure: how far its results move when its parameters move by their last bits.
"""
import contextlib
import dataclasses
import warnings

import torch
from torch.export.pt2_archive._package import load_pt2

from . import example
from .backward_code import Watch, refuse_hooks
from .error import ExportError
from .modes import put_in_mode
from .origin import origin_of
from .python_state import KeptState, changed_state, later, plain_state

__all__ = ["check_file", "check_model", "layers_op_by_op"]

SEED = 11  # for draws in the model, the outputs' gradients, and changes of the parameters
EQUAL = 1e-6  # share of a tensor's norm by which equal results may differ
MOVEMENTS = 16  # allowed multiple of how far the last bits of the parameters move a result
LAST_BITS = 2**-22
MODES = {"train": "training", "eval": "evaluation"}


@dataclasses.dataclass
class Results:
    """The results of one call: tensors by their names in messages."""
    outputs: dict
    gradients: dict
    buffers: dict

    def parts(self):
        return self.outputs, self.buffers, self.gradients


@contextlib.contextmanager
def _in_turn(model):
    """Yields an iterator that puts the model in its mode for each program. It runs as the user runs it: by its own code, with
    gradients, and without affecting the user's random numbers. Leaves the model as it was."""
    kept = KeptState(model)

    def turns():
        for mode in MODES:
            kept.restore()
            put_in_mode(model, mode)
            yield mode, kept

    with torch.random.fork_rng(devices=[]), torch.compiler.set_stance("force_eager"), torch.enable_grad():
        try:
            yield turns()
        finally:
            kept.restore()


def check_model(model, example_inputs):
    """Raises ExportError if the model's forward does what no file can hold: Python code in the backward pass, numbers
    not drawn by torch, or Python state. Leaves the model as it was."""
    refuse_hooks(model)
    with _in_turn(model) as turns:
        for mode, kept in turns:
            _Check(model, None, mode, kept).check_calls(example_inputs)


def check_file(path, model, example_inputs, open_sizes):
    """Raises ExportError unless both programs of the file give the model's results: for the example, and for other
    inputs with another batch size and other parameters. Leaves the model as it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # load_pt2 warns of memory that nothing here writes
        programs = load_pt2(path).exported_programs
    with _in_turn(model) as turns:
        for mode, kept in turns:
            _Check(model, programs[mode].module(), mode, kept).compare(example_inputs, open_sizes)


class _Check:
    """Checks a model in one mode against its program for that mode."""

    def __init__(self, model, program, mode, kept):
        self._model = model
        self._program = program
        self._mode = mode
        self._kept = kept
        first = {}  # maps each parameter to the first of its names
        self._called = {name: first.setdefault(parameter, name)
                        for name, parameter in model.named_parameters(remove_duplicate=False)}
        self._parameters = dict(model.named_parameters())

    def compare(self, example_inputs, open_sizes):
        self._compare(example_inputs, self._results_of_model(example_inputs))
        if self._mode == "eval":
            with torch.no_grad(), layers_op_by_op():
                self._compare(example_inputs, self._results_of_model(example_inputs))
        kept = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        try:
            self._move_parameters(0.05, least=0.001)
            self._compare_others(example.others(example_inputs, open_sizes), open_sizes)
        finally:
            with torch.no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(kept[name])

    def check_calls(self, inputs):
        """Checks that later calls return what the first call did, and leave the state that the second call left."""
        first = self._results_of_model(inputs, Watch(self._model))
        try:
            second = self._results_of_model(inputs)
            before = plain_state(self._model)
            with later(self._model):
                third = self._results_of_model(inputs)
        except ExportError as error:
            raise ExportError(f"{error}; the model's first call with them does not fail. A forward must not keep what it "
                              "computes for its next call") from None
        changed = changed_state(before, plain_state(self._model))
        if changed is not None:
            raise ExportError("the forward changes {} with each call, from {} to {}; a file holds no Python state: what the "
                              "model computes must depend on its inputs, parameters and buffers alone".format(*changed))
        what = self._difference(inputs, first, second) or self._difference(inputs, first, third)
        if what is not None:
            raise ExportError(f"{what} differs when the model is called again with the same inputs; a file would hold what "
                              "the first call computed. Does the forward depend on something besides its inputs, as a count "
                              "of calls, the time or a generator of its own?")

    def _compare_others(self, tried, open_sizes):
        for place, inputs in enumerate(tried):
            is_last = place == len(tried) - 1
            try:
                expected = self._results_of_model(inputs)
                self._copy_state()
                given = self._results(self._program, inputs)
            except ExportError:
                if is_last:
                    raise
                continue  # the model or the program doesn't accept these values or this length
            self._refuse_difference(inputs, expected, given)
            return

    def _compare(self, inputs, expected):
        self._copy_state()
        self._refuse_difference(inputs, expected, self._results(self._program, inputs))

    def _refuse_difference(self, inputs, expected, given):
        what = self._difference(inputs, expected, given)
        if what is None:
            return
        self._kept.restore_buffers()
        self._copy_state()
        where = origin_of(self._model, self._program, inputs, SEED, in_backward=what.startswith("the gradient"))
        raise ExportError(f"the {MODES[self._mode]} program of the file does not compute what the model computes: {what} "
                          f"differs{where and ', first ' + where}; does the forward depend on something besides its inputs, "
                          "or does the model have a backward pass of its own?")

    def _results_of_model(self, inputs, watch=contextlib.nullcontext()):
        self._kept.restore_buffers()
        results = self._results(self._model, inputs, watch)
        self._kept.restore_buffers()
        return results

    def _call(self, owner, inputs):
        torch.manual_seed(SEED)
        try:
            return [one for one in torch.utils._pytree.tree_leaves(owner(*(tensor.detach().clone() for tensor in inputs)))
                    if isinstance(one, torch.Tensor)]
        except ExportError:
            raise
        except Exception as error:  # raised by the user's code or by PyTorch
            raise self._failure(owner, inputs, error) from error

    def _failure(self, owner, inputs, error):
        text = (str(error).strip() or type(error).__name__).split("\n")[0]
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
        which = "the model" if owner is self._model else f"the {MODES[self._mode]} program of the file"
        return ExportError(f"{which} fails with inputs of {shapes}: {text}")

    def _results(self, owner, inputs, watch=contextlib.nullcontext()):
        for parameter in owner.parameters():
            parameter.grad = None
        with watch:
            outputs = self._call(owner, inputs)
        differentiable = [one for one in outputs if one.requires_grad]
        if differentiable and torch.is_grad_enabled():
            try:
                torch.autograd.backward(differentiable, [_drawn_like(one) for one in differentiable])
            except Exception as error:
                raise self._failure(owner, inputs, error) from error
        gradients = {}
        for name, parameter in owner.named_parameters(remove_duplicate=owner is self._model):
            if parameter.grad is not None:
                # In a file tied parameters are separate ones, so their gradients are added here.
                called = self._called.get(name, name)
                gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
                key = f"the gradient of {called}"
                gradients[key] = gradients[key] + gradient if key in gradients else gradient
        return Results({f"output {index}": one.detach().clone() for index, one in enumerate(outputs)}, gradients,
                       {f"the buffer {name}": buffer.detach().clone() for name, buffer in owner.named_buffers()})

    @torch.no_grad()
    def _copy_state(self):
        """Copies parameters and buffers from the model to the program."""
        buffers = dict(self._model.named_buffers(remove_duplicate=False))
        for name, tensor in self._program.named_parameters(remove_duplicate=False):
            if name in self._called:
                tensor.copy_(self._parameters[self._called[name]])
        for name, tensor in self._program.named_buffers(remove_duplicate=False):
            if name in buffers:
                tensor.copy_(buffers[name])

    @torch.no_grad()
    def _move_parameters(self, scale, least=0.0):
        """Moves each number by about `scale` of its parameter's size or, if `least` is 0, of its own size."""
        random = torch.Generator().manual_seed(SEED)
        for parameter in self._parameters.values():
            size = parameter if least == 0 else max(float(parameter.square().mean().sqrt()), least / scale)
            parameter.add_(torch.randn(parameter.shape, generator=random) * size * scale)

    def _movement(self, inputs, expected):
        """Returns how far each result moves when the parameters move by their last bits, by name."""
        kept = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        try:
            self._move_parameters(LAST_BITS)
            moved = self._results_of_model(inputs)
        finally:
            with torch.no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(kept[name])
        return {name: (one.double() - there[name].double()).norm()
                for here, there in zip(expected.parts(), moved.parts())
                for name, one in here.items() if name in there and there[name].shape == one.shape}

    def _difference(self, inputs, expected, given):
        """Returns the name of the first result that differs by more than rounding, or None."""
        movement = {}
        for ours, theirs in zip(expected.parts(), given.parts()):
            if ours is expected.outputs and len(ours) != len(theirs):
                return "the number of outputs"
            for name, one in ours.items():
                if name not in theirs and ours is expected.buffers:
                    continue  # no program reads this buffer
                other = theirs.get(name, torch.zeros_like(one))
                if not _is_equal(one, other):
                    movement = movement or self._movement(inputs, expected)
                    if not _is_rounding(one, other, movement.get(name, 0)):
                        return name
            for name, other in theirs.items():
                if name not in ours and ours is expected.gradients and other.any():
                    return name
        return None


def _drawn_like(output):
    """Returns a gradient for an output: numbers of both signs, none of them small."""
    random = torch.Generator().manual_seed(SEED)
    drawn = torch.rand(output.shape, generator=random) + 0.5
    signs = torch.randint(0, 2, output.shape, generator=random) * 2 - 1 if output.dim() > 0 else 1
    return (drawn * signs).to(output.dtype)


def _is_equal(first, second):
    return first.shape == second.shape and first.dtype == second.dtype and (
        torch.equal(first, second) or torch.allclose(first, second, rtol=0, atol=0, equal_nan=True))


def _is_rounding(first, second, movement):
    if first.shape != second.shape or first.dtype != second.dtype or not first.is_floating_point():
        return False
    is_finite = torch.isfinite(first)
    if not torch.equal(is_finite, torch.isfinite(second)):
        return False
    first, second = (torch.where(is_finite, one, 0).double() for one in (first, second))
    return bool((first - second).norm() <= max(EQUAL * first.norm(), MOVEMENTS * movement))


@contextlib.contextmanager
def layers_op_by_op():
    """Disables PyTorch's fused op for attention and encoder layers without gradients, which rounds differently."""
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)
