"""What the stages of scripts/gpu-check share: the bundle, the device and the time, how they start programs and how they
report findings."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

FINDING = b"gpu-check-finding: "
SKIPPED = 77  # The exit status of a stage that has nothing to do on this device.
HERE = pathlib.Path(__file__).resolve().parent


class Bundle:
    """The programs of a bundle, or of a build folder, which has the same folders bin and tests."""

    def __init__(self, folder):
        self.folder = folder

    def program(self, name):
        return next((path for path in (self.folder / "bin" / name, self.folder / "tests" / name) if path.exists()), None)

    def missing(self, stage):
        """What the stage needs and the bundle lacks, as text; empty if nothing."""
        lacking = [name for name in stage.programs if self.program(name) is None]
        return f"the bundle has no {', '.join(lacking)}" if lacking else ""

    def models(self):
        """The folder of oracle_models.py: in a bundle, or in the source tree of a build folder."""
        return next((folder for folder in (self.folder / "parity", HERE.parent / "tests/parity")
                     if (folder / "oracle_models.py").exists()), None)


class Skip(Exception):
    """The stage has nothing to do here."""


class Context:
    """What a stage needs to know, and how it starts programs."""

    def __init__(self, options):
        self.bundle = Bundle(options.bundle)
        self.device = options.device
        self.tiny = options.tiny
        self.python = options.python
        self.end = time.monotonic() + options.stage_seconds
        self.on_gpu = options.device != "cpu"
        self._torch = options.torch
        self._environment = None

    def left(self):
        """The seconds until this stage is killed."""
        return self.end - time.monotonic()

    def torch(self):
        """torch's folder; empty if there is none."""
        if not self._torch:
            found = subprocess.run(
                [self.python, "-c", "import importlib.util as u; s = u.find_spec('torch'); "
                 "print(s.submodule_search_locations[0] if s else '')"], capture_output=True, text=True, check=False)
            self._torch = found.stdout.strip()
        return self._torch

    def environment(self):
        """The environment of our programs. python and nvidia-smi run without it, with the machine's own libraries."""
        if self._environment is None:
            self._environment = {**os.environ, "AMPD_PROGRAMS": str(self.bundle.folder / "bin"),
                                 "GOMP_SPINCOUNT": "1000"}
            if (self.bundle.folder / "lib").is_dir():  # A build folder's programs find their libraries themselves.
                path = [self.bundle.folder / "lib", f"{self.torch()}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
                self._environment["LD_LIBRARY_PATH"] = ":".join(str(part) for part in path if str(part))
        return self._environment

    def start(self, name, *arguments, **options):
        return subprocess.Popen([str(self.bundle.program(name)), *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace",
                                env={**self.environment(), **options.pop("env", {})}, **options)


PRINTING = threading.Lock()


def say(line):
    """Prints a whole line, also if several threads print."""
    with PRINTING:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def finding(**fields):
    say(FINDING.decode() + json.dumps(fields))


def echo(process):
    """Yields the lines that a process prints, and prints them."""
    with process.stdout:
        for line in process.stdout:
            say(line.rstrip("\n"))
            yield line.rstrip("\n")
    process.wait()


def at_once(works):
    """Runs functions in threads, and returns what they return. Raises what one of them raised, once all have ended."""
    results, errors = [None] * len(works), []

    def run(number, work):
        try:
            results[number] = work()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number, work), daemon=True) for number, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
