#!/usr/bin/env python3
"""Exports every kind of torchvision classification model and transformers text model that
docs/imported-models-reference.md lists as accepted, as a user does, and reads it with `ampctl model inspect`, which
names each op that ampd does not have.

Usage: import_coverage_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs no server. exported_parity_test.cc compares
numbers.
"""
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parents[1] / "client" / "python")]

import torch
import torchvision
import transformers
from torch import nn

import ampd
from service_case import BINARIES, main

# {name of a model: size of its images}, with one published torchvision model of each family.
PICTURES = {
    "alexnet": 224, "convnext_tiny": 32, "densenet121": 32, "efficientnet_b0": 32, "efficientnet_v2_s": 32, "googlenet": 64,
    "inception_v3": 299, "maxvit_t": 224, "mnasnet0_5": 32, "mobilenet_v2": 32, "mobilenet_v3_small": 32,
    "regnet_y_400mf": 32, "resnet18": 32, "resnext50_32x4d": 32, "shufflenet_v2_x0_5": 32, "squeezenet1_1": 32,
    "swin_t": 64, "swin_v2_t": 64, "vgg11_bn": 32, "vit_b_32": 224, "wide_resnet50_2": 32,
}
FLAGS = ["--preset", "bf16", "--preset", "fp8-block"]
# In training, these models return a named tuple with the logits of the main head and of auxiliary heads.
TUPLES = {"googlenet", "inception_v3"}

ROPE = dict(num_key_value_heads=2)
HEADS = dict(head_dim=16)
SHORT = dict(max_position_embeddings=40)
MIXED = dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"])
LATE = dict(sliding_window=4, use_sliding_window=True, max_window_layers=1)
# {family: (class name before "ForSequenceClassification" or "ForCausalLM", further settings of its small
# configuration)}.
ENCODERS = {
    "albert": ("Albert", dict(embedding_size=32)),
    "bert": ("Bert", {}),
    "camembert": ("Camembert", SHORT),
    "deberta": ("DebertaV2", dict(relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "distilbert": ("DistilBert", dict(dim=32, n_layers=2, n_heads=2, hidden_dim=64)),
    "electra": ("Electra", dict(embedding_size=32)),
    "modernbert": ("ModernBert", dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)),
    "mpnet": ("MPNet", {}),
    "roberta": ("Roberta", SHORT),
    "xlm_roberta": ("XLMRoberta", SHORT),
}
DECODERS = {
    "bloom": ("Bloom", dict(n_layer=2, n_head=2)),
    "falcon": ("Falcon", {}),
    "gemma": ("Gemma", ROPE | HEADS),
    "gpt2": ("GPT2LMHead", dict(n_embd=32, n_layer=2, n_head=2)),
    "gpt_neo": ("GPTNeo", dict(num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]])),
    "gpt_neox": ("GPTNeoX", {}),
    "llama": ("Llama", ROPE),
    "mistral": ("Mistral", ROPE),
    "phi": ("Phi", {}),
    "qwen2": ("Qwen2", ROPE),
    "qwen3": ("Qwen3", ROPE | HEADS),
    # In the models from here on, some layers attend only to the last positions, and others to all.
    "exaone4": ("Exaone4", ROPE | MIXED),
    "gemma2": ("Gemma2", ROPE | HEADS | MIXED),
    "gemma3": ("Gemma3", ROPE | HEADS | MIXED),
    "ministral": ("Ministral", ROPE | HEADS | MIXED),
    "olmo3": ("Olmo3", ROPE | MIXED),
    "qwen2_mixed": ("Qwen2", ROPE | LATE),
    "qwen3_mixed": ("Qwen3", ROPE | HEADS | LATE),
    "smollm3": ("SmolLM3", ROPE | MIXED | dict(use_sliding_window=True)),
    "vaultgemma": ("VaultGemma", ROPE | HEADS | MIXED),
}


class FirstOfTuple(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        given = self.model(images)
        return given[0] if isinstance(given, tuple) else given


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, **self.model.ampd_arguments).logits


def small(name, besides):
    config = getattr(transformers, {"Gemma3": "Gemma3Text"}.get(name, name.removesuffix("LMHead")) + "Config")
    size = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                pad_token_id=0)
    if name in ("GPT2LMHead", "GPTNeo", "Bloom", "DistilBert"):
        del size["num_hidden_layers"], size["num_attention_heads"], size["intermediate_size"]
    if name in ("GPT2LMHead", "DistilBert"):
        del size["hidden_size"]
    return config(**size | besides)


class ImportCoverage(unittest.TestCase):
    def setUp(self):
        print(self.id(), flush=True)

    def check(self, model, inputs):
        with tempfile.TemporaryDirectory(prefix="ampd-coverage-") as folder:
            path = pathlib.Path(folder) / "model.pt2"
            ampd.export(model, inputs, path)
            done = subprocess.run([BINARIES / "ampctl", "model", "inspect", path, "-o", "json", *FLAGS], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual(told.get("problems", []), [])
            self.assertEqual([one["name"] for one in told["programs"]], ["train", "eval"])
            self.assertEqual(len(told["policies"]), 2)
            # The inspection lists all parameters. Those of auxiliary heads are UNUSED, not TRAINED.
            parameters = {one["name"]: one["role"] for one in told["tensors"] if one["kind"] == "PARAMETER"}
            self.assertEqual(set(parameters), {name for name, _ in model.named_parameters(remove_duplicate=False)})
            self.assertIn("TRAINED", parameters.values())

    def check_text(self, name, besides, task, arguments):
        model = getattr(transformers, name + task)(small(name, besides))
        model.ampd_arguments = arguments
        self.check(Logits(model), (torch.randint(3, 100, (2, 16)),))


def picture_case(name, size):
    def case(self):
        more = {"init_weights": False} if name in TUPLES else {}
        model = getattr(torchvision.models, name)(**more)
        self.check(FirstOfTuple(model) if name in TUPLES else model, (torch.randn(2, 3, size, size),))

    return case


def text_case(name, besides, task, **arguments):
    return lambda self: self.check_text(name, besides, task, arguments)


for _name, _size in PICTURES.items():
    setattr(ImportCoverage, f"test_torchvision_{_name}", picture_case(_name, _size))
for _name, _one in ENCODERS.items():
    setattr(ImportCoverage, f"test_encoder_{_name}", text_case(*_one, "ForSequenceClassification"))
for _name, (_class, _besides) in DECODERS.items():
    _task = "Model" if _class.endswith("LMHead") else "ForCausalLM"
    setattr(ImportCoverage, f"test_decoder_{_name}", text_case(_class, _besides, _task, use_cache=False))

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    main()
