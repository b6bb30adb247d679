"""Detects Python code that changes gradients: custom backward passes, and hooks.

A program of torch.export holds what a forward computes. Its gradients are derived from that, and Python code that runs
in the backward pass is lost. A run of the model is watched for such code, and for random numbers not drawn by torch.
"""
import contextlib
import random
import sys

import torch
from torch.autograd import function as autograd_function
from torch.nn.modules import module as nn_module
from torch.utils import checkpoint

from .error import ExportError

__all__ = ["Watch", "named", "refuse_hooks"]

CLOSE = 1e-4  # share of a gradient's norm by which equal derivatives may differ through rounding
# Factors for (the inputs, the output's gradient): a backward pass may clip, scale or replace either.
PROBES = ((1, 1), (1, 1e-6), (1, 1e6), (1, float("nan")), (30, 1), (1e-3, 1))


# PyTorch's own Functions that no gradient passes through.
OF_TORCH = (checkpoint._NoopSaveInputs,)
WITH_DETACH = ("write it in ops whose derivatives are those that you mean, with detach: x.detach() * 2 - x has the value of "
               "x and the opposite gradient, x + (x.round() - x).detach() that of x.round() and the gradient of x")
WITHOUT_CHECKPOINTS = ("call torch.utils.checkpoint with use_reentrant=False, or leave it out: a job's "
                       "train.checkpoint_segments saves the memory")


def named(name, module):
    """Returns a module's name in messages: 'layers.0 (Linear)'."""
    return f"{name or 'the model'} ({type(module).__name__})"


def _refuse(where, what, how="remove it before the export, and write what it does in ops of the forward pass"):
    raise ExportError(f"{where} has {what}; a file holds what the forward pass computes, and no Python code that runs in "
                      f"the backward pass, so that a job would train with other gradients: {how}")


def refuse_hooks(model):
    """Raises ExportError for a backward hook on a module, on a parameter or buffer, or on all modules."""
    for name, module in model.named_modules():
        for hooks in (module._backward_hooks, module._backward_pre_hooks):
            for hook in hooks.values():
                _refuse(named(name, module), f"the backward hook {_name(hook)}")
    for hooks in (nn_module._global_backward_hooks, nn_module._global_backward_pre_hooks):
        for hook in hooks.values():
            _refuse("torch.nn.Module", f"the backward hook {_name(hook)} for all modules")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        for kind, hooks in (("hook", tensor._backward_hooks),
                            ("hook of its accumulated gradient", getattr(tensor, "_post_accumulate_grad_hooks", None))):
            for hook in (hooks or {}).values():
                _refuse(name, f"the {kind} {_name(hook)}")


def _name(code):
    return repr(getattr(code, "__qualname__", type(code).__name__))


def _function(kind):
    generated = "GeneratedBackwardFor_"  # "GeneratedBackwardFor_namespace_op_overload", by torch.library
    operator = getattr(kind, "__name__", "").removeprefix(generated)
    return (f"the operator {operator!r} of torch.library" if operator != kind.__name__
            else f"the torch.autograd.Function {_name(kind)}")


class Watch:
    """A context that raises ExportError if a run of the model does what no trace records: a hook put on a tensor, a
    torch.autograd.Function whose backward pass is not the derivative of its forward pass, or numbers drawn from
    Python's or NumPy's generator. The message names the module."""

    def __init__(self, model):
        self._names = {module: name for name, module in model.named_modules()}
        self._inside = [model]
        self._seen = set()
        self._is_probing = False

    def __enter__(self):
        self._draws = _draws()
        with contextlib.ExitStack() as stack:
            for handle in (nn_module.register_module_forward_pre_hook(self._enter_module),
                           nn_module.register_module_forward_hook(self._leave_module, always_call=True)):
                stack.callback(handle.remove)
            for owner, name, watched in (
                    (torch.Tensor, "register_hook", self._hooked),
                    (torch.Tensor, "register_post_accumulate_grad_hook", self._hooked)):
                original = vars(owner)[name]
                setattr(owner, name, watched(original))
                stack.callback(setattr, owner, name, original)
            # Function.apply calls super().apply, also if a caller has saved a reference to Function.apply.
            autograd_function._SingleLevelFunction.apply = self._applied()
            stack.callback(delattr, autograd_function._SingleLevelFunction, "apply")
            stack.callback(sys.setprofile, sys.getprofile())
            sys.setprofile(self._profile)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()
        if error == (None, None, None):
            self._check_draws()

    def _where(self):
        module = self._inside[-1]
        return named(self._names.get(module), module)

    def _enter_module(self, module, inputs):
        self._check_draws()
        self._inside.append(module)

    def _leave_module(self, module, inputs, output):
        if sys.exc_info()[0] is None:
            self._check_draws()
        self._inside.pop()

    def _check_draws(self):
        for (generator, before), (_, after) in zip(self._draws, _draws()):
            if before != after:
                raise ExportError(f"the forward of {self._where()} draws from {generator}; a file would hold the one number "
                                  "that was drawn at the export: draw with torch (torch.rand), as tensors")

    def _hooked(self, original):
        def register(tensor, hook):
            if not self._is_probing:
                _refuse(self._where(), f"a forward that puts the hook {_name(hook)} on a tensor")
            return original(tensor, hook)

        return register

    def _profile(self, frame, event, called):
        # Catches hooks on nodes of the backward pass, whose methods are written in C.
        if event == "c_call" and getattr(called, "__name__", "") in ("register_hook", "register_prehook"):
            sys.setprofile(None)
            _refuse(self._where(), f"a forward that puts a hook on the backward pass ({called.__name__})")

    def _applied(self):
        def apply(kind, *arguments, **keywords):
            if not self._is_probing:
                self._check_function(kind, arguments, keywords)
            return super(autograd_function._SingleLevelFunction, kind).apply(*arguments, **keywords)

        return classmethod(apply)

    def _check_function(self, kind, arguments, keywords):
        others = repr([one for one in arguments if not isinstance(one, torch.Tensor)])
        key = (kind, self._inside[-1], others)
        if key in self._seen or kind in OF_TORCH or not torch.is_grad_enabled():
            return
        self._seen.add(key)
        self._is_probing = True
        try:
            with torch.random.fork_rng(devices=[]):
                is_derivative = _is_derivative(kind, arguments, keywords)
        finally:
            self._is_probing = False
        if not is_derivative:
            _refuse(self._where(), f"{_function(kind)}, whose backward pass is not the derivative of its forward pass",
                    WITHOUT_CHECKPOINTS if kind is checkpoint.CheckpointFunction else WITH_DETACH)


def _draws():
    """Returns (name of a generator, a value that changes with each draw from it) for Python's and NumPy's
    generators."""
    found = [("Python's random module", hash(random.getstate()))]
    if "numpy.random" in sys.modules:
        state = sys.modules["numpy.random"].get_state()
        found.append(("NumPy's random module", (hash(state[1].tobytes()), *state[2:])))
    return found


class _Context:
    """Takes the place of the context in a Function's forward that runs as ordinary code. Ignores what is saved in
    it."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True

    def _ignore(self, *tensors):
        pass

    save_for_backward = save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = _ignore


def _is_derivative(kind, arguments, keywords):
    """Returns whether a Function's backward pass returns what PyTorch derives from its forward pass. Tries inputs and
    gradients of several scales."""
    wanted = [isinstance(one, torch.Tensor) and one.requires_grad for one in arguments]
    if not any(wanted):
        return True  # its backward pass has nothing to return; other trained tensors are compared with the whole model

    def forward(*inputs):
        if autograd_function._is_setup_context_defined(kind.setup_context):
            return kind.forward(*inputs, **keywords)
        return kind.forward(_Context(tuple(wanted)), *inputs, **keywords)

    try:
        for input_scale, gradient_scale in PROBES:
            expected = _gradients(lambda *inputs: kind.apply(*inputs, **keywords), arguments, input_scale, gradient_scale)
            derived = _gradients(forward, arguments, input_scale, gradient_scale)
            if derived is not None and not all(map(_is_close, expected or derived, derived)):
                return False
    except Exception:  # raised by the user's code, which may fail outside the model that it is a part of
        return False
    return True


def _gradients(call, arguments, input_scale, gradient_scale):
    """Returns the gradients of the inputs that require one. Returns None if an output isn't finite, because the inputs
    are then out of range."""
    with torch.enable_grad():
        leaves = [_leaf(one, input_scale) if isinstance(one, torch.Tensor) else one for one in arguments]
        # Clone the inputs, because the code may write to them.
        given = call(*(one.clone() if isinstance(one, torch.Tensor) else one for one in leaves))
        outputs = [one for one in (given if isinstance(given, tuple) else (given,)) if isinstance(one, torch.Tensor)]
        if not all(bool(torch.isfinite(one).all()) for one in outputs):
            return None
        wanted = [one for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
        reached = [(one, gradient) for one, gradient in zip(outputs, _drawn(outputs, gradient_scale)) if one.requires_grad]
        if not reached:
            return [torch.zeros_like(one) for one in wanted]
        found = torch.autograd.grad([one for one, _ in reached], wanted, [gradient for _, gradient in reached],
                                    allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(found, wanted)]


def _leaf(tensor, scale):
    return (tensor.detach() * scale).requires_grad_() if tensor.requires_grad else tensor.detach()


def _drawn(outputs, scale):
    """Returns a gradient for each output. If `scale` is NaN, the gradient has one NaN in it."""
    random_numbers = torch.Generator().manual_seed(3)
    for output in outputs:
        gradient = torch.randn(output.shape, generator=random_numbers).to(output.dtype)
        if scale == scale:
            gradient *= scale
        else:
            gradient.flatten()[:1] = scale
        yield gradient


def _is_close(first, second):
    first, second = first.double(), second.double()
    if not torch.equal(first.isnan(), second.isnan()):
        return False
    first, second = first.nan_to_num(), second.nan_to_num()
    return bool((first - second).norm() <= CLOSE * second.norm())
