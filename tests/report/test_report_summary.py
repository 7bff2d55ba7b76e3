"""The page says what the plan says: figures against arithmetic, tables through a Markdown parser."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from planner.domain import (
    PHASES,
    AssignmentSettings,
    CostMode,
    CostSettings,
    Formulation,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
    PlannedIsland,
    SearchMethod,
    SearchRecord,
)
from planner.report import summary
from planner.report.kit.markdown import escaped, table

COUNTS = {"H200": 64, "H800": 64, "H20": 128}
USD = {"H200": 4.0, "H800": 2.0, "H20": 1.0}
LITERAL = {"text", "text_special"}


def shown(inline) -> str:
    """What a reader sees of one inline token."""
    return "".join(child.content for child in inline.children if child.type in {*LITERAL, "code_inline"})


def tables(markdown: str) -> list[list[list[str]]]:
    """Tables of a page as rows of cell texts, header first."""
    found: list[list[list[str]]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    for before, token in pairwise(tokens):
        if before.type == "table_open":
            found.append([])
        if before.type == "tr_open":
            found[-1].append([])
        if before.type in {"td_open", "th_open"}:
            found[-1][-1].append(shown(token))
    return found


def notes(markdown: str) -> str:
    """The section of notes."""
    return markdown.partition("## Read before you trust it\n")[2].partition("\n## ")[0]


def table_of(markdown: str, first: str) -> list[list[str]]:
    """The table whose header begins with a word."""
    return next(rows for rows in tables(markdown) if rows[0][0] == first)


def number(text: str) -> float:
    """A printed number."""
    return float(text.replace(",", ""))


def on_scenario(plan, **changes):
    """The plan with another scenario."""
    return replace(plan, scenario=replace(plan.scenario, **changes))


class TestHeadline:
    def test_figures_follow_from_rate_prices_and_lengths(self, plan):
        mass = plan.scenario.workload.probabilities
        tokens_in = sum(p * (256 * j + 128) for j, p in enumerate(mass))
        tokens_per_s = 180.0 * (tokens_in + 28.0)
        usd_per_hour = 64 * 4.0 + 64 * 2.0 + 128 * 1.0
        promise, _, line = summary(plan).splitlines()[2:5]
        assert promise == "**The 256 GPUs promise 162 requests/s**, 0.9 of the capacity of 180."
        found = re.search(
            r"At capacity they serve ([\d.]+) requests/s\*\*: ([\d,]+) tokens/s in and out, ([\d,]+) of them "
            r"output, for ([\d.]+) USD/hour or ([\d.]+) USD per million tokens",
            line,
        )
        assert found, line
        rate, tokens, output, hourly, per_million = map(number, found.groups())
        assert (rate, hourly) == (180.0, usd_per_hour)
        assert tokens == pytest.approx(tokens_per_s, rel=5e-3)
        assert output == pytest.approx(180.0 * 28.0, rel=5e-3)
        assert per_million == pytest.approx(usd_per_hour / (tokens_per_s * 3600 / 1e6), rel=5e-3)

    def test_bottleneck_and_headroom(self, make_plan):
        assert "**prefill is the bottleneck**, decode has 25 % headroom (225.0 requests/s)" in summary(make_plan())
        swapped = make_plan(prefill_rps=540.0, decode_rps=180.0)
        assert "**decode is the bottleneck**, prefill has 200 % headroom" in summary(swapped)
        assert "balanced" in summary(make_plan(prefill_rps=180.0, decode_rps=180.5))

    def test_a_plan_that_serves_nothing_says_so(self, make_plan):
        page = summary(make_plan(throughput_rps=0.0, prefill_rps=0.0, decode_rps=12.0, routing=()))
        assert "serve no request" in page.splitlines()[2]
        assert "routing table is empty" in notes(page)

    def test_fleet_without_prices(self, plan):
        free = tuple(replace(i, price_usd_per_gpu_hour=0.0) for i in plan.scenario.inventory.items)
        page = summary(on_scenario(plan, inventory=replace(plan.scenario.inventory, items=free)))
        assert "at no stated price" in page.splitlines()[4]
        assert "per million" not in page

    def test_a_type_without_a_price_is_said_not_to_be_counted(self, plan):
        items = plan.scenario.inventory.items
        (h20,) = (item for item in items if item.gpu.name == "H20")
        mixed = tuple(replace(i, price_usd_per_gpu_hour=0.0, price_known=False) if i is h20 else i for i in items)
        page = summary(on_scenario(plan, inventory=replace(plan.scenario.inventory, items=mixed)))
        assert "for 384.00 USD/hour without H20, for which no price is given; " in page.splitlines()[4]
        assert "per million" not in page
        fleet, islands = table_of(page, "GPU type"), table_of(page, "Name")
        column = islands[0].index("USD/hour")
        assert {row[0]: row[-2] for row in fleet[1:]} == {
            "H200": "256.00",
            "H800": "128.00",
            "H20": "–",
            "Total": "384.00",
        }
        assert {row[column] for row in islands[1:] if row[2] == "H20"} == {"–"}
        assert "no price is given" not in summary(plan)


class TestTables:
    def test_fleet(self, plan):
        fleet = table_of(summary(plan), "GPU type")
        assert fleet[0][:-1] == [
            *("GPU type", "GPUs", "In prefill", "In decode", "Idle", "Islands", "USD/hour each", "USD/hour"),
        ]
        assert [row[:-1] for row in fleet[1:]] == [
            ["H200", "64", "32", "32", "0", "3", "4", "256.00"],
            ["H800", "64", "62", "0", "2", "4", "2", "128.00"],
            ["H20", "128", "0", "120", "8", "5", "1", "128.00"],
            ["Total", "256", "94", "152", "10", "12", "–", "512.00"],
        ]

    def test_islands_are_grouped_and_nothing_is_lost(self, plan):
        header, *rows = table_of(summary(plan), "Name")
        column = {name: at for at, name in enumerate(header)}
        serving = [island for island in plan.islands if island.phase is not None]
        assert len(rows) == 8
        assert sum(int(r[column["Islands"]]) for r in rows) == len(serving)
        assert sum(int(r[column["GPUs"]]) for r in rows) == sum(island.size for island in serving)
        assert sum(number(r[column["USD/hour"]]) for r in rows) == sum(island.price_usd_per_hour for island in serving)
        for phase in PHASES:
            served = [number(r[column["Requests/s"]]) for r in rows if r[column["Phase"]] == phase]
            assert sum(served) == pytest.approx(180.0, rel=1e-3)
        shown = [
            rows[0][column[name]]
            for name in ("Islands", "GPU type", "GPUs each", "Phase", "TP", "DP", "Longest prompt")
        ]
        assert shown == ["2", "H200", "16", "prefill", "2", "8", "6,399"]

    def test_islands_of_one_class_with_other_parallelism_stay_apart(self, plan):
        first, second, *rest = plan.islands
        other = replace(first.parallel, tp=4, dp=4)
        changed = replace(plan, islands=(first, replace(second, parallel=other), *rest))
        assert len(table_of(summary(changed), "Name")) == len(table_of(summary(plan), "Name")) + 1

    def test_routing_merges_ranges_served_alike(self, plan):
        prefill, decode = (rows for rows in tables(summary(plan)) if rows[0][0] == "Input tokens")
        assert [row[:2] for row in prefill[1:]] == [
            ["0–1023", "4"],
            ["1024–2047", "4"],
            ["2048–3071", "4"],
            ["3072–6399", "13"],
        ]
        assert prefill[1][4] == "H200/16 ×2 67 %, H800/8 ×2 33 %"
        assert prefill[4][4] == "H800/32 ×1 60 %, H200/16 ×2 40 %"
        for rows in (prefill[1:], decode[1:]):
            assert sum(int(row[1]) for row in rows) == 25
            assert sum(number(row[3]) for row in rows) == pytest.approx(180.0, rel=1e-3)

    def test_routing_stays_readable_with_sixty_islands_a_type(self, crowded_plan):
        for rows in (rows for rows in tables(summary(crowded_plan)) if rows[0][0] == "Input tokens"):
            assert len(rows) - 1 <= 30
            assert max(len(row[4]) for row in rows) < 160

    def test_search_shows_rounds_and_best_trial(self, plan):
        page = summary(plan)
        section = page.partition("## How it was found\n")[2].partition("\n## ")[0]
        assert "48 layouts in 8 rounds (planned: 8 rounds of 6), seed 7" in section
        assert "Best trial: number 41, iteration 6, 180.0 requests/s" in section
        rows = table_of(page, "Iteration")[1:]
        best = [number(row[1]) for row in rows]
        assert best == sorted(best)
        assert best[-1] == 180.0
        assert rows[0][3] == "1 of 6"

    def test_a_plan_without_a_search(self, make_plan):
        page = summary(make_plan(search=SearchRecord(trials=(), best_trial=0)))
        assert "the layout was given" in page


class TestNotes:
    def test_idle_islands_with_reasons_and_spare_gpus(self, plan):
        text = notes(summary(plan))
        assert "1 island of 6 H20 is idle: 671 GB of weights do not fit into 6 GPUs." in text
        assert "In no island: 2 GPUs of type H800." in text
        assert "H200." not in text

    def test_of_an_offer_what_is_not_rented_takes_a_line(self, make_plan):
        plan = make_plan()
        items = plan.scenario.inventory.items
        spare = replace(items[0], gpu=replace(items[0].gpu, name="L4"), count=400)
        offer = replace(plan.scenario.inventory, items=(*items, spare))
        goal = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=1000.0)
        text = summary(replace(plan, scenario=replace(plan.scenario, inventory=offer, objective=goal)))
        assert "On offer, not rented: L4." in text
        assert "| L4 |" not in text
        assert "In no island" not in text

    def test_work_limit(self, make_plan):
        assert "not proven optimal" in notes(summary(make_plan(optimal=False)))
        assert "its work limit (20)" in notes(summary(make_plan(optimal=False)))
        assert "not proven" not in summary(make_plan())

    def test_reference_mode_warns_at_the_top(self, plan):
        reference = on_scenario(plan, cost=CostSettings(mode=CostMode.REFERENCE))
        warning = summary(reference).splitlines()[2]
        assert warning.startswith("**Reference mode: the published simulator's rates, not physical ones")
        assert "reference" not in summary(plan).lower()

    def test_deviation_formulation_tells_both_figures(self, plan):
        settings = AssignmentSettings(formulation=Formulation.DEVIATION, tau=0.25, deviation_weight=50.0)
        changed = replace(on_scenario(plan, assignment=settings), objective_rps=201.5, deviation_rps=3.75)
        text = notes(summary(changed))
        for part in ("tau 0.25", "M 50)", "201.5 requests/s", "3.750 requests/s", "180.0 requests/s"):
            assert part in text
        busy = on_scenario(changed, assignment=replace(settings, idle=False))
        assert "M 50, no island idle)" in notes(summary(busy))
        assert "Deviation" not in summary(plan)

    def test_arrivals_against_capacity(self, plan):
        def arriving(rps):
            return on_scenario(plan, workload=replace(plan.scenario.workload, arrival_rps=rps))

        assert "45.00/s: 25 % of what" in notes(summary(arriving(45.0)))
        assert "it carries 50 % of the traffic" in notes(summary(arriving(360.0)))

    def test_requests_that_reach_nobody_are_told(self, plan):
        kept = tuple(r for r in plan.routing if not (r.phase is Phase.DECODE and r.island == "i02"))
        text = notes(summary(replace(plan, routing=kept)))
        assert "Only 83 % of the requests of 2048–2303 tokens are routed in decode." in text
        assert "routed in prefill" not in text

    def test_failed_trials_are_counted(self, plan):
        assert "2 trials failed: no island serves 5888-6143 in decode." in notes(summary(plan))


class TestNames:
    NASTY = "H|2*0*0 `x` <b>[a](http://b)_c_ ~~d~~ &amp; \\ $e$ #1"

    def test_hostile_names_are_shown_literally(self, plan):
        def renamed(island: PlannedIsland) -> PlannedIsland:
            return replace(island, gpu=self.NASTY) if island.gpu == "H200" else island

        first, *rest = plan.scenario.inventory.items
        items = (replace(first, gpu=replace(first.gpu, name=self.NASTY)), *rest)
        inventory = replace(plan.scenario.inventory, items=items)
        changed = on_scenario(plan, inventory=inventory, name=self.NASTY + "\n# Owned\n<script>")
        page = summary(replace(changed, islands=tuple(map(renamed, plan.islands))))
        assert table_of(page, "GPU type")[1][0] == self.NASTY
        assert len({len(row) for row in table_of(page, "Name")}) == 1
        assert self.NASTY in {row[2] for row in table_of(page, "Name")}
        tokens = MarkdownIt("commonmark").enable("table").parse(page)
        inline = {c.type for t in tokens for c in t.children or []}
        assert not inline & {"html_inline", "link_open", "em_open", "s_open", "image"}
        assert [t.tag for t in tokens if t.type == "heading_open"].count("h1") == 1
        assert not [t for t in tokens if t.type == "html_block"]

    @given(st.text(st.characters(codec="utf-8"), max_size=40))
    def test_escaped_text_reads_as_typed(self, text):
        rows = tables(table(["a", "b"], [[escaped(text), "c"]], "lr"))[0]
        words = " ".join(text.split())
        assert rows[1] == ["".join(c for c in words if c.isprintable()).strip(), "c"]


def test_provenance_names_versions_seed_and_inputs(plan):
    section = summary(plan).split("## Where the numbers come from")[1]
    for part in ("planner 0.1.0", "Python 3.11.9", "pulp 3.0.2", "HiGHS 1.11", "seed: 7", "ab" * 32):
        assert part in section


def test_equal_plans_give_equal_pages(make_plan):
    assert summary(make_plan()) == summary(make_plan())
    assert summary(make_plan()).endswith("\n")


def islands_of(plan) -> list[list[str]]:
    """The islands' table, header first."""
    return table_of(summary(plan), "Name")


def test_stages_have_a_column_only_where_there_are_some(plan):
    assert "PP" not in islands_of(plan)[0]
    first, *others = plan.islands
    staged = replace(first, parallel=replace(first.parallel, dp=2, pp=2, replicas=2))
    header, row, *_ = islands_of(replace(plan, islands=(staged, *others)))
    column = {name: at for at, name in enumerate(header)}
    assert [row[column[name]] for name in ("TP", "DP", "PP", "Servers")] == ["2", "2", "2", "2"]


@pytest.mark.parametrize("method", [method for method in SearchMethod if not method.row.solves])
def test_a_surrogate_is_named_only_where_one_is_fitted(plan, method):
    search = replace(plan.scenario.search, method=method)
    fitted = method in (SearchMethod.DIVIDER, SearchMethod.DIRECT, SearchMethod.GRAPH, SearchMethod.AUTO)
    page = summary(on_scenario(plan, search=search))
    assert (f"Method {method} with surrogate gp:" in page) is fitted
    assert (f"Method {method}:" in page) is not fitted
