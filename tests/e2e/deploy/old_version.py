"""The programs of the last released version, for tests of upgrades. old_version.txt names its tag and commit.

They are in the folder that AMPD_OLD names (with or without `bin` below it). Otherwise they are built from the commit, with
this repository's dependencies and ccache, into build/TAG, once. That takes as long as a build of everything but tests."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA_FILE = pathlib.Path(__file__).with_name("old_version.txt")
PROGRAMS = ("ampd-server", "ampd-worker", "ampd-shim", "ampd-trainer", "ampctl")
BUILD_SECONDS = 4 * 3600


def tag_and_commit():
    lines = [line.split() for line in DATA_FILE.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 1, f"{DATA_FILE} has one line with a tag and a commit"
    return lines[0]


def number():
    """Returns the number of the old version: "1.2.3"."""
    return tag_and_commit()[0].removeprefix("v")


def _git(*arguments, **options):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=False, capture_output=True, **options)


def _commit_there():
    """Returns the commit of the old version in this repository. The tag may be missing, but not moved."""
    tag, commit = tag_and_commit()
    tagged = _git("rev-parse", "--quiet", "--verify", f"refs/tags/{tag}^{{commit}}", text=True)
    assert tagged.returncode != 0 or tagged.stdout.strip() == commit, \
        f"the tag {tag} is at {tagged.stdout.strip()}, and {DATA_FILE.name} says {commit}"
    assert _git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0, \
        f"this repository has no commit {commit} ({tag}): fetch it (git fetch --tags --unshallow), or name a folder with " \
        "the programs of that version in AMPD_OLD"
    return commit


def _run(*command, cwd, log):
    with open(log, "ab") as output:
        done = subprocess.run(command, cwd=cwd, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False,
                              timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"{' '.join(map(str, command))} failed; its output is in {log}"


def build():
    """Builds the programs of the old version. Returns their folder."""
    tag, _ = tag_and_commit()
    commit, folder = _commit_there(), ROOT / "build" / tag
    output, marker = folder / "build/release", folder / "commit"
    if not marker.exists() or marker.read_text() != commit:
        folder.mkdir(parents=True, exist_ok=True)
        archive = _git("archive", commit)
        assert archive.returncode == 0, archive.stderr
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        if not (folder / ".deps").exists():
            (folder / ".deps").symlink_to(ROOT / ".deps")
        marker.write_text(commit)
    print(f"  builds {tag} in {output}", flush=True)
    _run("cmake", "--preset", "release", "-DAMPD_BUILD_TESTS=OFF", cwd=folder, log=folder / "build.log")
    _run("cmake", "--build", output, "--target", "packages_content", cwd=folder, log=folder / "build.log")
    return output / "bin"


def programs():
    """Returns the folder of the old programs. Fails if there are none and they cannot be built."""
    given = os.environ.get("AMPD_OLD")
    folder = pathlib.Path(given).resolve() if given else build()
    folder = folder / "bin" if (folder / "bin").is_dir() else folder
    for program in PROGRAMS:
        done = subprocess.run([folder / program, "--version"] if program != "ampd-shim" else ["test", "-x", folder / program],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{folder / program} cannot be run: {done.stderr}"
        if program != "ampd-shim":
            assert done.stdout.split()[-1] == number(), f"{folder / program} is no {number()}: {done.stdout}"
    return folder
