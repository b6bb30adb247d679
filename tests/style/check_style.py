#!/usr/bin/env python3
"""Hold the tree to the hard rules of the house: what each room may include, and what must appear nowhere.

Usage: check_style.py ROOT. Prints one line a finding; exits with 1 when there is one.
"""
import pathlib
import re
import subprocess
import sys

SOURCES = {".h", ".cc", ".cu", ".inc"}

TORCH = r"ATen/|c10/|torch/"
GRPC = r"grpc|grpcpp/"
# Room: what its files must not include. The longest room that a path begins with counts.
FORBIDDEN = {
    "base": r"server/|worker/|client/|graph/|precision/|models/|ampd/|" + TORCH,
    "base/grpc_status": r"server/|worker/|client/|" + TORCH,
    "http": r"server/|worker/|client/|graph/|precision/|models/|ampd/|" + GRPC + "|" + TORCH,
    "text": r"server/|worker/|client/|graph/|precision/|models/|<thread>|" + GRPC + "|" + TORCH,
    "images": r"server/|worker/|client/|graph/|precision/|models/|text/|<thread>|" + GRPC + "|" + TORCH,
    "graph": r"server/|worker/|client/|precision/|models/|<thread>|" + GRPC + "|" + TORCH,
    "precision": r"server/|worker/|client/|models/|<thread>|" + GRPC + "|" + TORCH,
    "models": r"server/|worker/|client/|precision/|" + GRPC + "|" + TORCH,
    "server": r"worker/|client/|" + TORCH,
    "server/cluster_state": r"worker/|client/|base/clock|<thread>|<fstream>|spdlog|absl/synchronization|" + GRPC + "|" + TORCH,
    "server/placement": r"worker/|client/|base/clock|<thread>|<fstream>|spdlog|server/ledger|" + GRPC + "|" + TORCH,
    "server/liveness": r"worker/|client/|base/clock|<thread>|<fstream>|spdlog|server/ledger|" + GRPC + "|" + TORCH,
    "server/admission": r"worker/|client/|base/clock|<thread>|<fstream>|server/ledger|" + GRPC + "|" + TORCH,
    "server/ledger": r"worker/|client/|server/placement|" + GRPC + "|" + TORCH,
    "server/journal": r"worker/|client/|server/placement|server/coordinator|" + GRPC + "|" + TORCH,
    "server/coordinator": r"worker/|client/|<fstream>|server/rpc|" + GRPC + "|" + TORCH,
    "server/rpc": r"worker/|client/|server/ledger|server/journal|" + TORCH,
    "client": r"server/|worker/(?!data/file_report\.h)|" + TORCH,
    "worker/agent": r"server/|client/|worker/train|worker/amp|worker/executor|" + TORCH,
    "worker/shim": r"server/|client/|worker/train|worker/amp|" + GRPC + "|" + TORCH,
    "worker/device": r"server/|client/|worker/train|" + GRPC + "|" + TORCH,
    "worker/train": r"server/|client/|worker/agent|" + GRPC,
    "worker/amp": r"server/|client/|worker/agent|worker/train|worker/data|models/|<thread>|<fstream>|" + GRPC,
    "worker/executor": r"server/|client/|worker/agent|worker/train|worker/data|worker/amp|models/|" + GRPC,
    "worker/data": r"server/|client/|worker/agent|worker/train|worker/amp|models/|" + GRPC,
    "worker/kernels": r"server/|client/|worker/agent|worker/train|worker/amp|" + GRPC + "|" + TORCH,
}

# Pattern, where it must not appear (a regular expression on the path), and why.
BANNED = [
    (r"\b(sleep_for|SleepFor|usleep|nanosleep)\s*\(", r"^tests/(?!worker/agent/scripted_trainer).*\.(cc|h)$", "a test sleeps"),
    (r"\bFRIEND_TEST\b|\bfriend class \w+Test\b", r"\.(cc|h)$", "friend access for a test"),
    (r"system_clock|steady_clock|absl::Now\(", r"^server/(cluster_state|placement|liveness|admission|coordinator|ledger|journal)|^worker/agent/(?!main|attach_client)|^tests/sim/",
     "time that no test can move"),
    (r"AwaitWith(Timeout|Deadline)|WaitWith(Timeout|Deadline)|LockWhenWith|WaitForNotificationWith|ToChronoTime|(?<!ampd::)\bwait_until\b|\bwait_for\b|try_lock_(for|until)",
     r"^(base/(?!timed_wait\.)|server/|worker/|client/|http/).*\.(cc|h)$", "a wait by the wall clock; base/timed_wait.h and base/grpc_deadline.h have others"),
    (r"<boost/", r"^(?!http/listener\.cc|tests/style/).*\.(cc|h)$", "Boost takes long to compile, and stays in one source"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", r"^(?!tests/style/).*\.(cc|h|cu|proto|py|cmake)$", "an open end"),
    (r"/work/|/root/|/tmp/brief", r"^(?!tests/style/)", "a path of one machine"),
    (r"https?://(?!www\.apache\.org|www\.w3\.org|json-schema\.org|127\.0\.0\.1|localhost)[\w.-]*(pypi|debian|mirror|registry)", r"^(?!tests/style/)", "the name of a host"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|(<[^>]+>))', re.M)


def rule_for(name):
    """The pattern of forbidden includes for a file, or None."""
    rooms = [room for room in FORBIDDEN if name == room or name.startswith((room + "/", room + ".", room + "_"))]
    return FORBIDDEN[max(rooms, key=len)] if rooms else None


def include_findings(name, text):
    rule = rule_for(name)
    if rule is None or name.endswith("main.cc"):
        return
    for match in INCLUDE.finditer(text):
        header = match.group(1) or match.group(2)
        bare = header.strip("<>")
        if any(re.match(part, header if part.startswith("<") else bare) for part in rule.split("|")):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: must not include {header}"


def banned_findings(name, text):
    for pattern, where, why in BANNED:
        if not re.search(where, name):
            continue
        for match in re.finditer(pattern, text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {why}: {match.group()}"


def findings(name, text):
    """All findings in one file, given its path below the root."""
    if pathlib.PurePath(name).suffix in SOURCES:
        yield from include_findings(name, text)
    yield from banned_findings(name, text)


def main():
    root = pathlib.Path(sys.argv[1])
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    count = 0
    for name in listing.stdout.splitlines():
        path = root / name
        if not path.is_file() or path.suffix in {".gz", ".bin", ".safetensors", ".png"} or name.startswith("proto/google/"):
            continue
        for finding in findings(name, path.read_text(errors="replace")):
            print(finding)
            count += 1
    print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
