"""The chart as its tests see it: packaged by Helm, rendered for a set of values, and read into objects."""
import functools
import pathlib
import tempfile

import helm_python
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "helm/ampd"
VALUES = pathlib.Path(__file__).resolve().parent / "values"
VERSION = "9.8.7"  # What the tests package the chart as, so that another version of ampd changes no golden file.
RELEASE, NAMESPACE = "ampd", "ml"


@functools.cache
def package():
    """Returns the chart, packaged as scripts/chart does."""
    with tempfile.TemporaryDirectory(prefix="ampd-chart-") as folder:
        path = helm_python.package(SOURCE, destination=folder, version=VERSION, app_version=VERSION)
        return helm_python.Chart.load(path)


def values_of(name):
    """Returns the values of a file in the folder values."""
    return helm_python.values_from_yaml((VALUES / f"{name}.yaml").read_text())


def names_of_values():
    return sorted(path.stem for path in VALUES.glob("*.yaml"))


def read(rendered):
    """Returns the objects of a rendered chart, {template: text}, without its notes."""
    return [one for name, text in sorted(rendered.items()) if not name.endswith("NOTES.txt")
            for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def render(values, chart=None, release=RELEASE, namespace=NAMESPACE):
    return read((chart or package()).render(values, name=release, namespace=namespace))


def find(objects, kind, name):
    """Returns the one object of this kind and name."""
    [found] = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod_of(one):
    """Returns the spec of the pods that an object makes; nothing if it makes none."""
    if one["kind"] == "Pod":
        return one["spec"]
    return one["spec"]["template"]["spec"] if one["kind"] in {"StatefulSet", "Deployment", "DaemonSet", "Job"} else None


def labels_of_pods(one):
    return one["metadata"]["labels"] if one["kind"] == "Pod" else one["spec"]["template"]["metadata"]["labels"]


def containers_of(pod):
    return [*pod.get("initContainers", []), *pod["containers"]]
