#!/usr/bin/env python3
"""Trains a model of transformers, torchvision or torch.nn and writes the results.

Usage: oracle_published.py MODEL OUT

MODEL is one of CASES. OUT receives, as safetensors, for a model without dropout: the tensors of its checkpoint as it is
saved, "state/<name>", the tensors that training starts from, "start/<name>", the batches "input/<name>" (steps, B, ...)
and "labels" (steps, B, ...), and AdamW's "learning_rate" and "epsilon". For the steps over the batches: the logits of
the first, "logits", the first gradients, "grad/<name>", the loss of each, "losses", and the tensors after them,
"after/<name>". For as many steps in evaluation mode, from "eval/start/<name>" with a new optimizer: the same as
"eval/logits" ...
"""
import pathlib
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file
from torch import nn

import tensor_file
from oracle_models import Lenet, Mlp

SEED = 20
STEPS = 20


class Gpt2:
    """The same model as SmallGpt2 of the test. It has more positions than the sequences use."""

    LEARNING_RATE = 2**-9
    # Biases of attention's keys do not affect the softmax, so their gradients are only rounding errors. This epsilon is
    # large enough that such gradients do not move the biases.
    EPSILON = 2**-17

    def __init__(self):
        import transformers as hf  # takes seconds

        self.model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=61, n_positions=16, n_embd=48, n_layer=3, n_head=4,
                                                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))

    # Returns the parameters that are moved away from their initial values. With the initial values, no activation would
    # be large enough to distinguish the forms of GELU.
    def perturbed(self):
        return self.model.parameters()

    def saved_tensors(self):
        return saved_by_transformers(self.model)

    def batches(self):
        tokens = torch.randint(0, 61, (STEPS, 4, 11))
        return {"input_ids": tokens[:, :, :-1]}, tokens[:, :, 1:]

    def logits(self, inputs):
        return self.model(**inputs).logits


class Images:
    """A model of torchvision on small images, in batches of 8."""

    def __init__(self, model, image_size, num_classes):
        # The engine uses this memory layout for convolution weights; in another layout sums would be rounded
        # differently.
        self.model = model.to(memory_format=torch.channels_last)
        self.image_size, self.num_classes = image_size, num_classes

    # Returns the parameters that are moved away from their initial values: biases and norm weights. All of them start
    # equal, so an exchange of two would go unnoticed.
    def perturbed(self):
        return (parameter for parameter in self.model.parameters() if parameter.dim() == 1)

    def saved_tensors(self):
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def batches(self):
        images = torch.randn(STEPS, 8, 3, self.image_size, self.image_size)
        return {"images": images}, torch.randint(0, self.num_classes, (STEPS, 8))

    def logits(self, inputs):
        return self.model(inputs["images"])


class EfficientNet(Images):
    # A low rate and a large epsilon, because rounding errors grow with each step: the labels are random, and the
    # gradient of a bias before a norm is only rounding.
    LEARNING_RATE = 2**-11
    EPSILON = 2**-6

    def __init__(self):
        super().__init__(torchvision.models.efficientnet_b0(num_classes=7, dropout=0.0, stochastic_depth_prob=0.0), 64, 7)

    def calm(self):
        """Makes the logits small, because with a large loss each step magnifies rounding errors. From these weights,
        two runs of PyTorch in different memory layouts agree within 1.2e-5."""
        self.model.classifier[1].weight.mul_(0.05)


class Resnet(Images):
    """A ResNet with torchvision's stem, or with the stem that is commonly used for CIFAR."""

    LEARNING_RATE = 2**-11
    EPSILON = 2**-9

    def __init__(self, depth, is_small=False):
        model = getattr(torchvision.models, f"resnet{depth}")(num_classes=80)
        if is_small:
            model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
            model.maxpool = nn.Identity()
        super().__init__(model, 16 if is_small else 40, 80)

    def calm(self):
        """Moves the model to a state in which rounding hardly grows from step to step.

        From the initial weights, two runs of PyTorch in different memory layouts do not agree: half of the rectifiers'
        inputs are near zero, where rounding decides whether a gradient passes, and the labels are random. In this state
        the inputs of most rectifiers (in the deep model, of nearly all) are well away from zero, and branches add
        little to their sums.
        """
        is_deep = hasattr(self.model.layer1[0], "bn3")
        last = "bn3" if is_deep else "bn2"
        for name, norm in self.model.named_modules():
            if isinstance(norm, nn.BatchNorm2d):
                ends_branch = name.endswith(last)
                norm.weight.mul_(0.25 if ends_branch else 1)
                norm.bias.add_(1 if ends_branch else 3.5 if is_deep else 2.5)
        # Makes the logits smaller: features well above zero make large logits, and with a large loss each step
        # magnifies rounding errors. From these weights, two runs of PyTorch in different memory layouts agree within
        # 1e-6, or within 1e-3 for the deep model with its larger logits.
        self.model.fc.weight.mul_(0.02 if is_deep else 0.1)


class Bert:
    """The same model as SmallBert of the test. It has more positions than the sequences use; texts have all lengths and
    two parts."""

    LEARNING_RATE = 2**-9
    EPSILON = 2**-17

    def __init__(self):
        import transformers as hf  # takes seconds

        self.model = hf.BertForSequenceClassification(
            hf.BertConfig(vocab_size=61, max_position_embeddings=16, hidden_size=48, num_hidden_layers=3,
                          num_attention_heads=4, intermediate_size=96, num_labels=5, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0))

    def perturbed(self):
        return self.model.parameters()

    def saved_tensors(self):
        return saved_by_transformers(self.model)

    # Texts also contain the padding token, whose embedding is not trained.
    def batches(self):
        lengths = torch.randint(1, 11, (STEPS, 4, 1))
        mask = (torch.arange(10) < lengths).to(torch.int64)
        types = (torch.arange(10) >= lengths // 2).to(torch.int64) * mask
        inputs = {"input_ids": torch.randint(0, 61, (STEPS, 4, 10)), "attention_mask": mask, "token_type_ids": types}
        inputs["input_ids"][:, :, 0] = 0
        return inputs, torch.randint(0, 5, (STEPS, 4))

    def logits(self, inputs):
        return self.model(**inputs).logits


class RnnClassifier(nn.Module):
    def __init__(self, cell, bidirectional):
        super().__init__()
        self.embedding = nn.Embedding(61, 32)
        self.rnn = cell(32, 24, num_layers=2, batch_first=True, bidirectional=bidirectional)
        self.classifier = nn.Linear(48 if bidirectional else 24, 80)
        self.num_directions = 2 if bidirectional else 1

    def forward(self, input_ids, attention_mask):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(input_ids), attention_mask.sum(1), batch_first=True,
                                                   enforce_sorted=False)
        states = self.rnn(packed)[1]
        states = states[0] if isinstance(states, tuple) else states
        return self.classifier(torch.cat(list(states[-self.num_directions:]), dim=1))


class Rnn:
    """The same model as SmallRnn of the test. Texts have all lengths and are padded with tokens that also occur in
    texts."""

    LEARNING_RATE = 2**-9
    EPSILON = 2**-17

    def __init__(self, cell, bidirectional):
        self.model = RnnClassifier(cell, bidirectional)

    def perturbed(self):
        return self.model.parameters()

    def saved_tensors(self):
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def batches(self):
        lengths = torch.randint(1, 11, (STEPS, 4, 1))
        mask = (torch.arange(10) < lengths).to(torch.int64)
        return {"input_ids": torch.randint(0, 61, (STEPS, 4, 10)), "attention_mask": mask}, torch.randint(0, 80, (STEPS, 4))

    def logits(self, inputs):
        return self.model(**inputs)


class Small(Images):
    """A zoo model of oracle_models.py, on images with one channel."""

    LEARNING_RATE = 2**-9
    EPSILON = 1e-8

    def perturbed(self):
        return self.model.parameters()

    def batches(self):
        images, labels = super().batches()
        return {"images": images["images"][:, :, :1]}, labels


CASES = {"gpt2": Gpt2, "efficientnet_b0": EfficientNet, "bert_classifier": Bert,
         "lenet": lambda: Small(Lenet(1, 12, [72, 80], 96, 80), 12, 80),
         "mlp": lambda: Small(Mlp(144, [96, 72], 80), 12, 80),
         "resnet18_cifar": lambda: Resnet(18, is_small=True), "resnet18": lambda: Resnet(18),
         "resnet34": lambda: Resnet(34), "resnet50": lambda: Resnet(50),
         "lstm": lambda: Rnn(nn.LSTM, False), "bidirectional_lstm": lambda: Rnn(nn.LSTM, True),
         "gru": lambda: Rnn(nn.GRU, False), "bidirectional_gru": lambda: Rnn(nn.GRU, True)}


def saved_by_transformers(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def prefixed(prefix, tensors, names):
    return {prefix + name: tensors[name].detach().clone() for name in names}


def train(case, inputs, labels, names, prefix=""):
    """Trains over the batches, in the mode that the model is in, and returns the results."""
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=case.LEARNING_RATE, weight_decay=2**-6, eps=case.EPSILON)
    tensors, losses = {}, []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = case.logits({name: batches[step] for name, batches in inputs.items()})
        loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels[step].flatten())
        loss.backward()
        if step == 0:
            tensors[f"{prefix}logits"] = logits.detach()
            tensors |= {f"{prefix}grad/{name}": parameter.grad.clone() for name, parameter in case.model.named_parameters()}
        losses.append(loss.detach())
        optimizer.step()
    tensors[f"{prefix}losses"] = torch.stack(losses)
    return tensors | prefixed(f"{prefix}after/", case.model.state_dict(), names)


@torch.no_grad()
def settle(case, inputs):
    """Sets the norms' running statistics to those of the batches. After only a few steps of training, they would still
    contain the initial statistics."""
    norms = [module for module in case.model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # running statistics are the mean over all batches
    for step in range(STEPS if norms else 0):
        case.logits({name: batches[step] for name, batches in inputs.items()})


def main():
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    case = CASES[sys.argv[1]]()
    case.model.train()
    saved = case.saved_tensors()
    names = list(saved)
    tensors = prefixed("state/", saved, names)
    with torch.no_grad():
        for parameter in case.perturbed():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
        if isinstance(case, (Resnet, EfficientNet)):
            case.calm()
    tensors |= prefixed("start/", case.model.state_dict(), names)
    inputs, labels = case.batches()
    tensors |= {f"input/{name}": batches for name, batches in inputs.items()}
    tensors |= {"labels": labels, "learning_rate": torch.tensor(case.LEARNING_RATE), "epsilon": torch.tensor(case.EPSILON)}
    start = {name: tensor.clone() for name, tensor in case.model.state_dict().items()}
    tensors |= train(case, inputs, labels, names)
    # Training in evaluation mode starts from the initial weights, too: without normalization by the batch, trained
    # weights would give large logits.
    case.model.load_state_dict(start)
    settle(case, inputs)
    tensors |= prefixed("eval/start/", case.model.state_dict(), names)
    case.model.eval()
    tensors |= train(case, inputs, labels, names, "eval/")
    tensor_file.write(sys.argv[2], tensors)


if __name__ == "__main__":
    main()
