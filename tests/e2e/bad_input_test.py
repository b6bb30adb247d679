#!/usr/bin/env python3
"""Tests faulty data and job files. Each gives one line that names the fault, does not harm the server, and creates
nothing.

Usage: bad_input_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import os
import struct
import subprocess

from service import Service
from service_case import BINARIES, JOB, ServiceCase, main

IDX_JOB = JOB.replace("synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}",
                      "idx: {images: IMAGES, labels: LABELS}")
CLIENT_USAGE = 2  # `ampctl help exit-codes`


def idx(magic, sizes, content):
    return struct.pack(f">I{len(sizes)}I", magic, *sizes) + content


class DataFaults(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.service.__enter__()
        cls.addClassCleanup(lambda: cls.service.__exit__(None))
        cls.images = idx(0x803, [64, 28, 28], bytes(range(256)) * 196)
        cls.labels = idx(0x801, [64], bytes(i % 10 for i in range(64)))
        cls.root = cls.service.folder / "root"
        cls.root.mkdir()
        (cls.root / "images").write_bytes(cls.images)
        (cls.root / "labels").write_bytes(cls.labels)
        (cls.service.folder / "outside").write_bytes(cls.images)
        cls.service.start_worker(flags=["--data-root", f"set={cls.root}", "--data-group", str(os.getgid())])

    def run_with(self, images="set/images", labels="set/labels"):
        return self.service.submit(IDX_JOB.replace("IMAGES", images).replace("LABELS", labels))

    def expect_data_error(self, words, **files):
        fields = [f'data.train.idx.{field} "{path}": ' for field, path in files.items()]
        self.expect_failure(self.service, self.run_with(**files), "DATA_ERROR", *fields, *words)

    def write(self, name, content):
        (self.root / name).write_bytes(content)
        return f"set/{name}"

    def test_good_files_train(self):
        final = self.service.finished(self.run_with())
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))

    def test_a_missing_file(self):
        self.expect_data_error(["nowhere", "No such file"], images="set/nowhere")

    def test_a_truncated_file(self):
        self.expect_data_error(["cut", "ends after"], images=self.write("cut", self.images[:-1]))

    def test_a_file_cut_in_its_header(self):
        self.expect_data_error(["header-only", "header"], labels=self.write("header-only", self.labels[:6]))

    def test_a_compressed_file_cut_off(self):
        packed = subprocess.run(["gzip", "-c"], input=self.images, capture_output=True, check=True).stdout
        self.expect_data_error(["cut.gz", "cut off"], images=self.write("cut.gz", packed[:-20]))

    def test_a_wrong_magic(self):
        self.expect_data_error(["labels", "magic", "images"], images="set/labels")

    def test_labels_out_of_range(self):
        labels = self.labels[:-1] + b"\x0a"
        self.expect_data_error(["high", "label 10", "63"], labels=self.write("high", labels))

    def test_more_images_than_labels(self):
        labels = idx(0x801, [63], self.labels[8:-1])
        self.expect_data_error(["63", "64"], labels=self.write("few", labels))

    def test_sizes_beyond_all_memory(self):
        images = idx(0x803, [2**32 - 1, 2**16, 2**16], b"")
        self.expect_data_error(["huge"], images=self.write("huge", images))

    def test_images_of_another_size_than_the_models(self):
        images = idx(0x803, [64, 14, 14], bytes(64 * 14 * 14))
        self.expect_failure(self.service, self.run_with(images=self.write("small", images)), "SPEC_ERROR", "196", "784")

    def test_a_link_out_of_the_root(self):
        (self.root / "link").symlink_to(self.service.folder / "outside")
        self.expect_data_error(["link", "none is followed"], images="set/link")

    def test_a_folder_for_a_file(self):
        (self.root / "folder").mkdir()
        self.expect_data_error(["folder", "regular file"], images="set/folder")

    def test_a_file_that_others_may_not_read(self):
        path = self.write("private", self.images)
        (self.root / "private").chmod(0o600)
        self.expect_data_error(["others may not read it (mode 0600)", "chmod o+r private, or chmod g+r private"], images=path)
        for mode in (0o604, 0o640):
            (self.root / "private").chmod(mode)
            self.assertEqual(self.service.finished(self.run_with(images=path))["state"], "SUCCEEDED")

    def test_a_path_out_of_the_root_is_refused_at_submit(self):
        for path in ("set/../outside", "/etc/passwd", "../outside"):
            job = IDX_JOB.replace("IMAGES", path).replace("LABELS", "set/labels")
            code, out, err = self.service.ampctl("job", "submit", "-q", "-f", "-", text=job)
            self.assertEqual((code, out), (CLIENT_USAGE, ""), err)
            self.assertIn("images", err)
            self.assertIn(path, err)
        self.expect_success(self.service)

    def test_a_data_root_that_no_worker_has_waits_and_says_so(self):
        job = self.run_with(images="other/images", labels="other/labels")
        code, out, _ = self.service.ampctl("job", "explain", job)
        self.assertEqual(code, 0)
        self.assertIn("other", out)
        self.service.ampctl("job", "cancel", job)
        self.expect_success(self.service)


class JobFileFaults(ServiceCase):
    """Submits faulty job files to a real server with ampctl. Each gives exit code 2, the line of the fault, and no
    job."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.service.__enter__()
        cls.addClassCleanup(lambda: cls.service.__exit__(None))

    def expect_refusal(self, text, *words):
        code, out, err = self.service.ampctl("job", "submit", "-f", "-", text=text)
        self.assertEqual((code, out), (CLIENT_USAGE, ""), err[:500])
        for word in words:
            self.assertIn(word, err)
        self.assertLess(len(err), 4000)
        self.assertTrue(self.service.server.running())
        self.assertEqual(self.service.ampctl("job", "list", "-q", "-o", "name")[1], "", "a job was half-created")

    def test_ten_megabytes(self):
        self.expect_refusal(JOB + "labels: {a: " + "x" * (10 << 20) + "}\n", "bytes")

    def test_a_key_twice(self):
        self.expect_refusal(JOB + "name: again\n", "'name' appears twice", "stdin:10:1")

    def test_deep_nesting(self):
        self.expect_refusal("a: " + "[" * 5000 + "]" * 5000, "nested deeper")

    def test_an_alias_bomb(self):
        lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1]"]
        lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
        self.expect_refusal("\n".join(lines), "more than")

    def test_bytes_that_are_no_text(self):
        self.expect_refusal("name: \x00\x01\n", "error:")

    def test_wrong_names_types_and_ranges_all_at_once(self):
        self.expect_refusal(JOB.replace("batch_size: 32", "batch_size: many").replace("hidden:", "hiden:"),
                            "data.batch_size", "many", "did you mean 'hidden'?")
        self.expect_refusal(JOB.replace("batch_size: 32", "batch_size: -1").replace("steps: 5", "steps: -3"),
                            "data.batch_size", "-1", "train.steps", "-3")

    def test_a_field_that_could_not_be_read_is_no_field_that_is_missing(self):
        for steps in ("ten", "1_000", "10.5", "[10]"):
            with self.subTest(steps=steps):
                text = JOB.replace("steps: 5", f"steps: {steps}").replace("preset: fp32", "preset: fp31")
                code, _, err = self.service.ampctl("job", "submit", "-f", "-", text=text)
                self.assertEqual(code, CLIENT_USAGE)
                self.assertIn("train.steps", err)
                self.assertNotIn("must have one of", err)
                self.assertIn("fp31", err, "a problem that only the server finds")

    def test_a_number_beside_its_limit_has_all_its_digits(self):
        optimizer = "optimizer: {sgd: {learning_rate: "
        self.assertIn(optimizer, JOB)
        rate = JOB[JOB.index(optimizer) + len(optimizer):].split("}")[0].split(",")[0]
        self.expect_refusal(JOB.replace(optimizer + rate, optimizer + "1000001"), "is 1000001; ", "at most 1e+06")

    def test_the_server_itself_refuses_what_ampctl_cannot_know(self):
        self.expect_refusal(JOB.replace("preset: fp32", "preset: fp31"), "precision.preset", "fp31")
        self.expect_refusal(JOB.replace("name: small", f"name: {'n' * 10000}"), "name")


if __name__ == "__main__":
    main()
