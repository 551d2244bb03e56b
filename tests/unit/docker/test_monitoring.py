"""Alert rules and dashboard, against the metrics that a registry really exposes, and the formats that they follow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from ruamel.yaml import YAML

from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory

ROOT = Path(__file__).parents[3]
GROUPS = YAML(typ="safe").load(ROOT / "docker/monitoring/tidegate.rules.yaml")["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads(
    (ROOT / "docker/monitoring/tidegate-dashboard.json").read_text("utf-8")
)
PAGE = (ROOT / "docs/how-to/monitor.md").read_text("utf-8")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

OF_GRAFANA = {"$__rate_interval": "5m", "$__range": "6h", "$stream": ".+"}
OF_PROMETHEUS = {"up": frozenset({"job", "instance"})}
ON_COUNTERS = {"rate", "increase"}


def of_panels() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in OF_GRAFANA.items():
                expression = expression.replace(name, value)
            yield f"panel {panel['title']}", expression


EXPRESSIONS = {rule.get("alert") or rule["record"]: rule["expr"] for rule in RULES} | dict(of_panels())


@dataclass(frozen=True, slots=True)
class Selected:
    """One selector of an expression: the metric, the labels that its matchers name, the function around its range."""

    metric: str
    labels: frozenset[str]
    function: str | None


def selectors(expression: str) -> tuple[list[Selected], set[str]]:
    """Return the selectors of an expression, and all labels that it groups or joins by. Raises for invalid PromQL."""
    found: list[Selected] = []
    grouping: set[str] = set()
    functions: list[str | None] = [None]

    def select(selector: Any) -> None:
        labels = frozenset(matcher.name for matcher in selector.matchers.matchers)
        found.append(Selected(selector.name, labels, functions[-1]))

    def visit(node: Any) -> None:
        match node:
            case promql.Call():
                functions.append(node.func.name)
            case promql.VectorSelector():
                select(node)
            case promql.AggregateExpr() if node.modifier is not None:
                grouping.update(node.modifier.labels)
            case promql.BinaryExpr() if node.modifier is not None:
                grouping.update(re.findall(r"\w+", str(node.modifier.matching or "").partition("(")[2]))

    def leave(node: Any) -> None:
        if isinstance(node, promql.Call):
            functions.pop()

    promql.walk(promql.parse(expression), visit, leave)
    return found, grouping


@pytest.fixture
def exposed(client: Any, factory: Factory) -> Mapping[str, frozenset[str]]:
    """The labels of each metric that the registry exposes, by name; a test holds the two sources together."""
    factory.denials.add(401, "address:127.0.0.1", "GET", "/api/v1/streams")
    told = set(re.findall(r"^# TYPE (\S+) ", client.get("/metrics").text, re.MULTILINE))
    families = {
        family.name + ("_total" if family.type == "counter" else ""): frozenset(
            getattr(family, "_labelnames", ())
        )
        for family in factory.stream_metrics(ANONYMOUS).collect()
    }
    assert families.keys() <= told
    return families | {"tidegate_refused_requests_total": frozenset({"status"})}


@pytest.fixture
def known(exposed: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """The exposed metrics, those of the recording rules, and those of Prometheus itself."""
    recorded = {rule["record"]: frozenset({"stream"}) for rule in RULES if "record" in rule}
    return {**exposed, **recorded, **OF_PROMETHEUS}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_each_expression_asks_for_metrics_and_labels_that_are_there(
    name: str, known: Mapping[str, frozenset[str]]
) -> None:
    found, grouping = selectors(EXPRESSIONS[name])
    assert found
    assert {each.metric for each in found} <= known.keys()
    for each in found:
        assert each.labels <= known[each.metric], each.metric
        # A counter falls to 0 with a new database, and only its rate says something; a gauge has no rate.
        if not each.metric.startswith("tidegate:"):
            assert (each.function in ON_COUNTERS) == each.metric.endswith("_total"), each.metric
    assert grouping <= frozenset().union(*(known[each.metric] for each in found))


@pytest.mark.parametrize("broken", ["rate(a[5m]", "sum by stream (a)", "rate(a)", "a == 'x'"])
def test_the_parser_refuses_what_is_not_promql(broken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        selectors(broken)


def test_a_rule_has_the_keys_that_prometheus_knows() -> None:
    # Source: Prometheus documentation, "Recording rules" and "Alerting rules".
    assert [set(group) for group in GROUPS] == [{"name", "rules"}, {"name", "rules"}]
    names = [rule.get("alert") or rule["record"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        if "record" in rule:
            assert rule.keys() == {"record", "expr"}
            continue
        assert (
            {"alert", "expr", "labels", "annotations"}
            <= rule.keys()
            <= {"alert", "expr", "for", "labels", "annotations"}
        )
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        if "for" in rule:
            assert promql.parse_duration(rule["for"]).total_seconds() > 0


def test_a_stream_that_processes_nothing_is_behind() -> None:
    """The quotient must not be missing at a rate of 0: the alert would end when it gets worse."""
    expression: Any = promql.parse(EXPRESSIONS["TidegateStreamBehind"])
    while not isinstance(expression, promql.BinaryExpr) or str(expression.op) != "/":
        expression = expression.lhs
    assert isinstance(expression.rhs, promql.VectorSelector)
    assert expression.rhs.name == "tidegate:records:rate15m"


def test_an_alert_tells_of_labels_that_it_has_and_of_a_page_that_exists() -> None:
    for rule in RULES:
        if "alert" not in rule:
            continue
        _, grouping = selectors(rule["expr"])
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= grouping, rule["alert"]
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
        assert not anchor or anchor in {each.lower().replace(" ", "-") for each in headings}


def test_the_page_explains_every_alert_and_names_no_other() -> None:
    explained = set(re.findall(r"`(Tidegate\w+)`", PAGE))
    assert explained == {rule["alert"] for rule in RULES if "alert" in rule}


def lost(given: Any, kept: Any, place: str = "") -> Iterator[str]:
    """Yield what the second of two JSON values lacks or has otherwise; defaults may be added."""
    match given, kept:
        case dict(), dict():
            for key in given:
                if key not in kept:
                    yield f"{place}/{key}"
                else:
                    yield from lost(given[key], kept[key], f"{place}/{key}")
        case list(), list() if len(given) == len(kept):
            for index, (one, other) in enumerate(zip(given, kept, strict=True)):
                yield from lost(one, other, f"{place}/{index}")
        case _ if given != kept:
            yield place


def read_by_grafana(document: Mapping[str, Any]) -> Any:
    """Return a dashboard as Grafana's own types read and write it; they are generated from its schema."""
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(dict(document)), cls=JSONEncoder))


def test_the_dashboard_is_one_by_grafanas_schema() -> None:
    assert list(lost(DASHBOARD, read_by_grafana(DASHBOARD))) == []


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda it: it.update(titel="x"), "/titel"),
        (lambda it: it["panels"][1].update(gridpos={}), "/panels/1/gridpos"),
        (lambda it: it["panels"][1]["targets"][0].update(expression="up"), "/panels/1/targets/0/expression"),
    ],
)
def test_the_schema_knows_no_misspelt_key(spoil: Callable[[Any], None], place: str) -> None:
    document = json.loads(json.dumps(DASHBOARD))
    spoil(document)
    assert list(lost(document, read_by_grafana(document))) == [place]


def test_panels_have_ids_units_and_descriptions_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_variable_of_the_dashboard_lists_a_metric_of_every_stream(
    known: Mapping[str, frozenset[str]],
) -> None:
    (query,) = [
        each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["name"] == "stream"
    ]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr] # a match, or the test fails
    assert label in known[metric]
