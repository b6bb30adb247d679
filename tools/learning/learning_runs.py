"""Jobs that learn from real data: job files of examples/, their input, and the bounds that they must reach.

Used by tests/e2e/learning_test.py and by scripts/demo --all; docs/learning-runs.md has the results.
"""
import dataclasses
import json
import pathlib
import typing

import bible_texts
import sample_pictures

ROOT = pathlib.Path(__file__).resolve().parents[2]
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
PRECISIONS = ("bf16", "fp32")


@dataclasses.dataclass(frozen=True)
class Run:
    """One job file and its bounds. A bound is a function of the folder that prepare() wrote. The bounds of short runs
    can't be reached by chance or by a model that sees less of its input than it should."""
    name: str
    metric: str  # an accuracy must reach its bound; a loss or a distance must stay below it
    bound: typing.Callable
    short_bound: typing.Callable
    short: tuple  # arguments of --set for the short run
    of_sample: typing.Callable | None = None  # computes the metric from a sample file; None: in the final metrics

    def job_file(self):
        return ROOT / "examples" / f"{self.name}.yaml"

    def flags(self, precision, is_short=False):
        """Returns the flags of `ampctl job submit -f` for the job file."""
        changes = (f"precision.preset={precision}", *(self.short if is_short else ()))
        return ["--name", f"{self.name}-{precision}", *(word for change in changes for word in ("--set", change))]

    def value(self, final_metrics, samples):
        """Returns the metric of a finished job, or None if it has none. `samples` is the result of `download_samples`."""
        if self.of_sample is None:
            return final_metrics.get(self.metric)
        return self.of_sample(samples[max(samples)]) if samples else None

    def reached(self, value, bound):
        return value >= bound if self.metric.endswith("Accuracy") else value <= bound


def above_the_majority(share):
    """Returns a bound: the accuracy of always predicting the larger class, without `share` of its errors."""
    return lambda folder: 1 - (1 - share) * (1 - bible_texts.majority(folder / "test.tsv"))


def below_the_unigrams(share):
    return lambda folder: (1 - share) * bible_texts.unigram_entropy(folder / "val.txt")


def picture_distance(sample):
    """Returns the distance of a sample of dcgan from pictures that it was not trained on."""
    return sample_pictures.distance_of_files(sample, FASHION / "t10k-images-idx3-ubyte.gz")


def download_samples(job, folder, ampctl):
    """Downloads the samples that a job drew into the folder and returns {step: file}. `ampctl` is a function that runs
    ampctl with its arguments and returns the output."""
    samples = {}
    for artifact in json.loads(ampctl("artifact", "list", "--job", job, "-o", "json")):
        _, step, name = artifact["name"].split("/")
        samples[int(step.removeprefix("step-"))] = file = folder / f"{job}-{step}-{name}"
        ampctl("artifact", "download", artifact["name"], str(file))
    return samples


FASHION_RESNET = Run(
    "fashion-resnet", "evalAccuracy", bound=lambda _: 0.91, short_bound=lambda _: 0.3,
    short=("data.batch_size=32", "train.steps=40", "schedule.warmup_steps=5", "data.eval.idx.limit=500",
           "eval.every_steps=0", "checkpoint.every_steps=0"))
GPT2_TEXT = Run(
    "gpt2-text", "evalLoss", bound=below_the_unigrams(0.25), short_bound=below_the_unigrams(0.05),
    short=("model.gpt2.n_layer=2", "model.gpt2.n_embd=128", "data.train.tokens.sequence_length=64", "train.steps=250",
           "eval.every_steps=0", "checkpoint.every_steps=0"))
BERT_TEXTS = Run(
    "bert-texts", "evalAccuracy", bound=above_the_majority(0.5), short_bound=above_the_majority(0.2),
    short=("train.steps=300", "schedule.warmup_steps=20", "eval.every_steps=0", "checkpoint.every_steps=0",
           "checkpoint.keep_best=false"))
FASHION_DCGAN = Run(
    "fashion-dcgan", "pictureDistance", bound=lambda _: 0.02, short_bound=lambda _: 0.05, of_sample=picture_distance,
    short=("model.dcgan.generator_features=16", "model.dcgan.discriminator_features=16", "data.batch_size=32",
           "optimizer.adam.learning_rate=6e-4", "train.steps=300", "sample.every_steps=50", "checkpoint.every_steps=0"))
RUNS = (BERT_TEXTS, GPT2_TEXT, FASHION_RESNET, FASHION_DCGAN)


def prepare(folder, ampctl):
    """Writes the texts and returns the data roots that workers need, as name=path."""
    bible_texts.write(folder, ampctl)
    return [f"fashion-mnist={FASHION}", f"text={folder}"]
