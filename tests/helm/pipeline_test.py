#!/usr/bin/env python3
"""Compiles examples/kubernetes/pipeline.py with kfp, as the README says, and compares the result with pipeline.yaml.

kfp needs some thirty packages and old versions of some, so it gets an environment of its own in a temporary folder,
from PyPI.

Usage: pipeline_test.py FOLDER_OF_BINARIES. Runs with the Python of .deps/venv.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

from examples import FOLDER, Reader

BINARIES = pathlib.Path(sys.argv[1]).resolve()


class Pipeline(unittest.TestCase):
    def test_the_compiled_pipeline_is_that_of_its_source(self):
        with tempfile.TemporaryDirectory(prefix="ampd-") as folder:
            environment = pathlib.Path(folder) / "kfp"
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            reader = Reader(pathlib.Path(folder) / "reader", f"{environment}/bin:{BINARIES}",
                            PIP_DISABLE_PIP_VERSION_CHECK="1")
            reader.run("kubectl create -f -", "> ampd-train.yaml")
            made = reader.folder / "ampd-train.yaml"
            edited = list(yaml.safe_load_all(made.read_text()))
            made.unlink()
            reader.run("kubectl create -f -", "pip install")
            self.assertEqual(list(yaml.safe_load_all(made.read_text())), edited)

            # The file is what kfp writes, byte by byte.
            again = pathlib.Path(folder) / "pipeline.yaml"
            subprocess.run([environment / "bin/python", FOLDER / "pipeline.py", "ampd-client:VERSION", again],
                           check=True)
            self.assertEqual(again.read_text(), (FOLDER / "pipeline.yaml").read_text())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
