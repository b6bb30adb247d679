"""Starts the programs that the benchmarks measure."""
import contextlib
import json
import signal
import subprocess
import sys
import time

START_SECONDS = 60


def wait_for(condition, what, process):
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"bench: {what} did not come up")
        time.sleep(0.05)


@contextlib.contextmanager
def program(arguments, log, stop=signal.SIGTERM, pass_fds=()):
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen([str(part) for part in arguments], stdout=output, stderr=subprocess.STDOUT,
                                   cwd=log.parent, pass_fds=pass_fds)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(stop)
            process.wait(timeout=60)


def json_line(*arguments):
    """Runs a program and returns the line of JSON that it prints. Ends this script with the program's errors if it
    fails."""
    result = subprocess.run([str(part) for part in arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"bench: {arguments[0]} ended with {result.returncode}: {result.stderr}{result.stdout}")
    return json.loads(result.stdout)
