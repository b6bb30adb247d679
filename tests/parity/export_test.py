#!/usr/bin/env python3
"""Checks that the graphs of ampd's own models (the zoo) have the ops, arguments and shapes that torch.export gives for
the same modules. Also checks how ampd.export exports PyTorch's own layers.

Usage: export_test.py GOLDEN_FOLDER

The golden files are those of tests/models, so a change of a builder shows there first and is compared with PyTorch
here. An argument that torch.export leaves out has its schema's default, and our graph must have that value too.
"""
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "oracles"), str(HERE.parents[1] / "client" / "python")]

import torch
from torch.export.pt2_archive._package import load_pt2

import ampd
import oracle_models

NODE = re.compile(r"^%\S+: (\S+)(\[.*?\]) = (\S+?)\((.*)\)(  # .*)?$")
ARGUMENT = re.compile(r"(\w+)=(\[[^\]]*\]|[^,]+)")


def golden_nodes(path):
    """Returns (op, {argument: text}, shape as text) for every node of a printed graph; tensors appear as "tensor"."""
    nodes = []
    for line in path.read_text().splitlines():
        match = NODE.match(line)
        if match:
            arguments = {name: "tensor" if text.startswith("%") else text for name, text in ARGUMENT.findall(match[4])}
            nodes.append((match[3], arguments, match[2]))
    return nodes


def argument_text(value):
    return "tensor" if isinstance(value, torch.fx.Node) else str(value)


def exported_nodes(model, sample_shape):
    """Returns (op, {argument: text}, shape as text) for every node that torch.export makes of a module, with all
    default arguments."""
    batch = torch.export.Dim("batch", min=2, max=1024)
    program = torch.export.export(model.train(), (torch.zeros(4, *sample_shape),), dynamic_shapes=({0: batch},))
    nodes = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        schema = node.target._schema
        values = dict(zip((argument.name for argument in schema.arguments), node.args)) | node.kwargs
        arguments = {a.name: argument_text(values.get(a.name, a.default_value)) for a in schema.arguments}
        shape = ["B" if isinstance(size, torch.SymInt) else str(size) for size in node.meta["val"].shape]
        nodes.append((str(node.target), arguments, f"[{', '.join(shape)}]"))
    return nodes


class ExportTest(unittest.TestCase):
    def check(self, golden, model, sample_shape):
        ours, theirs = golden_nodes(FOLDER / golden), exported_nodes(model, sample_shape)
        self.assertTrue(ours)
        self.assertEqual([op for op, _, _ in ours], [op for op, _, _ in theirs])
        for (op, arguments, shape), (_, expected, expected_shape) in zip(ours, theirs):
            self.assertEqual(shape, expected_shape, op)
            # Only the arguments in our graph are compared: one that our graph leaves out has its schema's default, as
            # in the export.
            self.assertEqual(arguments, {name: expected.get(name) for name in arguments}, op)

    def test_lenet(self):
        self.check("lenet.txt", oracle_models.Lenet(1, 28, [32, 64], 128, 10), (1, 28, 28))

    def test_mlp(self):
        self.check("mlp.txt", oracle_models.Mlp(784, [256], 10), (784,))

    def test_encoder_layers_are_exported_op_by_op(self):
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        samples = torch.randn(4, 5, 16)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "layer.pt2"
            with torch.no_grad():
                ampd.export(layer, (samples,), path)
                fused = layer.eval()(samples)
            program = load_pt2(path).exported_programs["eval"]
        self.assertIn("scaled_dot_product_attention", str(program.graph))
        self.assertNotIn("_transformer_encoder_layer_fwd", str(program.graph))
        self.assertTrue(torch.equal(program.module()(samples), layer(samples)))
        self.assertFalse(torch.equal(fused, layer(samples)), "PyTorch evaluates it by one op again")


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
