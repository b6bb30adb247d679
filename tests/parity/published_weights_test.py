#!/usr/bin/env python3
"""Jobs start from folders that transformers saved, and transformers loads what they save.

Usage: published_weights_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from service_case import DataRootCase, main

VOCABULARY, LENGTH, SAMPLES, LABELS = 61, 12, 40, 3
# A rate so small that no weight moves.
JOB = """
name: from-transformers
model: {{{model}, initial_weights: root/saved/model.safetensors}}
data: {{train: {{{data}}}, eval: {{{data}}}, batch_size: 8}}
precision: {{preset: {preset}}}
optimizer: {{sgd: {{learning_rate: 1e-30}}}}
train: {{steps: 1, num_threads: 1}}
"""
BERT = (f"bert_classifier: {{num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, intermediate_size: 64, "
        f"max_position_embeddings: 16, vocab_size: {VOCABULARY}, num_labels: {LABELS}}}")
GPT2 = f"gpt2: {{n_layer: 2, n_embd: 32, n_head: 4, n_positions: 16, vocab_size: {VOCABULARY}}}"
# Of the loss, relative: what rounding weights and activations to the format may cost.
TOLERANCE = {"fp32": 1e-6, "bf16": 1e-2, "fp16": 1e-3}


def away_from_first_values(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return model.eval()


class PublishedWeights(DataRootCase):
    def evaluated(self, model, spec, data, expected):
        """Runs a job from what transformers saves of the model in each format; returns the fp32 job's saved tensors."""
        model.save_pretrained(self.root / "saved")
        for preset, tolerance in TOLERANCE.items():
            with self.subTest(preset):
                job = self.run_job(JOB.format(model=spec, data=data, preset=preset))
                self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
                final = job["attempts"][-1]["outcome"]["finalMetrics"]
                print(f"  {preset}: {final['evalLoss']}, transformers {expected}", flush=True)
                self.assertLess(abs(final["evalLoss"] / expected - 1), tolerance)
                if preset == "fp32":
                    saved = next(self.service.folder.rglob(f"{job['checkpoints'][-1]['path']}/model.safetensors"))
        return saved

    def expect_loads(self, saved, kind, model, inputs):
        """What the job saved, beside the model's configuration, is a folder of transformers'."""
        folder = self.root / "again"
        folder.mkdir(exist_ok=True)
        shutil.copy(self.root / "saved" / "config.json", folder)
        code, _, err = self.service.ampctl("checkpoint", "export", "--force", str(saved.parent),
                                           str(folder / "model.safetensors"))
        self.assertEqual(code, 0, err)
        again, told = kind.from_pretrained(folder, output_loading_info=True)
        self.assertEqual([list(told[keys]) for keys in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
        with torch.no_grad():
            self.assertTrue(torch.equal(again.eval()(**inputs).logits, model(**inputs).logits))

    def test_bert_classifier(self):
        torch.manual_seed(5)
        model = away_from_first_values(BertForSequenceClassification(
            BertConfig(vocab_size=VOCABULARY, max_position_embeddings=16, hidden_size=32, num_hidden_layers=2,
                       num_attention_heads=4, intermediate_size=64, num_labels=LABELS)))
        lengths = torch.randint(1, LENGTH + 1, (SAMPLES, 1))
        mask = (torch.arange(LENGTH) < lengths).long()
        tokens = torch.randint(1, VOCABULARY, (SAMPLES, LENGTH)) * mask
        types = (torch.arange(LENGTH) >= lengths // 2).long() * mask
        labels = torch.randint(0, LABELS, (SAMPLES,))
        with open(self.root / "texts.jsonl", "w") as file:
            for row in range(SAMPLES):
                length = lengths[row].item()
                file.write(json.dumps({"input_ids": tokens[row, :length].tolist(), "label": labels[row].item(),
                                       "token_type_ids": types[row, :length].tolist()}) + "\n")
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": types}
        with torch.no_grad():
            expected = torch.nn.functional.cross_entropy(model(**inputs).logits, labels).item()
        data = f"jsonl: {{path: root/texts.jsonl, sequence_length: {LENGTH}}}"
        self.expect_loads(self.evaluated(model, BERT, data, expected), BertForSequenceClassification, model, inputs)

    def test_gpt2(self):
        torch.manual_seed(6)
        model = away_from_first_values(GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=32, n_layer=2, n_head=4)))
        text = torch.randint(0, VOCABULARY, (SAMPLES * LENGTH + 1,))
        (self.root / "text.bin").write_bytes(text.to(torch.uint16).numpy().tobytes())
        inputs = {"input_ids": text[:-1].view(SAMPLES, LENGTH)}
        with torch.no_grad():
            logits = model(**inputs).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[1:]).item()
        data = f"tokens: {{path: root/text.bin, sequence_length: {LENGTH}}}"
        self.expect_loads(self.evaluated(model, GPT2, data, expected), GPT2LMHeadModel, model, inputs)


if __name__ == "__main__":
    main()
