"""Finds which dtypes of an exported model are intended, and which only follow the dtype that it was exported in.

A float32 program doesn't distinguish `x.to(torch.float32)`, which a norm intends, from `x.to(y.dtype)`, nor noise in
float32 from noise in the dtype of its factor. A trace of the same model in bfloat16, its twin, does: what is still
float32 there is intended, and what became bfloat16 follows. Also, a cast to the current dtype returns its argument, so
a float32 trace doesn't show which of the two a later node reads; that is taken from the twin.
"""
import copy
import itertools
import json
import warnings

import torch

from .modes import put_in_mode

__all__ = ["FILE", "content_of"]

FILE = "ampd.bf16_twin.json"  # name in the archive's folder "extra"; graph/exported/exported_twin.h has the format
FORMAT, VERSION = "ampd.bf16_twin", 1
# Ops whose inner graphs ampd inlines (graph/exported/exported_inline.cc).
NESTING = (torch.ops.higher_order.wrap_with_autocast, torch.ops.higher_order.wrap_with_set_grad_enabled)
aten = torch.ops.aten
FILLS = (aten.masked_fill.Scalar, aten.masked_fill_.Scalar)
CASTS = (aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.type_as.default)


class _Differs(Exception):
    """The twin has other nodes; the message says where."""


def content_of(programs, model, example_inputs, trace):
    """Returns the file's content for the programs of a float32 model. Returns None, after a warning, if the model
    can't be traced in bfloat16 or if its forward takes another path there. `programs`: by the names "train" and
    "eval", in this order; `trace(model, inputs)` is the function that made them. The model's modules must be in the
    modes in which the user gave them. Changes the programs: where a node reads a cast and the twin's node reads the
    tensor before the cast, or the other way round, the node reads as the twin's does. In float32 both are the same
    tensor."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trace of the float32 model has warned already
            twin = copy.deepcopy(model).to(torch.bfloat16)
            inputs = tuple(tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
                           for tensor in example_inputs)
            compared = {name: _Comparison(program.graph_module, trace(put_in_mode(twin, name), inputs).graph_module)
                        for name, program in programs.items()}
    except Exception as error:  # any error of the model's forward in a dtype that it was not written for
        why = str(error).strip().split("\n")[0] or type(error).__name__
        warnings.warn("the model was exported without its bfloat16 twin, which tells the dtypes that it means from those "
                      f"that follow its own: {why}; under policies below float32, its casts to float32 are left out and its "
                      "constants stay float32", stacklevel=3)
        return None
    for one in compared.values():
        one.rewire()
    return json.dumps({"format": FORMAT, "version": VERSION,
                       "programs": {name: one.found for name, one in compared.items()}})


class _Comparison:
    """Compares a program with its twin; both are graph modules. `found`: the names of nodes, by the verdict on them."""

    def __init__(self, module, twin):
        self.found = {"meant": [], "follows": []}
        self._ours = {}  # node of the twin: node of the program
        self._reads = []  # (node, the nodes that its arguments correspond to in the twin)
        for ours, theirs in itertools.zip_longest(_nodes(module), _nodes(twin)):
            self._compare(*(ours or (None, None)), *(theirs or (None, None)))

    def _compare(self, name, node, twin_name, twin):
        if node is None or twin is None or (node.op, node.target) != (twin.op, twin.target) or not self._match(node, twin):
            raise _Differs(f"in bfloat16 its forward {_words(twin_name, twin)} where it {_words(name, node)} in float32")
        self._ours[twin] = node
        verdict = _verdict(node, twin)
        if verdict is not None:
            self.found[verdict].append(name)

    def _match(self, node, twin):
        """Returns whether both nodes read the same, ignoring casts that change nothing in the program."""
        reads = [leaf for leaf in _leaves(node) if isinstance(leaf, torch.fx.Node)]
        wanted = [self._ours[leaf] for leaf in _leaves(twin) if isinstance(leaf, torch.fx.Node)]
        if [_uncast(one) for one in reads] != [_uncast(one) for one in wanted]:
            return False
        if reads != wanted and node.op != "output":  # an output must keep reading what the program's signature names
            self._reads.append((node, wanted))
        return True

    def rewire(self):
        for node, wanted in self._reads:
            following = iter(wanted)
            node.args, node.kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda _: next(following))
        for module in {node.graph.owning_module for node, _ in self._reads}:
            module.recompile()


def _leaves(node):
    leaves = []
    torch.fx.node.map_aggregate((node.args, node.kwargs), leaves.append)
    return leaves


def _uncast(node):
    """Returns the node that is cast, if `node` is the end of a chain of casts that change nothing, else `node`."""
    while node.target in CASTS and _dtype(node.args[0]) == _dtype(node):
        node = node.args[0]
    return node


def _words(name, node):
    return "ends" if node is None else f"calls {node.target} ({name})" if node.op == "call_function" else f"has {name}"


def _nodes(module, prefix="", calls=None):
    """Yields (name, node) for all nodes, in execution order. Nodes of inner graphs have the names that they get when
    the graphs are inlined: "graph_2.add" in the second graph that is called."""
    calls = calls or itertools.count(1)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in NESTING:
            graphs = [one for one in node.args if isinstance(one, torch.fx.Node) and one.op == "get_attr"]
            yield from _nodes(getattr(module, graphs[0].target), f"{prefix}graph_{next(calls)}.", calls)
        yield prefix + node.name, node


def _dtype(node):
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _constants(node):
    return [leaf for leaf in _leaves(node) if not isinstance(leaf, (torch.fx.Node, torch.dtype))]


def _names_dtype(node):
    """Returns whether a node sets its result's dtype itself, rather than taking it from the float tensors that it
    reads."""
    reads = [_dtype(one) for one in node.all_input_nodes]
    return (node.target == aten.type_as.default or any(isinstance(leaf, torch.dtype) for leaf in _leaves(node))
            or not any(dtype is not None and dtype.is_floating_point for dtype in reads))


def _limits_of(node):
    """A node's constants, where the least and the greatest number of its dtype are replaced by these words."""
    limits = torch.finfo(_dtype(node))
    return [{limits.min: "least", limits.max: "greatest"}.get(one, one) if isinstance(one, float) else one
            for one in _constants(node)]


def _verdict(node, twin):
    """Returns "meant" or "follows". Returns None if there is nothing to record, because the dtype comes from what the
    node reads."""
    if not isinstance(node.target, torch._ops.OpOverload) or _dtype(node) != torch.float32:
        return None
    if repr(_constants(node)) != repr(_constants(twin)):
        follows = (node.target in FILLS and _dtype(twin) == torch.bfloat16
                   and repr(_limits_of(node)) == repr(_limits_of(twin)))
        return "follows" if follows else "meant"  # follows: a fill with torch.finfo(x.dtype).min
    if not _names_dtype(node) or (twin.target in CASTS and _dtype(twin.args[0]) == _dtype(twin)):
        return None
    return {torch.float32: "meant", torch.bfloat16: "follows"}.get(_dtype(twin))
