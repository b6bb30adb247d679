#!/usr/bin/env python3
"""Trains on datasets in common formats, written by NumPy, with the real programs, and inspects them with ampctl.

Usage: data_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import gzip
import json

import numpy
from safetensors.numpy import save_file

from service_case import JOB, DataRootCase, main

NUM_SAMPLES = 96
MEAN, STD = [0.25, 0.5, 0.75], [0.5, 0.25, 0.125]
SOURCE = "{synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}}"
MODEL = "{lenet: {widths: [4, 8], hidden: 16}}"


class Data(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = numpy.random.default_rng(7)
        cls.labels = random.integers(0, 10, NUM_SAMPLES, dtype=numpy.uint8)
        # Each class has its own brightness, so that a few steps are enough to learn something.
        noise = random.integers(0, 60, (NUM_SAMPLES, 3, 32, 32))
        cls.images = (noise + 19 * cls.labels[:, None, None, None]).astype(numpy.uint8)
        cls.records = numpy.hstack([cls.labels[:, None], cls.images.reshape(NUM_SAMPLES, -1)])
        cls.records[:40].tofile(cls.root / "batch_1.bin")
        (cls.root / "batch_2.bin.gz").write_bytes(gzip.compress(cls.records[40:].tobytes()))

    def colour_job(self, source, num_classes=10):
        """Returns a job with batches of 32, each a third of the samples. Its steps are the same for every format."""
        model = f"{{lenet: {{widths: [4], hidden: 16, in_channels: 3, image_size: 32, num_classes: {num_classes}}}}}"
        text = JOB.replace(SOURCE, source).replace(MODEL, model).replace("steps: 5", "steps: 12")
        return text.replace("learning_rate: 1e-3", "learning_rate: 0.02")

    def train(self, source, **options):
        job = self.run_job(self.colour_job(source, **options))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        return self.losses(job)

    def inspect(self, name):
        code, out, err = self.service.ampctl("data", "inspect", str(self.root / name), "-o", "json")
        self.assertIn(code, (0, 1), err)
        return code, json.loads(out)

    def test_one_dataset_gives_the_same_losses_in_every_format(self):
        normalized = f"mean: {MEAN}, std: {STD}"
        cifar = self.train(f"{{cifar: {{files: [root/batch_1.bin, root/batch_2.bin.gz], {normalized}}}}}")
        self.assertEqual(len(cifar), 12)
        self.assertLess(min(cifar[-3:]), 0.95 * cifar[0])
        numpy.savez(self.root / "stored.npz", images=self.images, labels=self.labels.astype(numpy.int64))
        numpy.savez_compressed(self.root / "packed.npz", x_train=self.images.transpose(0, 2, 3, 1),
                               y_train=self.labels[:, None])
        numpy.save(self.root / "x.npy", self.images / numpy.float32(255))
        numpy.save(self.root / "y.npy", self.labels.astype(numpy.int16))
        save_file({"x": self.images, "y": self.labels.astype(numpy.int32)}, self.root / "set.safetensors")
        for source in (f"{{file: root/stored.npz, {normalized}}}",
                       f"{{file: root/packed.npz, images: x_train, labels: y_train, channels_last: true, {normalized}}}",
                       f"{{images: root/x.npy, labels: root/y.npy, {normalized}}}"):
            with self.subTest(source):
                self.assertEqual(self.train(f"{{npz: {source}}}"), cifar)
        source = f"{{file: root/set.safetensors, images: x, labels: y, {normalized}}}"
        self.assertEqual(self.train(f"{{safetensors: {source}}}"), cifar)
        self.assertNotEqual(self.train("{npz: {file: root/stored.npz}}"), cifar, "mean and std do nothing")
        self.assertNotEqual(self.train(f"{{npz: {{file: root/stored.npz, limit: 32, {normalized}}}}}"), cifar)

    def test_hundred_classes_are_trained_by_fine_or_coarse_labels(self):
        coarse, fine = self.labels, self.labels + 90
        numpy.hstack([coarse[:, None], fine[:, None], self.images.reshape(NUM_SAMPLES, -1)]).tofile(self.root / "hundred")
        files = "files: [root/hundred]"
        by_coarse = self.train(f"{{cifar: {{{files}, variant: CIFAR100_COARSE}}}}", num_classes=100)
        self.assertEqual(by_coarse, self.train("{cifar: {files: [root/batch_1.bin, root/batch_2.bin.gz]}}", num_classes=100))
        self.assertNotEqual(by_coarse, self.train(f"{{cifar: {{{files}, variant: CIFAR100_FINE}}}}", num_classes=100))

    def test_files_that_are_not_sound_end_the_job_by_name(self):
        (self.root / "cut.bin").write_bytes(self.records[:2].tobytes()[:-1])
        numpy.save(self.root / "fortran.npy", numpy.asfortranarray(self.images))
        numpy.savez(self.root / "nan.npz", images=numpy.where(self.images == 9, numpy.nan, self.images), labels=self.labels)
        numpy.savez(self.root / "other.npz", x=self.images, y=self.labels)
        save_file({"images": self.images}, self.root / "whole.safetensors")
        (self.root / "cut.safetensors").write_bytes((self.root / "whole.safetensors").read_bytes()[:-1])
        for source, words in (
                ("{cifar: {files: [root/cut.bin]}}", 'data.train.cifar.files "root/cut.bin": the file ends after 3072 of 3073'),
                ("{cifar: {files: [root/hidden/../cut.bin]}}", ""),
                ("{npz: {images: root/fortran.npy, labels: root/fortran.npy}}", "in Fortran order"),
                ("{npz: {file: root/nan.npz}}", 'array "images": sample '),
                ("{npz: {file: root/other.npz}}", 'it has no array "images"; it has x, y'),
                ("{safetensors: {file: root/cut.safetensors}}", 'data.train.safetensors.file "root/cut.safetensors": ')):
            with self.subTest(source):
                if not words:
                    code, _, err = self.service.ampctl("job", "submit", "-f", "-", text=self.colour_job(source))
                    self.assertEqual(code, 2)
                    self.assertIn("data.train.cifar.files[0]", err)
                    continue
                job = self.service.submit(self.colour_job(source))
                self.expect_failure(self.service, job, "DATA_ERROR", words)

    def token_job(self, path, extra=""):
        model = "{gpt2: {n_layer: 1, n_embd: 16, n_head: 1, n_positions: 16, vocab_size: 50257, dropout: 0}}"
        source = f"{{tokens: {{path: {path}, sequence_length: 16{extra}}}}}"
        return JOB.replace(SOURCE, source).replace(MODEL, model).replace("batch_size: 32", "batch_size: 4")

    def test_tokens_are_what_their_numbers_are_and_no_other_file_is_a_text(self):
        tokens = numpy.random.default_rng(5).integers(0, 50257, 2000)
        tokens.astype(numpy.uint16).tofile(self.root / "narrow.bin")
        tokens.astype(numpy.uint32).tofile(self.root / "wide.bin")
        tokens.astype(numpy.int64).tofile(self.root / "long.bin")
        numpy.save(self.root / "tokens.npy", tokens.astype(numpy.uint16))
        narrow, wide = self.run_job(self.token_job("root/narrow.bin")), self.run_job(self.token_job("root/wide.bin"))
        self.assertEqual((narrow["state"], wide["state"]), ("SUCCEEDED", "SUCCEEDED"), wide.get("message"))
        self.assertEqual(self.losses(wide), self.losses(narrow))
        told, = self.told(wide, "DATA_READ")
        self.assertIn("data.train.tokens: read as tokens of 32 bits without a header", told["message"])
        self.assertEqual([self.inspect(name)[1]["format"] for name in ("narrow.bin", "wide.bin", "tokens.npy")],
                         ["UINT16_TOKENS", "UINT32_TOKENS", "NPY"])
        for path, extra, words in (("root/tokens.npy", "", "it is a file of NPY, not of tokens"),
                                   ("root/tokens.npy", ", format: UINT16", "it is a NumPy array (.npy), not tokens"),
                                   ("root/long.bin", "", "as in numbers of 64 bits")):
            with self.subTest(path + extra):
                self.expect_failure(self.service, self.service.submit(self.token_job(path, extra)), "DATA_ERROR",
                                    f'data.train.tokens.path "{path}": ', words)

    def test_inspection_finds_what_numpy_counts(self):
        numpy.savez(self.root / "both.npz", images=self.images, labels=self.labels)
        save_file({"images": self.images, "labels": self.labels}, self.root / "both.safetensors")
        for name, kind in (("batch_1.bin", "CIFAR10"), ("batch_2.bin.gz", "CIFAR10"), ("both.npz", "NPZ"),
                           ("both.safetensors", "SAFETENSORS")):
            with self.subTest(name):
                code, file = self.inspect(name)
                self.assertEqual((code, file["format"]), (0, kind))
                images, labels = file["arrays"]
                part = {"batch_1.bin": slice(0, 40), "batch_2.bin.gz": slice(40, None)}.get(name, slice(None))
                pixels = self.images[part] / 255.0
                self.assertEqual([int(extent) for extent in images["shape"]], list(pixels.shape))
                numpy.testing.assert_allclose(images["mean"], pixels.mean(axis=(0, 2, 3)), rtol=1e-9)
                numpy.testing.assert_allclose(images["std"], pixels.std(axis=(0, 2, 3)), rtol=1e-9)
                self.assertEqual((images["min"], images["max"]), (self.images[part].min(), self.images[part].max()))
                counts = numpy.bincount(self.labels[part])
                self.assertEqual([int(count) for count in labels["classCounts"]], counts.tolist())

    def test_inspection_of_texts_finds_what_numpy_counts(self):
        random = numpy.random.default_rng(11)
        texts = [random.integers(0, 30522, length) for length in random.integers(1, 40, 50)]
        classes = random.integers(0, 4, len(texts))
        lines = [json.dumps({"input_ids": text.tolist(), "label": int(label)}) for text, label in zip(texts, classes)]
        (self.root / "texts.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        code, file = self.inspect("texts.jsonl.gz")
        self.assertEqual((code, file["format"], file["gzip"]), (0, "JSONL", True))
        tokens, labels = file["arrays"]
        lengths = [len(text) for text in texts]
        self.assertEqual((tokens["name"], labels["name"], tokens["shape"]), ("input_ids", "labels", ["50"]))
        self.assertEqual((tokens["min"], tokens["max"]), (min(map(min, texts)), max(map(max, texts))))
        self.assertEqual((int(tokens["lengths"]["min"]), int(tokens["lengths"]["max"])), (min(lengths), max(lengths)))
        self.assertAlmostEqual(tokens["lengths"]["mean"], numpy.mean(lengths))
        self.assertEqual([int(count) for count in labels["classCounts"]], numpy.bincount(classes).tolist())

    def test_every_type_and_version_of_numpy_is_inspected(self):
        for code in ("u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
            for version in ((1, 0), (2, 0), (3, 0)):
                with open(self.root / "typed.npy", "wb") as file:
                    numpy.lib.format.write_array(file, numpy.array([[1, 2], [3, 5]], dtype=code), version=version)
                with self.subTest(code=code, version=version):
                    _, report = self.inspect("typed.npy")
                    array = report["arrays"][0]
                    self.assertEqual(array["dtype"], numpy.dtype(code).name)
                    self.assertEqual((array["shape"], array["min"], array["max"]), (["2", "2"], 1, 5))
        numpy.save(self.root / "truths.npy", numpy.array([[True, False], [True, True]]))
        array = self.inspect("truths.npy")[1]["arrays"][0]
        self.assertEqual((array["dtype"], array["shape"], array.get("min", 0), array["max"]), ("bool", ["2", "2"], 0, 1))
        for refused in (numpy.array([1, 2], dtype=">i4"), numpy.array(["a"]),
                        numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]), numpy.array([{}], dtype=object)):
            numpy.save(self.root / "odd.npy", refused, allow_pickle=True)
            with self.subTest(refused=refused.dtype):
                code, report = self.inspect("odd.npy")
                self.assertEqual((code, len(report["problems"])), (1, 1))


if __name__ == "__main__":
    main()
