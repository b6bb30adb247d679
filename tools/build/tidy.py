#!/usr/bin/env python3
"""Runs clang-tidy over a built tree, with the configuration in .clang-tidy.

Usage:
  scripts/tidy                  every source, including the tests
  scripts/tidy --without-torch  the rooms that need no LibTorch, without the tests
  scripts/tidy --changed        the sources that differ from the upstream branch (if there is none: from the last commit
                                but one), and every source that includes a changed header
  scripts/tidy FILE...          these sources
  Each form takes --jobs N (default: one job per core); --fresh, which also checks sources that are known to be clean;
  and --seconds N, after which no further source is begun: the sources changed last come first, and the last line says
  how many were not checked.

Build the tree first (scripts/test): compiler flags and generated headers come from build/release. The flags of sources
that only a TSan build compiles (tests/sanitizer) are in this file. If the tree was built without nvcc, the sources that
need CUDA are skipped and listed. Exits with 0 if nothing was found, with 1 if something was found, and with 2 if the
check could not run. tools/build/README.md explains how sources are joined and remembered.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
CLEAN = BUILD / "tidy-clean.json"
CONFIGURATION = ROOT / ".clang-tidy"
CLANG_TIDY = "clang-tidy-14"
JOINED = 24
GENERATED = ("-isystem", str(BUILD / "generated"))
PACKAGES = pathlib.Path("/var/lib/dpkg/status")

# Sources that only a TSan build compiles. Each uses the flags of a source with the same dependencies, plus the
# definitions of that build (cmake/AmpdBuild.cmake). -fsanitize=thread is left out, because that build hides it from
# absl's and protobuf's headers.
TSAN_SOURCES = {
    "tests/sanitizer/absl_tsan.cc": "base/clock.cc",
    "tests/sanitizer/absl_tsan_test.cc": "tests/base/concurrency_test.cc",
    "tests/sanitizer/grpc_tsan.cc": "base/clock.cc",
    "tests/sanitizer/grpc_tsan_test.cc": "tests/base/concurrency_test.cc",
}
TSAN_DEFINITIONS = ("-DAMPD_TSAN", "-DGRPC_TSAN_SUPPRESSED", "-D_GLIBCXX_TSAN=1")
# Sources that are built only if nvcc, and with it CUDA's headers and libraries, is installed.
CUDA_SOURCES = {
    "tests/worker/kernels/gpu_kernels.cc",
    "tests/worker/train/gpu/gpu_fp8_test.cc",
    "tests/worker/train/gpu/gpu_graph_test.cc",
    "tests/worker/train/gpu/gpu_training_test.cc",
    "worker/amp/step/cuda_step_graph.cc",
}

FINDING = re.compile(r"^(?:[^\s:][^:]*:\d+:\d+: )?(?:warning|error): ")
TALLY = re.compile(r"^\d+ (?:warnings?|errors?)(?: and \d+ errors?)? generated\.$|^Suppressed |^Use -header-filter")
ERROR = re.compile(r"^([^\s:][^:]*):\d+:\d+: error: ", re.MULTILINE)
# A line without indentation that begins a definition.
DEFINITION = re.compile(r"(?:struct|class|enum(?: class)?|union|using) (?P<type>\w+)(?! *::|;)\b"
                        r"|(?!template|namespace|using|static_assert)[A-Za-z:][^(={;\[]*?\b(?P<name>\w+)\s*[(={;\[]")
UNITY = re.compile(r"unity_\d+_cxx\.cxx$")
INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def stop(message):
    print(f"tidy: {message}", file=sys.stderr)
    sys.exit(2)


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def sources_of(entry):
    """The tree's own sources that a command compiles: several if it compiles them as one (CMAKE_UNITY_BUILD)."""
    path = pathlib.Path(entry["file"])
    paths = [path]
    if UNITY.match(path.name):
        paths = [pathlib.Path(name.decode()) for name in INCLUDE.findall(path.read_bytes())]
    return [path for path in paths if path.suffix == ".cc" and path.is_file() and path.is_relative_to(ROOT)
            and not path.is_relative_to(ROOT / "build")]


def read_commands():
    """The flags with which the tree's own sources are compiled: {path from the root: flags}."""
    try:
        entries = json.loads((BUILD / "compile_commands.json").read_text())
    except OSError as error:
        stop(f"build first, with scripts/test: {error}")
    commands = {}
    for entry in entries:
        for path in sources_of(entry):
            # The flags are the words between the compiler and "-o OBJECT -c SOURCE". Leaves out flags that would only
            # split groups, and the precompiled headers, which are g++'s and provide headers that a source does not
            # include.
            command = re.sub(r" -Winvalid-pch -include \S+cmake_pch\.hxx| --param \S+", "", entry["command"])
            words = shlex.split(command)
            flags = [word for word in words[1:words.index("-o")] if not re.match(r"-[Ogf]|-pthread$|-Werror$", word)]
            commands[str(path.relative_to(ROOT))] = tuple(flags)
    return commands


def unbuilt_commands(commands):
    """The flags of the tree's own sources that a release build, whose COMMANDS these are, does not compile."""
    missing = set(TSAN_SOURCES.values()) - set(commands)
    if missing:
        stop(f"{min(missing)}, whose flags others are to have, is no source of build/release")
    return {name: (*commands[like], *TSAN_DEFINITIONS) for name, like in TSAN_SOURCES.items()}


def all_commands():
    """The flags of every source to look at: {path from the root: flags}."""
    commands = read_commands()
    return commands | unbuilt_commands(commands)


@functools.cache
def included(name):
    """The own and generated files that one such file includes itself; a name with no file here is another's header."""
    found = []
    for include in INCLUDE.findall((ROOT / name).read_bytes()):
        include = include.decode()
        for path in (include, os.path.join(os.path.dirname(name), include), f"build/release/generated/{include}"):
            if (ROOT / path).is_file():
                found.append(os.path.normpath(path))
                break
    return found


def closure(name):
    """A source and everything of ours that it includes, directly or not."""
    seen, waiting = {name}, [name]
    while waiting:
        news = set(included(waiting.pop())) - seen
        seen |= news
        waiting += news
    return sorted(seen)


@functools.cache
def digest(path):
    path = pathlib.Path(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@functools.cache
def own_files():
    """Returns a pattern of the paths in which findings count: every folder of the tree except the builds. clang-tidy takes
    a joined source for a header, so it would silently skip a room that the pattern misses."""
    rooms = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "build" and path.name[0] != ".")
    return f"^{re.escape(str(ROOT))}/({'|'.join(map(re.escape, rooms))})/"


def fingerprint(name, flags):
    """Returns a digest of everything that the findings of a source depend on."""
    tool = [digest(CONFIGURATION), digest(PACKAGES), own_files(), *flags]
    return hashlib.sha256("\n".join(tool + [digest(ROOT / path) for path in closure(name)]).encode()).hexdigest()


def changed_sources(commands):
    has_upstream = subprocess.run(["git", "rev-parse", "--verify", "--quiet", "@{upstream}"], cwd=ROOT, check=False,
                                  capture_output=True).returncode == 0
    base = git("merge-base", "@{upstream}", "HEAD")[0] if has_upstream else "HEAD~"
    changed = set(git("diff", "--name-only", base)) | set(git("ls-files", "--others", "--exclude-standard"))
    return [name for name in commands if changed & set(closure(name))]


def select(options, commands):
    """Returns the sources to check."""
    if options.files:
        names = [os.path.relpath(os.path.abspath(file), ROOT) for file in options.files]
        unknown = [name for name in names if name not in commands]
        if unknown:
            stop(f"{unknown[0]} is not a source of this tree; to check a header, name a source that includes it")
        return names
    names = changed_sources(commands) if options.changed else list(commands)
    if options.without_torch:
        names = [name for name in names if not name.startswith("tests/")
                 and not any("/torch/include" in flag for flag in commands[name])]
    elif without_nvcc := CUDA_SOURCES - set(commands):
        print(f"tidy: built without nvcc, so these sources are skipped: {', '.join(sorted(without_nvcc))}")
    return sorted(names)


def run_clang_tidy(names, flags):
    """Joins the sources into one and returns the output of clang-tidy and its exit status."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc", prefix="tidy-") as joined:
        joined.write("".join(f'#include "{ROOT / name}"\n' for name in names))
        joined.flush()
        command = [CLANG_TIDY, f"--config-file={CONFIGURATION}", f"--header-filter={own_files()}", "--quiet", joined.name,
                   "--", *flags]
        run = subprocess.run(command, cwd=BUILD, check=False, capture_output=True, text=True, errors="replace")
        return (run.stdout + run.stderr).replace(f"{ROOT}/", ""), run.returncode


def look(names, flags):
    """Checks sources and the headers of this tree that they include. Returns [(names, findings as clang-tidy prints them)]."""
    text, status = run_clang_tidy(names, flags)
    if len(names) > 1 and (status != 0 or "[clang-diagnostic-error]" in text):
        # Two of the sources define different things with the same name, or one does not compile at all. Look at the
        # sources that have errors and at the rest separately; if all or none have errors, halve the group.
        wrong = set(ERROR.findall(text)) & set(names)
        parts = [[name for name in names if name not in wrong], [name for name in names if name in wrong]]
        if not all(parts):
            parts = [names[:len(names) // 2], names[len(names) // 2:]]
        return look(parts[0], flags) + look(parts[1], flags)
    findings = []
    for line in text.splitlines():
        if FINDING.match(line):
            findings.append(line)
        elif findings and not TALLY.match(line):
            findings[-1] += f"\n{line}"
    if status != 0 and not findings:
        findings.append(f"{names[0]}: {CLANG_TIDY} ended with {status}: {text[-2000:]}")
    return [(names, findings)]


def with_generated(flags):
    """Adds the folder of generated headers to the flags. Most rooms differ only in this flag, so more sources can be
    joined."""
    if GENERATED[1] in flags:
        at = flags.index(GENERATED[1]) - 1
        flags = flags[:at] + flags[at + 2:]
    return (*flags, *GENERATED)


def unnamed(name):
    """Returns the names that a source defines in its unnamed namespaces, judged by the layout of its lines. Sources that
    define the same name can't be joined."""
    inside = False
    found = set()
    for line in (ROOT / name).read_text(errors="replace").splitlines():
        if line in ("namespace {", "}  // namespace"):
            inside = line == "namespace {"
        elif inside and (definition := DEFINITION.match(line)):
            found.add(definition["type"] or definition["name"])
    return found


def join(names, commands):
    """Groups sources that have the same flags and define no name twice; sources of one folder come together. clang-tidy
    spends nine tenths of its time on headers, which the sources of a group share."""
    alike = {}
    for name in sorted(names):
        alike.setdefault(with_generated(commands[name]), []).append(name)
    groups = []
    for flags, some in alike.items():
        joined = []  # ([source], {names that they define})
        for name in some:
            own = unnamed(name)
            fitting = (group for group in joined if len(group[0]) < JOINED and not group[1] & own)
            group = next(fitting, None)
            if group is None:
                group = ([], set())
                joined.append(group)
            group[0].append(name)
            group[1].update(own)
        groups += [(sources, flags) for sources, _ in joined]
    return groups


class Progress:
    """Shows how far the run is: on a terminal in one line that is overwritten, elsewhere with one line per group."""

    def __init__(self, num_sources):
        self.num_sources = num_sources
        self.num_done = 0
        self.on_terminal = sys.stdout.isatty()

    def clear(self):
        if self.on_terminal:
            print("\r\033[K", end="", flush=True)

    def step(self, names):
        self.num_done += len(names)
        line = f"[{self.num_done}/{self.num_sources}] {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")
        self.clear()
        print(line, end="" if self.on_terminal else "\n", flush=True)


def ages():
    """Returns how many commits ago each file was last changed: {path from the root: number}."""
    found, num_commits = {}, 0
    for line in git("log", "--format=%x00", "--name-only"):
        num_commits += line == "\0"
        if line.strip("\0"):
            found.setdefault(line, num_commits)
    return found


def newest_first(groups):
    """Sorts groups by the last change of any of their sources. Sources that are not committed are the newest."""
    age = ages()
    return sorted(groups, key=lambda group: min(age.get(name, 0) for name in group[0]))


def look_at_all(groups, num_jobs, end, on_clean):
    """Checks the groups and prints each finding once. Begins none after the time `end` of time.monotonic(). Returns the
    number of findings and that of sources that were not checked."""
    printed = set()
    num_left = 0
    progress = Progress(sum(len(names) for names, _ in groups))
    with concurrent.futures.ThreadPoolExecutor(num_jobs) as pool:
        runs = {pool.submit(lambda *group: look(*group) if time.monotonic() < end else None, names, flags): names
                for names, flags in groups}
        for run in concurrent.futures.as_completed(runs):
            if run.result() is None:
                num_left += len(runs[run])
                continue
            for names, findings in run.result():
                if not findings:
                    on_clean(names)
                for finding in findings:
                    place = finding.split("\n", 1)[0]
                    if place not in printed:
                        printed.add(place)
                        progress.clear()
                        print(finding, flush=True)
            progress.step(runs[run])
    progress.clear()
    return len(printed), num_left


def read_clean():
    try:
        return json.loads(CLEAN.read_text())
    except (OSError, ValueError):
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    for flag in ("--without-torch", "--changed", "--fresh"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()

    start = time.monotonic()
    commands = all_commands()
    names = select(options, commands)
    fingerprints = {name: fingerprint(name, commands[name]) for name in names}
    clean = read_clean()
    waiting = [name for name in names if options.fresh or clean.get(name) != fingerprints[name]]

    def remember(found_clean):
        clean.update({name: fingerprints[name] for name in found_clean})
        CLEAN.write_text(json.dumps(clean, indent=1, sort_keys=True))

    groups, end = join(waiting, commands), math.inf
    if options.seconds is not None:
        groups, end = newest_first(groups), start + options.seconds
    num_findings, num_left = look_at_all(groups, options.jobs, end, remember)
    print(f"tidy: {len(names)} files, {len(names) - len(waiting)} of them already known to be clean: {num_findings} findings, "
          f"{time.monotonic() - start:.0f} s ({resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} s of CPU)"
          + (f"; {num_left} FILES NOT CHECKED: the {options.seconds:.0f} s are over" if num_left else ""))
    return 1 if num_findings else 0


if __name__ == "__main__":
    sys.exit(main())
