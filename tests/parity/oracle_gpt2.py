#!/usr/bin/env python3
"""Train transformers' GPT-2 and write what came out.

Usage: oracle_gpt2.py OUT

OUT receives, in the format of tensor_file.py, of a small GPT2LMHeadModel without dropout: the tensors of its checkpoint
as save_pretrained writes them, "state/<name>", the parameters that training starts from, "start/<name>", the batches
"tokens" (steps, B, T + 1), the logits of the first batch, "logits", the first gradients, "grad/<name>", the loss of each
step of AdamW, "losses", and the parameters after them, "after/<name>".
"""
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import tensor_file

SEED = 20
STEPS = 20
BATCH_SIZE = 4
LENGTH = 10


def make_model():
    torch.manual_seed(SEED)
    # As Gpt2Parity has it; more positions than the sequences use.
    config = GPT2Config(vocab_size=61, n_positions=16, n_embd=48, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0)
    return GPT2LMHeadModel(config).train()


def saved_tensors(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def train(model, tokens, tensors):
    # The keys' biases have no gradient but rounding, for a softmax does not feel them; epsilon keeps that from mattering.
    optimizer = torch.optim.AdamW(model.parameters(), lr=2**-9, weight_decay=2**-6, eps=2**-17)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(tokens[step, :, :-1]).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[step, :, 1:].flatten())
        loss.backward()
        if step == 0:
            tensors["logits"] = logits.detach()
            tensors |= {f"grad/{name}": parameter.grad.clone() for name, parameter in model.named_parameters()}
        losses.append(loss.detach())
        optimizer.step()
    tensors["losses"] = torch.stack(losses)
    tensors |= {f"after/{name}": parameter.detach() for name, parameter in model.named_parameters()}


def main():
    torch.set_num_threads(1)
    model = make_model()
    tensors = {f"state/{name}": tensor for name, tensor in saved_tensors(model).items()}
    # Away from the first values: with those, no activation is large enough to tell one form of GELU from another.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    tensors |= {f"start/{name}": parameter.detach().clone() for name, parameter in model.named_parameters()}
    tensors["tokens"] = torch.randint(0, 61, (STEPS, BATCH_SIZE, LENGTH + 1))
    train(model, tensors["tokens"], tensors)
    tensor_file.write(sys.argv[1], tensors)


if __name__ == "__main__":
    main()
