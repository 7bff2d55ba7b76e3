"""A replay's page, tables, figures and JSON document, against its record."""

import json
import math
from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from replay_results import CAPACITY_RPS, PROMISE_RPS, is_close, level, replayed, swept

from planner import report
from planner.domain.serving.levels import Spread
from planner.errors import InputError


def drawn(axes: Axes, label: str) -> tuple[list[float], list[float]]:
    """Where a line has its points; of steps, where each begins."""
    line = next(line for line in axes.lines if line.get_label() == label)
    return list(line.get_xdata())[:-1], list(line.get_ydata())[:-1]


def panels(figure: Figure) -> list[Axes]:
    """The panels of a figure, from the top."""
    return list(figure.axes)


@pytest.mark.parametrize(
    ("rate_rps", "kept", "begins"),
    [
        (PROMISE_RPS, 0.995, "**The promise holds at 90.0 requests/s**"),
        (PROMISE_RPS, 0.9, "**The promise breaks at 90.0 requests/s**"),
        (45.0, 0.995, "**The levels hold at 45.0 requests/s, 0.500 of the promise**"),
        (45.0, 0.9, "**The promise breaks: levels break at 45.0 requests/s, 0.500 of the promise**"),
        (99.0, 0.995, "**The promise holds with room: levels hold at 99.0 requests/s, 1.10 of the promise**"),
        (99.0, 0.9, "**The levels break at 99.0 requests/s, 1.10 of the promise**"),
    ],
)
def test_the_verdict_says_whether_the_promise_holds(rate_rps: float, kept: float, begins: str) -> None:
    assert report.verdict(replayed(rate_rps, kept=kept)).startswith(begins)


def test_what_would_tell_is_the_least_that_may() -> None:
    """A replay that is not full yet sees its queues and answers too short: with more requests it asks for more."""
    short = replace(replayed(), requests_to_tell=24000)
    assert "It takes at least 24,000 a seed to tell (`--requests`)" in report.verdict(short)
    rates = swept()
    untold = replace(rates, results=tuple(replace(result, requests_to_tell=24000) for result in rates.results))
    assert "it takes at least 24,000 requests a seed to tell" in report.sweep_verdict(untold)


def test_the_verdict_tells_how_far_and_the_bottleneck() -> None:
    broken = report.verdict(replayed(kept=0.9, ttft_ms=1200))
    assert "TTFT: 90.0 % (89.6–90.4 %) of the requests keep 4 s where 99 % must (4.80 s there, 20 % too long)" in broken
    assert broken.endswith("; bottleneck: prefill of prompts of 2,048–8,191 tokens.")
    assert "TPOT: 99.9 % (99.5–100 %)" in report.verdict(replayed())  # the level with the least room
    assert "too close to call" in report.verdict(replayed(kept=0.991, ttft_ms=990))


def test_the_verdict_on_a_fleet_that_falls_behind_and_without_levels() -> None:
    behind = report.verdict(replace(replayed(), unfinished=12))
    assert behind.startswith("**The promise breaks at 90.0 requests/s**: 12 requests had not ended")
    bare = replace(replayed(), levels=())
    assert report.verdict(bare).startswith("**The fleet keeps up at 90.0 requests/s, 1.00 of the promise**: no service")
    assert report.verdict(replace(bare, unfinished=1)).startswith("**The fleet falls behind at ")


def test_a_plan_without_a_promise_is_told_by_its_capacity() -> None:
    result = replace(replayed(), promise_rps=CAPACITY_RPS)
    assert report.verdict(result).startswith("**The levels hold at 90.0 requests/s, 0.900 of the capacity**")


def test_bounds_of_the_mean_and_by_length_are_told_as_such() -> None:
    mean = replace(level("TTFT", 4000.0, 1000.0, 1.0), needed=0.0)
    assert "TTFT is 1.00 s in the mean of 4 s, 75 % to spare" in report.verdict(replace(replayed(), levels=(mean,)))
    by_length = replace(level("TTFT", 4000.0, 1000.0, 0.995), bound_ms=0.0)
    assert "keep the bound of their length where 99 % must" in report.verdict(replace(replayed(), levels=(by_length,)))


def test_the_page_has_every_part_and_survives_any_name() -> None:
    page = report.page_text(report.replay_page(replayed(), swept()))
    assert page.startswith("# Replay: two \\| buckets\n\n**The promise holds")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    first = ["Levels", "Times", "Goodput", "Where requests wait", "Islands"]
    assert headings == [f"## {heading}" for heading in (*first, "Over time", "Rates", "Left out", "Notes")]
    assert "| TTFT | 2,048–8,191 | 750 ms (712–788 ms) |" in page
    assert "| TTFT | 4 s | 99 % | 99.5 % (99.1–99.9 %) | 2.00 s (1.90–2.10 s) | yes |" in page
    assert "- 7 requests with prompts longer than the plan serves." in page
    assert "- At 60.0 s: prefill-1 loses 1 node." in page
    assert "**Levels hold up to 96.0 requests/s** (to 2.0), 1.07 of the promise" in page
    assert page.endswith("\n")


def test_many_buckets_stay_in_the_table() -> None:
    result = replayed()
    many = replace(result, buckets=tuple(replace(result.buckets[0], start=k, end=k + 1) for k in range(30)))
    assert "Figures of each of the 30 ranges of length are in groups.csv." in report.page_text(report.replay_page(many))
    assert len(report.replay_frame(many)) == 31


def test_a_wait_without_an_end_is_told_as_one() -> None:
    result = replayed()
    times = result.total.ttft_ms
    assert times is not None
    endless = replace(result, total=replace(result.total, ttft_ms=replace(times, p99=Spread(mean=math.inf))))
    assert "| no end |" in report.page_text(report.replay_page(endless))
    document = report.replay_document(endless)
    assert document["ttft_ms"]["p99"] is None
    json.dumps(document, allow_nan=False)


def test_frames_hold_the_record() -> None:
    result = replayed()
    frame = report.replay_frame(result)
    assert list(frame["group"]) == ["all", "bucket", "bucket"]
    assert list(frame["end"]) == [0, 2048, 8192]
    assert list(frame["ttft_ms_p99"]) == [2000.0, 1600.0, 3000.0]
    assert is_close(frame["ttft_ms_p99_high"][0], 2100.0)
    assert frame["place_ms_p50"].isna().all()
    islands = report.replay_islands_frame(result)
    assert list(islands["island"]) == ["prefill-1", "decode-1", "mixed-1"]
    assert list(islands["utilisation"]) == [use.utilisation.mean for use in result.islands]
    moments = report.replay_moments_frame(result)
    assert list(moments["late"]) == [moment.late for moment in result.moments]
    assert list(moments[moments["events"] != ""]["start_s"]) == [60.0]
    rates = report.replay_sweep_frame(swept())
    assert list(rates["rate_rps"]) == [50, 70, 85, 92, 96, 104]
    assert list(rates["holds"]) == [True] * 5 + [False]
    assert list(rates["TTFT: share"]) == [0.999] * 5 + [0.9]


def test_the_document_has_figures_of_all_and_of_each_bucket() -> None:
    document = report.replay_document(replayed(), swept())
    assert document["ttft_ms"] == {"p50": 500, "p90": 1000, "p95": 1250, "p99": 2000, "mean": 600}
    assert document["ttft_ms_ci"]["p99"] == [1900, 2100]
    assert set(document["tpot_ms"]) == set(document["end_to_end_ms"]) == set(document["ttft_ms"])
    assert (document["within_levels"], document["within_levels_ci"]) == (0.995, [0.991, 0.999])
    assert is_close(document["goodput_rps"], 0.995 * 90)
    assert [bucket["ttft_ms"]["p50"] for bucket in document["buckets"]] == [400, 750]
    assert [entry["island"] for entry in document["islands"]] == ["prefill-1", "decode-1", "mixed-1"]
    assert [entry["name"] for entry in document["levels"]] == ["TTFT", "TPOT"]
    assert document["bottleneck"] == "prefill of prompts of 2,048–8,191 tokens"
    assert document["held_rps"] == document["sweep"]["held_rps"] == 96
    assert len(document["sweep"]["rates"]) == 6
    assert document["holds"] is True
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_one_seed_has_no_intervals() -> None:
    result = replayed()
    total = replace(result.total, ttft_ms=None, within_levels=Spread(mean=0.995))
    alone = replace(result, seeds=(7,), total=total)
    document = report.replay_document(alone)
    assert (document["within_levels_ci"], document["ttft_ms"], document["ttft_ms_ci"]) == (None, None, None)
    assert "One seed, so no intervals" in report.page_text(report.replay_page(alone))


def test_the_figure_over_time_draws_the_moments_and_marks_the_failure() -> None:
    result = replayed()
    rates, in_flight, late = panels(report.replay_figure(result, "moments"))
    starts = [moment.start_s for moment in result.moments]
    assert drawn(rates, "arrived") == (starts, [moment.arrived / moment.seconds for moment in result.moments])
    assert drawn(rates, "finished")[1] == [moment.finished / moment.seconds for moment in result.moments]
    assert drawn(in_flight, "waiting for prefill")[1] == [moment.waiting for moment in result.moments]
    assert drawn(in_flight, "answering")[1] == [moment.answering for moment in result.moments]
    assert drawn(late, "late")[1] == [100 * moment.late / moment.arrived for moment in result.moments]
    for axes in (rates, in_flight, late):
        assert drawn(axes, "prefill-1 loses 1 node")[0] == [60.0]


def test_the_figure_of_islands_draws_their_use() -> None:
    result = replayed()
    (axes,) = panels(report.replay_figure(result, "islands"))
    busy, mean, most = axes.containers[:3]
    assert [bar.get_width() for bar in busy] == [100 * use.utilisation.mean for use in result.islands]
    assert [bar.get_width() for bar in mean] == [100 * use.kv_share.mean for use in result.islands]
    assert [bar.get_width() for bar in most] == [100 * use.most_kv_share.mean for use in result.islands]
    assert len({bars[0].get_hatch() for bars in (busy, mean, most)}) == 3  # told apart in grey, too
    assert axes.get_yticklabels()[0].get_text() == "prefill-1: 3 × H800"
    assert len({bar.get_y() for bars in (busy, mean, most) for bar in bars}) == 3 * len(result.islands)


def test_the_figure_of_rates_draws_times_bounds_promise_and_capacity() -> None:
    sweep = swept()
    ttft, tpot, kept = panels(report.replay_figure(sweep.results[-1], "sweep", sweep))
    late = next(line for line in ttft.lines if line.get_label() == "P99")
    assert list(late.get_xdata()) == [result.rate_rps for result in sweep.results]
    assert list(late.get_ydata()) == [r.total.ttft_ms.p99.mean for r in sweep.results if r.total.ttft_ms is not None]
    bound = next(line for line in ttft.lines if line.get_label() == "bound, 4000 ms")
    assert set(bound.get_ydata()) == {4000.0}
    for axes in (ttft, tpot, kept):
        upright = {line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1}
        assert upright == {PROMISE_RPS, CAPACITY_RPS, 96.0}
    assert ttft.collections  # bands of the seeds
    shares = next(line for line in kept.lines if line.get_label() == "within all levels")
    assert list(shares.get_ydata()) == [100 * result.total.within_levels.mean for result in sweep.results]


def test_another_figure_is_refused() -> None:
    with pytest.raises(InputError, match="must be one of moments, islands, got 'sweep'"):
        report.replay_figure(replayed(), "sweep")


def test_files_are_the_same_bytes_each_time_and_of_known_names() -> None:
    result, sweep = replayed(), swept()
    files = report.replay_files(result, sweep)
    assert set(files) == set(report.replay_file_names())
    assert files["figures/moments.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["figures/sweep.svg"]
    assert report.encode_figure(report.replay_figure(result, "moments")) == files["figures/moments.png"]
    assert json.loads(files["replay.json"]) == report.replay_document(result, sweep)
