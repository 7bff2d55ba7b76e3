"""`planner observe`: a replay of the plan on slower GPUs stands for what runs, and is found out."""

import csv
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from hypothesis import given
from hypothesis import strategies as st
from observed_answers import answer, on_other_gpus, series, write
from reference_data import reference_text

from planner import files, load_plan, pipeline
from planner.domain import Phase, Plan
from planner.domain.serving.observed import Observation, Quantity, Verdict
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, InputError
from planner.export import island_labels, plan_label
from planner.runs.live.observing import observe_run

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan, small_trace

SPLIT, WIDE, BOTH = "dense, with levels", "one node type, no levels", "aggregated"
SLOW = 0.8
Rows = list[tuple[dict[str, str], float]]


@cache
def answers_at(name: str, pace: float, load: float, *, at_decode: bool = False) -> Rows:
    """What the plan's deployment tells on GPUs of that pace, at that share of the plan's capacity."""
    plan = small_plan(name)
    other = on_other_gpus(plan, pace)
    return list(series(other, small_trace(name), load * plan.throughput_rps, at_decode=at_decode))


def observed(name: str, rows: Rows, folder: Path) -> Observation:
    path = write(folder / "answer.json", answer(rows))
    return observe_run(small_plan(name), [path]).observation


def figures(observation: Observation, subject: str = "") -> dict[str, Any]:
    return {figure.name: figure for figure in observation.figures if not subject or figure.subject == subject}


def island_of(name: str, phase: Phase) -> str:
    return next(island.id for island in small_plan(name).islands if island.phase is phase)


@pytest.mark.parametrize("name", [SPLIT, WIDE])
def test_the_plan_itself_is_found_as_planned(name: str, tmp_path: Path) -> None:
    observation = observed(name, answers_at(name, 1.0, 0.9), tmp_path)
    decode = next(island for island in observation.islands if island.phase is Phase.DECODE)
    assert decode.pace == pytest.approx(1.0, abs=0.03)
    assert figures(observation, decode.island)["decode step"].verdict is Verdict.AS_PLANNED
    assert figures(observation)["TPOT P50"].verdict is Verdict.AS_PLANNED
    assert not any("steps take" in line for line in observation.advice)


@pytest.mark.parametrize("name", [SPLIT, pytest.param(WIDE, marks=pytest.mark.study)])
def test_slower_gpus_are_found(name: str, tmp_path: Path) -> None:
    slow, full = (observed(name, answers_at(name, pace, 1.3), tmp_path) for pace in (SLOW, 1.0))
    for before, after in zip(full.islands, slow.islands, strict=True):
        assert before.pace == pytest.approx(1.0, abs=0.03)
        assert after.pace is not None
        assert after.pace == pytest.approx(SLOW, abs=0.03)
        assert any(f"{after.island}: its steps take" in line for line in slow.advice)


def test_a_calibration_makes_the_formulas_tell_the_measured_steps(tmp_path: Path) -> None:
    for name in (SPLIT, WIDE):
        plan = small_plan(name)
        path = write(tmp_path / "answer.json", answer(answers_at(name, SLOW, 1.3)))
        run = observe_run(plan, [path])
        assert {p.measurement.phase for p in run.fit.points} == {Phase.PREFILL, Phase.DECODE}
        for point in run.fit.points:
            assert point.before_ms < 0.9 * point.measurement.ms
            assert point.after_ms == pytest.approx(point.measurement.ms, rel=0.03)
        written = tmp_path / "calibration.yaml"
        written.write_bytes(run.files["calibration.yaml"])
        assert files.load_calibration(written) == run.fit.calibration
        settings = replace(plan.scenario.cost, calibration=run.fit.calibration)
        again = replace(plan, scenario=replace(plan.scenario, cost=settings))
        observation = observe_run(again, [path]).observation
        assert all(island.pace == pytest.approx(1.0, abs=0.03) for island in observation.islands)


@pytest.mark.parametrize("name", [SPLIT, pytest.param(WIDE, marks=pytest.mark.study)])
def test_planned_again_with_the_calibration_is_planned_for_what_runs(name: str, tmp_path: Path) -> None:
    plan = small_plan(name)
    run = observe_run(plan, [write(tmp_path / "answer.json", answer(answers_at(name, SLOW, 1.3)))])
    cost = replace(plan.scenario.cost, calibration=run.fit.calibration)
    again = pipeline.plan(replace(plan.scenario, cost=cost)).throughput_rps
    truth = pipeline.plan(on_other_gpus(plan, SLOW).scenario).throughput_rps
    assert plan.throughput_rps > 1.15 * truth
    assert again == pytest.approx(truth, rel=0.03)


def test_a_second_calibration_keeps_what_no_step_bears_on(tmp_path: Path) -> None:
    plan = small_plan(SPLIT)
    path = write(tmp_path / "answer.json", answer(answers_at(SPLIT, SLOW, 1.3)))
    first = observe_run(plan, [path]).fit
    factor = replace(first.calibration.factors[0], family="cdna3", value=0.33)
    base = replace(first.calibration, factors=(*first.calibration.factors, factor))
    again = replace(plan, scenario=replace(plan.scenario, cost=replace(plan.scenario.cost, calibration=base)))
    second = observe_run(again, [path]).fit
    names = [(f.name, f.family) for f in second.calibration.factors]
    assert factor in second.calibration.factors
    assert len(names) == len(set(names))


def test_islands_that_idle_tell_no_step(tmp_path: Path) -> None:
    observation = observed(SPLIT, answers_at(SPLIT, 1.0, 0.05), tmp_path)
    prefill = next(island for island in observation.islands if island.phase is Phase.PREFILL)
    assert prefill.measurement is None
    assert "its steps were part full" in prefill.why_not
    assert any(prefill.why_not in note for note in observation.notes)
    whole = figures(observation, "all requests")["requests"]
    assert (whole.verdict, whole.basis) == (Verdict.UNKNOWN, "less was asked for than is promised")
    plan = small_plan(SPLIT)
    idle = replace(observation, islands=tuple(replace(i, measurement=None) for i in observation.islands))
    with pytest.raises(InputError, match="nothing is to calibrate"):
        pipeline.calibrate_observed(plan, idle, "x")


def test_servers_of_both_phases_tell_no_step(tmp_path: Path) -> None:
    observation = observed(BOTH, answers_at(BOTH, SLOW, 0.9), tmp_path)
    assert [island.measurement for island in observation.islands] == [None]
    assert "both phases" in observation.islands[0].why_not
    assert figures(observation)["TTFT P50"].basis.startswith("of the servers that do both phases")
    assert "calibration.yaml" not in observe_run(small_plan(BOTH), [tmp_path / "answer.json"]).files


def test_ttft_is_put_together_as_the_engine_tells_it(tmp_path: Path) -> None:
    """Prefill servers' and the mean of decode servers', or the user's own: the replay's requests are the same."""
    apart, whole = (
        figures(observed(SPLIT, answers_at(SPLIT, 1.0, 0.9, at_decode=at_decode), tmp_path))
        for at_decode in (False, True)
    )
    assert "on top" in apart["TTFT P50"].basis
    assert "the user's own" in whole["TTFT P50"].basis
    names = [name for name in whole if name.startswith("TTFT P")]
    assert len(names) == 2  # the middle and the percentile asked for
    for name in names:
        assert apart[name].measured == pytest.approx(whole[name].measured, rel=0.2)  # classes of histograms


def changed(rows: Rows, quantity: Quantity, factor: float, island: str = "") -> Rows:
    labels = {name: label for label, name in island_labels(small_plan(SPLIT)).items()}
    wanted = labels.get(island, "")
    return [
        (names, value * factor if names["__name__"] == quantity and wanted in ("", names["planner_island"]) else value)
        for names, value in rows
    ]


def test_advice_names_the_cause(tmp_path: Path) -> None:
    rows = answers_at(SPLIT, 1.0, 0.9)
    prefill = island_of(SPLIT, Phase.PREFILL)
    cases = {
        "1 of 2 attention groups were scraped": changed(rows, Quantity.RANKS, 0.5, prefill),
        "plan again with a trace of these days": changed(rows, Quantity.PROMPT_TOKENS, 1.5),
        "The halves do not agree": changed(rows, Quantity.REQUESTS, 0.5, island_of(SPLIT, Phase.DECODE)),
        "More requests come": answers_at(SPLIT, 1.0, 1.3),
        "its steps take": answers_at(SPLIT, SLOW, 1.3),
    }
    for words, case in cases.items():
        observation = observed(SPLIT, case, tmp_path)
        assert any(words in line for line in (*observation.advice, *observation.notes)), words


@given(
    dropped=st.sets(st.sampled_from(sorted(Quantity)), max_size=6),
    factors=st.dictionaries(st.sampled_from(sorted(Quantity)), st.sampled_from([0.0, 1e-6, 0.5, 3.0, 1e6]), max_size=4),
)
def test_whatever_is_told_is_compared_or_refused(
    dropped: set[Quantity], factors: dict[Quantity, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [
        (names, value * factors.get(Quantity(names["__name__"]), 1.0))
        for names, value in answers_at(SPLIT, 1.0, 1.3)
        if names["__name__"] not in dropped
    ]
    path = write(tmp_path_factory.getbasetemp() / "drawn.json", answer(rows))
    try:
        seen = observe_run(small_plan(SPLIT), [path])
    except InputError:
        return
    assert {"observe.md", "observe.csv", "observe.json"} <= set(seen.files)
    for island in seen.observation.islands:
        assert (island.measurement is None) == bool(island.why_not)
        assert (island.pace is None) == (island.measurement is None)


def test_what_a_real_prometheus_answers_is_compared(tmp_path: Path) -> None:
    answers = json.loads(reference_text("prometheus/answers.json"))["query_range"]
    paths = [write(tmp_path / f"{name}.json", document) for name, document in answers.items()]
    observation = observe_run(small_plan(SPLIT), paths).observation
    assert observation.rate_rps == pytest.approx(4.0)
    assert observation.samples == 4
    measured_figures = figures(observation)
    # of the prefill servers 0.5 s, and 0.12 s on top, the mean of the decode servers'
    assert measured_figures["TTFT P50"].measured == pytest.approx(620)
    assert measured_figures["decode step"].measured == pytest.approx(19.5)
    prefill = next(island for island in observation.islands if island.phase is Phase.PREFILL)
    assert prefill.measurement.kv_cache_rate == pytest.approx(0.25)


def test_a_plan_without_buckets_is_compared_by_rates_and_steps(tmp_path: Path) -> None:
    plan = small_plan(SPLIT)
    table = replace(plan, buckets=None)
    path = write(tmp_path / "answer.json", answer(answers_at(SPLIT, SLOW, 1.3)))
    observation = observe_run(table, [path]).observation
    assert not any(figure.name.startswith(("TTFT", "TPOT")) for figure in observation.figures)
    assert figures(observation, "all requests")["requests"].promised == table.outlook.promise_rps
    assert table.outlook.promise_rps == plan.scenario.routing.margin * plan.throughput_rps
    assert all(island.pace is not None for island in observation.islands)


BAD: dict[str, tuple[Any, str]] = {
    "another plan": (
        lambda rows: [({**names, "planner_plan": "other"}, v) for names, v in rows],
        "must be of plan 'small'",
    ),
    "an island that is none": (
        lambda rows: [({**names, "planner_island": names["planner_island"] + "-gone"}, v) for names, v in rows],
        "the island must be one of",
    ),
    "no load": (lambda rows: [(names, 0.0) for names, _ in rows], "no request ended in it"),
    "no requests": (
        lambda rows: [row for row in rows if row[0]["__name__"] != Quantity.REQUESTS],
        "must hold planner:requests:rate",
    ),
    "no last class": (lambda rows: [row for row in rows if row[0].get("le") != "+Inf"], "must have a class up to +Inf"),
}


@pytest.mark.parametrize("name", BAD)
def test_answers_that_do_not_suit_the_plan_are_refused(name: str, tmp_path: Path) -> None:
    change, words = BAD[name]
    with pytest.raises(InputError) as refusal:
        observed(SPLIT, change(answers_at(SPLIT, 1.0, 0.9)), tmp_path)
    assert words in refusal.value.message
    assert refusal.value.hint


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("observed") / "run"
    folder.mkdir()
    (folder / "plan.json").write_bytes(files.encode_plan(small_plan(SPLIT)))
    return folder


def answered(rows: Rows) -> Path:
    return write(Path("answer.json"), answer(rows))


def test_the_command_writes_page_table_json_and_calibration(planner: Command, run: Path) -> None:
    given = answered(answers_at(SPLIT, SLOW, 1.3))
    done = planner("observe", run, given, "--out", "seen")
    assert done.status == EXIT_DONE, done.err
    assert "Not as planned" in done.out
    names = {path.name for path in Path("seen").iterdir()}
    assert names == {"observe.md", "observe.csv", "observe.json", "calibration.yaml"}
    document = json.loads(Path("seen/observe.json").read_text())
    with Path("seen/observe.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(document["figures"])
    assert [row["verdict"] for row in rows] == [figure["verdict"] for figure in document["figures"]]
    paces = {island["phase"]: island["pace"] for island in document["islands"]}
    assert all(0.7 < pace < 0.9 for pace in paces.values())
    page = Path("seen/observe.md").read_text()
    assert "## What to do" in page
    assert "cost.calibration" in page
    assert planner("observe", run, given, "--out", "seen").status == EXIT_BAD_INPUT
    before = {path.name: path.read_bytes() for path in Path("seen").iterdir()}
    assert planner("observe", run, given, "--out", "seen", "--force").status == EXIT_DONE
    assert {path.name: path.read_bytes() for path in Path("seen").iterdir()} == before


def test_json_is_the_document(planner: Command, run: Path) -> None:
    done = planner("observe", run, answered(answers_at(SPLIT, 1.0, 0.9)), "--json")
    document = json.loads(done.out)
    assert document["plan"] == "small"
    assert document["folder"] is None
    assert document["rate_rps"] == pytest.approx(0.9 * small_plan(SPLIT).throughput_rps, rel=0.05)


def test_queries_are_printed_as_commands(planner: Command, run: Path) -> None:
    done = planner("observe", run, "--queries")
    assert done.status == EXIT_DONE
    assert f'planner_plan="{plan_label(small_plan(SPLIT))}"' in done.out
    assert "recorded.json" in done.out
    plain = planner("observe", run, "--queries", "--window", "1h", "--json")
    assert set(json.loads(plain.out)) == {quantity.name.lower() for quantity in Quantity if quantity.is_recorded}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "must get one of answer files, --prometheus and --queries"),
        (("answer.json", "--queries"), "must get one of answer files, --prometheus and --queries"),
        (("--queries", "--window", "ever"), "--window: must be a time"),
        (("answer.json", "--window", "1h"), "must be left out with answer files"),
        (("gone.json",), "gone.json"),
        (("--queries", "--engine", "other"), "Engine 'other'"),
    ],
)
def test_what_cannot_be_asked_is_refused(planner: Command, run: Path, arguments: tuple[str, ...], words: str) -> None:
    answered(answers_at(SPLIT, 1.0, 0.9))
    done = planner("observe", run, *arguments)
    assert done.status == EXIT_BAD_INPUT
    assert words in done.err
    assert not Path("seen").exists()


def test_in_a_notebook(run: Path) -> None:
    given = answered(answers_at(SPLIT, 1.0, 0.9))
    seen = load_plan(run).observe(given)
    assert len(seen.frame) == len(seen.record.figures)
    assert "as planned" in repr(seen).lower()
    assert seen.summary().startswith("# Plan small")


def test_labels_lead_back_to_islands() -> None:
    plan: Plan = small_plan(SPLIT)
    assert set(island_labels(plan).values()) == {island.id for island in plan.islands if island.phase is not None}
