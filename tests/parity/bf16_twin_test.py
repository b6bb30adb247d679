#!/usr/bin/env python3
"""Tests what ampd.export learns about a model's dtypes from the model's bfloat16 twin (a second export of it, in
bfloat16), and how `ampctl model inspect` uses the result.

Usage: bf16_twin_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs no server.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parents[1] / "client" / "python")]

import torch
import torchvision
from torch import nn
from torch.export.pt2_archive._package import load_pt2

import ampd
from service_case import BINARIES, main

FILE = "ampd.bf16_twin.json"


class Block(nn.Module):
    """A norm in float32, noise in the dtype of the tensor that it multiplies, positions meant to be float32, a mask
    with the dtype's least number, a bound that depends on the dtype, and a cast that changes nothing."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x).to(x.dtype)
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        x = self.weight * wide.to(x.dtype)
        if self.training:
            x = x * torch.empty((x.shape[0], 1), dtype=x.dtype).bernoulli_(0.5)
        positions = torch.arange(8, dtype=torch.float32).cos()
        x = x + positions.to(x.dtype)
        x = x.clamp(max=1 / torch.finfo(x.dtype).eps)
        return x.masked_fill(x < 1, torch.finfo(x.dtype).min)


class Branches(Block):
    """A block whose forward has an additional op in bfloat16."""

    def forward(self, x):
        x = super().forward(x)
        return x if x.dtype == torch.float32 else x.relu()


class Refuses(Block):
    """A block whose forward accepts only float32."""

    def forward(self, x):
        if x.dtype != torch.float32:
            raise TypeError(f"{x.dtype} is not float32")
        return super().forward(x)


class Residual(nn.Module):
    """Casts a tensor for a norm in float32, and also reads the tensor before the cast."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
        wide = x.float()
        twice = wide * wide.float()
        return x + twice.to(x.dtype) * x


class Nested(nn.Module):
    """A model whose graph has nested graphs: the export puts code without gradients or without autocast in graphs of
    its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("scale", torch.linspace(1, 2, 8))
        self.register_buffer("angle", torch.linspace(1, 3, 8))

    def forward(self, x):
        with torch.no_grad():
            scale = self.scale.float().abs()
        with torch.autocast("cpu", enabled=False):
            angles = self.angle.float().cos()
        return self.layer(x * scale.to(x.dtype)) * angles.to(x.dtype)


def efficientnet():
    block = torchvision.models.efficientnet.MBConvConfig
    return torchvision.models.EfficientNet([block(4, 3, 1, 8, 8, 3, 1, 1)], dropout=0, stochastic_depth_prob=0.5,
                                           last_channel=32, num_classes=10)


def convnext():
    block = torchvision.models.convnext.CNBlockConfig
    return torchvision.models.ConvNeXt([block(16, 32, 2), block(32, None, 2)], stochastic_depth_prob=0.5,
                                       num_classes=10)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM  # takes seconds

        self.model = LlamaForCausalLM(LlamaConfig(
            vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=16, use_cache=False))

    def forward(self, input_ids):
        return self.model(input_ids=input_ids).logits


def nodes(module, prefix="", calls=None):
    """Returns {name: (op, module's last name)} of all nodes, including those of nested graphs."""
    calls = [0] if calls is None else calls
    found = {}
    for node in module.graph.nodes:
        if node.op == "call_function":
            stack = list(node.meta.get("nn_module_stack", {}).values())
            found[prefix + node.name] = (str(node.target), stack[-1][0].split(".")[-1] if stack else "")
            for one in node.args:
                if isinstance(one, torch.fx.Node) and one.op == "get_attr" and "wrap" in str(node.target):
                    calls[0] += 1
                    found |= nodes(getattr(module, one.target), f"{prefix}graph_{calls[0]}.", calls)
    return found


class Bf16Twin(unittest.TestCase):
    def setUp(self):
        print(self.id(), flush=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-twin-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def export(self, model, inputs, expected_warning=None):
        """Returns for each program the ops whose dtype is meant as written, and those whose dtype follows their input.
        Returns None if the file has no twin."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ampd.export(model, inputs, self.folder / "model.pt2")
            content = load_pt2(self.folder / "model.pt2")
        ours = [str(one.message) for one in told if "twin" in str(one.message)]
        self.assertEqual(len(ours), 0 if expected_warning is None else 1, ours)
        if expected_warning is not None:
            print(f"  {ours[0]}", flush=True)
            self.assertIn(expected_warning, ours[0])
            self.assertNotIn(FILE, content.extra_files)
            return None
        twin = json.loads(content.extra_files[FILE])
        self.assertEqual((twin["format"], twin["version"]), ("ampd.bf16_twin", 1))
        self.names = twin["programs"]
        ops = {name: nodes(program.graph_module) for name, program in content.exported_programs.items()}
        return {name: {verdict: [ops[name][one] for one in listed] for verdict, listed in lists.items()}
                for name, lists in twin["programs"].items()}

    def inspect(self, *flags):
        done = subprocess.run([BINARIES / "ampctl", "model", "inspect", self.folder / "model.pt2", "-o", "json", *flags],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def drop_twin(self):
        """Rewrites the exported file without its bfloat16 twin."""
        path = self.folder / "model.pt2"
        with zipfile.ZipFile(path) as archive:
            entries = [(info.filename, archive.read(info)) for info in archive.infolist() if FILE not in info.filename]
            self.assertEqual(len(entries), len(archive.infolist()) - 1)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries:
                archive.writestr(name, content)

    def test_a_model_by_hand(self):
        told = self.export(Block(), (torch.randn(4, 8),))
        meant = ["aten.to.dtype", "aten.arange.default", "aten.clamp.default"]
        self.assertEqual([op for op, _ in told["train"]["meant"]], meant)
        self.assertEqual([op for op, _ in told["train"]["follows"]],
                         ["aten.to.dtype", "aten.empty.memory_format", "aten.to.dtype", "aten.masked_fill.Scalar"])
        self.assertEqual([op for op, _ in told["eval"]["meant"]], meant)
        self.assertEqual([op for op, _ in told["eval"]["follows"]], ["aten.to.dtype", "aten.to.dtype", "aten.masked_fill.Scalar"])
        kept = {one["op"]: one["numOps"] for one in self.inspect("--preset", "bf16")["policies"][0]["kept"]
                if "asks" in one["why"]}
        self.assertEqual(kept, {"aten.to.dtype": 1, "aten.arange.default": 1, "aten.clamp.default": 1})

    def test_graphs_within(self):
        told = self.export(Nested(), (torch.randn(4, 8),))
        self.assertEqual(self.names["train"], {"meant": ["graph_1.to", "graph_2.to_1"], "follows": ["to_2", "to_3"]},
                         told)
        self.inspect()

    def test_what_is_read_beside_its_cast_is_not_the_cast(self):
        told = self.export(Residual(), (torch.randn(4, 8),))
        self.assertEqual(self.names["train"], {"meant": ["to"], "follows": ["to_2"]}, told)
        graph = load_pt2(self.folder / "model.pt2").exported_programs["train"].graph
        reads = {node.name: [one.name for one in node.args if isinstance(one, torch.fx.Node)] for node in graph.nodes}
        self.assertEqual(reads["mul"], ["to_1", "to_1"])
        self.assertEqual(reads["mul_1"], ["to_2", "linear"])
        self.assertEqual(reads["add"], ["linear", "mul_1"])
        self.inspect()

    def test_stochastic_depth_follows(self):
        for make in (efficientnet, convnext):
            with self.subTest(make.__name__):
                told = self.export(make(), (torch.randn(4, 3, 32, 32),))
                self.assertEqual({op for op, _ in told["train"]["follows"]}, {"aten.empty.memory_format"})
                self.assertEqual(told["train"]["meant"], [])
                self.assertEqual(told["eval"], {"meant": [], "follows": []})

    def test_the_norms_of_a_llama_are_meant(self):
        told = self.export(Llama(), (torch.zeros(4, 16, dtype=torch.int64),))["train"]
        norms = ["input_layernorm", "post_attention_layernorm"] * 2 + ["norm"]
        self.assertEqual([where for op, where in told["meant"] if "norm" in where], norms)
        self.assertEqual([where for op, where in told["follows"] if "norm" in where], norms)
        self.assertEqual([op for op, where in told["follows"] if "rotary" in where], ["aten.to.dtype"] * 2)
        self.inspect("--preset", "bf16", "--preset", "megatron-bf16")

    def test_a_forward_that_differs_is_reported(self):
        self.export(Branches(), (torch.randn(4, 8),), "in bfloat16 its forward calls aten.relu.default (relu) where it")
        self.inspect()

    def test_a_model_that_bfloat16_cannot_run_is_reported(self):
        self.export(Refuses(), (torch.randn(4, 8),), "those that follow its own: torch.bfloat16 is not float32; under")
        self.inspect()

    def test_activations_behind_stochastic_depth_take_less_memory(self):
        self.export(efficientnet(), (torch.randn(4, 3, 32, 32),))

        def activations():
            described = self.inspect("--preset", "bf16", "--preset", "fp32", "--batch", "256")
            return {one["preset"]: int(one["memory"]["activationBytes"]) for one in described["policies"]}

        with_twin = activations()
        self.drop_twin()
        without = activations()
        print(f"  activations of a step with 256 samples: {with_twin} bytes, without the twin {without}", flush=True)
        self.assertLess(with_twin["bf16"], without["bf16"])
        self.assertEqual(with_twin["fp32"], without["fp32"])


if __name__ == "__main__":
    main()
