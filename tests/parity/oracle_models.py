#!/usr/bin/env python3
"""Train one of the zoo's models in PyTorch and write what came out.

Usage: oracle_models.py MODEL OUT

MODEL is one of CASES. OUT receives tensors in the format of tensor_file.py: the initial state as "state/<name>", the
batches "images" (steps, B, ...) and "labels" (steps, B), "learning_rate", the loss of each SGD step "losses", the first step's
gradients "grad/<name>", and of the trained model in evaluation mode on the first batch "eval/loss_sum" and "eval/num_correct".
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
    """One of every other layer that GraphBuilder has."""

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


# Name: model, shape of a sample, classes, batch size, learning rate (a power of two, so that float32 holds it).
CASES = {
    "lenet": (lambda: Lenet(1, 28, [32, 64], 128, 10), (1, 28, 28), 10, 32, 2**-4),
    "lenet-odd": (lambda: Lenet(3, 21, [5, 7, 6], 9, 4), (3, 21, 21), 4, 13, 2**-1),
    "mlp": (lambda: Mlp(784, [256], 10), (1, 28, 28), 10, 64, 2**-4),
    "mlp-deep": (lambda: Mlp(20, [16, 12, 8], 5), (20,), 5, 17, 2**-1),
    "zoo": (Zoo, (2, 8, 8), 3, 16, 2**-4),
}


def train(model, images, labels, learning_rate, tensors):
    """Plain SGD, one batch a step; records losses and the first gradients."""
    losses = []
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images[step]), labels[step])
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
    labels = torch.randint(0, num_classes, (STEPS, batch_size))
    # Class prototypes plus noise, so that there is something to learn.
    images = torch.randn(num_classes, *shape)[labels] + torch.randn(STEPS, batch_size, *shape)
    tensors |= {"images": images, "labels": labels, "learning_rate": torch.tensor(learning_rate)}
    train(model, images, labels, learning_rate, tensors)
    model.eval()
    with torch.no_grad():
        logits = model(images[0])
        tensors["eval/loss_sum"] = nn.functional.cross_entropy(logits, labels[0], reduction="sum")
        tensors["eval/num_correct"] = (logits.argmax(1) == labels[0]).sum()
    tensor_file.write(sys.argv[2], tensors)


if __name__ == "__main__":
    main()
