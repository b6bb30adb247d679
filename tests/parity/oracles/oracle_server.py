#!/usr/bin/env python3
"""Runs oracles for a test program, each in a fork of this process, which imports their modules once.

Usage: oracle_server.py. Each line on standard input is a request: the oracle's name and its arguments, separated by
tabs. The answer is a line on standard output: the oracle's exit status. The output of oracles goes to standard error.
"""
import importlib
import os
import sys
import traceback


def run(oracle, arguments):
    sys.argv = [oracle.__file__, *arguments]
    try:
        oracle.main()
    except BaseException:  # any error at all: this fork must never continue the caller's loop
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split("\t")
        oracle = importlib.import_module(name)
        pid = os.fork()
        if pid == 0:
            run(oracle, arguments)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    main()
