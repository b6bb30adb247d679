#!/usr/bin/env python3
"""Exports a model as a user does, and trains it in PyTorch.

Usage: oracle_exported.py MODEL ARCHIVE OUTPUT. ARCHIVE: the .pt2 file to write. Tensors in OUTPUT (tensor_file.py):
  images, labels                (batches, samples, ...)
  other.<name>                  what the model takes beside those, by its input's name
  output, gradient.<parameter>  of the first batch, in training mode, from the exported weights, with the generator
                                seeded to SEED
  file_gradient.<parameter>     what PyTorch's own run of the file gives, where that is not what the module gives
  losses                        of 20 steps of AdamW over the batches
  state.<name>                  parameters and buffers after those
  eval_loss                     of the first batch then, in evaluation mode, summed over its labels; of a model that makes
                                its loss itself over its samples
  losses_bf16, losses_bf16_two  losses of the same 20 steps under CPU autocast, with one thread and with two
"""
import copy
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import torch
import torchvision
from torch import nn
from torch.export.pt2_archive._package import load_pt2
from torch.nn import functional

import ampd
import tensor_file

STEPS, BATCHES, CLASSES, VOCABULARY, LENGTH, NUMBERS = 20, 4, 10, 64, 16, 3
SEED = 11


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


class Dtypes(nn.Module):
    """A user's own: a norm in float32 of whatever comes, with the way back, and constants in the dtype that is there."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3 * 64, 32)
        self.weight = nn.Parameter(torch.ones(32))
        self.middle = nn.Linear(32, 32)
        self.head = nn.Linear(32, CLASSES)

    def norm(self, x):
        wide = x.to(torch.float32)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    def forward(self, x):
        x = self.inner(x.flatten(1))
        x = x * (torch.arange(32, dtype=x.dtype) / 32 + 0.5)
        x = x + functional.gelu(self.middle(self.norm(x)))
        return self.head(self.norm(x))


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


def numbers():
    return torch.randn(BATCHES, 8, 3, 8, 8), torch.randn(BATCHES, 8, NUMBERS)


def decisions():
    samples, labels = numbers()
    return samples, (labels > 0.5).float()


def small_text(**other):
    """What the configurations of BERT and its kin have in common."""
    return dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                max_position_embeddings=LENGTH + 2, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=3,
                **other)


class MaskedLogits(Logits):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def padded_text_classes():
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (BATCHES, 4, 1))
    return *text_classes(), {"attention_mask": (torch.arange(LENGTH) < lengths).long()}


def gpt2(hf):
    return Logits(hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, use_cache=False)))


def distilbert(hf):
    return Logits(hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=LENGTH, dropout=0,
        attention_dropout=0, seq_classif_dropout=0, num_labels=3)))


def llama(hf):
    return Logits(hf.LlamaForCausalLM(hf.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=LENGTH, use_cache=False)))


def bloom(hf):
    return Logits(hf.BloomForCausalLM(hf.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=2, hidden_dropout=0, attention_dropout=0, use_cache=False)))


def falcon(hf):
    return Logits(hf.FalconForCausalLM(hf.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, use_cache=False)))


def gpt_neo(hf):
    return Logits(hf.GPTNeoForCausalLM(hf.GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]],
        window_size=4, max_position_embeddings=LENGTH, resid_dropout=0, embed_dropout=0, attention_dropout=0,
        use_cache=False)))


def mistral(hf):
    return Logits(hf.MistralForCausalLM(hf.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=4, use_cache=False)))


def modernbert(hf):
    return Logits(hf.ModernBertForSequenceClassification(hf.ModernBertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3,
        global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2)))


class Recurrent(nn.Module):
    """A user's own: a recurrent layer over embeddings, and a layer on its last position."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.layer = layer(16, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x))[0][:, -1])


class Convolutions(nn.Module):
    """A user's own: three numbers or logits an image, behind convolutions and a norm."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.GELU(),
                                      nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.GELU())
        self.head = nn.Linear(8 * 4, NUMBERS)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


class OwnLoss(Convolutions):
    """A user's own loss, of numbers: two of them robustly, one by its square."""

    def forward(self, images, labels):
        numbers = super().forward(images)
        return (functional.smooth_l1_loss(numbers[:, :2], labels[:, :2])
                + 0.5 * functional.mse_loss(numbers[:, 2], labels[:, 2]))


class LossOf(nn.Module):
    """Of a model of transformers, which compares its logits with labels that it is given."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


class T5Classifier(nn.Module):
    """The mean over an encoder's positions, and a layer."""

    def __init__(self, hf):
        super().__init__()
        self.encoder = hf.T5EncoderModel(hf.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=64, num_layers=2,
                                                     num_heads=2, dropout_rate=0))
        self.head = nn.Linear(32, 3)

    def forward(self, input_ids):
        return self.head(self.encoder(input_ids=input_ids).last_hidden_state.mean(1))


def from_transformers(make):
    def made():
        import transformers  # takes seconds

        return make(transformers)

    return made


def convnext():
    block = torchvision.models.convnext.CNBlockConfig
    return torchvision.models.ConvNeXt([block(16, 32, 2), block(32, None, 2)], stochastic_depth_prob=0,
                                       num_classes=CLASSES)


def vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32,
                                                mlp_dim=64, num_classes=CLASSES)


def swin(**version):
    """Of two stages: windows that are shifted and masked in the first, and need no shift in the second."""
    return torchvision.models.SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2],
                                              window_size=[4, 4], stochastic_depth_prob=0, num_classes=CLASSES, **version)


def swin_v2():
    parts = torchvision.models.swin_transformer
    return swin(block=parts.SwinTransformerBlockV2, downsample_layer=parts.PatchMergingV2)


# Of each model, how it is made and what it is fed.
MODELS = {
    "mlp": (Mlp, lambda: images(8)),
    "cnn": (Cnn, lambda: images(8)),
    "dtypes": (Dtypes, lambda: images(8)),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), lambda: images(64, 16)),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), lambda: images(32)),
    "mobilenet_v3_small": (lambda: torchvision.models.mobilenet_v3_small(num_classes=CLASSES, dropout=0), lambda: images(64)),
    "squeezenet1_1": (lambda: torchvision.models.squeezenet1_1(num_classes=CLASSES, dropout=0), lambda: images(32)),
    "shufflenet_v2_x0_5": (lambda: torchvision.models.shufflenet_v2_x0_5(num_classes=CLASSES), lambda: images(64)),
    "densenet121": (lambda: torchvision.models.densenet121(num_classes=CLASSES), lambda: images(32)),
    # With stochastic depth.
    "efficientnet_b0": (lambda: torchvision.models.efficientnet_b0(num_classes=CLASSES, dropout=0), lambda: images(64)),
    "convnext": (convnext, lambda: images(32)),
    "vit": (vit, lambda: images(32)),
    "swin": (swin, lambda: images(32)),
    "swin_v2": (swin_v2, lambda: images(32)),
    "lstm": (lambda: Recurrent(nn.LSTM), text_classes),
    "gru": (lambda: Recurrent(nn.GRU), text_classes),
    "gpt2": (from_transformers(gpt2), tokens),
    "llama": (from_transformers(llama), tokens),
    "bert": (from_transformers(lambda hf: Logits(hf.BertForSequenceClassification(hf.BertConfig(**small_text())))),
             text_classes),
    "bert_masked": (from_transformers(lambda hf: MaskedLogits(hf.BertForSequenceClassification(
        hf.BertConfig(**small_text())))), padded_text_classes),
    "roberta": (from_transformers(lambda hf: Logits(hf.RobertaForSequenceClassification(
        hf.RobertaConfig(**small_text())))), text_classes),
    "distilbert": (from_transformers(distilbert), text_classes),
    "electra": (from_transformers(lambda hf: Logits(hf.ElectraForSequenceClassification(
        hf.ElectraConfig(embedding_size=32, **small_text())))), text_classes),
    "deberta": (from_transformers(lambda hf: Logits(hf.DebertaV2ForSequenceClassification(
        hf.DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], **small_text())))), text_classes),
    "modernbert": (from_transformers(modernbert), text_classes),
    "mistral": (from_transformers(mistral), tokens),
    "gpt_neo": (from_transformers(gpt_neo), tokens),
    "bloom": (from_transformers(bloom), tokens),
    "falcon": (from_transformers(falcon), tokens),
    "t5": (from_transformers(T5Classifier), text_classes),
    "regressor": (Convolutions, numbers),
    "multi_label": (Convolutions, decisions),
    "own_loss": (OwnLoss, numbers),
    "bert_own_loss": (from_transformers(lambda hf: LossOf(hf.BertForSequenceClassification(
        hf.BertConfig(**small_text())))), text_classes),
}


def cross_entropy(logits, labels, reduction):
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction=reduction)


# Of models without a cross entropy, what makes the loss of their output; None: it is the loss.
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


def gradients_of(model, batch):
    torch.manual_seed(SEED)
    loss, output = loss_of(model, batch)
    loss.backward()
    return output, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def train(model, batches, low):
    """Losses of 20 steps; the model is then what they made of it. `low`: under autocast."""
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2**-10, weight_decay=2**-6,
                                  eps=2**-4)
    losses = []
    for step in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss, _ = loss_of(model, batches[step % BATCHES])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def main():
    name, archive, output = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(7)
    make, feed = MODELS[name]
    model = make()
    samples, labels, *rest = feed()
    others = rest[0] if rest else {}
    batches = list(zip(samples, labels, *others.values()))
    fed = [labels[0]] if LOSSES.get(name, cross_entropy) is None else [other[0] for other in others.values()]
    ampd.export(model, (samples[0], *fed), archive)
    tensors = {"images": samples, "labels": labels} | {f"other.{key}": other for key, other in others.items()}
    tensors["output"], gradients = gradients_of(copy.deepcopy(model).train(), batches[0])
    tensors |= {f"gradient.{key}": gradient for key, gradient in gradients.items()}
    _, of_file = gradients_of(load_pt2(archive).exported_programs["train"].module(), batches[0])
    called = {}  # each parameter's name to the one that the module calls it by first, which is another's if they are tied
    first = {}
    for key, parameter in model.named_parameters(remove_duplicate=False):
        called[key] = first.setdefault(parameter, key)
    of_file = {called[key]: gradient for key, gradient in of_file.items()}
    tensors |= {f"file_gradient.{key}": gradient for key, gradient in of_file.items()
                if key in gradients and not torch.equal(gradient, gradients[key])}
    tensors["losses_bf16"] = train(copy.deepcopy(model), batches, low=True)
    torch.set_num_threads(2)
    tensors["losses_bf16_two"] = train(copy.deepcopy(model), batches, low=True)
    torch.set_num_threads(1)
    tensors["losses"] = train(model, batches, low=False)
    tensors |= {f"state.{key}": tensor for key, tensor in [*model.named_parameters(), *model.named_buffers()]
                if tensor.dtype == torch.float32}
    with torch.no_grad():
        tensors["eval_loss"] = loss_of(model.eval(), batches[0], "sum")[0]
    tensor_file.write(output, tensors)


if __name__ == "__main__":
    main()
