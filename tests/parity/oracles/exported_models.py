"""The models that oracle_exported.py exports and trains, with their inputs: MODELS.

Models named as in torchvision have the sizes that it publishes. "small_<model>" has the same class with fewer and
narrower layers.
"""
import functools

import torch
import torchvision
from torch import nn
from torch.nn import functional

BATCHES, CLASSES, VOCABULARY, LENGTH, NUMBERS = 4, 10, 64, 16, 3


class Mlp(nn.Module):
    """User code: hand-written layers, sizes from the input, numbers beside tensors, one frozen layer, one shared
    layer."""

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
    """User code: norms, a dropout with probability 0, in-place ops, a skip and a concatenation."""

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
    """User code: a norm that casts its input to float32 and back, and constants in the input's dtype."""

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


class BatchNorms(nn.Module):
    """User code: norms without running statistics, which use the batch's statistics in evaluation too."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False),
                                  nn.BatchNorm2d(8, track_running_stats=False), nn.GELU())
        self.inner = nn.Sequential(nn.Linear(8 * 64, 32, bias=False), nn.BatchNorm1d(32, track_running_stats=False))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(functional.gelu(self.inner(self.stem(x).flatten(1))))


class Constants(nn.Module):
    """User code: tensors made in the forward, one of them only in training and one only in evaluation; a sum that is
    added to in place; and a row that is partly overwritten."""

    def __init__(self):
        super().__init__()
        self.shift = torch.linspace(-1, 1, 32)  # not a buffer
        self.inner = nn.Linear(3 * 64, 32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = self.inner(x.flatten(1))
        if self.training:
            x = x * torch.tensor(1.1)
        total = torch.tensor(1.0)
        for part in x.chunk(2, 1):
            total += (part * part).mean()
        row = torch.tensor([0.5, 1.5] * 16)
        row[:4] = 2.0
        x = x * row / total
        x = self.head(functional.gelu(x + self.shift)) / torch.tensor(4.0)
        return x if self.training else x * torch.tensor(0.7)


class Slices(nn.Module):
    """User code: parts of tensors that are overwritten in place from other parts, and zeros that are filled."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3 * 64, 32)
        self.gate = nn.Linear(32, 4)
        self.row = nn.Parameter(torch.linspace(-1, 1, 8))
        self.head = nn.Linear(40, CLASSES)

    def forward(self, x):
        x = self.inner(x.flatten(1))
        x[:, :2] = x[:, 4:6] * 2
        x[:, 2:4] *= 3
        x[:, 6:8] -= self.row[:2]
        x[:, 9] = x[:, 8]
        x.narrow(1, 10, 2).mul_(0.5)
        x.select(1, 12).copy_(torch.sigmoid(x[:, 13]))
        x[:, 1::8] = self.gate(x.clone())
        filled = torch.zeros(x.shape[0], 5, 8)
        for i in range(4):
            filled[:, i] = functional.gelu(x[:, 8 * i:8 * i + 8]) * (i + 1)
        filled[:, 4] = self.row
        filled[:, 1:3, 2:] += self.row[2:]
        filled[:, :, 0] = 1.0
        return self.head(filled.flatten(1))


class Mixed(nn.Module):
    """User code: layer results combined with parameters and constants that no matrix product reads."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.inner = nn.Linear(32, 16)
        self.layer = nn.GRU(16, 16, batch_first=True)
        self.last = nn.Parameter(torch.linspace(-1, 1, 16).reshape(1, 1, 16))
        self.power = nn.Parameter(torch.full((16,), 1.5))
        self.exponent = nn.Parameter(torch.tensor(0.75))
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 16))
        self.slope = nn.Parameter(torch.linspace(-0.5, 0.5, 16))
        self.head = nn.Linear(32 * 8, CLASSES)

    def forward(self, x):
        x = self.inner(self.conv(x).transpose(1, 2).flatten(2))  # (B, 8, 16)
        x = torch.sin(self.layer(x)[0])
        x = (x.abs() + 0.5) ** self.power + (x * x + 1.5) ** self.exponent + 1.25 ** 2
        x = x.diff(dim=1, append=self.last.expand(x.shape[0], 1, 16))
        angles = torch.einsum("i,j->ij", torch.arange(8) * 100.0, self.scale)
        x = torch.einsum("btc,c->btc", self.inner(torch.cat([x, x], 2)), self.scale) + torch.cos(angles)
        x = torch.where(x > 0, x, x * self.slope)
        x = torch.cat([self.inner(torch.cat([x, x], 2)), self.last.expand(x.shape[0], 8, 16)], 2)
        return self.head((x + torch.stack([self.scale, self.slope]).flatten()).flatten(1))


class Logits(nn.Module):
    """Returns only the logits of a transformers model, which returns more than one tensor."""

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
    """Returns the settings that the configurations of BERT and its relatives share."""
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
    """User code: a recurrent layer over embeddings, and a layer on its first and last position."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.layer = layer(16, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        states = self.layer(self.embedding(x))[0]
        return self.head(states[:, 0] + states[:, -1])


class Convolutions(nn.Module):
    """User code: three numbers or logits per image, after convolutions and a norm."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.GELU(),
                                      nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.GELU())
        self.head = nn.Linear(8 * 4, NUMBERS)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


class OwnLoss(Convolutions):
    """User code: its own loss over numbers, smooth L1 for two of them and squared error for one."""

    def forward(self, images, labels):
        numbers = super().forward(images)
        return (functional.smooth_l1_loss(numbers[:, :2], labels[:, :2])
                + 0.5 * functional.mse_loss(numbers[:, 2], labels[:, 2]))


class LossOf(nn.Module):
    """Returns the loss of a transformers model, which compares its logits with the given labels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


class T5Classifier(nn.Module):
    """A linear layer over the mean of an encoder's positions."""

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
    """Two stages: the first shifts and masks its windows, the second needs no shift."""
    return torchvision.models.SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2],
                                              window_size=[4, 4], stochastic_depth_prob=0, num_classes=CLASSES, **version)


def swin_v2():
    parts = torchvision.models.swin_transformer
    return swin(block=parts.SwinTransformerBlockV2, downsample_layer=parts.PatchMergingV2)


class SmallResnet(torchvision.models.ResNet):
    """One block per stage, with an eighth of the channels."""

    def __init__(self, block):
        super().__init__(block, [1, 1, 1, 1])
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(self.inplanes, CLASSES)

    def _make_layer(self, block, planes, *rest, **others):
        if planes == 64:  # the first stage after the stem
            self.inplanes = 8
        return super()._make_layer(block, planes // 8, *rest, **others)


def small_densenet():
    return torchvision.models.DenseNet(growth_rate=8, block_config=(2, 2, 2), num_init_features=16, num_classes=CLASSES)


def small_shufflenet():
    return torchvision.models.ShuffleNetV2([1, 2, 1], [8, 16, 32, 64, 64], num_classes=CLASSES)


def small_mobilenet():
    """Blocks with and without squeezed channels, with both activations, with and without a skip."""
    block = functools.partial(torchvision.models.mobilenetv3.InvertedResidualConfig, dilation=1, width_mult=1)
    return torchvision.models.MobileNetV3([block(16, 3, 16, 16, True, "RE", 2), block(16, 3, 32, 24, False, "RE", 1),
                                           block(24, 5, 48, 24, True, "HS", 1)], 64, num_classes=CLASSES, dropout=0)


def small_efficientnet():
    block = torchvision.models.efficientnet.MBConvConfig
    return torchvision.models.EfficientNet([block(1, 3, 1, 16, 8, 1), block(4, 3, 2, 8, 16, 2), block(4, 5, 1, 16, 16, 1)],
                                           dropout=0, stochastic_depth_prob=0, last_channel=64, num_classes=CLASSES)


# {model: (function that makes the model, function that makes its input)}.
MODELS = {
    "mlp": (Mlp, lambda: images(8)),
    "cnn": (Cnn, lambda: images(8)),
    "dtypes": (Dtypes, lambda: images(8)),
    "constants": (Constants, lambda: images(8)),
    "batch_norms": (BatchNorms, lambda: images(8, 16)),
    "slices": (Slices, lambda: images(8)),
    "mixed": (Mixed, lambda: images(8)),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), lambda: images(64, 16)),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), lambda: images(32)),
    "mobilenet_v3_small": (lambda: torchvision.models.mobilenet_v3_small(num_classes=CLASSES, dropout=0), lambda: images(64)),
    "squeezenet1_1": (lambda: torchvision.models.squeezenet1_1(num_classes=CLASSES, dropout=0), lambda: images(32)),
    "shufflenet_v2_x0_5": (lambda: torchvision.models.shufflenet_v2_x0_5(num_classes=CLASSES), lambda: images(64)),
    "densenet121": (lambda: torchvision.models.densenet121(num_classes=CLASSES), lambda: images(32)),
    # This model has stochastic depth.
    "efficientnet_b0": (lambda: torchvision.models.efficientnet_b0(num_classes=CLASSES, dropout=0), lambda: images(64)),
    "small_resnet18": (lambda: SmallResnet(torchvision.models.resnet.BasicBlock), lambda: images(8, 32)),
    "small_resnet50": (lambda: SmallResnet(torchvision.models.resnet.Bottleneck), lambda: images(8, 32)),
    "small_mobilenet_v3": (small_mobilenet, lambda: images(16, 16)),
    "small_shufflenet_v2": (small_shufflenet, lambda: images(16, 16)),
    "small_densenet": (small_densenet, lambda: images(16, 16)),
    "small_efficientnet": (small_efficientnet, lambda: images(16, 16)),
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

