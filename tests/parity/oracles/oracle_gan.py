#!/usr/bin/env python3
"""Trains a small GAN in PyTorch with two optimizers under one torch.amp.GradScaler and writes the trace.

Usage: oracle_gan.py RULE STEPS OUT     RULE: plain, each_alone or all_together

plain: without a scaler. each_alone: the usual loop, in which scaler.step skips one optimizer and update() is called
once. The discriminator has stepped when the generator's loss is computed. all_together: both losses use the same
weights, and neither optimizer steps if the gradients of one are not finite, as under Apex. With a scaler some steps
have a fault: a NaN among the images overflows only in the discriminator; a large number in the first feature of the
noise, whose weights are 0, overflows only in the generator.

OUT receives, as safetensors, "state/<name>", "images" (steps, B, 1, S, S), "noise" (steps, B, Z) and, for each step,
"discriminator_loss", "generator_loss", "scales" (before the step), "discriminator_steps" and "generator_steps" (1: the
optimizer stepped). "after/<name>" is the state after the steps.
"""
import random
import sys

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import tensor_file

SEED = 20
BATCH_SIZE = 16
NOISE, WIDTH, IMAGE_SIZE, DISCRIMINATOR_WIDTH = 8, 32, 8, 8
LARGE = 3e38


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(NOISE, WIDTH), nn.ReLU(), nn.Linear(WIDTH, IMAGE_SIZE * IMAGE_SIZE), nn.Tanh())
        width, size = DISCRIMINATOR_WIDTH, IMAGE_SIZE // 4
        self.discriminator = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Flatten(), nn.Linear(2 * width * size * size, 1))

    def fake(self, noise):
        return self.generator(noise).view(-1, 1, IMAGE_SIZE, IMAGE_SIZE)

    def discriminator_loss(self, images, noise):
        real = self.discriminator(images)
        fake = self.discriminator(self.fake(noise).detach())
        return (binary_cross_entropy_with_logits(real, torch.ones_like(real)) +
                binary_cross_entropy_with_logits(fake, torch.zeros_like(fake)))

    def generator_loss(self, noise):
        fake = self.discriminator(self.fake(noise))
        return binary_cross_entropy_with_logits(fake, torch.ones_like(fake))


def make_batches(steps, with_faults):
    generator = torch.Generator().manual_seed(SEED)
    rows = torch.linspace(-0.5, 0.5, IMAGE_SIZE).view(1, 1, 1, IMAGE_SIZE, 1)
    images = rows + 0.2 * torch.randn(steps, BATCH_SIZE, 1, IMAGE_SIZE, IMAGE_SIZE, generator=generator)
    noise = torch.randn(steps, BATCH_SIZE, NOISE, generator=generator)
    noise[:, :, 0] = 0
    faults = random.Random(SEED)
    for step in range(steps if with_faults else 0):
        if faults.randrange(10) == 0:
            images[step, 0, 0, 1, 1] = float("nan")
        if faults.randrange(10) == 0:
            noise[step, 0, 0] = LARGE
    return images, noise


class Trainer:
    """One model, two optimizers, one scaler."""

    def __init__(self, rule):
        torch.manual_seed(SEED)
        self.model = Gan()
        with torch.no_grad():
            self.model.generator[0].weight[:, 0] = 0
        # At these rates rounding errors do not grow over the steps.
        self.optimizers = [
            torch.optim.SGD(self.model.discriminator.parameters(), lr=2**-7, momentum=0.5),
            torch.optim.Adam(self.model.generator.parameters(), lr=2**-11, betas=(0.5, 0.999))]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=3, enabled=rule != "plain")
        self.stepped = [0, 0]
        for i, optimizer in enumerate(self.optimizers):
            optimizer.register_step_post_hook(lambda *_, i=i: self.count(i))

    def count(self, optimizer):
        self.stepped[optimizer] += 1

    def backward(self, loss, optimizer):
        optimizer.zero_grad(set_to_none=True)
        inputs = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.scaler.scale(loss).backward(inputs=inputs)
        return loss.item()

    def each_alone(self, images, noise):
        """The usual training loop of a GAN."""
        losses = [self.backward(self.model.discriminator_loss(images, noise), self.optimizers[0])]
        self.scaler.step(self.optimizers[0])
        losses.append(self.backward(self.model.generator_loss(noise), self.optimizers[1]))
        self.scaler.step(self.optimizers[1])
        self.scaler.update()
        return losses

    def all_together(self, images, noise):
        losses = [self.backward(self.model.discriminator_loss(images, noise), self.optimizers[0]),
                  self.backward(self.model.generator_loss(noise), self.optimizers[1])]
        finite = True
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
            finite = finite and all(bool(torch.isfinite(parameter.grad).all())
                                    for group in optimizer.param_groups for parameter in group["params"])
        for optimizer in self.optimizers if finite else []:
            self.scaler.step(optimizer)
        self.scaler.update()
        return losses


def main():
    rule, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    trainer = Trainer(rule)
    images, noise = make_batches(steps, rule != "plain")
    state = {f"state/{name}": value.clone() for name, value in trainer.model.state_dict().items()}
    losses, scales, stepped = [], [], []
    step_of = trainer.all_together if rule == "all_together" else trainer.each_alone
    for step in range(steps):
        before = list(trainer.stepped)
        scales.append(trainer.scaler.get_scale())
        losses.append(step_of(images[step], noise[step]))
        stepped.append([after - earlier for after, earlier in zip(trainer.stepped, before)])
    tensors = {"images": images, "noise": noise, "scales": torch.tensor(scales)}
    for i, player in enumerate(["discriminator", "generator"]):
        tensors[f"{player}_loss"] = torch.tensor([pair[i] for pair in losses])
        tensors[f"{player}_steps"] = torch.tensor([pair[i] for pair in stepped])
    after = {f"after/{name}": value for name, value in trainer.model.state_dict().items()}
    tensor_file.write(out, state | tensors | after)


if __name__ == "__main__":
    main()
