"""A model's state besides tensors: numbers, lists and Python objects, which a trace reads once and never again.

A forward that counts its calls, or depends on the time, computes something else each time. Its trace always computes
what it did when it was traced. This module keeps such state, compares and restores it, and sets the clocks ahead.
"""
import collections
import contextlib
import datetime
import itertools
import pickle
import random
import sys
import threading
import time

import torch

__all__ = ["KeptState", "changed_state", "later", "plain_state"]

PLAIN = (int, float, complex, str, bytes, type(None))
CONTAINERS = (list, dict, set, collections.deque)
LIBRARIES = ("torch", "torchvision", "transformers", "numpy", "builtins")  # classes, globals: no model state
MOST_ITEMS, MOST_ELEMENTS, MOST_DEPTH = 256, 64, 4
LATER_SECONDS = 398 * 86400 + 26 * 3600 + 17 * 60 + 41.37  # changes year, month, day, hour, minute and second


def _is_library(name):
    return name.split(".")[0] in LIBRARIES


def _is_object(value):
    """Returns whether the value is an object of a user's class, whose attributes may be state."""
    is_other = isinstance(value, (type, torch.Tensor, torch.nn.Module)) or callable(value)
    return hasattr(value, "__dict__") and not is_other


def _holders(model):
    """Yields (path, container) for every container in which the model's Python code keeps values, from its modules'
    attributes down."""
    seen = set()
    for name, module in model.named_modules():
        stack = [(name, vars(module), 0)]
        while stack:
            path, held, depth = stack.pop()
            if id(held) in seen:
                continue
            seen.add(id(held))
            yield path, held
            if depth == MOST_DEPTH or len(held) > MOST_ITEMS:
                continue
            for key, value in held.items() if isinstance(held, dict) else enumerate(() if isinstance(held, set) else held):
                below = f"{path}.{key}" if path else str(key)
                if isinstance(value, CONTAINERS) and key != "_modules":
                    stack.append((below, value, depth + 1))
                elif _is_object(value):
                    stack.append((below, vars(value), depth + 1))


class KeptState:
    """A model's saved state: modes, parameters, buffers, gradients, and all Python values that its modules hold."""

    def __init__(self, model):
        self._model = model
        self._held = [(held, held.copy()) for _, held in _holders(model)]
        self._buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        self._parameters = [(parameter, parameter.detach().clone(), parameter.grad) for parameter in model.parameters()]

    def restore(self):
        for held, kept in self._held:
            if isinstance(held, (list, collections.deque)):
                held.clear()
                held.extend(kept)
            else:
                held.clear()
                held.update(kept)
        self.restore_buffers()
        for parameter, values, gradient in self._parameters:
            parameter.grad = gradient
            with torch.no_grad():
                parameter.copy_(values)

    @torch.no_grad()
    def restore_buffers(self):
        for name, buffer in self._model.named_buffers():
            buffer.copy_(self._buffers[name])


def _digest(number):
    return f"the state {number & 0xffffffff:08x}"


def _value(held):
    """Returns, as text, the part of a value that can be compared before and after a call; None if there is none."""
    if isinstance(held, PLAIN):
        return repr(held)
    if isinstance(held, itertools.count):
        return repr(held)
    if isinstance(held, random.Random):
        return _digest(hash(held.getstate()))
    if isinstance(held, torch.Generator):
        return _digest(hash(bytes(held.get_state().tolist())))
    if isinstance(held, torch.Tensor):
        is_count = held.numel() <= MOST_ELEMENTS and not held.is_floating_point() and not held.is_complex()
        return str(held.tolist()) if is_count else None
    if type(held).__module__.startswith("numpy.random") and not callable(held):
        return _digest(hash(pickle.dumps(held)))
    if isinstance(held, (*CONTAINERS, tuple)):
        return f"{len(held)} entries"
    if hasattr(held, "__length_hint__"):
        return f"{held.__length_hint__()} left"
    return None


def plain_state(model):
    """Returns {path: value as text} for the plain values that a forward could read and change: in the model's modules,
    and in their classes and Python files if these are the user's own."""
    found = {}
    buffers = {id(tensor) for tensor in (*model.buffers(), *model.parameters())}
    namespaces = list(_holders(model))
    for kind in {cls for module in model.modules() for cls in type(module).__mro__ if not _is_library(cls.__module__)}:
        namespaces += [(kind.__qualname__, dict(vars(kind))), (kind.__module__, vars(sys.modules[kind.__module__]))]
        for cell in getattr(getattr(kind, "forward", None), "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # an empty cell
                namespaces.append((f"{kind.__qualname__}.forward", {"a variable around it": cell.cell_contents}))
    for path, held in namespaces:
        for key, one in held.items() if isinstance(held, dict) else enumerate(() if isinstance(held, set) else held):
            if id(one) not in buffers and not str(key).startswith("__") and key != "training":
                value = _value(one)
                if value is not None:
                    found[f"{path}.{key}" if path else str(key)] = value
    return found


def changed_state(before, after):
    """Returns the first (path, value, other value) in which two results of plain_state differ, or None."""
    for path in [*before, *(path for path in after if path not in before)]:
        if before.get(path) != after.get(path):
            return path, before.get(path, "nothing"), after.get(path, "nothing")
    return None


def _clocks():
    """Returns {a function or class that gives the time: a replacement that is ahead by LATER_SECONDS in this
    thread}."""
    ours = threading.get_ident()

    def ahead(clock, distance):
        return lambda *arguments: clock(*arguments) + (distance if threading.get_ident() == ours else 0)

    clocks = {getattr(time, name): ahead(getattr(time, name), LATER_SECONDS)
              for name in ("time", "monotonic", "perf_counter", "process_time")}
    clocks |= {getattr(time, f"{clock.__name__}_ns"): ahead(getattr(time, f"{clock.__name__}_ns"), int(LATER_SECONDS * 1e9))
               for clock in tuple(clocks)}
    clocks |= {told: lambda *when, told=told: told(*(when or (time.time(),)))
               for told in (time.localtime, time.gmtime, time.ctime)}

    class LaterDate(datetime.date):
        @classmethod
        def today(cls):
            return datetime.date.fromtimestamp(time.time())

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls):
            return datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls):
            return datetime.datetime.fromtimestamp(time.time())

    return clocks | {datetime.datetime: Later, datetime.date: LaterDate}


@contextlib.contextmanager
def later(model):
    """Within this context, the user's code sees this thread's clocks more than a year ahead: they are replaced under
    the names that the user's files and the model have for them."""
    clocks = _clocks()
    namespaces = [held for _, held in _holders(model) if isinstance(held, dict)]
    for name, module in list(sys.modules.items()):
        is_source = name in ("time", "datetime")
        if not is_source and (_is_library(name) or name in sys.stdlib_module_names or name.split(".")[0] == "ampd"):
            continue
        namespaces.append(getattr(module, "__dict__", {}))
    changed = [(held, key, value) for held in namespaces for key, value in list(held.items())
               if isinstance(value, (type(time.time), type)) and value in clocks]
    try:
        for held, key, value in changed:
            held[key] = clocks[value]
        yield
    finally:
        for held, key, value in changed:
            held[key] = value
