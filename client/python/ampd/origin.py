"""Finds the module in which the results of a model and of its exported program first differ."""
import torch

from .backward_code import named

__all__ = ["origin_of"]

CLOSE = 1e-5  # share of a tensor's norm by which equal results may differ


class _Recorded(torch.fx.Interpreter):
    """Runs a program and keeps the tensors that enter and leave each module of the model."""

    def __init__(self, program, keeps_gradients):
        super().__init__(program)
        self._keeps_gradients = keeps_gradients
        self.left = {}  # module's name: list of (tensor, copy of its value)
        self.entered = {}  # the same for the tensors that enter the module
        self._kept = {}  # by node

    def run_node(self, node):
        value = super().run_node(node)
        if isinstance(value, torch.Tensor) and node.op == "call_function":
            if self._keeps_gradients and value.requires_grad:
                value.retain_grad()
        if isinstance(value, torch.Tensor):
            self._kept[node] = (value, value.detach().clone())
            for name in _modules_of(node) - set.intersection(_modules_of(node), *map(_modules_of, node.users)):
                self.left.setdefault(name, []).append(self._kept[node])
        for name in _modules_of(node):
            self.entered.setdefault(name, []).extend(
                self._kept[one] for one in node.all_input_nodes if one in self._kept and name not in _modules_of(one))
        return value


def _modules_of(node):
    return {name for name, _ in node.meta.get("nn_module_stack", {}).values()}


def _results_of_modules(model, keeps_gradients, call):
    """Returns two values: a list of (name, module, tensor, copy of its value) for each result of a module, in the
    order in which the modules end; and, by module name, copies of the tensors that the module was given."""
    found, taken = [], {}

    def begun(name):
        def hook(module, inputs, keywords):
            given = torch.utils._pytree.tree_leaves((inputs, keywords))
            taken.setdefault(name, []).extend(one.detach().clone() for one in given if isinstance(one, torch.Tensor))

        return hook

    def ended(name):
        def hook(module, inputs, output):
            for one in torch.utils._pytree.tree_leaves(output):
                if isinstance(one, torch.Tensor):
                    if keeps_gradients and one.requires_grad:
                        one.retain_grad()
                    found.append((name, module, one, one.detach().clone()))

        return hook

    handles = [module.register_forward_hook(ended(name)) for name, module in model.named_modules()]
    handles += [module.register_forward_pre_hook(begun(name), with_kwargs=True) for name, module in model.named_modules()]
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    return found, taken


def origin_of(model, program, inputs, seed, in_backward):
    """Returns where the results first differ, 'in layers.0 (Linear)', or '' if that is unknown. `in_backward`: the
    outputs are equal, and the gradients differ."""
    def run(call):
        torch.manual_seed(seed)
        outputs = [one for one in torch.utils._pytree.tree_leaves(call(*(one.detach().clone() for one in inputs)))
                   if isinstance(one, torch.Tensor) and one.requires_grad]
        if in_backward:
            sum(one.sum() for one in outputs).backward()

    try:
        recorded = _Recorded(program, in_backward)
        run(recorded.run)
        results, taken = _results_of_modules(model, in_backward, lambda: run(model))
    except Exception:  # this only adds to an error message that is raised anyway
        return ""
    return _first_in_backward(results, recorded.left) if in_backward else _first(results, taken, recorded)


def _first(results, taken, recorded):
    ended = {name: module for name, module, _, _ in results}
    for name, module, _, value in results:
        if name in recorded.left and not any(_is_close(value, other) for _, other in recorded.left[name]):
            entered = recorded.entered.get(name, [])
            if name and not all(any(_is_close(one, other) for _, other in entered) for one in taken.get(name, [])):
                above = name.rpartition(".")[0]
                while above and above not in ended:
                    above = above.rpartition(".")[0]
                return f"in {named(above, ended.get(above))}, before {named(name, module)}"
            return f"in {named(name, module)}"
    return ""


def _first_in_backward(results, left):
    for name, module, tensor, _ in reversed(results):
        if name in left and tensor.grad is not None:
            others = [one.grad for one, _ in left[name] if one.grad is not None]
            if not any(_is_close(tensor.grad, other) for other in others):
                return f"{'behind the output of' if others else 'in'} {named(name, module)}"
    return ""


def _is_close(first, second):
    if first.shape != second.shape:
        return False
    first, second = first.double(), second.double()
    return bool((first - second).norm() <= CLOSE * first.norm() + 1e-12) or torch.equal(first, second)
