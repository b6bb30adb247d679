#!/usr/bin/env python3
"""Draws the dashboards as SVG files from the data of a Prometheus: every panel, by the same queries. Grafana is not
needed, and draws them differently in detail.

Usage: draw.py http://127.0.0.1:9090 FOLDER [SECONDS [JOB_ID]]. Draws the last SECONDS (default: 3600), and on the
dashboard Job only the jobs whose ids match JOB_ID (default: all).
"""
import html
import math
import pathlib
import sys
import time

import queries

CELL_WIDTH, CELL_HEIGHT, MARGIN, TOP = 50, 22, 6, 30
NUM_POINTS, MAX_SERIES, MAX_ROWS, LEFT = 60, 6, 6, 58
COLORS = ("#3274d9", "#e0752d", "#37872d", "#c4162a", "#8f3bb8", "#b5a013", "#1f9e9e", "#705da0")
UNITS = {"s": (1, "s"), "bytes": (1, "B"), "percentunit": (100, "%"), "watt": (1, "W"), "joule": (1, "J"),
         "celsius": (1, "°C"), "hertz": (1, "Hz"), "ops": (1, "/s"), "reqps": (1, "/s"), "flops": (1, "FLOPS")}
LONG_TIMES = ((86400, "days"), (3600, "h"), (60, "min"))
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def text_of(value, unit):
    """Returns the value with its unit, such as 1.5 GB."""
    factor, sign = UNITS.get(unit, (1, ""))
    value *= factor
    for size, name in LONG_TIMES if unit == "s" else ():
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    for size, prefix in PREFIXES if unit not in ("percentunit", "celsius") else ():
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{sign}"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} {sign}".strip()


class Page:
    """An SVG file that grows."""

    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      'font-family="sans-serif" font-size="10">',
                      f'<rect width="{width}" height="{height}" fill="#fff"/>']

    def text(self, x, y, words, size=10, color="#333", anchor="start", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"'
                          f'{weight}>{html.escape(words)}</text>')

    def box(self, x, y, width, height):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="#ccc"/>')

    def line(self, points, color):
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')

    def bar(self, x, y, height, color):
        self.parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="3" height="{height:.0f}" fill="{color}"/>')

    def save(self, path):
        path.write_text("\n".join([*self.parts, "</svg>", ""]))


class Axis:
    """Maps values to heights, in equal steps or by powers of two."""

    def __init__(self, values, bottom, height, log2=False):
        self.log2, self.bottom, self.height = log2, bottom, height
        self.low, self.high = min(values), max(values)
        if not self.log2 and self.low > 0 and self.low < 0.5 * self.high:
            self.low = 0
        self.span = (self.scaled(self.high) - self.scaled(self.low)) or 1

    def scaled(self, value):
        return math.log2(value) if self.log2 else value

    def y(self, value):
        return self.bottom - self.height * (self.scaled(value) - self.scaled(self.low)) / self.span


class Drawer:
    """Draws panels with the data of a Prometheus from `start` to `end`."""

    def __init__(self, prometheus, start, end, choices):
        self.prometheus, self.start, self.end, self.choices = prometheus, start, end, choices
        self.step = max(1, (end - start) / NUM_POINTS)

    def series(self, panel):
        """Returns [(name, query number, points)] of a panel, without points that are not numbers."""
        found = []
        for number, entry in enumerate(panel["targets"]):
            expr = queries.fill_in(entry["expr"], f"{max(10, math.ceil(4 * self.step))}s", self.choices)
            for labels, points in self.prometheus.over_time(expr, self.start, self.end, self.step):
                points = [(moment, value) for moment, value in points if math.isfinite(value)]
                if points:
                    found.append((queries.name_of(entry.get("legendFormat", ""), labels), number, points))
        return found

    def draw(self, board, path):
        panels = board["panels"]
        rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
        page = Page(24 * CELL_WIDTH, rows * CELL_HEIGHT + TOP)
        page.text(MARGIN, 20, board["title"], size=16, bold=True)
        for panel in panels:
            place = panel["gridPos"]
            x, y = place["x"] * CELL_WIDTH, place["y"] * CELL_HEIGHT + TOP
            width, height = place["w"] * CELL_WIDTH, place["h"] * CELL_HEIGHT
            if panel["type"] == "row":
                page.text(x + MARGIN, y + 16, panel["title"], size=13, bold=True)
                continue
            page.box(x + 2, y + 2, width - 4, height - 4)
            page.text(x + MARGIN, y + 15, panel["title"], size=11, bold=True)
            {"timeseries": self.lines, "stat": self.stat, "table": self.table}[panel["type"]](
                page, panel, x + MARGIN, y + 20, width - 2 * MARGIN, height - 28)
        page.save(path)

    def no_data(self, page, panel, x, y):
        page.text(x, y + 20, panel["fieldConfig"]["defaults"].get("noValue", "No data"), color="#999")

    def stat(self, page, panel, x, y, width, height):
        series = self.series(panel)
        if not series:
            return self.no_data(page, panel, x, y)
        unit = panel["fieldConfig"]["defaults"]["unit"]
        if panel["options"]["textMode"] == "name":
            shown = [(name, "") for name, _, points in series if points[-1][0] > self.end - 2 * self.step][:3]
        else:
            shown = [(text_of(points[-1][1], unit), name) for name, _, points in series[:3]]
        for index, (value, name) in enumerate(shown):
            middle = y + height * (index + 1) / (len(shown) + 1)
            if len(shown) == 1:
                page.text(x + width / 2, middle + 8, value, size=18, anchor="middle", bold=True)
            else:
                page.text(x + width, middle + 6, value, size=13, anchor="end", bold=True)
                page.text(x, middle + 6, name[:int((width - 70) / 5)], color="#777", size=9)
        return None

    def table(self, page, panel, x, y, width, height):
        rows = [labels for labels, _ in self.prometheus.now(
            queries.fill_in(panel["targets"][0]["expr"], choices=self.choices))]
        if not rows:
            return self.no_data(page, panel, x, y)
        options = panel["transformations"][0]["options"]
        columns = sorted(options["indexByName"], key=options["indexByName"].get)
        step = width / len(columns)
        fits = max(3, int(step / 5.5))
        for column, name in enumerate(columns):
            page.text(x + column * step, y + 14, name[:fits], bold=True)
            for index, labels in enumerate(rows[:min(MAX_ROWS, int(height / 14) - 1)]):
                page.text(x + column * step, y + 30 + 14 * index, labels.get(name, "")[:fits])
        return None

    def lines(self, page, panel, x, y, width, height):
        series = self.series(panel)
        if not series:
            return self.no_data(page, panel, x, y)
        defaults = panel["fieldConfig"]["defaults"]
        bars = {1} if panel["fieldConfig"]["overrides"] else set()  # The second query.
        series = sorted(series, key=lambda one: -max(abs(value) for _, value in one[2]))[:MAX_SERIES]
        log2 = defaults.get("custom", {}).get("scaleDistribution", {}).get("type") == "log"
        bottom, tall = y + height - 26, height - 34
        for kind in (False, True):  # Lines, and then bars, on an axis of their own.
            chosen = [one for one in series if (one[1] in bars) == kind]
            chosen = [(name, number, [point for point in points if point[1] > 0]) if log2 and not kind else
                      (name, number, points) for name, number, points in chosen]
            chosen = [one for one in chosen if one[2]]
            if chosen:
                axis = Axis([value for _, _, points in chosen for _, value in points], bottom, tall, log2 and not kind)
                self.plot(page, chosen, series, axis, x + LEFT, width - LEFT - (LEFT if bars else 0),
                          kind)
                unit = "short" if kind else defaults["unit"]
                side = x + width if kind else x + LEFT - 4
                page.text(side, bottom, text_of(axis.low, unit), color="#777", anchor="end", size=9)
                page.text(side, bottom - tall + 8, text_of(axis.high, unit), color="#777", anchor="end", size=9)
        at = x
        for index, (name, _, _) in enumerate(series):
            label = name[:24] or "value"
            if at + 5.5 * len(label) > x + width:
                break
            page.text(at, y + height, label, color=COLORS[index], size=9)
            at += 5.5 * len(label) + 10
        return None

    def plot(self, page, chosen, series, axis, left, width, as_bars):
        names = [name for name, _, _ in series]
        for one in chosen:
            color = COLORS[names.index(one[0])]
            points = [(left + width * (moment - self.start) / (self.end - self.start), axis.y(value))
                      for moment, value in one[2]]
            if not as_bars:
                page.line(points if len(points) > 1 else points * 2, color)
            for (x, y), (_, value) in zip(points, one[2]):
                if as_bars and value > 0:
                    page.bar(x, y, axis.bottom - y, color)


def draw_all(prometheus, folder, seconds, job_id=".+"):
    end = time.time()
    drawer = Drawer(prometheus, end - seconds, end, {"job_id": job_id})
    for name, board in queries.boards().items():
        drawer.draw(board, pathlib.Path(folder) / f"dashboard-{name}.svg")


if __name__ == "__main__":
    draw_all(queries.Prometheus(sys.argv[1]), sys.argv[2], float(*sys.argv[3:4] or [3600]), *sys.argv[4:5])
