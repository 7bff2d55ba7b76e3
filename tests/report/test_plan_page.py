"""The page of a plan of any kind: sound, small, the same twice, with the numbers of the plan beside every chart."""

import gzip
import html
import json
import math
import re
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_checks import check_cells, check_words

from planner import files
from planner.domain import CostMode, Phase
from planner.domain.replay import StoredReplay, StoredTimes
from planner.errors import PlannerError
from planner.report import html_page, plan_page
from planner.report.kit.html.charts import charts_json
from planner.report.kit.html.page import MOST_BYTES
from planner.report.kit.html.tables import table_html
from planner.report.kit.quantities import shown_number
from planner.report.kit.tree import Block, Chart, DataTable, Drawing, Page, Prose, Section
from planner.report.plan.cards import nodes_of

# of the file in the npm package plotly.js-cartesian-dist-min 4.1.1 (planner/files/chart_library/SOURCES.md)
PLOTLY_SHA256 = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"


def blocks_of(page: Page) -> list[Block]:
    return [block for section in page.sections for block in (*section.blocks, *section.folded)]


def charts_of(page: Page) -> dict[str, Chart]:
    return {block.name: block for block in blocks_of(page) if isinstance(block, Chart)}


def small(*blocks: Block, **changes) -> Page:
    page = Page(
        title="t", verdict="v", figures=(), sections=(Section(name="s", title="s", blocks=blocks),), made_by="m"
    )
    return replace(page, **changes)


def numbers_in(values) -> set[float]:
    """All numbers of a nested list, to nine digits."""
    if isinstance(values, dict):
        return set().union(*map(numbers_in, values.values())) if values else set()
    if isinstance(values, list | tuple):
        return set().union(*map(numbers_in, values)) if values else set()
    is_number = isinstance(values, int | float) and not isinstance(values, bool) and math.isfinite(values)
    return {float(f"{values:.9g}")} if is_number else set()


def test_every_kind_of_plan_has_a_page(variant) -> None:
    page = plan_page(variant)
    text = html_page(page, files.chart_script())
    assert len(text.encode()) <= 1_500_000
    assert text == html_page(plan_page(variant), files.chart_script())
    assert {"inventory", "search", "provenance"} <= {section.name for section in page.sections}
    assert page.verdict.count("\n") == 0
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text.split("<script")[0])


def test_no_word_and_no_cell_of_the_summary_is_missing_on_the_page(variant) -> None:
    check_words(plan_page(variant))
    check_cells(plan_page(variant))


def test_charts_are_figures_that_plotly_takes(variant) -> None:
    """Its Python side validates names and values of traces and layout."""
    import plotly.graph_objects as go

    for chart in charts_of(plan_page(variant)).values():
        styled = json.loads(charts_json([chart]))[chart.name]
        figure = go.Figure(styled)
        assert len(figure.data) == len(chart.traces)


def test_every_number_of_a_chart_is_in_its_table(variant) -> None:
    for chart in charts_of(plan_page(variant)).values():
        if chart.name.endswith(("-lengths", "-prompts")) or chart.name.startswith(("latency", "search", "routing")):
            continue  # cuts and edges, areas over places of ranges, seconds for milliseconds, lines from end to end
        drawn = {n for trace in chart.traces for axis in ("x", "y") for n in numbers_in(trace.get(axis))}
        assert drawn <= numbers_in(chart.table.rows) | {0.0}, chart.name


def test_the_rates_of_groups_are_in_the_table_of_the_routing(plan) -> None:
    for phase in ("prefill", "decode"):
        chart = charts_of(plan_page(plan))[f"routing-{phase}"]
        areas = [trace["y"][:-1] for trace in chart.traces if "stackgroup" in trace]
        assert [list(row[2:]) for row in chart.table.rows] == [list(rates) for rates in zip(*areas, strict=True)]


def test_what_is_not_drawn_is_said(plan, plan_named) -> None:
    empty = plan_page(plan_named("empty"))
    assert [s.name for s in empty.sections] == ["notes", "inventory", "search", "model", "provenance"]
    assert "serve no request" in empty.verdict
    unpriced = plan.scenario.inventory
    unpriced = replace(unpriced, items=tuple(replace(i, price_known=False) for i in unpriced.items))
    page = plan_page(replace(plan, scenario=replace(plan.scenario, inventory=unpriced)))
    (money,) = next(section.blocks for section in page.sections if section.name == "cost")
    assert all(row[3:7] == (None,) * 4 for row in money.rows)
    assert "No price is given for H200, H800, H20" in money.caption
    text = html_page(page, files.chart_script())
    assert "No service levels are set" in text


def test_warnings_stand_in_the_verdict(plan, make_plan) -> None:
    reference = replace(plan.scenario, cost=replace(plan.scenario.cost, mode=CostMode.REFERENCE))
    assert plan_page(make_plan(scenario=reference)).verdict.startswith("**Reference mode")
    assert "Unverified" in plan_page(make_plan(provenance=replace(plan.provenance, unverified=True))).verdict
    assert "interrupted" in plan_page(make_plan(search=replace(plan.search, interrupted=True))).verdict


def test_the_inventory_adds_up(variant) -> None:
    chart = charts_of(plan_page(variant))["inventory-used"]
    *rows, total = chart.table.rows
    assert total[1] == sum(row[1] for row in rows)
    for row in rows:
        gpu, count, *parts = row[: 2 + len(variant.phases) + 1]
        assert sum(parts) == count == variant.fleet[gpu]


def test_nodes_are_counted_by_copies_of_the_model(pools_plan) -> None:
    pool = pools_plan.buckets.pools[0]
    island = next(i for i in pools_plan.islands if i.id == pool.island)

    def nodes(count: int, devices: int) -> int:
        server = replace(pool.server, parallel=replace(pool.server.parallel, tp=1, dp=devices, pp=1))
        return nodes_of(pools_plan, [island], replace(pool, count=count, server=server))

    # hosts of 8 GPUs; copies that fit lie side by side, larger ones begin a node of their own
    assert [nodes(3, 8), nodes(3, 16), nodes(3, 12), nodes(5, 4), nodes(5, 3), nodes(1, 1)] == [3, 6, 6, 3, 3, 1]


@pytest.mark.parametrize(
    ("sizes", "nodes"),
    [([2] * 29, 8), ([3, 3], 1), ([3, 3, 3], 2), ([5, 3, 5, 3], 2), ([16, 2, 2], 3), ([8, 8], 2), ([9], 2)],
)
def test_islands_of_one_kind_share_nodes(plan, sizes: list[int], nodes: int) -> None:
    """Counted by hand for nodes of 8: 29 islands of 2 GPUs need 8 of them, not 29."""
    island = next(island for island in plan.islands if island.phase is not None)
    assert plan.scenario.inventory.item(island.gpu).gpu.gpus_per_host == 8
    islands = [
        replace(island, id=f"i-{n}", size=size, parallel=replace(island.parallel, tp=1, dp=size, pp=1, replicas=1))
        for n, size in enumerate(sizes)
    ]
    assert nodes_of(plan, islands) == nodes


def test_replayed_times_stand_beside_predicted_ones(pools_plan) -> None:
    first = min(pools_plan.buckets.pools, key=lambda pool: (pool.phase is not Phase.PREFILL, pool.start))
    times = StoredTimes(phase=Phase.PREFILL, start=first.start, end=first.end, times_ms={"P50": 111.0, "P99": 222.0})
    replay = StoredReplay(
        plan="bucketed",
        capacity_rps=pools_plan.throughput_rps,
        rate_rps=77.0,
        holds=True,
        summary="The promise holds <b>.",
        buckets=(times,),
    )
    chart = charts_of(plan_page(pools_plan, replay=replay))["latency-ttft"]
    rows = [row for row in chart.table.rows if row[1] == "replayed"]
    assert [row[2:5] for row in rows] == [(77.0, 111.0, 222.0)]
    assert "replayed<br>77.0/s" in chart.traces[0]["x"][1]
    assert "The promise holds &lt;b&gt;." in html_page(plan_page(pools_plan, replay=replay), files.chart_script())


def test_a_thousand_islands_keep_within_the_size(crowded_plan) -> None:
    crowded = crowded_plan
    many = tuple(replace(island, id=f"{island.id}-{n}") for n in range(6) for island in crowded.islands)
    plan = replace(crowded, islands=crowded.islands + many)
    assert len(plan.islands) > 1000
    text = html_page(plan_page(plan), files.chart_script())
    assert len(text.encode()) <= MOST_BYTES


def test_long_tables_are_cut_and_say_where_the_rest_is() -> None:
    rows = tuple((f"row {n}", float(n)) for n in range(501))
    table = DataTable(columns=("a", "b"), rows=rows, rest="some.csv")
    text = table_html(table)
    assert text.count("<tr>") == 501  # the head, and 500 rows
    assert "The first 500 of 501 rows; 1 are left out. They are in some.csv." in text
    wide = replace(table, rows=tuple(("x" * 10_000, float(n)) for n in range(500)))
    page = html_page(small(wide), b"")
    assert len(page.encode()) <= MOST_BYTES
    assert "The first 250 of 500 rows" in page


def test_pages_that_cannot_be_are_refused() -> None:
    drawing = Drawing(name="d", title="d", says="d", svg="x" * MOST_BYTES, table=DataTable(columns=("a",), rows=()))
    with pytest.raises(PlannerError, match=r"at most 4,000,000 bytes, got"):
        html_page(small(drawing), b"")
    for names in (("s", "Big"), ("s", "s"), ("s", "charts"), ("s", "a b"), ("s", "")):
        sections = tuple(Section(name=name, title="t", blocks=()) for name in names)
        with pytest.raises(PlannerError, match="small letters and hyphens and differ"):
            html_page(small(sections=sections), b"")


def test_the_chart_library_is_the_published_one_and_only_pages_with_charts_have_it() -> None:
    script = gzip.decompress(files.chart_script())
    assert sha256(script).hexdigest() == PLOTLY_SHA256
    without = html_page(small(Prose(markdown="Nothing to draw.")), files.chart_script())
    assert len(without) < 30_000
    assert 'id="library"' not in without


def test_scripts_are_allowed_by_their_hashes_alone(plan) -> None:
    text = html_page(plan_page(plan), files.chart_script())
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert "http" not in policy


words = st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z")), max_size=40)


@given(name=words | st.sampled_from(["</script>", "<!--<script>", "]]>", "\u2028", "a&b;", "<b>x", "%{x}"]))
def test_no_text_leaves_its_place(name: str) -> None:
    bars = [{"type": "bar", "name": name, "x": [name], "y": [1.0]}]
    table = DataTable(columns=(name, "n"), rows=((name, 1.0),), caption=name, rest=name)
    chart = Chart(name="c", title=name, says=name, traces=tuple(bars), layout={}, table=table)
    page = small(chart, table, title=name, made_by=name, source=name)
    plain = small(
        replace(chart, title="", says="", table=replace(table, columns=("", "n"), rows=(("", 1.0),), caption="")),
        replace(table, columns=("", "n"), rows=(("", 1.0),), caption=""),
    )
    tags = [re.findall(r"</?[a-zA-Z!][^>]*?(?=[\s>])", html_page(p, b"")) for p in (page, plain)]
    opened = [
        [tag.split()[0] for tag in tags_of_page if tag.split()[0] not in ("<p", "</p", "<abbr", "</abbr")]
        for tags_of_page in tags
    ]
    assert opened[0] == opened[1]
    figures = json.loads(charts_json([chart]))
    assert not set("<>&\u2028\u2029") & set(charts_json([chart]))
    assert figures["c"]["data"][0]["y"] == [1.0]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12, "12"),
        (1234567, "1,234,567"),
        (4.0, "4"),
        (0.20921, "0.2092"),
        (327.5638, "327.6"),
        (123456.7, "123,457"),
        (-0.5, "-0.5000"),
        (math.inf, "∞"),
        (math.nan, "–"),
        (True, "yes"),
    ],
)
def test_numbers_in_tables(number, text) -> None:
    assert shown_number(number) == text


def test_charts_take_numpy_and_drop_what_is_no_number() -> None:
    import numpy as np

    trace = {"type": "scatter", "x": np.arange(3), "y": np.array([1.0, math.nan, math.inf]), "meta": {"tone": "bound"}}
    chart = Chart(name="c", title="c", says="c", traces=(trace,), layout={}, table=DataTable(columns=("a",), rows=()))
    drawn = json.loads(charts_json([chart]))["c"]["data"][0]
    assert (drawn["x"], drawn["y"], drawn["line"]["dash"]) == ([0, 1, 2], [1.0, None, None], "dash")
