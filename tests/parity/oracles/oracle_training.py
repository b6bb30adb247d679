#!/usr/bin/env python3
"""Trains a model in PyTorch, in fp32 or under CPU autocast in bf16, and writes the results.

Usage: oracle_training.py MODEL PRESET OPTIMIZER STEPS FEATURE OUT

MODEL: cnn (the MNIST CNN), resnet (with batch norms), mlp or gpt; PRESET: fp32 or bf16; OPTIMIZER: adamw or sgd;
FEATURE: none, clip (by the global norm), accumulation (over micro-batches), decay (strong weight decay) or ema (an
average of the weights).

OUT receives, as safetensors, "images" (batches, B, ...; tokens for the gpt), "labels" (batches, B, ...) and, for a run
with 1 thread in fp32 or 2 in bf16: the loss of each step, "losses"; the global norm of its gradients before clipping,
"grad_norms"; each parameter and buffer at the end, "after/<name>"; and the mean loss of the first batch in evaluation
mode, "eval_loss", with the averaged weights if there are any. For bf16, "losses_one_thread" and
"after_one_thread/<name>" are those of a run with 1 thread. Batches are used in turn.
"""
import sys

import torch

import tensor_file
from oracle_models import Gpt, Lenet, Mlp, Resnet

SEED = 20
NUM_BATCHES = 20
BATCH_SIZE = 64
MAX_NORM = 2**-2
MICRO_BATCHES = 4
EMA_DECAY = 0.9375
VOCABULARY, LENGTH, SEQUENCES = 17, 16, 8

# {name: (model, rate of AdamW, rate of SGD)}. The rates are low enough that rounding errors do not grow.
MODELS = {
    "cnn": (lambda: Lenet(1, 28, [32, 64], 128, 10), 2**-13, 2**-8),
    "resnet": (lambda: Resnet([8, 16], [1, 1], 1, 10), 1.5 * 2**-10, 2**-8),
    "mlp": (lambda: Mlp(784, [256], 10), 2**-13, 2**-8),
    "gpt": (lambda: Gpt(2, 32, 2, VOCABULARY, LENGTH, tied=True), 2**-11, 2**-6),
}


def make_optimizer(model_name, name, decays, parameters):
    _, adamw_rate, sgd_rate = MODELS[model_name]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=adamw_rate, weight_decay=2**4 if decays else 2**-6)
    return torch.optim.SGD(parameters, lr=sgd_rate, momentum=0.875, weight_decay=2**-1 if decays else 2**-6)


def make_images():
    """Returns images and labels. An image is a prototype of its class plus noise of the same size, so that there is
    something to learn."""
    generator = torch.Generator().manual_seed(SEED)
    prototypes = torch.randn(10, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (NUM_BATCHES, BATCH_SIZE), generator=generator)
    images = prototypes[labels] + torch.randn(NUM_BATCHES, BATCH_SIZE, 1, 28, 28, generator=generator)
    return images, labels


def make_tokens():
    """Returns tokens and labels. A rule gives each token from the one before it. Every fourth label is random, so that
    the loss stays away from zero."""
    generator = torch.Generator().manual_seed(SEED)
    shape = (NUM_BATCHES, SEQUENCES, LENGTH)
    tokens = torch.randint(0, VOCABULARY, shape, generator=generator)
    drawn = torch.randint(0, VOCABULARY, shape, generator=generator)
    labels = torch.where(torch.rand(shape, generator=generator) < 0.25, drawn, (3 * tokens + 1) % VOCABULARY)
    return tokens, labels


def loss_of(model, preset, images, labels):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=preset == "bf16"):
        return torch.nn.functional.cross_entropy(model(images), labels.flatten())


def backward(model, preset, images, labels, num_parts):
    """Runs the backward pass of a batch in parts, so that gradients are those of the mean loss over all parts. Returns
    this loss."""
    total = 0.0
    for part_images, part_labels in zip(images.chunk(num_parts), labels.chunk(num_parts)):
        loss = loss_of(model, preset, part_images, part_labels) / num_parts
        loss.backward()
        total += loss.item()
    return total


def train(name, preset, optimizer_name, steps, feature, batches, threads):
    """Returns the model, its losses and norms, and the averages of its parameters (None without ema)."""
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    model = MODELS[name][0]()
    parameters = list(model.parameters())
    optimizer = make_optimizer(name, optimizer_name, feature == "decay", parameters)
    averages = [parameter.detach().clone() for parameter in parameters]
    update_averages = torch.optim.swa_utils.get_ema_multi_avg_fn(EMA_DECAY)
    losses, norms = [], []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        images, labels = (tensor[step % NUM_BATCHES] for tensor in batches)
        losses.append(backward(model, preset, images, labels, MICRO_BATCHES if feature == "accumulation" else 1))
        max_norm = MAX_NORM if feature == "clip" else float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, max_norm).item())
        optimizer.step()
        update_averages(averages, [parameter.detach() for parameter in parameters], step)
    return model, torch.tensor(losses), torch.tensor(norms), averages if feature == "ema" else None


def main():
    name, preset, optimizer, steps, feature, out = sys.argv[1:]
    batches = make_tokens() if name == "gpt" else make_images()
    threads = 1 if preset == "fp32" else 2
    model, losses, norms, averages = train(name, preset, optimizer, int(steps), feature, batches, threads)
    tensors = {"images": batches[0], "labels": batches[1], "losses": losses, "grad_norms": norms}
    if threads > 1:
        alone, tensors["losses_one_thread"], _, _ = train(name, preset, optimizer, int(steps), feature, batches, 1)
        tensors |= {f"after_one_thread/{key}": tensor for key, tensor in alone.state_dict().items()}
    tensors |= {f"after/{key}": tensor.clone() for key, tensor in model.state_dict().items()}
    model.eval()
    with torch.no_grad():
        for parameter, average in zip(model.parameters(), averages or []):
            parameter.copy_(average)
        tensors["eval_loss"] = loss_of(model, preset, batches[0][0], batches[1][0])
    tensor_file.write(out, tensors)


if __name__ == "__main__":
    main()
