"""What the dashboards are made of: panels and variables, built with Grafana's own typed model."""
import dataclasses
import itertools

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclasses.dataclass
class Query:
    """A query of a panel. `legend` names its series, with the labels in {{ }}."""
    expr: str
    legend: str = ""


@dataclasses.dataclass
class Panel:
    """A panel. `kind`: "lines", "stat" or "table". `unit` is one of Grafana's. `bars` is the pattern of the series that
    are drawn as bars, on an axis of their own. `columns` are the labels that a table shows, in order, and `link` is the
    page behind the first one. A stat with `by_name` shows the names of its series and not their values."""
    title: str
    description: str
    queries: list
    unit: str = "short"
    kind: str = "lines"
    width: int = 8
    height: int = 8
    log2: bool = False
    stacked: bool = False
    bars: str = ""
    maximum: float = None
    no_value: str = ""
    columns: tuple = ()
    link: str = ""
    by_name: bool = False


def target(query, index, instant, is_table=False):
    built = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + index))
    built = built.instant() if instant else built.range()
    return built.format(PromQueryFormat.TABLE if is_table else PromQueryFormat.TIME_SERIES)


def lines(panel):
    legend = (common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
              .display_mode(common.LegendDisplayMode.LIST))
    built = (timeseries.Panel().line_width(1).fill_opacity(40 if panel.stacked else 0)
             .legend(legend).show_points(common.VisibilityMode.AUTO)
             .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)))
    if panel.log2:
        built.scale_distribution(common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(2))
    if panel.stacked:
        built.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if panel.bars:
        built.override_by_regexp(panel.bars, [
            dashboard.DynamicConfigValue("custom.drawStyle", "bars"),
            dashboard.DynamicConfigValue("custom.fillOpacity", 60),
            dashboard.DynamicConfigValue("custom.axisPlacement", "right"),
            dashboard.DynamicConfigValue("custom.scaleDistribution", {"type": "linear"}),
            dashboard.DynamicConfigValue("unit", "short")])
    return built


def stat_panel(panel):
    built = stat.Panel().color_mode(common.BigValueColorMode.NONE)
    if panel.by_name:
        return built.text_mode(common.BigValueTextMode.NAME).graph_mode(common.BigValueGraphMode.NONE)
    return built.graph_mode(common.BigValueGraphMode.AREA)


def table_panel(panel):
    hidden = {name: True for name in ("Time", "__name__", "job", "instance", "Value") if name not in panel.columns}
    order = {name: index for index, name in enumerate(panel.columns)}
    built = table.Panel().with_transformation(dashboard.DataTransformerConfig(id_val="organize", options={
        "excludeByName": hidden, "indexByName": order}))
    if panel.link:
        built.override_by_name(panel.columns[0], [dashboard.DynamicConfigValue("links", [
            {"title": "Show the job", "url": panel.link, "targetBlank": False}])])
    return built


KINDS = {"lines": lines, "stat": stat_panel, "table": table_panel}


def panel_builder(panel):
    built = KINDS[panel.kind](panel)
    built.title(panel.title).description(panel.description).datasource(SOURCE).unit(panel.unit)
    built.height(panel.height).span(panel.width)
    if panel.maximum is not None:
        built.min(0).max(panel.maximum)
    if panel.no_value:
        built.no_value(panel.no_value)
    for index, query in enumerate(panel.queries):
        built.with_target(target(query, index, panel.kind != "lines", panel.kind == "table"))
    return built


def choice(name, label, query):
    """A variable with the values of a label, from the query. Several values, or all, may be chosen."""
    return (builders.QueryVariable(name).label(label).datasource(SOURCE).query(query)
            .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
            .multi(True).include_all(True).all_value(".+"))


def annotation(name, expr, color):
    """Marks the times at which the expression has values."""
    return builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color).expr(expr)


def build(uid, title, description, variables, rows, annotations=(), refresh="10s"):
    """Returns the dashboard. `rows` maps the titles of rows to their panels."""
    board = builders.Dashboard(title).uid(uid).description(description).tags(["ampd"]).readonly()
    board.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).time("now-1h", "now").refresh(refresh).timezone("browser")
    board.with_variable(builders.DatasourceVariable("datasource").label("Data Source").type("prometheus"))
    for variable in variables:
        board.with_variable(variable)
    for note in annotations:
        board.annotation(note)
    number = itertools.count(1)
    for row, panels in rows.items():
        board.with_row(builders.Row(row).id(next(number)))
        for panel in panels:
            board.with_panel(panel_builder(panel).id(next(number)))
    for other, address in (("Fleet", "ampd-fleet"), ("Job", "ampd-job"), ("Worker", "ampd-worker"),
                           ("Service", "ampd-service")):
        if address != uid:
            board.link(builders.DashboardLink(other).type(dashboard.DashboardLinkType.LINK).url(f"/d/{address}")
                       .keep_time(True))
    return board.build()


def targets_of(family):
    """The variables job and instance: which of the scraped programs with this family count."""
    return [choice("job", "Prometheus job", f"label_values({family}, job)"),
            choice("instance", "Instance", f'label_values({family}{{job=~"$job"}}, instance)')]
