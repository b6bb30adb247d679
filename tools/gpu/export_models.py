#!/usr/bin/env python3
"""Exports small models of torchvision, transformers and users' code, as users do, to train them on a GPU.

  export_models.py FOLDER [NAME...]   writes NAME.pt2, and NAME.safetensors with batches for it: images and labels, each
                                      (batches, samples, ...), and other.<input>. Default: all models in NAMES.

Needs the test environment of scripts/setup. The models are those of tests/parity/oracles/exported_models.py.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "tests" / "parity" / "oracles")]

import torch

import ampd
import tensor_file
from exported_models import MODELS

# One or more of each kind of op, all small. Those with a loss of their own or another head than a cross entropy are left
# out, because policy_report trains with the cross entropy that suits the model.
NAMES = ("mlp", "cnn", "dtypes", "constants", "batch_norms", "slices", "mixed", "small_resnet18", "small_resnet50",
         "small_mobilenet_v3", "small_shufflenet_v2", "small_densenet", "small_efficientnet", "convnext", "vit", "swin",
         "swin_v2", "lstm", "gru", "gpt2", "llama", "bert", "bert_masked", "roberta", "distilbert", "electra", "deberta",
         "modernbert", "mistral", "gpt_neo", "bloom", "falcon", "t5")


def export(name, folder):
    torch.manual_seed(7)
    make, feed = MODELS[name]
    model = make()
    samples, labels, *rest = feed()
    others = rest[0] if rest else {}
    ampd.export(model, (samples[0], *(other[0] for other in others.values())), folder / f"{name}.pt2")
    tensor_file.write(folder / f"{name}.safetensors",
                      {"images": samples, "labels": labels} | {f"other.{key}": other for key, other in others.items()})


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NAMES:
        export(name, folder)
        print(name, flush=True)


if __name__ == "__main__":
    main()
