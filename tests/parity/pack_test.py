#!/usr/bin/env python3
"""Tests that `ampctl data pack` writes the same images as Pillow makes of the pictures, in the order of torchvision's
ImageFolder.

Usage: pack_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs no server.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import numpy
from PIL import Image
from safetensors import safe_open
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS

from service_case import BINARIES, main

WIDTH, HEIGHT = 24, 16


def centred(picture):
    """Crops the largest centred part that has the result's aspect ratio."""
    width, height = picture.size
    box_width, box_height = min(width, height * WIDTH // HEIGHT), min(height, width * HEIGHT // WIDTH)
    left, top = (width - box_width) // 2, (height - box_height) // 2
    return picture.crop((left, top, left + box_width, top + box_height))


class Pack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-pack-"))
        cls.random = numpy.random.default_rng(3)
        modes = ["RGB", "L", "RGBA", "P", "LA", "1"]
        for number, name in enumerate(("Zebra", "ant", "bee")):
            (cls.folder / "set" / name).mkdir(parents=True)
            for picture in range(8):
                mode = modes[(number + picture) % len(modes)]
                size = tuple(int(side) for side in cls.random.integers(1, 90, 2))
                cls.picture(size).convert(mode).save(cls.folder / "set" / name / f"{picture}.png")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def picture(cls, size):
        """Makes a picture of noise over a slope of brightness, so that a wrong filter or a wrong position shows."""
        width, height = size
        slope = numpy.linspace(0, 150, width)[None, :, None] + numpy.linspace(0, 50, height)[:, None, None]
        noise = cls.random.integers(0, 56, (height, width, 3))
        return Image.fromarray((slope + noise).astype(numpy.uint8))

    def pack(self, name, *arguments):
        out = self.folder / "out.safetensors"
        done = subprocess.run([BINARIES / "ampctl", "data", "pack", self.folder / name, out, "--size", f"{WIDTH}x{HEIGHT}",
                               "--force", "-q", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with safe_open(out, "numpy") as file:
            return file.get_tensor("images"), file.get_tensor("labels"), json.loads(file.metadata()["classes"])

    def theirs(self, name, mode, change):
        folder = ImageFolder(self.folder / name)
        images = []
        for path, _ in folder.samples:
            picture = change(Image.open(path).convert("RGB")).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)
            pixels = numpy.asarray(picture.convert(mode))
            images.append(pixels[None] if mode == "L" else pixels.transpose(2, 0, 1))
        return numpy.stack(images), numpy.array(folder.targets), folder.classes

    def test_png_files_are_cropped_and_resized_as_by_pillow_to_the_bit(self):
        for arguments, mode in (([], "RGB"), (["--grey"], "L")):
            with self.subTest(arguments):
                images, labels, classes = self.pack("set", *arguments)
                expected, targets, names = self.theirs("set", mode, centred)
                self.assertEqual(classes, names)
                numpy.testing.assert_array_equal(labels, targets)
                numpy.testing.assert_array_equal(images, expected)

    def test_stretched_pictures_are_those_of_pillow_within_one(self):
        images, _, _ = self.pack("set", "--stretch")
        expected, _, _ = self.theirs("set", "RGB", lambda picture: picture)
        differences = numpy.abs(images.astype(int) - expected.astype(int))
        self.assertLessEqual(differences.max(), 1)  # Pillow may resize columns before rows, which rounds differently
        self.assertLess((differences > 0).mean(), 0.1)

    def test_jpeg_files_are_decoded_as_by_pillow(self):
        for kind in ("a", "b"):
            (self.folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
        for number, options in enumerate(({"quality": 90}, {"quality": 50, "progressive": True}, {"subsampling": 0})):
            self.picture((70, 50)).save(self.folder / "photos" / "a" / f"{number}.jpg", **options)
        self.picture((41, 64)).convert("L").save(self.folder / "photos" / "b" / "grey.JPEG")
        images, labels, _ = self.pack("photos")
        expected, targets, _ = self.theirs("photos", "RGB", centred)
        numpy.testing.assert_array_equal(labels, targets)
        # A difference of 1 is allowed, because Pillow decodes with its own libjpeg-turbo.
        self.assertLessEqual(numpy.abs(images.astype(int) - expected.astype(int)).max(), 1)

    def write(self, name, colour):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), colour).save(path, "PNG")

    def test_files_and_classes_are_those_that_imagefolder_lists(self):
        """The picture folder has folders within classes, links, hidden names, capitals, and names that different rules
        sort differently."""
        names = ("b/a.png", "b/deep/er/a.png", "b/deep/b.png", "b/deep-x/a.png", "b/deep.x/a.png", "b/deep x/a.png", "b/Z.PNG",
                 "b/z.png", "b/\u00e9.png", "b/e.JpEg", "b/.hidden.png", "b/.png", "B/only/below/x.jpg", "a a/x.png", "a/x.png",
                 "a-/x.png", "a.b/x.png", "\u00c4/x.png", "\U0001f600/x.png", "\uffe5/x.png", ".dot/x.png", "10/x.png", "9/x.png")
        for number, name in enumerate(names):
            self.write(f"listed/{name}", (number, 255 - number, 7 * number % 256))
        root = self.folder / "listed"
        (root / "b" / "notes.txt").write_text("no picture")
        (root / "b" / "x.gif").write_bytes(b"GIF89a")
        (root / "loose.png").write_bytes(b"in no class")
        (root / "c").symlink_to(root / "b", target_is_directory=True)
        (root / "a" / "link.png").symlink_to(root / "b" / "a.png")
        (root / "a" / "more").symlink_to(root / "B", target_is_directory=True)
        (root / "a" / "nowhere").symlink_to(root / "nothing")
        images, labels, classes = self.pack("listed")
        expected, targets, names = self.theirs("listed", "RGB", lambda picture: picture)
        self.assertEqual(classes, names)
        numpy.testing.assert_array_equal(labels, targets)
        numpy.testing.assert_array_equal(images, expected)

    def test_classes_that_differ_in_capitals_alone_are_two_and_reported(self):
        for name in ("alike/Cat/x.png", "alike/cat/x.png"):
            self.write(name, (1, 2, 3))
        _, labels, classes = self.pack("alike")
        self.assertEqual((labels.tolist(), classes), ([0, 1], ImageFolder(self.folder / "alike").classes))
        done = subprocess.run([BINARIES / "ampctl", "data", "pack", self.folder / "alike", self.folder / "out", "--size", "8",
                               "--force"], capture_output=True, text=True)
        self.assertIn("the classes Cat and cat differ only in upper and lower case", done.stderr)

    def refused(self, name):
        done = subprocess.run([BINARIES / "ampctl", "data", "pack", self.folder / name, self.folder / "no", "--size", "8"],
                              capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_what_imagefolder_refuses_is_refused(self):
        for name in ("empty/a/x.png", "hidden/a/x.png", "only/x.png"):
            self.write(name, (1, 2, 3))
        (self.folder / "empty" / "b" / "deep").mkdir(parents=True)
        (self.folder / "hidden" / ".checkpoints").mkdir()
        for name, words in (("empty", "empty/b: has no .png"), ("hidden", "hidden/.checkpoints: has no .png"),
                            ("only", "has 0 folders")):
            with self.assertRaises(FileNotFoundError):
                ImageFolder(self.folder / name)
            self.assertIn(words, self.refused(name))

    def test_what_imagefolder_takes_and_nothing_here_decodes_is_refused(self):
        for number, ending in enumerate(IMG_EXTENSIONS):
            self.write(f"kinds{number}/a/x{ending.upper()}", (1, 2, 3))
            if ending in (".png", ".jpg", ".jpeg"):
                self.pack(f"kinds{number}")
            else:
                self.assertIn(f"x{ending.upper()}: is named as a picture that ImageFolder takes", self.refused(f"kinds{number}"))

    def test_a_job_reads_what_was_packed(self):
        self.pack("set")
        done = subprocess.run([BINARIES / "ampctl", "data", "inspect", self.folder / "out.safetensors", "-o", "json"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        arrays = {array["name"]: array for array in json.loads(done.stdout)["arrays"]}
        self.assertEqual([int(side) for side in arrays["images"]["shape"]], [24, 3, HEIGHT, WIDTH])
        self.assertEqual([int(count) for count in arrays["labels"]["classCounts"]], [8, 8, 8])

    def test_pictures_of_other_colours_are_refused_by_name(self):
        (self.folder / "cmyk" / "a").mkdir(parents=True, exist_ok=True)
        self.picture((8, 8)).convert("CMYK").save(self.folder / "cmyk" / "a" / "print.jpg")
        done = subprocess.run([BINARIES / "ampctl", "data", "pack", self.folder / "cmyk", self.folder / "no", "--size", "8"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("print.jpg: is a JPEG of CMYK colours", done.stderr)


if __name__ == "__main__":
    main()
