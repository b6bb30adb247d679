#!/usr/bin/env python3
"""Writes the table of values in helm/ampd/README.md from the comments in helm/ampd/values.yaml.

  tools/build/values_table.py           writes it
  tools/build/values_table.py --check   only says whether it is up to date, by the exit code

A comment that begins with "# --" describes the key below it; further lines of comment continue it. Every key needs such
a comment, or is a map whose keys have them. Needs PyYAML.
"""
import json
import pathlib
import re
import sys

import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm/ampd"
BEGIN, END = "<!-- The next table is made by tools/build/values_table.py. -->\n", "<!-- End of the table. -->"


def default_text(node):
    """Returns the default of a key, as it would be written in one line of YAML."""
    value = yaml.safe_load(yaml.serialize(node))
    if isinstance(value, str):
        return json.dumps(value)
    return re.sub(r"\n(\.\.\.\n)?$", "", yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False))


def described_rows(text):
    """Yields (key, default, description) of each value with a description. ValueError for one that has none."""
    lines = text.splitlines()

    def description(line):
        """Returns the comment "# --" above a line; empty if there is none."""
        found = []
        while line > 0 and lines[line - 1].lstrip().startswith("#"):
            line -= 1
            found.insert(0, lines[line].lstrip()[1:].strip())
        start = next((number for number, one in enumerate(found) if one.startswith("--")), None)
        return "" if start is None else " ".join(found[start:])[2:].strip()

    def walk(node, path):
        for key, value in node.value:
            name = f"{path}{key.value}"
            about = description(key.start_mark.line)
            if about:
                yield name, default_text(value), about
            elif isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
                yield from walk(value, f"{name}.")
            else:
                raise ValueError(f"values.yaml: {name} has no comment that begins with '# --'")

    yield from walk(yaml.compose(text), "")


def table(text):
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]
    for key, default, about in described_rows(text):
        rows.append(f"| `{key}` | `{default}` | {about.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def main():
    readme = CHART / "README.md"
    old = readme.read_text()
    before, rest = old.split(BEGIN)
    after = rest[rest.index(END):]
    new = f"{before}{BEGIN}\n{table((CHART / 'values.yaml').read_text())}\n\n{after}"
    if sys.argv[1:] == ["--check"]:
        if new != old:
            sys.exit("helm/ampd/README.md does not have the values of values.yaml; run: scripts/chart --readme")
        return
    readme.write_text(new)


if __name__ == "__main__":
    main()
