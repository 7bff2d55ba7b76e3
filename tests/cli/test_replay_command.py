"""`planner replay`: what it replays, writes and prints, and what it refuses."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from command_line import TINY, Command

from planner import load_plan, pipeline
from planner.domain import LengthProfile, Phase, Plan, RequestTrace
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, Failure, ReplaySettings, SessionPace
from planner.domain.replay import (
    Moment,
    ReplayGroup,
    ReplayResult,
    ReplaySweep,
)
from planner.domain.serving.levels import LevelCheck, Spread
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE
from planner.runs.replays.replays import asked_of

Progress = Callable[[float], None]
DRAWN = ("--trace", "lengths")


def silent(_: float) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class StandIn:
    """In place of the engine: what it was asked, and a result of these levels."""

    share: float = 0.999
    plan: Plan | None = None
    trace: RequestTrace | LengthProfile | None = None
    settings: ReplaySettings | None = None
    rates: list[float] = field(default_factory=list)

    def result(self, plan: Plan, settings: ReplaySettings, rate_rps: float) -> ReplayResult:
        spread = Spread(mean=self.share)
        group = ReplayGroup(
            start=0,
            end=0,
            requests=100,
            rate_rps=rate_rps,
            within_levels=spread,
            goodput_rps=Spread(mean=self.share * rate_rps),
            ttft_ms=None,
            tpot_ms=None,
            end_to_end_ms=None,
            queue_ms=None,
            transfer_ms=None,
            place_ms=None,
            tokens_per_s_p05=None,
            hit_share=Spread(mean=0.0),
        )
        level = LevelCheck(
            phase=Phase.PREFILL,
            bound_ms=4000.0,
            needed=0.99,
            share=spread,
            value_ms=Spread(mean=2000.0),
        )
        moment = Moment(start_s=0, seconds=100, arrived=100, finished=100, late=0, waiting=1.0, answering=2.0)
        return ReplayResult(
            plan=plan.scenario.name,
            trace="mine",
            router=settings.router.name,
            arrivals=settings.arrivals.process.value,
            rate_rps=rate_rps,
            promise_rps=plan.buckets.promise_rps if plan.buckets else plan.throughput_rps,
            capacity_rps=plan.throughput_rps,
            seeds=settings.seeds,
            warm_up_s=0.0,
            seconds=100.0,
            total=group,
            buckets=(replace(group, end=8192),),
            islands=(),
            levels=(level,),
            moments=(moment,),
        )

    def replay(
        self,
        plan: Plan,
        trace: RequestTrace | LengthProfile,
        settings: ReplaySettings,
        rate_rps: float,
        progress: Progress = silent,
    ) -> ReplayResult:
        self.plan, self.trace, self.settings = plan, trace, settings
        self.rates.append(rate_rps)
        progress(0.5)
        return self.result(plan, settings, rate_rps)

    def sweep_rates(
        self, plan: Plan, _: RequestTrace | LengthProfile, settings: ReplaySettings, progress: Progress = silent
    ) -> ReplaySweep:
        progress(1.0)
        results = tuple(self.result(plan, settings, share * plan.throughput_rps) for share in (0.5, 1.0))
        return ReplaySweep(results=results, held_rps=results[0].rate_rps, step_rps=1.0)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in, in the engine's place."""
    stand_in = StandIn()
    monkeypatch.setattr(pipeline, "replay", stand_in.replay)
    monkeypatch.setattr(pipeline, "sweep_rates", stand_in.sweep_rates)
    return stand_in


def test_the_folder_is_written_whole_and_not_replaced(planner: Command, run: Path, engine: StandIn) -> None:
    typed = ("replay", run, *DRAWN, "--out", "r", "--fail", f"{load_plan(run).record.islands[0].id}@60")
    answer = planner(*typed, "--sweep")
    assert (answer.status, engine.rates) == (EXIT_DONE, [load_plan(run).promise_rps])
    assert answer.out.startswith("The promise holds at ")
    assert "Written to r" in answer.out
    assert "replay: 50 %" in answer.err
    names = [
        "figures",
        "groups.csv",
        "islands.csv",
        "moments.csv",
        "replay.json",
        "replay.md",
        "report.html",
        "sweep.csv",
    ]
    assert sorted(path.name for path in Path("r").iterdir()) == names
    assert sorted(path.stem for path in Path("r/figures").glob("*.svg")) == ["islands", "moments", "sweep"]
    document = json.loads(Path("r/replay.json").read_text())
    (group, _) = csv.DictReader(Path("r/groups.csv").read_text().splitlines())
    assert float(group["within_levels"]) == document["within_levels"] == 0.999
    assert document["events"][0]["at_s"] == 60
    again = planner(*typed)
    assert (again.status, len(engine.rates)) == (EXIT_BAD_INPUT, 1)  # refused before the work
    assert "already holds a result" in again.err
    assert planner(*typed, "--force", "--quiet").err.count("replay: ") == 0
    assert not Path("r/sweep.csv").exists()


def test_json_is_one_document(planner: Command, run: Path, engine: StandIn) -> None:
    answer = planner("replay", run, *DRAWN, "--json", "--sweep")
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.json["folder"] is None
    assert answer.json["held_rps"] == answer.json["sweep"]["rates"][0]["rate_rps"]
    assert answer.json["goodput_rps"] == pytest.approx(0.999 * answer.json["rate_rps"])


@pytest.mark.parametrize(("options", "status"), [((), EXIT_DONE), (("--strict",), EXIT_INFEASIBLE)])
def test_a_broken_promise_is_told_and_strict_exits_with_it(
    planner: Command, run: Path, engine: StandIn, options: tuple[str, ...], status: int
) -> None:
    engine.share = 0.9
    answer = planner("replay", run, *DRAWN, *options)
    assert answer.status == status
    assert answer.out.startswith("The promise breaks at ")


def test_the_rate_is_a_share_the_promise_or_a_number(planner: Command, run: Path, engine: StandIn) -> None:
    plan = load_plan(run)
    for word in ("0.5x", "promise", "12.5"):
        assert planner("replay", run, *DRAWN, "--rate", word).status == EXIT_DONE
    assert engine.rates == [pytest.approx(0.5 * plan.throughput_rps), plan.promise_rps, 12.5]


def test_a_table_promises_its_margin_too(planner: Command, table_run: Path, engine: StandIn) -> None:
    plan = load_plan(table_run)
    for words in (("--rate", "promise"), ()):
        assert planner("replay", table_run, *DRAWN, *words).status == EXIT_DONE
    assert engine.rates == [pytest.approx(0.9 * plan.throughput_rps)] * 2
    assert plan.promise_rps == engine.rates[0]


def test_settings_are_those_typed(planner: Command, run: Path, trace: Path, engine: StandIn) -> None:
    island = load_plan(run).record.islands[0].id
    options = ["--router", "least_work", "--variation", "4", "--between", "0:20", "--requests", "50", "--seeds", "4-5"]
    options += ["--warm-up", "0.2", "--storage-gb-s", "3", "--fail", f"{island}@9:2", "--fail", f"{island}@5:all"]
    assert planner("replay", run, "--trace", trace, *options).status == EXIT_DONE
    settings = engine.settings
    assert (settings.router.name, settings.requests, settings.seeds) == ("least_work", 50, (4, 5))
    assert (settings.warm_up, settings.storage_gb_s) == (0.2, 3)
    assert (settings.arrivals.process, settings.arrivals.variation) == (ArrivalProcess.GAMMA, 4)
    assert settings.arrivals.between == (0, 20)
    assert settings.failures == (Failure(island=island, at_s=5, nodes=0), Failure(island=island, at_s=9, nodes=2))
    assert isinstance(engine.trace, RequestTrace)
    assert len(engine.trace.arrival_s) == 60


def test_arrivals_of_the_trace_and_by_a_curve(planner: Command, run: Path, trace: Path, engine: StandIn) -> None:
    assert planner("replay", run, "--trace", trace, "--arrivals", "compressed").status == EXIT_DONE
    assert (engine.settings.arrivals.process, engine.settings.arrivals.compress) == (ArrivalProcess.TRACE, True)
    assert planner("replay", run, "--trace", trace, "--curve", "servegen-m-small").status == EXIT_DONE
    assert engine.settings.arrivals.process is ArrivalProcess.DIURNAL
    assert engine.settings.arrivals.curve.name == "servegen-m-small"


def test_closed_sessions_are_asked_for(planner: Command, run: Path, trace: Path, engine: StandIn) -> None:
    """With the trace's own arrivals, and the folder tells it; open ones are not mentioned."""
    for pace in ("open", "closed"):
        assert planner("replay", run, "--trace", trace, "--sessions", pace, "--out", pace).status == EXIT_DONE
    assert engine.settings.arrivals == ArrivalSettings(process=ArrivalProcess.TRACE, sessions=SessionPace.CLOSED)
    assert asked_of(Path("closed")).settings == engine.settings
    assert "sessions" not in Path("open/replay.json").read_text()


def test_a_trace_that_tells_no_sessions_cannot_be_closed(planner: Command, run: Path, trace: Path) -> None:
    answer = planner("replay", run, "--trace", trace, "--sessions", "closed")
    assert answer.status == EXIT_BAD_INPUT
    assert "must tell sessions and turns where sessions are closed; it tells none" in " ".join(answer.err.split())


def test_a_table_of_lengths_is_replayed_as_such(planner: Command, run: Path, engine: StandIn) -> None:
    assert planner("replay", run, "--trace", "azure-code-2023").status == EXIT_DONE
    assert isinstance(engine.trace, LengthProfile)
    assert engine.trace.requests == 8819


@pytest.mark.parametrize("options", [("--arrivals", "trace"), ("--arrivals", "compressed"), ("--between", "0:9")])
def test_a_table_of_lengths_has_no_times(planner: Command, run: Path, options: tuple[str, ...]) -> None:
    answer = planner("replay", run, *DRAWN, *options)
    assert answer.status == EXIT_BAD_INPUT
    assert "it is a table of lengths, which says nothing of when requests came" in " ".join(answer.err.split())


@pytest.fixture
def traced_run(planner: Command, trace: Path) -> Path:
    """A run of a scenario whose workload is a trace with columns that the scenario names."""
    text = trace.read_text().replace("ContextTokens", "a").replace("GeneratedTokens", "b")
    trace.write_text(text)
    workload = "{kind: trace, file: mine.csv, columns: {input_tokens: a, output_tokens: b}}"
    Path("traced.yaml").write_text(TINY.replace("workload: normal-500-2000", f"workload: {workload}"))
    assert planner("plan", "traced.yaml", "--out", "traced", "--quiet").status == EXIT_DONE
    return Path("traced")


def test_the_plan_s_own_trace_is_found_again(planner: Command, traced_run: Path, engine: StandIn) -> None:
    assert planner("replay", traced_run, "--arrivals", "trace").status == EXIT_DONE
    assert list(engine.trace.input_tokens)[:2] == [200, 213]
    Path("mine.csv").write_text(Path("mine.csv").read_text() + "40,5,5\n")
    changed = planner("replay", traced_run)
    assert changed.status == EXIT_DONE
    assert "not at hand unchanged: prompts and answers were drawn from the plan's own table of lengths" in " ".join(
        changed.err.split()
    )
    assert not isinstance(engine.trace, RequestTrace)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*DRAWN, "--rate", "fast"), "rate: must be a share of the capacity (0.9x), promise, or requests/s"),
        ((*DRAWN, "--rate", "-3x"), "rate: must be above 0"),
        ((*DRAWN, "--rate", "nanx"), "rate: must be a share"),
        ((*DRAWN, "--router", "best"), "router: must be one of llm-d, "),
        ((*DRAWN, "--arrivals", "weekly"), "arrivals: must be one of trace, "),
        ((*DRAWN, "--sessions", "shut"), "sessions: must be one of open, closed, got 'shut'"),
        ((*DRAWN, "--between", "9"), "--between: must be two seconds of the trace, got '9'"),
        ((*DRAWN, "--between", "9:3"), "between: must be two seconds of the trace, the first below the second"),
        ((*DRAWN, "--arrivals", "poisson", "--variation", "4"), "variation: goes with gamma and diurnal arrivals only"),
        ((*DRAWN, "--variation", "-4"), "variation: must be above 0"),
        ((*DRAWN, "--arrivals", "diurnal"), "curve: must be given with diurnal arrivals"),
        ((*DRAWN, "--arrivals", "gamma", "--curve", "x"), "curve: goes with diurnal arrivals only"),
        ((*DRAWN, "--curve", "no-such"), "There is no rate curve 'no-such'"),
        ((*DRAWN, "--requests", "0"), "requests: must be from 1 to"),
        ((*DRAWN, "--seeds", "0"), "--seeds: must be from 1 to 1000 seeds, got '0'"),
        ((*DRAWN, "--seeds", "1,1"), "--seeds: must name each seed once"),
        ((*DRAWN, "--warm-up", "1"), "warm_up: must be a share of the requests"),
        ((*DRAWN, "--storage-gb-s", "0"), "storage_gb_s: must be above 0"),
        ((*DRAWN, "--fail", "somewhere"), "--fail: must be ISLAND@SECONDS or ISLAND@SECONDS:NODES"),
        ((*DRAWN, "--fail", "nowhere@5"), "fail: must name an island of the plan ("),
        (("--trace", "missing.csv"), "missing.csv"),
        (("--trace", "no-such-workload"), "There is no workload 'no-such-workload'"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    planner: Command, run: Path, engine: StandIn, options: tuple[str, ...], said: str
) -> None:
    answer = planner("replay", run, *options)
    assert answer.status == EXIT_BAD_INPUT
    assert said in " ".join(answer.err.split())
    assert engine.rates == []


def test_a_failure_after_the_last_request_is_noted(planner: Command, run: Path, engine: StandIn) -> None:
    island = load_plan(run).record.islands[0].id
    answer = planner("replay", run, *DRAWN, "--fail", f"{island}@500")
    assert f"{island} loses 1 node at 500 s: after the last request, so nobody met it." in answer.err


def test_python_has_the_same(run: Path, engine: StandIn) -> None:
    plan = load_plan(run)
    replay = plan.replay("lengths", "0.5x", router="random", seeds=2, arrivals="gamma", variation=3.0)
    assert (engine.settings.router.name, engine.settings.seeds) == ("random", (0, 1))
    assert engine.settings.arrivals.variation == 3.0
    assert replay.holds
    assert replay.record.plan in replay._repr_html_()
    assert replay.summary().startswith("# Replay: tiny\n")
    assert list(replay.frame["group"]) == ["all", "bucket"]
    assert len(replay.moments) == 1
    assert replay.figure("moments").axes
    assert "holds at" in repr(replay)
    sweep = plan.sweep("lengths")
    assert sweep.held_rps == pytest.approx(0.5 * plan.throughput_rps)
    assert list(sweep.frame["holds"]) == [True, True]
    assert sweep.figure().axes
    assert sweep.summary().startswith("# Rates: tiny\n\n**Levels hold up to")


def test_requests_run_through_the_plan_itself(planner: Command, run: Path) -> None:
    """No stand-in: figures that belong together agree, the same seeds give the same document."""
    island = load_plan(run).record.islands[0].id
    typed = ("replay", run, *DRAWN, "--rate", "0.5x", "--requests", "400", "--seeds", "2", "--fail", f"{island}@1:all")
    answer = planner(*typed, "--json")
    assert answer.status == EXIT_DONE
    document = answer.json
    assert document["requests"] == 2 * 360  # of each seed a tenth is warm-up
    assert document["levels"] == []  # the scenario has none
    assert "mean answer to prompts of their length" in " ".join(document["notes"])
    for key in ("ttft_ms", "tpot_ms", "end_to_end_ms"):
        times = document[key]
        assert 0 < times["p50"] <= times["p90"] <= times["p95"] <= times["p99"]
        low, high = document[f"{key}_ci"]["p50"]
        assert low <= times["p50"] <= high
    assert document["goodput_rps"] == pytest.approx(document["within_levels"] * document["arrived_rps"], rel=0.02)
    served = {entry["island"]: entry["requests"] for entry in document["islands"]}
    decoders = [i.id for i in load_plan(run).record.islands if i.phase is not Phase.PREFILL]
    assert sum(served[name] for name in decoders) == document["requests"]
    assert document["events"] == [{"at_s": 1.0, "what": f"{island} loses all its servers"}]
    assert sum(moment["arrived"] for moment in document["moments"]) == 360
    assert planner(*typed, "--json").json == document


def test_bursts_and_rates_of_a_trace(planner: Command, run: Path, trace: Path) -> None:
    """The trace's own times, twice: once compressed, and a sweep of rates on few requests."""
    for arrivals in ("trace", "compressed"):
        answer = planner("replay", run, "--trace", trace, "--arrivals", arrivals, "--requests", "900", "--seeds", "1")
        assert answer.status == EXIT_DONE
        assert answer.out.startswith("The fleet keeps up at ")
    options = ("--requests", "100", "--seeds", "1", "--sweep", "--quiet")
    answer = planner("replay", run, "--trace", trace, *options, "--out", "swept", "--json")
    assert answer.status == EXIT_DONE
    rates = answer.json["sweep"]["rates"]
    assert [rate["rate_rps"] for rate in rates] == sorted(rate["rate_rps"] for rate in rates)
    held = [rate["rate_rps"] for rate in rates if rate["holds"] is not False]
    assert answer.json["held_rps"] in held
    rows = list(csv.DictReader(Path("swept/sweep.csv").read_text().splitlines()))
    assert [float(row["rate_rps"]) for row in rows] == pytest.approx([rate["rate_rps"] for rate in rates])
