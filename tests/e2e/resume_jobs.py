"""The jobs of resume_test.py. The models are those of the zoo in a small size, each with the state that it alone adds
to a checkpoint, and one from torch.export. Each is trained under every kind of policy that it supports."""
import dataclasses
import json
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

VOCABULARY, LENGTH, CLASSES = 48, 24, 16

JOB = """
name: resume
model: {model}
data: {data}
precision: {precision}
optimizer: {optimizer}
schedule: {schedule}
train: {{steps: {steps}, clip_grad_norm: 1.0, seed: 11, num_threads: 1}}
checkpoint: {{every_steps: {checkpoints}, keep: 2}}
"""


@dataclasses.dataclass(frozen=True)
class Model:
    """A model's part of a job file. `fp8`: the layer that FP8 would exclude by default in so small a model; None: the
    model has no layer that can use FP8."""
    model: str
    data: str
    steps: int
    fp8: str | None = ""
    evaluates: bool = True
    optimizer: str = "{adamw: {learning_rate: 2e-3}}"
    schedule: str = "{warmup_steps: 5, cosine: {final_ratio: 0.1}}"

    def job(self, policy):
        rules = f", module_rules: [{{match: {self.fp8}, compute: fp8_e4m3}}]" if self.fp8 else ""
        job = JOB.format(model=self.model, data=self.data, precision=POLICIES[policy].replace(", RULES", rules),
                         optimizer=self.optimizer, schedule=self.schedule, steps=self.steps, checkpoints=self.steps // 8)
        return job + f"eval: {{every_steps: {self.steps // 4}}}\n" if self.evaluates else job

    def policies(self):
        return [policy for policy in POLICIES if policy != "fp8" or self.fp8 is not None]


def pictures(channels, size, samples, augment=""):
    shape = f"shape: [{channels}, {size}, {size}], num_classes: {CLASSES}, seed: 3"
    return (f"{{train: {{synthetic: {{{shape}, num_samples: {samples}}}}}, "
            f"eval: {{synthetic: {{{shape}, num_samples: 64}}}}, batch_size: 16{augment}}}")


TEXTS = (f"{{train: {{jsonl: {{path: root/texts.jsonl, sequence_length: {LENGTH}}}}}, "
         "eval: {jsonl: {path: root/texts.jsonl, limit: 64}}, batch_size: 16}")

# No number of steps divides an epoch, so kills come at every position within an epoch.
MODELS = {
    "lenet": Model(
        f"{{lenet: {{widths: [8, 16], hidden: 32, num_classes: {CLASSES}}}}}",
        pictures(1, 28, 200, ", augment: {crop_padding: 2, flip: true}"), steps=240, fp8="classifier.0",
        optimizer="{adamw: {learning_rate: 2e-3}, ema_decay: 0.98}"),
    "resnet18": Model(
        f"{{resnet: {{depth: 18, stem: CIFAR, image_size: 8, num_classes: {CLASSES}}}}}",
        pictures(3, 8, 200, ", augment: {flip: true}"), steps=40, fp8="fc",
        optimizer="{sgd: {learning_rate: 0.02, momentum: 0.9, nesterov: true, weight_decay: 1e-4}}"),
    "gpt2": Model(
        f"{{gpt2: {{n_layer: 3, n_embd: 32, n_head: 2, n_positions: {LENGTH}, vocab_size: {VOCABULARY}}}}}",
        f"{{train: {{tokens: {{path: root/text.bin, sequence_length: {LENGTH}}}}}, "
        "eval: {tokens: {path: root/text.bin, limit: 32}}, batch_size: 16}", steps=120),
    "bert_classifier": Model(
        f"{{bert_classifier: {{num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 2, num_labels: {CLASSES}, "
        f"max_position_embeddings: {LENGTH}, vocab_size: {VOCABULARY}}}}}", TEXTS, steps=120,
        schedule="{plateau: {factor: 0.5, patience_evals: 0, threshold: 0.5}}"),
    "rnn": Model(
        f"{{rnn: {{vocab_size: {VOCABULARY}, embedding_size: 16, hidden_size: 32, num_layers: 2, bidirectional: true, "
        f"num_classes: {CLASSES}, dropout: 0.2}}}}", TEXTS, steps=120, fp8="classifier",
        schedule="{warmup_steps: 5, linear: {final_ratio: 0}}"),
    "dcgan": Model(
        "{dcgan: {latent_size: 8, generator_features: 8, discriminator_features: 8}}",
        "{train: {idx: {images: root/images, mean: 0.5, std: 0.5}}, batch_size: 16}", steps=80, fp8=None, evaluates=False,
        optimizer="{adam: {learning_rate: 2e-4, beta1: 0.5}, ema_decay: 0.9}"),
    "exported": Model("{exported: {path: root/model.pt2}}", pictures(1, 16, 200), steps=160, fp8="hidden"),
}

# The fp16 loss scale starts so high that gradients overflow, and grows back to that every few steps.
POLICIES = {
    "fp32": "{preset: fp32}",
    "bf16": "{preset: bf16}",
    "fp16": "{preset: fp16, loss_scale: {dynamic: {initial: 1073741824, cap: 1073741824, growth_interval: 4}}}",
    "fp8": "{preset: fp8-delayed, fp8: {amax_history_length: 12, canary_every_steps: 16}, RULES}",
}

# The (model, policy) pairs of a short run: every model twice, but rnn once; every policy three or four times.
CHOSEN = {
    "lenet": ("fp32", "fp16"), "resnet18": ("bf16", "fp16"), "gpt2": ("bf16", "fp8"), "bert_classifier": ("fp16", "fp8"),
    "rnn": ("bf16",), "dcgan": ("fp32", "fp16"), "exported": ("fp32", "fp8"),
}


def write_files(root):
    """Writes the input of the jobs: images, a text, labelled texts, and a model from torch.export."""
    draw = random.Random(17)
    (root / "images").write_bytes(struct.pack(">4I", 0x803, 200, 28, 28) + draw.randbytes(200 * 28 * 28))
    tokens = [0]
    while len(tokens) < 400 * LENGTH:
        # The next token is most often the last one plus 1, so that there is something to learn.
        tokens.append((tokens[-1] + 1) % VOCABULARY if draw.random() < 0.8 else draw.randrange(VOCABULARY))
    (root / "text.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    with open(root / "texts.jsonl", "w", encoding="utf-8") as file:
        for _ in range(200):
            label = draw.randrange(CLASSES)
            words = [draw.choice((label + 1, draw.randrange(1, VOCABULARY))) for _ in range(draw.randrange(2, LENGTH + 1))]
            file.write(json.dumps({"input_ids": words, "label": label}) + "\n")
    _export_model(root / "model.pt2")


def _export_model(path):
    import ampd
    import torch  # takes seconds
    import torchvision

    # Only its stochastic depth draws random numbers: with another op that draws, the job would have to set seeds too.
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.features = torch.nn.Sequential(
                torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
            self.hidden = torch.nn.Linear(8 * 8 * 8, 64)
            self.branch = torch.nn.Linear(64, 64)
            self.depth = torchvision.ops.StochasticDepth(0.3, "row")
            self.head = torch.nn.Linear(64, CLASSES)

        def forward(self, x):
            x = torch.relu(self.hidden(self.features(x).flatten(1)))
            return self.head(x + self.depth(torch.relu(self.branch(x))))

    torch.manual_seed(19)
    ampd.export(Network(), (torch.zeros(4, 1, 16, 16),), path)
