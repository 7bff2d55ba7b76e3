"""A spot study as page and figures, from hand-made runs."""

from dataclasses import replace
from typing import Any

from planner.report import encode_figure
from planner.studies.spot.capacity import SpotLimits, capacity_of, curve_of
from planner.studies.spot.page import answer_words, spot_page
from planner.studies.spot.plots import spot_pictures
from planner.studies.spot.records import SpotFigures, SpotNode, SpotRun, SpotSample
from planner.studies.spot.study import SpotResults, SpotStudy

BASE = SpotFigures(**dict.fromkeys(SpotFigures.__slots__, 1.0))
KNOWN = {"evictions_per_job": 0.1, "due_done_percent": 97.0}
LIMITS = SpotLimits(most_evictions_per_job=0.5)


def run(policy: str, seed: int, load: float | None = 0.2, **figures: float | None) -> SpotRun:
    series = tuple(
        SpotSample(
            time_s=3600.0 * hour,
            hp_gpus=60.0 + hour,
            standby_gpus=5.0,
            spot_gpus=20.0,
            idle_gpus=20.0 - hour,
            waiting_jobs=hour,
            waiting_gpus=2 * hour,
            evictions=1,
            harvested_gpus=4.0,
            lending_nodes=2.0,
            published_harvest=0.9,
        )
        for hour in range(1, 13)
    )
    return SpotRun(policy=policy, seed=seed, spot_load=load, gpus=100, figures=replace(BASE, **figures), series=series)


RUNS = [
    run("random|x", 1, lost_gpu_h=100.0, spot_completion_mean_h=4.0, harvested_percent=None),
    run("random|x", 2, lost_gpu_h=300.0, spot_completion_mean_h=6.0, harvested_percent=None),
    run("spotgpu", 1, lost_gpu_h=20.0, spot_completion_mean_h=3.0, harvested_percent=None),
    run("spotgpu", 2, lost_gpu_h=60.0, spot_completion_mean_h=4.5, harvested_percent=None),
]
CURVE = curve_of(
    [
        run("spotgpu", 1, load, evictions_per_job=4 * load, goodput_gpu_h=100 * load, due_done_percent=97.0)
        for load in (0.1, 0.2)
    ],
    1.0,
)


def results(runs=RUNS, baseline="random|x", *, nodes=13, days=6.0, warm_up_days=1.0, **more) -> SpotResults:
    study = SpotStudy(
        nodes=tuple(SpotNode(name=str(k), gpus=8, cpus=64) for k in range(nodes)),
        policies=(),
        seeds=(),
        days=days,
        warm_up_days=warm_up_days,
    )
    return SpotResults(study=study, runs=runs, compared=runs, baseline=baseline, **more)


def page(name: str = "", **more: object) -> str:
    return spot_page(results(**more), name=name)


def test_the_page_tells_differences_seed_by_seed() -> None:
    text = page(name="a_b")
    assert "# Spot capacity: a\\_b" in text
    assert "13 nodes, 100 GPUs, spot jobs that ask for 20 % of the GPUs; 6 days, the first 1 not counted" in text
    assert (
        "**spotgpu against random\\|x: completion of spot jobs -25.0 ± 0.0 %, lost GPU-hours -80.0 ± 0.0 %.**" in text
    )
    assert "| Lost GPU-hours | 200 ± 1,271 | 40.0 ± 254 | -80.0 ± 0.0 % |" in text
    assert "used by spot jobs" not in text  # nothing was lent
    assert text.endswith("\n")


def test_one_seed_has_no_intervals_and_given_jobs_no_load() -> None:
    alone = [run("spotgpu", 1, None)]
    text = spot_page(results(alone, "spotgpu", nodes=1, days=1.0, warm_up_days=0.0))
    assert "±" not in text
    assert "given jobs" in text
    assert "against" not in text


def test_the_answer_in_words() -> None:
    answer = capacity_of(CURVE, "spotgpu", LIMITS)
    assert answer_words(answer, LIMITS) == (
        "spotgpu: with at most 0.5 evictions a spot job, the cluster carries up to 10 GPUs of spot load (10 % of its "
        "GPUs, 10 GPUs of it as kept work); at 20 GPUs there are 0.800 evictions a spot job (on a straight line the "
        "limit is met at 12)."
    )
    none = SpotLimits(most_evictions_per_job=0.1)
    assert answer_words(capacity_of(CURVE, "spotgpu", none), none).endswith(
        "none of the spot loads tried is carried; at 10 GPUs there are 0.400 evictions a spot job."
    )
    open_end = answer_words(capacity_of(CURVE, "spotgpu", SpotLimits()), SpotLimits())
    assert open_end.startswith("spotgpu: with no limit, the cluster carries up to 20 GPUs")
    assert open_end.endswith("the most that was tried.")
    text = page(points=CURVE, answers=[answer], limits=LIMITS)
    assert "## Spot load that the cluster carries" in text
    assert "| spotgpu | 20 | 20 | 20 |" in text


def test_rounding_is_no_interval_and_counts_have_no_point() -> None:
    same = [run("spotgpu", seed, spot_slowdown=1 + seed * 2e-16, spot_done=7 + seed, evictions=3) for seed in (1, 2, 3)]
    text = spot_page(results(same, "spotgpu", nodes=1, days=1.0, warm_up_days=0.0))
    assert "| Completion over work, due jobs | 1.00 ± 0 |" in text
    assert "| Evictions | 3 ± 0 |" in text
    assert "| Spot jobs done | 9 ± 2.48 |" in text
    assert "; 1 day, the first 0 not counted" in text
    assert "each policy's own finished jobs" in text


def test_a_backlog_in_words() -> None:
    points = curve_of([run("spotgpu", 1, 0.1, **KNOWN), run("spotgpu", 1, 0.2, **KNOWN | {"due_done_percent": 7})], 1.0)
    assert answer_words(capacity_of(points, "spotgpu", LIMITS), LIMITS).endswith(
        "; at 20 GPUs there is a backlog (7.0 % of the due jobs done, at least 90 % asked) (on a straight line the "
        "limit is met at 11)."
    )
    unknown = curve_of([run("spotgpu", 1, 0.1, **KNOWN | {"due_done_percent": None})], 1.0)
    assert answer_words(capacity_of(unknown, "spotgpu", LIMITS), LIMITS) == (
        "spotgpu: no job of the spot loads tried could be done in these days; nothing is known."
    )
    assert "| 20 | 20 | 1 | 7.0 |" in page(points=points)


def drawn(runs=RUNS, **more) -> dict[str, Any]:
    return {name: draw() for name, draw in spot_pictures(results(runs, **more)).items()}


def test_every_figure_is_drawn_and_again_the_same() -> None:
    first, again = (drawn(points=CURVE, limits=LIMITS) for _ in range(2))
    assert list(first) == ["allocation", "standby", "comparison", "curve"]
    assert list(spot_pictures(results(RUNS[:2]))) == ["allocation", "standby"]
    assert [encode_figure(first[name]) for name in first] == [encode_figure(again[name]) for name in again]


def test_the_standby_figure_shows_both_shares() -> None:
    ours, published = drawn()["standby"].axes[1].collections  # below the GPUs of the first policy
    assert {y for _, y in ours.get_offsets()} == {80.0}
    assert {y for _, y in published.get_offsets()} == {90.0}


def test_the_figures_show_the_figures() -> None:
    shown = drawn(points=CURVE, limits=LIMITS)
    bars = shown["comparison"].axes[0]
    assert [round(bar.get_width()) for bar in bars.patches][:4] == [-25, 0, 0, -80]
    titles = [axes.get_title(loc="left") for axes in shown["allocation"].axes]
    assert titles == ["GPUs over time: random|x", "GPUs over time: spotgpu"]
    held, both, lent = (list(line.get_ydata()) for line in shown["allocation"].axes[0].lines)
    assert held == [60.0 + hour for hour in range(1, 13)]
    assert (both, lent) == ([at + 20 for at in held], [at + 5 for at in held])
    assert len(shown["curve"].axes) == 3


def test_a_run_shorter_than_a_sample_says_so() -> None:
    assert "shorter than a sample" in drawn([replace(RUNS[0], series=())])["allocation"].axes[0].texts[0].get_text()
