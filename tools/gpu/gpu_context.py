"""Shared by the stages of scripts/gpu-check: the bundle, the device, the time left, starting programs and reporting
findings."""
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
        """Returns, as text, the programs that the stage needs and the bundle lacks; empty if it has all."""
        lacking = [name for name in stage.programs if self.program(name) is None]
        return f"the bundle has no {', '.join(lacking)}" if lacking else ""

    def models(self):
        """Returns the folder that has oracle_models.py: it is in the bundle or, for a build folder, in the source
        tree."""
        return next((folder for folder in (self.folder / "parity", HERE.parents[1] / "tests/parity/oracles")
                     if (folder / "oracle_models.py").exists()), None)


class Skip(Exception):
    """Raised by a stage that has nothing to do on this device."""


class Context:
    """The options of a stage and the time that it has left; starts its programs."""

    def __init__(self, options):
        self.bundle = Bundle(options.bundle)
        self.device = options.device
        self.tiny = options.tiny
        self.python = options.python
        self.end = time.monotonic() + options.stage_seconds
        self.on_gpu = options.device != "cpu"
        self._torch = options.torch
        self._environment = None
        self._lock = threading.Lock()

    def left(self):
        """Returns the seconds until this stage is killed."""
        return self.end - time.monotonic()

    def torch(self):
        """Returns the folder of the torch package; empty if there is none."""
        if not self._torch:
            found = subprocess.run(
                [self.python, "-c", "import importlib.util as u; s = u.find_spec('torch'); "
                 "print(s.submodule_search_locations[0] if s else '')"], capture_output=True, text=True, check=False)
            self._torch = found.stdout.strip()
        return self._torch

    def environment(self):
        """Returns the environment for our programs. python and nvidia-smi do not get it, so they use the machine's own
        libraries. Thread-safe."""
        with self._lock:
            if self._environment is None:
                self._environment = self._make_environment()
            return self._environment

    def _make_environment(self):
        made = {**os.environ, "AMPD_PROGRAMS": str(self.bundle.folder / "bin"), "GOMP_SPINCOUNT": "1000"}
        if (self.bundle.folder / "lib").is_dir():  # Programs in a build folder find their libraries themselves.
            path = [self.bundle.folder / "lib", f"{self.torch()}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
            made["LD_LIBRARY_PATH"] = ":".join(str(part) for part in path if str(part))
        return made

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
    """Yields the lines that a process prints, and prints each of them here too."""
    with process.stdout:
        for line in process.stdout:
            say(line.rstrip("\n"))
            yield line.rstrip("\n")
    process.wait()


def at_once(works):
    """Runs functions in threads at the same time and returns their results. If some raised errors, raises one of these
    once all functions have ended."""
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
