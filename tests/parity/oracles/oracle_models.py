#!/usr/bin/env python3
"""Trains one of the zoo's models in PyTorch and writes the results.

Usage: oracle_models.py MODEL OUT

MODEL is one of CASES. OUT receives tensors as safetensors: the initial state "state/<name>", the batches "images"
(steps, B, ...; tokens for a GPT) and "labels" (steps, B, ...), "learning_rate", the loss of each SGD step "losses", the
first step's gradients "grad/<name>", and for the trained model in evaluation mode on the first batch "eval/loss_sum"
and "eval/num_correct".
"""
import sys

import torch
from torch import nn

import tensor_file

SEED = 20
STEPS = 50


class Lenet(nn.Module):
    def __init__(self, in_channels, image_size, widths, hidden, num_classes):
        super().__init__()
        layers = []
        for width in widths:
            layers += [nn.Conv2d(in_channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            in_channels, image_size = width, image_size // 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(in_channels * image_size * image_size, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))

    def forward(self, images):
        return self.classifier(torch.flatten(self.features(images), 1))


class Mlp(nn.Module):
    def __init__(self, in_features, hidden, num_classes):
        super().__init__()
        layers = []
        for width in hidden:
            layers += [nn.Linear(in_features, width), nn.ReLU()]
            in_features = width
        self.layers = nn.Sequential(*layers, nn.Linear(in_features, num_classes))

    def forward(self, images):
        return self.layers(torch.flatten(images, 1))


class Zoo(nn.Module):
    """A network with one of every layer of GraphBuilder that the other models do not have."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(64, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 3)

    def forward(self, images):
        x = torch.flatten(self.bn(self.conv(images)), 1)
        x = nn.functional.gelu(self.norm(self.fc(x)))
        return self.head(x + x * torch.softmax(x, -1))


class Block(nn.Module):
    """nanoGPT's block. Its modules are made in the order of its parameters."""

    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.attn["c_attn"](x).split(width, dim=2)
        heads = [part.view(batch, length, self.num_heads, -1).transpose(1, 2) for part in parts]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.attn["c_proj"](y.transpose(1, 2).contiguous().view(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, num_layers, width, num_heads, vocabulary, length, tied):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(length, width),
            "h": nn.ModuleList([Block(width, num_heads) for _ in range(num_layers)]),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](positions)
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x)).flatten(0, 1)


class Conv(nn.Conv2d):
    """A convolution without bias, initialized like torchvision's. It is initialized when it is made, so a seed fixes
    the weights."""

    def __init__(self, in_channels, out_channels, size, stride=1):
        super().__init__(in_channels, out_channels, size, stride=stride, padding=size // 2, bias=False)

    def reset_parameters(self):
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")


class ResidualBlock(nn.Module):
    """torchvision's BasicBlock, or its Bottleneck."""

    def __init__(self, in_channels, width, stride, is_bottleneck):
        super().__init__()
        layers = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if is_bottleneck else [
            (width, 3, stride), (width, 3, 1)]
        before = in_channels
        for i, (out, size, layer_stride) in enumerate(layers, 1):
            setattr(self, f"conv{i}", Conv(before, out, size, layer_stride))
            setattr(self, f"bn{i}", nn.BatchNorm2d(out))
            before = out
        self.num_layers, self.out_channels = len(layers), before
        self.downsample = None
        if stride != 1 or in_channels != before:
            self.downsample = nn.Sequential(Conv(in_channels, before, 1, stride), nn.BatchNorm2d(before))

    def forward(self, x):
        y = x
        for i in range(1, self.num_layers + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.num_layers else y
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet(nn.Module):
    def __init__(self, widths, blocks, in_channels, num_classes, bottlenecks=False, large_images=False):
        super().__init__()
        self.conv1 = Conv(in_channels, widths[0], 7, 2) if large_images else Conv(in_channels, widths[0], 3)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large_images else nn.Identity()
        before = widths[0]
        for stage, (width, count) in enumerate(zip(widths, blocks)):
            layers = []
            for block in range(count):
                layers.append(ResidualBlock(before, width, 2 if stage > 0 and block == 0 else 1, bottlenecks))
                before = layers[-1].out_channels
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(before, num_classes)
        self.num_stages = len(widths)

    def forward(self, images):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        for stage in range(self.num_stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


# {name: (model, shape of a sample, classes, batch size, learning rate)}. Rates are powers of two, which float32 holds
# exactly.
CASES = {
    "lenet": (lambda: Lenet(1, 28, [32, 64], 128, 10), (1, 28, 28), 10, 32, 2**-4),
    "lenet-odd": (lambda: Lenet(3, 21, [5, 7, 6], 9, 4), (3, 21, 21), 4, 13, 2**-1),
    "mlp": (lambda: Mlp(784, [256], 10), (1, 28, 28), 10, 64, 2**-4),
    "mlp-deep": (lambda: Mlp(20, [16, 12, 8], 5), (20,), 5, 17, 2**-1),
    "zoo": (Zoo, (2, 8, 8), 3, 16, 2**-4),
    "resnet": (lambda: Resnet([4, 6], [2, 2], 3, 4), (3, 8, 8), 4, 16, 2**-5),
    "resnet-bottlenecks": (lambda: Resnet([4, 6], [1, 2], 3, 4, bottlenecks=True, large_images=True), (3, 37, 37), 4,
                           16, 2**-5),
    "gpt": (lambda: Gpt(2, 16, 2, 11, 8, tied=False), (8,), 11, 4, 2**-2),
    "gpt-tied": (lambda: Gpt(1, 12, 3, 7, 5, tied=True), (5,), 7, 3, 2**-4),
}


def make_batches(name, shape, num_classes, batch_size):
    if name.startswith("gpt"):
        tokens = torch.randint(0, num_classes, (STEPS, batch_size, *shape))
        return tokens, (3 * tokens + 1) % num_classes
    labels = torch.randint(0, num_classes, (STEPS, batch_size))
    # An image is the prototype of its class plus noise, so that there is something to learn.
    return torch.randn(num_classes, *shape)[labels] + torch.randn(STEPS, batch_size, *shape), labels


def train(model, images, labels, learning_rate, tensors):
    """Trains with plain SGD, one batch per step. Records the losses and the first gradients."""
    losses = []
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images[step]), labels[step].flatten())
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if step == 0:
                    tensors[f"grad/{name}"] = parameter.grad.clone()
                parameter.sub_(parameter.grad, alpha=learning_rate)
    tensors["losses"] = torch.stack(losses)


def main():
    build, shape, num_classes, batch_size, learning_rate = CASES[sys.argv[1]]
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = build().train()
    tensors = {f"state/{name}": value.clone() for name, value in model.state_dict().items()}
    images, labels = make_batches(sys.argv[1], shape, num_classes, batch_size)
    tensors |= {"images": images, "labels": labels, "learning_rate": torch.tensor(learning_rate)}
    train(model, images, labels, learning_rate, tensors)
    model.eval()
    with torch.no_grad():
        logits = model(images[0])
        tensors["eval/loss_sum"] = nn.functional.cross_entropy(logits, labels[0].flatten(), reduction="sum")
        tensors["eval/num_correct"] = (logits.argmax(1) == labels[0].flatten()).sum()
    tensor_file.write(sys.argv[2], tensors)


if __name__ == "__main__":
    main()
