#!/usr/bin/env python3
"""Exports a model as a user does, and trains it in PyTorch.

Usage: oracle_exported.py MODEL ARCHIVE OUTPUT. ARCHIVE: the .pt2 file to write. Tensors in OUTPUT (tensor_file.py):
  images, labels                (batches, samples, ...)
  logits, gradient.<parameter>  of the first batch, in training mode, from the exported weights
  losses                        of 20 steps of AdamW over the batches
  state.<name>                  parameters and buffers after those
  eval_loss                     of the first batch then, in evaluation mode, summed over its labels
"""
import copy
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import torch
import torchvision
from torch import nn
from torch.nn import functional

import ampd
import tensor_file

STEPS, BATCHES, CLASSES, VOCABULARY, LENGTH = 20, 4, 10, 64, 16


class Mlp(nn.Module):
    """A user's own: layers by hand, sizes from the input, numbers beside tensors, one layer frozen, one shared."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3 * 64, 32)
        self.shared = nn.Linear(32, 32)
        self.frozen = nn.Linear(32, 32).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(32))
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.linspace(-1, 1, 32))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = functional.gelu(self.inner(x.view(x.size(0), -1) * 2 - 0.5))
        x = self.shared(torch.relu(self.frozen(self.shared(x)))) * self.scale + self.shift
        return self.head(x)


class Cnn(nn.Module):
    """A user's own: norms, dropout of nothing, in-place ops, a skip and a concatenation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.left = nn.Conv2d(8, 8, 1)
        self.right = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.0)
        self.head = nn.Linear(16 * 16, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        y = self.right(x)
        y += x
        x = self.pool(torch.cat([torch.sigmoid(self.left(x)), functional.silu(y)], 1))
        return self.head(self.drop(torch.flatten(x, 1)))


class Logits(nn.Module):
    """Of a model of transformers, which gives more than one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids).logits


def images(size, samples=4):
    return torch.randn(BATCHES, samples, 3, size, size), torch.randint(0, CLASSES, (BATCHES, samples))


def tokens():
    return (torch.randint(0, VOCABULARY, (BATCHES, 4, LENGTH)), torch.randint(0, VOCABULARY, (BATCHES, 4, LENGTH)))


def text_classes():
    return torch.randint(0, VOCABULARY, (BATCHES, 4, LENGTH)), torch.randint(0, 3, (BATCHES, 4))


def gpt2():
    import transformers  # takes seconds

    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2,
                                     resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    return Logits(transformers.GPT2LMHeadModel(config))


# Of each model, how it is made and what it is fed.
MODELS = {
    "mlp": (Mlp, lambda: images(8)),
    "cnn": (Cnn, lambda: images(8)),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), lambda: images(32)),
    "mobilenet_v3_small": (lambda: torchvision.models.mobilenet_v3_small(num_classes=CLASSES, dropout=0), lambda: images(64)),
    "squeezenet1_1": (lambda: torchvision.models.squeezenet1_1(num_classes=CLASSES, dropout=0), lambda: images(32)),
    "densenet121": (lambda: torchvision.models.densenet121(num_classes=CLASSES), lambda: images(32)),
}


def loss_of(model, samples, labels, reduction="mean"):
    logits = model(samples)
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=reduction), logits


def main():
    name, archive, output = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(7)
    make, feed = MODELS[name]
    model = make()
    samples, labels = feed()
    ampd.export(model, (samples[0],), archive)
    tensors = {"images": samples, "labels": labels}
    once = copy.deepcopy(model).train()
    loss, tensors["logits"] = loss_of(once, samples[0], labels[0])
    loss.backward()
    tensors |= {f"gradient.{key}": p.grad for key, p in once.named_parameters() if p.grad is not None}
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2**-10, weight_decay=2**-6,
                                  eps=2**-4)
    losses = []
    for step in range(STEPS):
        loss, _ = loss_of(model, samples[step % BATCHES], labels[step % BATCHES])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tensors["losses"] = torch.tensor(losses)
    tensors |= {f"state.{key}": tensor for key, tensor in [*model.named_parameters(), *model.named_buffers()]
                if tensor.dtype == torch.float32}
    with torch.no_grad():
        tensors["eval_loss"] = loss_of(model.eval(), samples[0], labels[0], "sum")[0]
    tensor_file.write(output, tensors)


if __name__ == "__main__":
    main()
