"""Reads the queries of the dashboards in helm/ampd/dashboards, and evaluates them as Grafana does."""
import dataclasses
import json
import pathlib
import re
import urllib.parse
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "helm/ampd/dashboards"


@dataclasses.dataclass
class PanelQuery:
    """A query, and the panel that it is from. `panel` is the panel's JSON; None for a variable or an annotation."""
    board: str
    title: str
    expr: str
    legend: str
    panel: dict


def boards():
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries():
    """Returns all queries of all panels."""
    return [PanelQuery(name, panel["title"], entry["expr"], entry.get("legendFormat", ""), panel)
            for name, board in boards().items() for panel in panels(board) for entry in panel["targets"]]


def annotations():
    return [PanelQuery(name, f"annotation {note['name']}", note["expr"], "", None)
            for name, board in boards().items() for note in board.get("annotations", {}).get("list", [])]


def variables():
    """Returns the variables whose values Prometheus gives: name, family with its labels, label."""
    found = []
    for name, board in boards().items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
                found.append((name, variable["name"], series, label))
    return found


def fill_in(expr, rate_interval="5m", choices=None):
    """Puts values in the place of Grafana's variables: those of `choices`, or `.+` for all values."""
    expr = expr.replace("$__rate_interval", rate_interval).replace("$__interval", rate_interval)
    return re.sub(r"\$(\w+)", lambda match: (choices or {}).get(match.group(1), ".+"), expr)


def name_of(legend, labels):
    """Returns the name of a series, as the legend gives it."""
    text = re.sub(r"\{\{ ?(\w+) ?\}\}", lambda match: labels.get(match.group(1), ""), legend).strip()
    return text or ", ".join(f"{key}={value}" for key, value in labels.items() if key != "__name__")


class Prometheus:
    """A running Prometheus, at an address such as http://127.0.0.1:9090."""

    def __init__(self, address):
        self.address = address

    def call(self, path, **parameters):
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def now(self, expr):
        """Returns [(labels, value)] of the expression now."""
        data = self.call("query", query=expr)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(entry["metric"], float(entry["value"][1])) for entry in data["result"]]

    def over_time(self, expr, start, end, step):
        """Returns [(labels, [(time, value)])] of the expression from `start` to `end`, in seconds since the epoch."""
        data = self.call("query_range", query=expr, start=start, end=end, step=step)
        return [(entry["metric"], [(float(time), float(value)) for time, value in entry["values"]])
                for entry in data["result"]]
