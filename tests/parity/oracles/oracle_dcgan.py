#!/usr/bin/env python3
"""Trains the networks of PyTorch's DCGAN tutorial on noise and writes the results.

Usage: oracle_dcgan.py IMAGE_SIZE [ARCHIVE] OUT     IMAGE_SIZE: 28, 32 or 64

ARCHIVE receives both networks as a user exports them: as one module that computes both losses (.pt2).

OUT receives, as safetensors:
  state/<name>                    the first weights, drawn as the tutorial draws them
  start/<name>                    the weights from which training starts
  images, noise                   (steps, B, C, S, S) and (steps, B, Z)
  grad/discriminator_loss, grad/generator_loss
                                  losses of the first batch with the start weights
  grad/<name>                     gradients of each loss for the parameters of its own network
  learning_rate, epsilon
For the tutorial's training loop with Adam, as there, K is "adam"; with AdamW, K is "adamw":
  K/discriminator_loss, K/generator_loss
                                  losses of the steps
  K/after/<name>                  the tensors after the steps
  K/eval/images                   the generator's images of the first noise in evaluation mode with those tensors
  K/eval/generator_loss           both networks' loss for these images
The same loop in evaluation mode, from the weights where AdamW ended, writes "eval/grad/<name>" and, with "eval" for K,
the same tensors as above.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "python"))

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import ampd
import tensor_file

SEED = 20
STEPS = 20
BATCH_SIZE = 8
LATENT, CHANNELS, GENERATOR, DISCRIMINATOR = 6, 2, 8, 8
# When two networks train against each other, rounding errors grow. Epsilon keeps gradients that are only rounding from
# deciding a step's direction, and the low rate keeps the steps short.
LEARNING_RATE = 2**-15
EPSILON = 2**-9
WEIGHT_DECAY = 2**-6


def generator(image_size):
    first, halvings = {28: (7, 2), 32: (4, 3), 64: (4, 4)}[image_size]
    features = GENERATOR * 2**(halvings - 1)
    layers = [nn.ConvTranspose2d(LATENT, features, first, 1, 0, bias=False), nn.BatchNorm2d(features), nn.ReLU(True)]
    for _ in range(halvings - 1):
        layers += [nn.ConvTranspose2d(features, features // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(features // 2),
                   nn.ReLU(True)]
        features //= 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(features, CHANNELS, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(image_size):
    first, halvings = {28: (7, 2), 32: (4, 3), 64: (4, 4)}[image_size]
    features = DISCRIMINATOR
    layers = [nn.Conv2d(CHANNELS, features, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for _ in range(halvings - 1):
        layers += [nn.Conv2d(features, 2 * features, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * features),
                   nn.LeakyReLU(0.2, inplace=True)]
        features *= 2
    return nn.Sequential(*layers, nn.Conv2d(features, 1, first, 1, 0, bias=False))


class Network(nn.Module):
    def __init__(self, main):
        super().__init__()
        self.main = main


class Dcgan(nn.Module):
    def __init__(self, image_size):
        super().__init__()
        self.generator = Network(generator(image_size))
        self.discriminator = Network(discriminator(image_size))

    def fake(self, noise):
        return self.generator.main(noise.view(BATCH_SIZE, LATENT, 1, 1))

    def discriminator_loss(self, images, noise):
        real = self.discriminator.main(images)
        fake = self.discriminator.main(self.fake(noise).detach())
        return (binary_cross_entropy_with_logits(real, torch.ones_like(real)) +
                binary_cross_entropy_with_logits(fake, torch.zeros_like(fake)))

    def generator_loss(self, images, noise):
        fake = self.discriminator.main(self.fake(noise))
        return binary_cross_entropy_with_logits(fake, torch.ones_like(fake))


class Exported(Dcgan):
    """Both networks in one module, as a user writes it: the fake images are made once for both losses."""

    def forward(self, images, noise):
        fake = self.generator.main(noise.view(-1, LATENT, 1, 1))
        of_real, of_constant = self.discriminator.main(images), self.discriminator.main(fake.detach())
        of_fake = self.discriminator.main(fake)
        return (binary_cross_entropy_with_logits(of_real, torch.ones_like(of_real)) +
                binary_cross_entropy_with_logits(of_constant, torch.zeros_like(of_constant)),
                binary_cross_entropy_with_logits(of_fake, torch.ones_like(of_fake)))


def initialise(module):
    """Initializes a module's weights: the tutorial's weights_init."""
    name = type(module).__name__
    if "Conv" in name:
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.constant_(module.bias, 0)


def train(model, images, noise, optimizer):
    """The tutorial's training loop. Returns the losses of each step, by player."""
    discriminator, generator = model.discriminator.main, model.generator.main
    optimizer_of_d, optimizer_of_g = optimizer(discriminator.parameters()), optimizer(generator.parameters())
    losses = {"discriminator": [], "generator": []}
    real, fake = torch.ones(BATCH_SIZE), torch.zeros(BATCH_SIZE)
    for step in range(STEPS):
        optimizer_of_d.zero_grad()
        loss_of_real = binary_cross_entropy_with_logits(discriminator(images[step]).view(-1), real)
        loss_of_real.backward()
        made = generator(noise[step].view(BATCH_SIZE, LATENT, 1, 1))
        loss_of_fake = binary_cross_entropy_with_logits(discriminator(made.detach()).view(-1), fake)
        loss_of_fake.backward()
        losses["discriminator"].append((loss_of_real + loss_of_fake).detach())
        optimizer_of_d.step()
        optimizer_of_g.zero_grad()
        loss = binary_cross_entropy_with_logits(discriminator(made).view(-1), real)
        loss.backward()
        losses["generator"].append(loss.detach())
        optimizer_of_g.step()
    return losses


OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=(0.5, 0.999), eps=EPSILON),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=(0.5, 0.999), eps=EPSILON,
                                                  weight_decay=WEIGHT_DECAY),
}


def named(prefix, tensors):
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in tensors.items()}


def gradients_of(model, images, noise):
    """Returns each player's loss, and its gradients for the parameters of the player's own network."""
    tensors = {}
    for player, loss_of in (("discriminator", model.discriminator_loss), ("generator", model.generator_loss)):
        loss = tensors[f"{player}_loss"] = loss_of(images, noise)
        parameters = {name: parameter for name, parameter in model.named_parameters() if name.startswith(player)}
        tensors |= zip(parameters, torch.autograd.grad(loss, list(parameters.values())))
    return tensors


@torch.no_grad()
def evaluated(model, images, noise):
    was_training = model.training
    model.eval()
    tensors = {"images": model.fake(noise), "generator_loss": model.generator_loss(images, noise)}
    model.train(was_training)
    return tensors


def trained(kind, model, images, noise, optimizer):
    losses = train(model, images, noise, optimizer)
    tensors = {f"{kind}/{player}_loss": torch.stack(values) for player, values in losses.items()}
    tensors |= named(f"{kind}/after", model.state_dict())
    return tensors | named(f"{kind}/eval", evaluated(model, images[0], noise[0]))


def main():
    image_size = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    # The engine uses this memory layout for convolution weights; in another layout sums would be rounded differently.
    model = Dcgan(image_size).apply(initialise).to(memory_format=torch.channels_last)
    tensors = named("state", model.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    tensors |= named("start", model.state_dict())
    images = torch.rand(STEPS, BATCH_SIZE, CHANNELS, image_size, image_size)
    noise = torch.randn(STEPS, BATCH_SIZE, LATENT)
    tensors |= {"images": images, "noise": noise, "learning_rate": torch.tensor(LEARNING_RATE), "epsilon": torch.tensor(EPSILON)}
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors |= named("grad", gradients_of(model, images[0], noise[0]))
    for kind, optimizer in OPTIMIZERS.items():
        model.load_state_dict(start)
        tensors |= trained(kind, model, images, noise, optimizer)
    model.eval()
    tensors |= named("eval/grad", gradients_of(model, images[0], noise[0]))
    tensors |= trained("eval", model, images, noise, OPTIMIZERS["adamw"])
    tensor_file.write(sys.argv[-1], tensors)
    if len(sys.argv) > 3:
        ampd.export(Exported(image_size), (images[0], noise[0]), sys.argv[2])


if __name__ == "__main__":
    main()
