#!/usr/bin/env python3
"""Exports a model as a user does, and trains it in PyTorch.

Usage: oracle_exported.py MODEL ARCHIVE OUTPUT. ARCHIVE: the .pt2 file to write. Tensors in OUTPUT, as safetensors:
  images, labels                (batches, samples, ...)
  other.<name>                  further inputs of the model, by name
  output, gradient.<parameter>  for the first batch, in training mode, from the exported weights, with the generator
                                seeded to SEED
  file_gradient.<parameter>     the gradient of PyTorch's own run of the file, if it differs from the module's
  eval_output                   of the module for the first batch, in evaluation mode, from the exported weights
  learning_rate, epsilon        of AdamW
  losses                        of 20 AdamW steps over the batches
  state.<name>                  parameters and buffers after those steps
  still.<parameter>             one for each parameter that STILL names
  eval_loss                     for the first batch after those steps, in evaluation mode, summed over its labels; for a
                                model that computes its loss itself, summed over its samples
  gradient_bf16.<parameter>, losses_bf16, state_bf16.<name>
                                the same under CPU autocast
  gradient_bf16_two ...         the same under CPU autocast with two threads
  gradient_bf16_wide.<parameter>
                                with one thread and the bfloat16 products in float32, each rounded once
A model in ONLY_BF16 has no results of training in fp32; a model in NOT_TRAINED has no results of any training.
"""
import copy
import pathlib
import re
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "python"))

import torch
from torch import nn
from torch.export.pt2_archive._package import load_pt2
from torch.nn import functional

import ampd
import tensor_file
from exported_models import BATCHES, MODELS
from wide_products import wide_products

STEPS = 20
SEED = 11

# Pairs of AdamW's rate and epsilon. Epsilon has its default wherever the gradients allow. AdamW divides by the root of
# the squared gradients, so if a gradient is zero except for rounding, its parameter moves by the full rate, in a
# direction that the last bits decide. For models with such parameters, epsilon is above the rounding and below all
# other gradients.
USUAL = (2**-10, 1e-8)
# For attention whose keys have a bias, in its own tensor or in one with queries and values. The bias has no true
# gradient, because it does not affect the softmax.
KEYS = (2**-10, 2**-17)
# As KEYS, for a model whose head is not small, so that the rounding of the gradients isn't small either.
LARGE_HEAD = (2**-10, 2**-12)
# For models with biases before a batch norm, which cancels them, and with gradients that pass through several such
# norms.
NORMS = (2**-13, 2**-12)
# SMALL_HEAD is as NORMS at AdamW's usual rate, for a head that starts so small that the gradients of the layers before
# it are small. NO_NORMS is for ReLUs without norms, where epsilon keeps the effect of a jump of a gradient small.
SMALL_HEAD = (2**-10, 2**-12)
NO_NORMS = (2**-13, 2**-7)
# For models whose losses are compared only in bf16. At a higher rate, PyTorch's own losses differ between memory
# layouts or thread counts by so much that a comparison would detect nothing.
PUBLISHED = (2**-15, 2**-12)
# For models with ReLUs: if rounding moves an activation across the kink at 0, a gradient jumps. The low rate keeps such
# differences from growing.
KINKS = (2**-13, 1e-8)
# For a model whose loss falls to 0.02 within the 20 steps at the usual rate; bf16 can't resolve 2% of that.
SLOW = (2**-14, 1e-8)
SETTINGS = {
    "cnn": NORMS, "regressor": NORMS, "multi_label": NORMS, "own_loss": NORMS,
    "resnet18": PUBLISHED, "mobilenet_v3_small": PUBLISHED, "squeezenet1_1": NO_NORMS,
    "small_resnet18": KINKS, "small_resnet50": KINKS, "small_mobilenet_v3": SMALL_HEAD, "small_shufflenet_v2": NORMS,
    "small_densenet": NORMS, "small_efficientnet": NORMS,
    "vit": LARGE_HEAD, "swin": KEYS, "swin_v2": KEYS, "gpt2": KEYS, "bloom": KEYS, "gpt_neo": KEYS, "bert": KEYS,
    "bert_masked": KEYS, "roberta": KEYS, "distilbert": KEYS, "electra": KEYS, "bert_own_loss": KEYS,
    "modernbert": SLOW,
}

# {model: pattern for the names of the parameters whose true gradient is zero, so that only decay changes them}.
KEY_BIASES = r"(key|k_lin)\.bias$"
FIRST_BIAS = r"features\.0\.bias$"  # the bias of a convolution before a batch norm
STILL = {
    "bert": KEY_BIASES, "bert_masked": KEY_BIASES, "roberta": KEY_BIASES, "distilbert": KEY_BIASES,
    "electra": KEY_BIASES, "bert_own_loss": KEY_BIASES, "deberta": r"pos_key_proj\.bias$",
    "cnn": r"stem\.0\.bias$", "regressor": FIRST_BIAS, "multi_label": FIRST_BIAS, "own_loss": FIRST_BIAS,
    # The next three models: biases of norms that are followed only by a 1x1 convolution and the next norm, which
    # cancels them.
    "small_mobilenet_v3": r"features\.([12]\.block\.2|3\.block\.3)\.1\.bias$",
    "small_shufflenet_v2": r"(branch1\.1|branch2\.4)\.bias$",
    "small_efficientnet": r"(features\.1\.0\.block\.2|block\.3)\.1\.bias$",
}

# Published models that are not trained in fp32. For small images their last norms are over only a few numbers, so a
# last bit decides the course of training, and PyTorch's own two forms of AdamW differ by up to 0.3. Their small
# configurations are compared in fp32 instead.
ONLY_BF16 = {"resnet18", "mobilenet_v3_small"}
# Models whose training is not compared, only the forward pass, the gradients and the dtypes. Their course of training
# depends on single last bits in bf16, too, and that of efficientnet_b0 on a random draw.
NOT_TRAINED = {"resnet50", "shufflenet_v2_x0_5", "densenet121", "efficientnet_b0"}


def cross_entropy(logits, labels, reduction):
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=reduction)


# {model: function that computes the loss of its output}, for models without a cross entropy. None: the output is the
# loss.
LOSSES = {
    "regressor": lambda output, labels, reduction: functional.mse_loss(output, labels, reduction=reduction),
    "multi_label": lambda output, labels, reduction: functional.binary_cross_entropy_with_logits(
        output, labels, reduction=reduction),
    "own_loss": None,
    "bert_own_loss": None,
}


def loss_of(model, batch, reduction="mean"):
    samples, labels, *others = batch
    loss = LOSSES.get(sys.argv[1], cross_entropy)
    if loss is None:
        mean = model(samples, labels)
        return mean * len(samples) if reduction == "sum" else mean, mean
    output = model(samples, *others)
    return loss(output, labels, reduction), output


def gradients_of(model, batch, low=False):
    torch.manual_seed(SEED)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        loss, output = loss_of(model, batch)
    loss.backward()
    return output, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def perturb(model):
    """Moves biases, norms, and ViT's head and class token away from their initial values. Those are all equal, so an
    exchange would go unnoticed, and a relative difference from 0 means nothing."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or not parameter.any():
                parameter.add_(torch.randn_like(parameter), alpha=2**-3)


def keep_gradients_of_narrow_images(model):
    """Under autocast, makes convolutions of images with fewer columns than the stride compute in fp32, on inputs
    rounded to bf16.

    In bf16 oneDNN (3.10) leaves a part of their weights' gradient uninitialized.
    """
    def forward(self, images):
        if not torch.is_autocast_enabled("cpu") or images.shape[-1] >= self.stride[-1]:
            return nn.Conv2d.forward(self, images)
        with torch.autocast("cpu", enabled=False):
            images, weight = (tensor.bfloat16().float() for tensor in (images, self.weight))
            return self._conv_forward(images, weight, self.bias).bfloat16()

    for module in model.modules():
        if type(module) is nn.Conv2d:
            module.forward = types.MethodType(forward, module)


def train(model, batches, low):
    """Trains the model for 20 steps, under autocast if `low`, and returns the losses."""
    keep_gradients_of_narrow_images(model)
    # The engine uses this memory layout for convolution weights; in another layout sums would be rounded differently.
    model.train().to(memory_format=torch.channels_last)
    rate, epsilon = SETTINGS.get(sys.argv[1], USUAL)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=rate, weight_decay=2**-6,
                                  eps=epsilon)
    losses = []
    for step in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss, _ = loss_of(model, batches[step % BATCHES])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def state_of(model):
    return {key: tensor.detach() for key, tensor in [*model.named_parameters(), *model.named_buffers()]
            if tensor.dtype == torch.float32}


def low_gradients(model, batch):
    """Returns the gradients of the batch under autocast, in the layout of train()."""
    model = copy.deepcopy(model)
    keep_gradients_of_narrow_images(model)
    model.train().to(memory_format=torch.channels_last)
    return gradients_of(model, batch, low=True)[1]


def followed_low(model, batches):
    """Returns the results of the first batch and of 20 steps under autocast, with one thread and with two."""
    tensors = {}
    for threads, prefix in ((1, "bf16"), (2, "bf16_two")):
        torch.set_num_threads(threads)
        tensors |= {f"gradient_{prefix}.{key}": gradient for key, gradient in low_gradients(model, batches[0]).items()}
        trained = copy.deepcopy(model)
        tensors[f"losses_{prefix}"] = train(trained, batches, low=True)
        tensors |= {f"state_{prefix}.{key}": tensor for key, tensor in state_of(trained).items()}
    torch.set_num_threads(1)
    with wide_products() as wide:
        gradients = low_gradients(model, batches[0])
    assert wide.num_widened > 0, "no product is in bfloat16"
    return tensors | {f"gradient_bf16_wide.{key}": gradient for key, gradient in gradients.items()}


def followed(model, batches):
    """Returns the results of 20 steps in fp32."""
    tensors = {"losses": train(model, batches, low=False)}
    tensors |= {f"state.{key}": tensor for key, tensor in state_of(model).items()}
    tensors |= {f"still.{key}": torch.zeros(1) for key, _ in model.named_parameters()
                if sys.argv[1] in STILL and re.search(STILL[sys.argv[1]], key)}
    with torch.no_grad():
        tensors["eval_loss"] = loss_of(model.eval(), batches[0], "sum")[0]
    return tensors


def main():
    name, archive, output = sys.argv[1:]
    torch.backends.mha.set_fastpath_enabled(False)  # in evaluation, a fused op that rounds differently from the layers
    torch.set_num_threads(1)
    torch.manual_seed(7)
    make, feed = MODELS[name]
    model = make()
    perturb(model)
    samples, labels, *rest = feed()
    others = rest[0] if rest else {}
    batches = list(zip(samples, labels, *others.values()))
    fed = [labels[0]] if LOSSES.get(name, cross_entropy) is None else [other[0] for other in others.values()]
    ampd.export(model, (samples[0], *fed), archive)
    tensors = {"images": samples, "labels": labels} | {f"other.{key}": other for key, other in others.items()}
    tensors["output"], gradients = gradients_of(copy.deepcopy(model).train(), batches[0])
    tensors |= {f"gradient.{key}": gradient for key, gradient in gradients.items()}
    _, of_file = gradients_of(load_pt2(archive).exported_programs["train"].module(), batches[0])
    called = {}  # {name of a parameter: first name of its tensor}; tied parameters share the first name
    first = {}
    for key, parameter in model.named_parameters(remove_duplicate=False):
        called[key] = first.setdefault(parameter, key)
    of_file = {called[key]: gradient for key, gradient in of_file.items()}
    tensors |= {f"file_gradient.{key}": gradient for key, gradient in of_file.items()
                if key in gradients and not torch.equal(gradient, gradients[key])}
    with torch.no_grad():
        _, tensors["eval_output"] = loss_of(copy.deepcopy(model).eval(), batches[0])
    rate, epsilon = SETTINGS.get(name, USUAL)
    tensors |= {"learning_rate": torch.tensor(rate), "epsilon": torch.tensor(epsilon)}
    if name not in NOT_TRAINED:
        try:
            tensors |= followed_low(model, batches)
        except RuntimeError as error:
            # oneDNN has recurrent layers in 16 bits only for CPUs with AVX-512.
            if "could not create a primitive" not in str(error):
                raise
            tensors["without_autocast"] = torch.ones(1)
    if name not in NOT_TRAINED | ONLY_BF16:
        tensors |= followed(model, batches)
    tensor_file.write(output, tensors)


if __name__ == "__main__":
    main()
