#!/usr/bin/env python3
"""Follows README from a user's own Python file to a trained model. Takes the files and commands from README and runs
them in an empty folder.

Usage: readme_test.py FOLDER_OF_BINARIES [REPORT.xml]. Runs with the test environment's Python, which has torch.
"""
import os
import pathlib
import re
import subprocess
import sys

from service import Service
from service_case import BINARIES, ServiceCase, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTION = "Your own PyTorch model"
FASHION = "/usr/share/datasets/fashion-mnist"
ACCURACY = 0.75  # for ten equally frequent classes


def section(name):
    text, = re.findall(rf"^## {name}\n(.*?)(?=^## )", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return text


def blocks(text):
    """Returns [(language, content)] of the fenced blocks. The language of commands is empty."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Readme(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.service.start_worker(threads=2, flags=["--data-root", f"fashion-mnist={FASHION}"])

    def repository(self):
        """Makes a folder in which the programs are where README expects them."""
        folder = self.service.folder / "ampd"
        (folder / "build/demo").mkdir(parents=True)
        (folder / "build/demo/bin").symlink_to(BINARIES)
        (folder / "client").symlink_to(ROOT / "client")
        return folder

    def walk(self, text):
        """Writes the files and runs the commands of a section exactly as they are written. Returns their output."""
        folder = self.service.folder / "mine"
        folder.mkdir()
        names, contents = re.findall(r"`(\w+\.(?:py|yaml))`", text), [content for language, content in blocks(text) if language]
        for name, content in zip(names, contents, strict=True):
            (folder / name).write_text(content)
        commands, = (content for language, content in blocks(text) if not language)
        lines = commands.splitlines()
        self.assertTrue(all(line.startswith("$ ") for line in lines), "a line is no command")
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "AMPD": str(self.repository()), "AMPD_ADDRESS": self.service.address}
        done = subprocess.run(["bash", "-e"], input="".join(line.removeprefix("$ ") + "\n" for line in lines), text=True,
                              cwd=folder, env=environment, capture_output=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_model_of_a_users_own_file_is_exported_and_learns(self):
        printed = self.walk(section(SECTION))
        self.assertIn("clothes.pt2: torch.export", printed)  # printed by model inspect
        job, = self.service.read("job", "list")
        final = self.service.job(job["id"])
        self.assertEqual((final["state"], final["spec"]["name"]), ("SUCCEEDED", "clothes"), final.get("message"))
        self.assertIn("artifact", final["spec"]["model"]["exported"], "the file was not uploaded")
        accuracy = final["attempts"][-1]["outcome"]["finalMetrics"]["evalAccuracy"]
        print(f"  {final['progress']['step']} steps, accuracy {accuracy:.4f}", flush=True)
        self.assertGreater(accuracy, ACCURACY)


if __name__ == "__main__":
    main()
