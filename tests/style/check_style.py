#!/usr/bin/env python3
"""Checks the hard rules of the house: what each folder may include, and what must appear nowhere.

Usage: check_style.py ROOT. Prints one line per finding; exits with 1 if there is any.
"""
import pathlib
import re
import subprocess
import sys

SOURCES = {".h", ".cc", ".cu", ".inc"}

# Headers that only some folders may include. ROOMS permits them to a folder by these words.
RESTRICTED = {
    "torch": r"(ATen|c10|torch)/",
    "grpc": r"grpc(pp)?/",
    "cuda": r"cuda|nvml|cublas",
    "cli11": r"CLI/",
    "sqlite": r"sqlite3\.h|base/io/sqlite\.h",
    "prometheus": r"prometheus/",
    "thread": r"thread$",
    "files": r"fstream$|filesystem$",
    "clock": r"base/(clock|wall_clock_watch|timed_wait|simulated_clock)\.h",
    "log": r"spdlog/|base/log(_json)?\.h",
}

# The walls: one line for each folder with C++ sources. It lists the folders that the folder may include (`ampd`:
# messages) and its words of RESTRICTED. Every folder may include itself. A main.cc and the tests may include
# everything.
ROOMS = {
    "base": "clock log thread",
    "base/api": "ampd base",
    "base/io": "base files sqlite",
    "base/formats": "base base/io",
    "base/yaml": "base",
    "base/flags": "base base/io base/yaml cli11 files log",
    "base/ipc": "base base/io clock files thread",
    "base/grpc": "base base/io base/tls grpc log",
    "base/tls": "base base/io thread",
    "base/http": "base base/io base/tls clock thread",

    "graph": "base",
    "graph/builder": "base graph",
    "graph/cost": "base graph",
    "graph/einsum": "base graph",
    "graph/exported": "base base/formats graph graph/einsum",

    "data": "ampd base base/formats base/io",
    "data/text": "base base/formats base/io",
    "data/images": "base base/formats base/io files",

    "points": "ampd base",

    "precision": "ampd base graph",
    "precision/cost": "ampd base graph graph/cost precision",

    "models": "ampd base graph graph/builder graph/exported",

    "server": "base base/flags base/io base/tls base/http server/access server/artifacts server/audit server/coordinator server/http "
              "server/ledger server/monitoring server/oidc server/rpc server/rpc/connections server/state server/telemetry "
              "server/tokens clock log prometheus thread",
    "server/access": "base base/api",
    "server/oidc": "base base/formats base/io server/access clock thread",
    "server/state": "ampd base base/api base/formats precision",
    "server/ledger": "base base/api base/io server/state log sqlite thread",
    "server/admission": "ampd base base/api base/formats graph graph/exported models precision precision/cost server/state",
    "server/coordinator": "ampd base base/api base/formats graph/exported server/admission server/ledger server/state clock "
                          "thread",
    "server/telemetry": "ampd base base/api base/io points server/state clock sqlite thread",
    "server/artifacts": "ampd base base/api base/formats base/io graph/exported clock files sqlite thread",
    "server/audit": "ampd base base/io clock thread",
    "server/backup": "ampd base base/flags base/formats base/io server server/artifacts server/ledger server/state server/telemetry "
                     "server/tokens clock files sqlite",
    "server/init": "ampd base base/flags base/io base/tls server server/tokens clock",
    "server/tokens": "ampd base base/api base/formats base/io clock sqlite",
    "server/http": "base base/api base/http server/access server/monitoring server/rpc/calls",
    "server/monitoring": "ampd base base/api base/io base/tls models server/coordinator server/state server/telemetry clock log "
                         "prometheus",
    "server/rpc": "ampd base base/api base/grpc base/io base/tls graph points server/access server/admission server/artifacts server/audit "
                  "server/coordinator server/monitoring server/oidc server/rpc/calls server/rpc/connections "
                  "server/telemetry server/tokens clock files grpc thread",
    "server/rpc/connections": "base base/io base/ipc server/access server/audit clock thread",
    "server/rpc/calls": "ampd base base/api base/grpc base/tls server/access server/audit server/coordinator server/monitoring "
                        "server/oidc server/rpc/connections server/tokens clock grpc thread",

    "client/api": "ampd base base/api base/formats base/grpc base/io clock files grpc",
    "client/render": "ampd base base/api base/formats base/yaml points",
    "client/compare": "ampd client/render",
    "client/jobfile": "ampd base base/yaml client/render precision",
    "client/checkpoint": "base base/formats base/io graph/exported files",
    "client/inspect": "ampd base base/formats base/io graph graph/exported precision precision/cost files",
    "client/terminal": "ampd base base/api base/grpc base/io base/ipc client/api client/render files",
    "client/commands": "ampd base base/io client/api client/jobfile client/render client/terminal precision clock files",
    "client/commands/artifact": "ampd base base/io client/api client/commands client/render client/terminal files",
    "client/commands/checkpoint": "ampd base base/io client/api client/checkpoint client/commands client/render client/terminal files",
    "client/commands/compare": "ampd base base/io client/api client/commands client/commands/job client/compare "
                               "client/jobfile client/render client/terminal precision files",
    "client/commands/context": "base client/commands client/terminal files",
    "client/commands/auth": "ampd base base/api base/grpc base/io client/api client/commands client/commands/context client/render "
                            "client/terminal",
    "client/commands/data": "ampd base base/io client/commands client/render client/terminal data data/images data/text "
                            "files",
    "client/commands/dev": "base base/io base/ipc client/commands client/render client/terminal clock files thread",
    "client/commands/job": "ampd base client/api client/commands client/commands/job/follow client/jobfile "
                           "client/render client/terminal clock files",
    "client/commands/job/follow": "ampd base client/api client/commands client/render client/terminal clock",
    "client/commands/model": "client/commands client/inspect client/render client/terminal precision",
    "client/commands/policy": "base client/commands client/jobfile client/terminal precision",
    "client/commands/init": "base base/io client/commands client/jobfile client/terminal files",
    "client/commands/server": "ampd base client/api client/commands client/render client/terminal",
    "client/commands/worker": "client/commands client/render client/terminal",
    "client/cli": "base client/cli/answers client/commands client/jobfile client/render client/terminal cli11",
    "client/cli/answers": "base client/cli/answers/tables client/commands client/jobfile client/render client/terminal cli11",
    "client/cli/answers/tables": "",

    "worker/agent": "ampd base base/api base/flags base/io base/ipc base/tls base/http worker/agent/artifacts worker/agent/attempts worker/agent/files worker/agent/link "
                    "worker/agent/trainers worker/device worker/shim clock files prometheus",
    "worker/agent/attempts": "ampd base points",
    "worker/agent/trainers": "ampd base base/io base/ipc worker/shim files",
    "worker/agent/link": "ampd base base/grpc base/io clock grpc thread",
    "worker/agent/files": "ampd base base/grpc base/io worker/agent/link files grpc thread",
    "worker/agent/artifacts": "ampd base base/formats base/grpc base/io worker/agent/link clock files grpc thread",
    "worker/shim": "ampd base base/io base/ipc clock",
    "worker/device": "ampd base base/io worker/kernels/cuda clock files thread",
    "worker/executor": "base graph torch",
    "worker/kernels": "worker/kernels/cpu",
    "worker/kernels/cpu": "worker/kernels",
    "worker/kernels/cuda": "worker/kernels worker/kernels/cpu cuda",
    "worker/data": "base data worker/kernels/cpu thread torch",
    "worker/amp": "base graph precision worker/amp/fp8 worker/amp/ops worker/amp/step worker/executor "
                  "worker/kernels torch",
    "worker/amp/step": "precision worker/kernels worker/kernels/cpu worker/kernels/cuda torch",
    "worker/amp/fp8": "precision worker/amp/step worker/executor torch",
    "worker/amp/ops": "graph graph/cost worker/amp/step worker/executor worker/kernels/cpu worker/kernels/cuda torch",
    "worker/train/health": "ampd precision",
    "worker/train/device": "ampd base worker/amp/step worker/device torch",
    "worker/train/report": "ampd base base/io base/ipc graph points precision precision/cost worker/amp worker/amp/fp8 "
                           "worker/train/device clock thread torch",
    "worker/train/checkpoint": "ampd base base/formats base/io worker/amp worker/data worker/executor "
                               "worker/train/health files thread torch",
    "worker/train/sample": "ampd base data/images data/text graph models worker/amp worker/data torch",
    "worker/train/profile": "ampd base base/formats base/io files torch",
    "worker/train/predict": "ampd base base/formats data worker/amp torch",
    "worker/train/plan": "ampd base base/formats data graph graph/exported models precision precision/cost worker/amp worker/data "
                         "worker/executor worker/train/checkpoint worker/train/health worker/train/report "
                         "worker/train/sample thread torch",
    "worker/train/loop": "ampd base base/formats base/ipc data precision precision/cost worker/amp worker/amp/step worker/data "
                         "worker/device worker/executor worker/train/checkpoint worker/train/device "
                         "worker/train/health worker/train/plan worker/train/predict worker/train/profile "
                         "worker/train/report "
                         "worker/train/sample clock thread "
                         "torch",
}

# Each row: a pattern, where it must not appear (a regular expression on the path), and why.
BANNED = [
    (r"\b(sleep_for|SleepFor|usleep|nanosleep)\s*\(", r"^tests/(?!worker/agent/scripted_trainer).*\.(cc|h)$", "a test sleeps"),
    (r"\bFRIEND_TEST\b|\bfriend class \w+Test\b", r"\.(cc|h)$", "friend access for a test"),
    (r"system_clock|steady_clock|absl::Now\(", r"^server/(state|admission|coordinator|ledger)/|^worker/agent/(?!main|link/attach_client)|^tests/sim/",
     "time that no test can move"),
    (r"AwaitWith(Timeout|Deadline)|WaitWith(Timeout|Deadline)|LockWhenWith|WaitForNotificationWith|ToChronoTime|(?<!ampd::)\bwait_until\b|\bwait_for\b|try_lock_(for|until)",
     r"^(base/(?!timed_wait\.)|server/|worker/|client/).*\.(cc|h)$", "a wait by the wall clock; base/timed_wait.h and base/grpc/grpc_deadline.h have others"),
    (r"std::(printf|fprintf|fputs|fputc|puts|putchar|fwrite|cout|cerr)\b", r"^client/(?!terminal/(standard_streams|progress_line)\.).*\.(cc|h)$",
     "output that could control the terminal; client/terminal/standard_streams.h has the door"),
    (r"<boost/", r"^(?!base/http/(listener|session|tls_settings)\.|tests/style/).*\.(cc|h)$", "Boost takes long to compile, and stays in one library"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", r"^(?!tests/style/).*\.(cc|h|cu|proto|py|cmake)$", "an open end"),
    (r"/work/|/root/|/tmp/brief", r"^(?!tests/style/)", "a path of one machine"),
    (r"https?://(?!www\.apache\.org|www\.w3\.org|json-schema\.org|127\.0\.0\.1|localhost)[\w.-]*(pypi|debian|mirror|registry)", r"^(?!tests/style/)", "the name of a host"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|(<[^>]+>))', re.M)


# Signs of unclear English: what it is, a pattern on the text of one line, and in which files.
COMMENT_START = r"^\s*(?:///?|#)\s"
UNCLEAR = [
    ("a comment that opens with 'Of'", COMMENT_START + r"Of (?!course)", r"\.(h|cc|cu|inc|proto|py|cmake)$"),
    ("a comment behind code that opens with 'of'", r"\S\s+// of\b", r"\.(h|cc|cu|inc|proto)$"),
    ("'tell' for report, send or log in a name", r"\b(Tell|Told)[A-Z]|(?<!\")\btold_", r"\.(h|cc|cu|inc)$"),
    ("'anew' or 'went on' in a comment", COMMENT_START + r".*\b(anew|w(?:e|i)nt on|goes on)\b", r"\.(h|cc|cu|inc|proto|py)$"),
    ("help that ends in 'without'", r"without\"[,)]", r"^client/.*\.cc$"),
]


# Headers that sources forget most easily, and the names for which they are needed.
HEADERS = {
    "absl/strings/ascii.h": r"absl::(?:AsciiStrToLower|AsciiStrToUpper|StripAsciiWhitespace|ascii_\w+)\b",
    "absl/strings/escaping.h": r"absl::(?:\w*Base64\w*|CEscape|CHexEscape|BytesToHexString|HexStringToBytes)\b",
    "absl/strings/match.h": r"absl::(?:StartsWith|EndsWith|StrContains|EqualsIgnoreCase)\w*\b",
    "absl/strings/numbers.h": r"absl::Simple(?:Hex)?Ato[a-z]\b",
    "absl/strings/str_cat.h": r"absl::(?:StrCat|StrAppend|Hex|Dec)\b",
    "absl/strings/str_format.h": r"absl::(?:StrFormat|StrAppendFormat)\b",
    "absl/strings/str_join.h": r"absl::StrJoin\b",
    "absl/strings/str_replace.h": r"absl::StrReplaceAll\b",
    "absl/strings/str_split.h": r"absl::(?:StrSplit|ByChar|ByString|MaxSplits)\b",
    "absl/strings/strip.h": r"absl::(?:Strip|Consume)(?:Prefix|Suffix)\b",
    "algorithm": r"std::(?:sort|stable_sort|any_of|all_of|none_of|find_if|clamp|min_element|max_element|transform|copy_n|"
                 r"unique|remove_if|lower_bound|upper_bound|count_if|equal_range|reverse)\(",
}


def unclear_findings(name, text):
    for what, pattern, where in UNCLEAR:
        if re.search(where, name) and not name.startswith("tests/style/"):
            for number, line in enumerate(text.split("\n"), 1):
                if re.search(pattern, line):
                    yield f"{name}:{number}: {what}: {line.strip()}"


def folder_of(header):
    """Returns the folder of ours that a header is in, "ampd" for messages; None if the header is not ours."""
    if header.startswith("ampd/"):
        return "ampd"
    folder = header.rpartition("/")[0]
    top = folder.partition("/")[0]
    return folder if top in {room.partition("/")[0] for room in ROOMS} else None


def include_findings(name, text):
    folder = name.rpartition("/")[0]
    if folder.partition("/")[0] in {"tests", "cmake"} or name.endswith("main.cc"):
        return
    if folder not in ROOMS:
        yield f"{name}: {folder or 'the top folder'} has no line in ROOMS of tests/style/check_style.py"
        return
    allowed = set(ROOMS[folder].split())
    for match in INCLUDE.finditer(text):
        header = (match.group(1) or match.group(2)).strip("<>")
        ours = folder_of(header)
        words = [word for word, pattern in RESTRICTED.items() if re.match(pattern, header)]
        if (ours not in {None, folder} | allowed) or any(word not in allowed for word in words):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: must not include {header}"


def banned_findings(name, text):
    for pattern, where, why in BANNED:
        if not re.search(where, name):
            continue
        for match in re.finditer(pattern, text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {why}: {match.group()}"


def hiding_findings(texts):
    """Yields the constants of sources that hide one of a header in the same folder. A unity build puts the sources of a
    folder together, so the others would silently take the source's constant in place of the header's. `texts` maps
    paths to contents."""
    shared = {}
    for name, text in texts.items():
        if name.endswith(".h"):
            for match in re.finditer(r"^inline constexpr [^=({]*?\b(k[A-Z]\w*)", text, re.M):
                shared[name.rpartition("/")[0], match.group(1)] = name
    for name, text in texts.items():
        if name.endswith((".cc", ".cu")):
            for match in re.finditer(r"^(?:static )?(?:constexpr|const) [^=({]*?\b(k[A-Z]\w*)", text, re.M):
                header = shared.get((name.rpartition("/")[0], match.group(1)))
                if header is not None:
                    line = text.count("\n", 0, match.start()) + 1
                    yield f"{name}:{line}: {match.group(1)} has the name of a constant of {header}"


def missing_include_findings(texts):
    """Yields the uses of names of HEADERS for which neither the source nor a file of ours that it includes has the header.
    A unity build, and clang-tidy over joined sources, find such a source complete as long as its neighbours are. `texts`
    maps paths to contents."""
    included = {name: {(match.group(1) or match.group(2)).strip("<>") for match in INCLUDE.finditer(text)}
                for name, text in texts.items() if name.endswith((".h", ".cc"))}

    def all_included(name, seen):
        for header in included.get(name, set()) - seen:
            seen.add(header)
            all_included(header, seen)
        return seen

    for name in included:
        reached = None
        code = re.sub(r"//.*", "", texts[name])
        for header, pattern in HEADERS.items():
            match = re.search(pattern, code)
            if match is not None:
                reached = all_included(name, set()) if reached is None else reached
                if header not in reached:
                    yield f"{name}: {match.group().rstrip('(')} needs #include of {header}"


def findings(name, text):
    """Yields all findings in one file. `name` is its path below the root."""
    if pathlib.PurePath(name).suffix in SOURCES:
        yield from include_findings(name, text)
    yield from banned_findings(name, text)
    yield from unclear_findings(name, text)


def main():
    root = pathlib.Path(sys.argv[1])
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    texts = {}
    for name in listing.stdout.splitlines():
        path = root / name
        if not path.is_file() or path.suffix in {".gz", ".bin", ".safetensors", ".png"} or name.startswith("proto/google/"):
            continue
        texts[name] = path.read_text(errors="replace")
    found = [finding for name, text in texts.items() for finding in findings(name, text)]
    found += hiding_findings(texts)
    found += missing_include_findings(texts)
    print(*found, f"{len(found)} findings", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
