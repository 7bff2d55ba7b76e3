"""A plan of buckets on its page: the words and tables hold the figures of its record."""

import re
from dataclasses import replace

import pytest
from bucketed_plans import (
    CAPACITY_RPS,
    DEMAND_RPS,
    PROMISE_RPS,
    THREE,
    bucketed,
    certificate,
)
from test_report_summary import notes, number, tables

from planner.domain import (
    PHASES,
    FormChoice,
    KvTransfer,
    LoadPoint,
    Phase,
    Plan,
    RangeSlo,
    ServingForm,
    SloScope,
    SloSettings,
    SurvivalSettings,
)
from planner.domain.serving.levels import Standing, judged_levels
from planner.plans.diff import compare_buckets
from planner.report import figure, figures_of, islands_frame, latency_frame, pools_frame, summary
from planner.report.buckets.view import bounds_in, span_label, time, time_span, useful_simpler
from planner.report.kit.plots import Kind
from planner.report.plan.routing_plots import rate_plots, share_plots


def table_of(plan: Plan, first: str) -> list[list[str]]:
    """The table whose header begins with a word."""
    return next(rows for rows in tables(summary(plan)) if rows[0][0] == first)


def section(plan: Plan, name: str) -> str:
    """The text of a section."""
    return summary(plan).partition(f"## {name}\n")[2].partition("\n## ")[0]


class TestHeadline:
    def test_promise_and_capacity_stand_first(self, pools_plan: Plan) -> None:
        line = summary(pools_plan).splitlines()[2]
        lower = "**The 256 GPUs promise 90.5 requests/s where they bunch as in the trace**"
        assert line.startswith(
            f"{lower}, 162 where they come independently, 0.9 of the capacity, which is 180 without bunching. At"
        )
        assert "At the demand of 120 requests/s **TTFT P99 1.21–1.86 s (bound 4 s)**, **TPOT P99 36.0 ms" in line
        assert "at least 110 requests/s remain, 61 % of the capacity (worst: h20-32g-decode-5)" in line
        assert "At capacity they serve 180.0 requests/s**: " in summary(pools_plan).splitlines()[4]

    @pytest.mark.parametrize(
        ("bunched", "words"),
        [
            (162.0, "180; as much if requests bunch as in"),
            (171.0, "180; 171 where requests come as evenly"),
            (None, "180."),
        ],
    )
    def test_bursts_that_cost_nothing_are_told_second(
        self, pools_plan: Plan, bunched: float | None, words: str
    ) -> None:
        line = summary(replace(pools_plan, buckets=replace(pools_plan.outlook, burst_rps=bunched))).splitlines()[2]
        assert line.startswith(f"**The 256 GPUs promise 162 requests/s**, 0.9 of the capacity of {words}")

    def test_prompts_that_are_given_up_are_named(self, pools_plan: Plan) -> None:
        """Of all requests 95 % keep the bound on TTFT, of the longer prompts none."""
        slo = replace(pools_plan.scenario.slo, percentile=95.0, scope=SloScope.OVERALL)
        longer = next(row for row in pools_plan.outlook.latencies if row.phase is Phase.PREFILL and row.start)
        late = {"part": 0.04, "late_ms": 9000.0, "p50_ms": 7000.0, "kept_share": 0.0}
        rows = tuple(
            row
            if row.phase is Phase.DECODE
            else replace(row, **(late if row.start == longer.start else {"part": 0.96}))
            for row in pools_plan.outlook.latencies
        )
        scenario = replace(pools_plan.scenario, slo=slo)
        plan = replace(pools_plan, scenario=scenario, buckets=replace(pools_plan.outlook, latencies=rows))
        line = summary(plan).splitlines()[2]
        span = span_label(longer.start, longer.end)
        assert f"prompts of {span} tokens (4 % of the requests), P50 of TTFT 7.00 s.**" in line
        assert all(levels.standing is Standing.HOLDS for levels in judged_levels(plan))
        every = replace(plan, scenario=replace(scenario, slo=replace(slo, scope=SloScope.EVERY_BUCKET)))
        assert "The levels break there." in summary(every)
        assert all(levels.standing is Standing.BREAKS for levels in judged_levels(every))

    def test_a_plan_without_levels_is_marked(self, plan: Plan) -> None:
        line = summary(bucketed(plan, levels=False)).splitlines()[2]
        assert "**No service levels set**: TTFT P99 1.52–2.17 s, TPOT P99 48.6 ms at the promise." in line
        assert "bound" not in line
        assert "bunch" not in line

    def test_without_a_demand_the_promise_is_where_times_are_told(self, pools_plan: Plan) -> None:
        buckets = pools_plan.outlook
        rows = tuple(row for row in buckets.latencies if row.load is not LoadPoint.DEMAND)
        line = summary(replace(pools_plan, buckets=replace(buckets, latencies=rows))).splitlines()[2]
        assert "At 162 requests/s that come independently **TTFT P99 1.52–2.17 s" in line

    def test_the_traces_own_rate_is_called_so(self, pools_plan: Plan) -> None:
        scenario = replace(pools_plan.scenario, objective=replace(pools_plan.scenario.objective, demand_rps=0.0))
        assert "At the trace's own 120 requests/s" in summary(replace(pools_plan, scenario=scenario))

    @pytest.mark.parametrize(
        ("demand", "words"),
        [
            (120.0, "more than is promised where they bunch."),
            (170.0, "That is more than is promised."),
            (200.0, "more than the capacity."),
        ],
    )
    def test_a_demand_beyond_the_promise_is_warned_of(self, pools_plan: Plan, demand: float, words: str) -> None:
        buckets = pools_plan.outlook
        rows = tuple(
            replace(row, rate_rps=demand) if row.load is LoadPoint.DEMAND else row for row in buckets.latencies
        )
        line = summary(replace(pools_plan, buckets=replace(buckets, latencies=rows))).splitlines()[2]
        assert words in line
        assert bool(words) is ("That is more" in line)

    def test_a_loss_that_leaves_nothing(self, pools_plan: Plan) -> None:
        buckets = pools_plan.outlook
        losses = tuple(replace(loss, rate_rps=0.0) for loss in buckets.losses[:1])
        survive = SurvivalSettings(nodes=1, share=0.5)
        changed = replace(pools_plan, buckets=replace(buckets, losses=losses))
        changed = replace(changed, scenario=replace(changed.scenario, survive=survive))
        assert (
            "nothing may be left (worst: h200-8g-prefill-1 has no server elsewhere); 50 % were asked for."
            in summary(changed)
        )


class TestSections:
    def test_the_whiteboard_has_a_line_for_each_pool(self, pools_plan: Plan) -> None:
        drawing = section(pools_plan, "What to deploy").split("```")[1].strip().splitlines()
        assert drawing[0] == "text"
        pools = [line for line in drawing if "▶" in line]
        assert len(pools) == len(pools_plan.outlook.pools)
        assert re.search(
            r"0–2,047 \(53 %\) +┬─▶ +4 servers of 8 H200 +TP1 DP8 +8,192 tokens a step +takes 60 %", pools[0]
        )
        assert pools[-1].split("▶")[1].split() == [
            "3",
            "servers",
            "of",
            "32",
            "H20",
            "TP1",
            "DP32",
            "batch",
            "96,",
            "overlapped",
            "takes",
            "all",
        ]
        assert max(map(len, drawing)) <= 120

    def test_pools(self, pools_plan: Plan) -> None:
        header, *rows = table_of(pools_plan, "Name")
        column = {name: at for at, name in enumerate(header)}
        pools = {pool.island: pool for pool in pools_plan.outlook.pools}
        assert {row[0] for row in rows} == set(pools)
        for row in rows:
            pool = pools[row[0]]
            assert (int(row[column["Servers"]]), int(row[column["GPUs each"]])) == (
                pool.count,
                pool.server.parallel.devices,
            )
            assert row[column["Overlap"]] == ("yes" if pool.server.overlapped else "no")
        assert sum(number(row[column["USD/hour"]]) for row in rows) == pools_plan.price_usd_per_hour

    def test_latencies_are_the_records(self, pools_plan: Plan) -> None:
        shown = [rows for rows in tables(section(pools_plan, "Latency")) if rows[0][0] == "Prompts (tokens)"]
        assert {tuple(rows[0][1:6]) for rows in shown} == {("Load", "Requests/s", "P50", "P99", "Bound")}
        records = pools_plan.outlook.latencies
        wanted = [sorted((r.load.value, time(r.late_ms)) for r in records if r.phase is phase) for phase in PHASES]
        assert [sorted((row[1], row[4]) for row in rows[1:]) for rows in shown] == wanted

    def test_losses_worst_first(self, pools_plan: Plan) -> None:
        rows = table_of(pools_plan, "A node of")[1:]
        assert [number(row[4]) for row in rows] == [110.0, 120.0, 130.0, 140.0, 150.0]
        assert rows[0][:4] == ["h20-32g-decode-5", "H20", "1", "1 of 3"]

    def test_simpler_plans_without_those_that_are_no_faster(self, pools_plan: Plan) -> None:
        rows = table_of(pools_plan, "Kinds of servers")[1:]
        assert [row[0] for row in rows] == ["2", "3", "4", "5", "7"]
        assert rows[3][-1] == "the plan"
        text = section(pools_plan, "How good it is")
        assert "2 kinds of servers and no length routing: 90.0 requests/s where the plan has 181." in text
        assert "A further bucket must add 3 %" in text
        assert len(useful_simpler(pools_plan)) == 5

    def test_no_words_of_tables_or_islands(self, pools_plan: Plan) -> None:
        page = summary(pools_plan)
        assert "too coarse" not in page
        assert "## Routing" not in page
        assert "routed in" not in notes(page)
        assert "buckets, pools and servers were solved for" in page

    def test_other_partitions_of_the_phases(self, plan: Plan) -> None:
        narrow = bucketed(plan, THREE)
        assert [row[1] for row in table_of(narrow, "Phase")[1:]] == [
            *("0–6,143", "6,144–6,399"),
            *("0–255", "256–1,023", "1,024–6,399"),
        ]


class TestCertificate:
    def test_both_bounds(self, pools_plan: Plan) -> None:
        page = summary(pools_plan)
        assert "**Within 1.4 % of the best deployable split pools**: none serve more than 182.5 requests/s." in page
        assert "Being deployable costs at most 20.0 %: no layout of any size and routing serves more than 225.0" in page
        assert "Note:" not in page.partition("\n## ")[0]

    def test_the_form_that_was_chosen_is_what_the_proof_is_of(self, pools_plan: Plan) -> None:
        forms = FormChoice(
            chosen=ServingForm.AGGREGATED,
            other=ServingForm.SPLIT,
            margin=0.2,
            own_bound=CAPACITY_RPS / 0.99,
            other_value=None,
            other_bound=210.0,
        )
        free = replace(pools_plan, scenario=replace(pools_plan.scenario, serving=ServingForm.AUTO))
        chosen = replace(free, buckets=replace(free.outlook, forms=forms), certificate=certificate(180.0, 180.0 / 0.99))
        head = summary(chosen).partition("\n## ")[0]
        assert "**Within 1.0 % of the best deployable aggregated pools**: none serve more than 181.8" in head
        assert "no split ones reach more than 210.0 requests/s, and they have to win by 20 %" in head
        other = replace(forms, chosen=ServingForm.SPLIT, other=ServingForm.AGGREGATED, other_value=120.0)
        split = replace(chosen, buckets=replace(free.outlook, forms=other))
        head = summary(split).partition("\n## ")[0]
        assert "the best deployable split or aggregated pools**" in head
        assert "aggregated pools reach 120.0 requests/s, and split ones win by more than 20 %" in head

    def test_what_keeps_pools_split_is_told(self, pools_plan: Plan) -> None:
        deploy = replace(pools_plan.scenario.deploy, target="disaggregatedset")
        kept = replace(pools_plan, scenario=replace(pools_plan.scenario, deploy=deploy, serving=ServingForm.SPLIT))
        assert "Only split pools were looked at: deploy.target: disaggregatedset knows no others." in summary(kept)

    @pytest.mark.parametrize("note", ["", "the solver stopped at its work limit: the best found so far"])
    def test_a_large_gap_names_what_would_close_it(self, pools_plan: Plan, note: str) -> None:
        far = replace(pools_plan, certificate=certificate(CAPACITY_RPS, 200.0, note))
        head = summary(far).partition("\n## ")[0]
        assert "**Not shown to be close to the best deployable split pools**: none serve more than 200.0" in head
        assert "10.0 % away" in head
        assert "ithin 10.0 %" not in head
        assert "a `deploy.router` that counts tokens" in head
        assert "search.work_limit" in head
        assert ("more work" in head) is bool(note)


class TestFrames:
    def test_pools_and_islands_are_the_same(self, pools_plan: Plan) -> None:
        frame, islands = pools_frame(pools_plan), islands_frame(pools_plan).set_index("id")
        assert (frame["servers"] * frame["gpus_per_server"]).to_list() == islands.loc[frame["island"], "size"].to_list()
        together = (frame["servers"] * frame["capacity_rps"]).groupby([frame["phase"], frame["start"]]).sum()
        assert together.sum() == pytest.approx(200 * 0.5273 + 180 * 0.4727 + 225, rel=1e-3)
        assert frame.groupby(["phase", "start"])["share"].sum().to_numpy() == pytest.approx(1.0)

    def test_times(self, pools_plan: Plan, plan: Plan) -> None:
        frame = latency_frame(pools_plan)
        assert frame["rate_rps"].unique().tolist() == [DEMAND_RPS, PROMISE_RPS, CAPACITY_RPS]
        assert (frame["late_ms"] > frame["p50_ms"]).all()
        assert len(latency_frame(plan)) == len(pools_frame(plan)) == 0


class TestFigures:
    def test_simplicity_is_a_figure_of_plans_of_buckets(self, pools_plan: Plan, plan: Plan) -> None:
        assert "simplicity" in figures_of(pools_plan)
        assert "simplicity" not in figures_of(plan)
        axes = figure(pools_plan, "simplicity").axes[0]
        points = {
            (x, y) for line in axes.lines if line.get_marker() not in ("", "None", None) for x, y in line.get_xydata()
        }
        assert points == {(row.kinds, row.rate_rps) for row in useful_simpler(pools_plan)}

    def test_areas_are_as_wide_as_the_share_of_requests(self, pools_plan: Plan) -> None:
        prefill, decode = share_plots(pools_plan)
        assert prefill.series[0].x == pytest.approx((0, 0.5273, 1), abs=1e-4)
        assert decode.series[0].x == pytest.approx((0, 1))
        for plot in (prefill, decode):
            totals = [sum(column) for column in zip(*(series.y for series in plot.series), strict=True)]
            assert totals == pytest.approx([100.0] * len(totals))

    def test_the_lowest_area_is_the_capacity(self, pools_plan: Plan) -> None:
        tops = []
        for plot in rate_plots(pools_plan):
            areas = [series.y for series in plot.series if plot.drawn_as(series) is Kind.AREAS]
            tops += [sum(column) for column in zip(*areas, strict=True)]
        assert min(tops) == pytest.approx(CAPACITY_RPS)
        assert max(tops) == pytest.approx(225.0)


class TestWords:
    def test_times(self) -> None:
        assert [time(None), time(46.56), time(2363.4)] == ["no end", "46.6 ms", "2.36 s"]
        assert time_span([900.0, 2363.4]) == "900 ms–2.36 s"
        assert time_span([]) == "–"
        assert time_span([1.0, None]) == "no end"

    def test_bounds_of_a_bucket_are_the_least_and_the_largest(self) -> None:
        slo = SloSettings(ttft_ms=1500, tpot_ms=60, ranges=(RangeSlo(start=2000, end=20000, ttft_ms=8000),))
        assert bounds_in(slo, Phase.PREFILL, 0, 4096) == (1500, 8000)
        assert bounds_in(slo, Phase.PREFILL, 0, 2000) == (1500,)
        assert bounds_in(slo, Phase.DECODE, 0, 4096) == (60,)
        assert bounds_in(SloSettings(), Phase.PREFILL, 0, 4096) == ()


class TestDiff:
    def test_promise_cuts_and_budgets(self, pools_plan: Plan, plan: Plan) -> None:
        other = bucketed(plan, THREE, promise_rps=170.0)
        comparison = compare_buckets(pools_plan, other)
        deployed = {change.field: (change.old, change.new) for change in comparison.deployed}
        assert deployed["buckets of prefill"] == ("0–2047, 2048–6399", "0–6143, 6144–6399")
        assert deployed["h200-8g-prefill-1: prompts"] == ("0–2047", "0–6143")
        figures = {change.field: (change.old, change.new) for change in comparison.figures}
        assert figures["promise (requests/s)"] == ("162", "170")
        assert "TPOT P99 at demand (ms)" not in figures

    def test_equal_plans_and_plans_of_tables(self, pools_plan: Plan, plan: Plan) -> None:
        same = compare_buckets(pools_plan, pools_plan)
        assert (same.deployed, same.figures) == ((), ())
        assert compare_buckets(plan, plan) is None
        to_table = compare_buckets(pools_plan, plan)
        assert {change.new for change in to_table.deployed} == {"a table of shares"}


def test_what_handing_over_costs_stands_beside_the_latencies(pools_plan: Plan) -> None:
    buckets = replace(pools_plan.outlook, transfer=KvTransfer(mean_ms=12.0, longest_ms=1850.0, gb_s=3.2))
    words = "KV transfer: 12.0 ms of the TTFT of a mean prompt, 1.85 s of the longest; 3.20 GB/s at the promise."
    assert words in section(replace(pools_plan, buckets=buckets), "Latency")
    assert "KV transfer: " not in section(pools_plan, "Latency")
