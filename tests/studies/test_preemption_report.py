"""The scale-up study as page, tables and figures: the paper's own figures, then hand-made counts."""

import pytest
from reference_data import reference_rows

from planner.domain import VictimMethod
from planner.errors import InputError
from planner.studies.preemption.page import (
    HIT_HEADER,
    INDEPENDENT_ONLY,
    LATENCY_HEADER,
    METHOD_TITLES,
    PAPER_HITS,
    PAPER_LATENCY_US,
    hit_rows,
    hit_summaries,
    latency_frame,
    latency_rows,
    preemption_frame,
    preemption_page,
)
from planner.studies.preemption.plots import hit_rates_figure, latency_figure, preemption_figures
from planner.studies.preemption.records import (
    HitCount,
    InitialPlacement,
    ScaleUpMode,
    ScaleUpSettings,
    SourcingLatency,
)

FULL = InitialPlacement.SATURATED
SETTINGS = ScaleUpSettings(
    counts=(("B", 25), ("C", 25)), methods=(VictimMethod.STANDARD, VictimMethod.MASKS), modes=tuple(ScaleUpMode)
)


def count(
    hits: int,
    workload: str = "B",
    *,
    failures: int = 0,
    method: VictimMethod = VictimMethod.STANDARD,
    mode: ScaleUpMode = ScaleUpMode.INDEPENDENT,
    seed: int = 0,
    nodes: int = 100,
) -> HitCount:
    return HitCount(
        nodes=nodes,
        initial=FULL,
        seed=seed,
        method=method,
        workload=workload,
        mode=mode,
        preemptions=100,
        hits=hits,
        failures=failures,
        decisions=4,
        victims=2 * (100 - failures),
        priority_sum=1000,
    )


def counts() -> list[HitCount]:
    return [
        *(count(30 + seed, seed=seed) for seed in (0, 1)),
        *(count(50 + seed, "C", seed=seed) for seed in (0, 1)),
        *(count(100, name, method=VictimMethod.MASKS, seed=seed) for seed in (0, 1) for name in "BC"),
        count(60, "C", failures=40, method=VictimMethod.MASKS, mode=ScaleUpMode.SEQUENTIAL),
    ]


def latencies(nodes: int = 100) -> list[SourcingLatency]:
    """The paper's own times, and masks as fast as a tenth of IMP."""
    rows = [
        SourcingLatency(nodes=nodes, workload=name, method=method, p50_us=p50, p90_us=p90, repetitions=7, initial=FULL)
        for (name, method), (p50, p90) in PAPER_LATENCY_US.items()
    ]
    p50, p90 = PAPER_LATENCY_US["B", VictimMethod.IMP]
    masks = SourcingLatency(
        nodes=nodes,
        workload="B",
        method=VictimMethod.MASKS,
        p50_us=p50 / 10,
        p90_us=p90 / 10,
        repetitions=7,
        initial=FULL,
    )
    return [*rows, masks]


def cells(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]


def test_the_papers_figures_are_the_goldens() -> None:
    rows = reference_rows("placement/paper_goldens.csv")
    known = {row["item"]: row["value"] for row in rows if row["system"] == "flextopo"}
    hits = [hits for _, hits in PAPER_HITS.values()]
    assert hits == [int(known["std_preemption_hits"]), int(known["topo_preemption_hits"])]
    words = {VictimMethod.STANDARD: "godel", VictimMethod.NAIVE: "full", VictimMethod.IMP: "imp"}
    for (name, method), found in PAPER_LATENCY_US.items():
        assert found == tuple(map(float, known[f"latency_{words[method]}_{name}_P50_P90"].split("/")))
    page = preemption_page(counts(), latencies(), SETTINGS)
    for name in "BC":
        saved = known[f"imp_saving_{name}_P50_P90"].split("/")
        assert ["100", name, "imp against naive", *saved, "–", "–", *saved] in cells(page)


def test_hits_are_summed_over_seeds_and_workloads() -> None:
    standard, masks, sequential = hit_rows(counts())
    assert dict(zip(HIT_HEADER, standard, strict=True)) == {
        "nodes": "100",
        "initial": "saturated",
        "mode": "independent",
        "method": "standard",
        "scale-ups": "400",
        "hits": "162",
        "hit %": "40.5",
        "seeds, %": "40.0 to 41.0",
        "B %": "30.5",
        "C %": "50.5",
        "failures": "0",
        "searches": "16",
        "victims each": "2.00",
    }
    assert masks[4:10] == ["400", "400", "100.0", "100.0 to 100.0", "100.0", "100.0"]
    assert sequential[2:] == ["sequential", "masks", "100", "60", "60.0", "–", "–", "60.0", "40", "4", "2.00"]


def test_the_page_holds_the_paper_against_the_run() -> None:
    page = preemption_page(
        counts(), latencies(), SETTINGS, notes=("naive_x left out",), figures={"A_b": "figures/a.png"}
    )
    assert page.startswith("# Scale-up by preemption\n")
    assert page.endswith("\n")
    assert (
        "**100 nodes, saturated, independent scale-ups: 40.5 % of the newcomers lie inside one socket under standard "
        "preemption, 100.0 % where victims are chosen by topology.**" in page
    )
    assert INDEPENDENT_ONLY in page
    assert "25 of B and 25 of C" in page
    assert "![A\\_b](figures/a.png)" in page
    assert "naive\\_x left out" in page
    rows = cells(page)
    assert ["100", "–", "paper", "Gödel standard preemption", "5,000", "2,225", "44.5", *["–"] * 6] in rows
    assert ["100", "B", "imp", "180,020", "275,576", "7", "180,020", "275,576"] in rows
    assert ["100", "B", "masks against imp", "90.0", "90.0", *["–"] * 4] in rows
    widths = {len(row) for row in rows}
    assert widths == {len(HIT_HEADER), len(LATENCY_HEADER) + 2, 9}


def test_other_sizes_have_no_published_figures() -> None:
    page = preemption_page([count(1, nodes=50)], latencies(50), SETTINGS)
    assert ["50", "B", "imp", "180,020", "275,576", "7", "–", "–"] in cells(page)
    assert latency_frame(latencies(50)).paper_p50_us.isna().all()
    assert "independent scale-ups:" not in page  # nothing to hold standard preemption against


def test_without_times_there_is_no_word_of_them() -> None:
    page = preemption_page(counts(), [], SETTINGS)
    assert "table 5" not in page
    assert "Figures" not in page


def test_frames_hold_what_the_tables_show() -> None:
    frame = preemption_frame(counts())
    assert list(frame.hits) == [162, 400, 60]
    assert list(frame.failures) == [0, 0, 40]
    assert frame.hit_percent_b.isna().tolist() == [False, False, True]
    times = latency_frame(latencies())
    known = times[times.method != "masks"]
    assert (known.p50_us == known.paper_p50_us).all()
    assert [row[2] for row in latency_rows(latencies())] == list(times.method)


def test_figures_are_drawn_alike_each_time() -> None:
    drawn = preemption_figures(counts(), latencies())
    assert sorted(drawn) == ["hit_rates", "latency"]
    assert all(png.startswith(b"\x89PNG") for png in drawn.values())
    assert drawn == preemption_figures(counts(), latencies())
    assert preemption_figures([], []) == {}


def test_figures_show_every_method_size_and_workload() -> None:
    both = [*latencies(), *latencies(1000)]
    panels = latency_figure(both).axes
    assert [axes.get_title(loc="left") for axes in panels] == ["workload B", "workload C"]
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["100 nodes", "1,000 nodes"]
    assert [[len(drawn[0].get_xdata()) for drawn in axes.containers] for axes in panels] == [[2] * 4, [2] * 3]
    hits = hit_rates_figure([*counts(), count(7, nodes=1000)]).axes
    assert [axes.get_title(loc="left") for axes in hits] == ["100 nodes", "1,000 nodes"]
    shown = [text.get_text() for text in hits[0].get_legend().get_texts()]
    assert shown == [METHOD_TITLES[VictimMethod.STANDARD], METHOD_TITLES[VictimMethod.MASKS], "standard in the paper"]
    heights = sorted(round(patch.get_height(), 1) for patch in hits[0].patches)
    assert heights == [40.5, 60.0, 100.0]
    assert len({summary.key for summary in hit_summaries(counts())}) == 3


@pytest.mark.parametrize("draw", [hit_rates_figure, latency_figure])
def test_nothing_to_draw_is_told(draw) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="at least one row"):
        draw([])
