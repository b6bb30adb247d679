"""examples/kubernetes as its readers use it: the commands of its README run in bash, with the programs of a build and a
kubectl that keeps what it is given."""
import os
import pathlib
import re
import subprocess

import chart

FOLDER = chart.ROOT / "examples/kubernetes"
README = (FOLDER / "README.md").read_text()
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Knows the commands of the README only.
KUBECTL = r"""#!/bin/bash
set -eu
kept=$(dirname "$0")/../kept
case "$*" in
  "create -f -") cat >"$kept/job-$(find "$kept" -name 'job-*' | wc -l).yaml" ;;
  "apply -f examples/"*) cp "$3" "$kept/applied.yaml" ;;
  "create secret generic "*)
    echo "$4 $6" >"$kept/secret"
    for word; do
      if [[ $word =~ ^--from-file=(.*)=(.*)$ ]]; then cp "${BASH_REMATCH[2]}" "$kept/${BASH_REMATCH[1]}"; fi
    done ;;
  *) echo "this kubectl does not know: $*" >&2; exit 1 ;;
esac
"""


class Reader:
    """Somebody who runs commands of the README in a folder of their own. What kubectl gets is in the folder `kept`."""

    def __init__(self, folder, binaries, **environment):
        self.folder, self.kept = folder, folder / "kept"
        for path in (folder / "bin", self.kept):
            path.mkdir(parents=True)
        (folder / "bin/kubectl").write_text(KUBECTL)
        (folder / "bin/kubectl").chmod(0o755)
        (folder / "examples").symlink_to(chart.ROOT / "examples")
        self.environment = os.environ | {"PATH": f"{folder}/bin:{binaries}:{os.environ['PATH']}",
                                         "HOME": str(folder)} | environment

    def run(self, *marks):
        """Runs the blocks of the README that have these texts, one after the other in one shell."""
        blocks = []
        for mark in marks:
            [block] = [one for one in BLOCK.findall(README) if mark in one]
            blocks.append(block)
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", "".join(blocks)], cwd=self.folder, text=True,
                              env=self.environment, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{''.join(blocks)}\n{done.stdout}{done.stderr}"

    def read(self, name):
        return (self.kept / name).read_text()
