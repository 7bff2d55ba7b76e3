"""Proofs with the load generator's own program: before a rehearsal's simulated engines they say what the rehearsal
does, before slower ones by how much they are slower; and nothing beyond the bounds is sent."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from contract_plans import two_range_plan
from counting_engine import CountingEngine, open_engine
from test_routers_rehearsed import programs, with_levels
from tools import locations

from planner.domain import Phase, Plan, SloSettings
from planner.domain.serving.levels import Standing
from planner.domain.serving.observed import Verdict
from planner.errors import InputError, PlannerError
from planner.files import load_calibration
from planner.files.plan.digests import read_sealed
from planner.plans.observed.paced import paced_calibration
from planner.runs.live.proving import generator, measuring
from planner.runs.live.proving import settings as proof_settings
from planner.runs.live.proving.proving import PreparedProof
from planner.runs.live.proving.records import Proof
from planner.runs.live.proving.settings import ProofSettings
from planner.runs.live.proving.writing import proof_files
from planner.runs.rehearsal.clock import PlanClock
from planner.runs.rehearsal.records import Rehearsal
from planner.runs.rehearsal.rehearsing import Prepared, rehearse
from planner.runs.rehearsal.running import perform
from planner.runs.rehearsal.settings import RehearsalSettings

COUNT, RATE_RPS, SEED = 120, 5.0, 3
_SLOWER = 6.0
"""Times that the plan's steps are as long as usual ones: a few ms of this machine's are little of them."""


_LONGER = 1.15
"""Times that the engines' steps are as long as those that are planned."""

_START_S = 60.0
"""More than the load generator takes to start on a busy machine."""


def slow_plan(slower: float) -> Plan:
    """Short prompts keep their bound on TTFT, longer ones do not."""
    plan = with_levels(two_range_plan())
    slow = paced_calibration(plan, {Phase.PREFILL: slower, Phase.DECODE: slower}, "slow", "made up")
    assert slow is not None
    cost = replace(plan.scenario.cost, calibration=slow.calibration)
    slo = SloSettings(ttft_ms=2500.0, tpot_ms=2000.0)
    return replace(plan, scenario=replace(plan.scenario, cost=cost, slo=slo))


@dataclass(slots=True)
class Outside:
    """Work of another program on an open stage, of its URL."""

    url: str
    work: Callable[[str], list[Proof]]
    proofs: list[Proof] = field(default_factory=list)

    async def send(self, limit_s: float, _progress: Callable[[float], None], /) -> None:
        """Do it beside the stage's own loop."""
        async with asyncio.timeout(limit_s):
            self.proofs = await asyncio.to_thread(self.work, self.url)


def settings_for(url: str, **changes: object) -> ProofSettings:
    locations.require("aiperf")
    programs = {generator.NAME: locations.load_generator()}
    settings = ProofSettings(url=url, rate_rps=RATE_RPS, requests=COUNT, minutes=3, seed=SEED, programs=programs)
    return replace(settings, **changes)  # type: ignore[arg-type]


def rehearsal_settings() -> RehearsalSettings:
    return RehearsalSettings(
        router="haproxy",
        rate_rps=RATE_RPS,
        requests=COUNT,
        seed=SEED,
        slower=1.0,
        length_spread=0.0,
        programs=programs(),
    )


@pytest.fixture(scope="module")
def rehearsal() -> Rehearsal:
    plan = slow_plan(_SLOWER * _LONGER)
    return rehearse(plan, plan.scenario.workload, rehearsal_settings())


_LOADS = 3
"""A busy machine answers late and skews times: the load is sent again, and only where all are skewed a test fails."""


@pytest.fixture(scope="module")
def proofs() -> list[Proof]:
    """One load of simulated engines, judged by the plan that they are as fast as, and by one that takes them to be
    faster."""
    for _ in range(_LOADS):
        pair = loaded()
        factors = [fitted.factor for fitted in pair[0].time_factors]
        if len(factors) == len(pair[1].time_factors) == 2 and factors == pytest.approx([1.0, 1.0], abs=0.03):
            break
    return pair


def loaded() -> list[Proof]:
    """One load before engines of the first plan, judged by each of the two."""
    plans = [slow_plan(_SLOWER * _LONGER), slow_plan(_SLOWER)]
    prepared = Prepared(plans[0], plans[0].scenario.workload, rehearsal_settings())
    stage = prepared.stage(prepared.replay.requests(RATE_RPS, SEED), PlanClock(1.0))
    send, sent = generator.send, list[generator.Sent]()

    def send_once(*words: Any) -> generator.Sent:
        sent.append(sent[0] if sent else send(*words))
        return sent[0]

    def work(url: str) -> list[Proof]:
        settings = settings_for(url, router="haproxy")
        loads = [PreparedProof(plan, plan.scenario.workload, settings) for plan in plans]
        assert loads[0].requests == loads[1].requests
        return [load.run() for load in loads]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "send", send_once)
        outside = perform((stage,), lambda url: Outside(url, work), 180, lambda _: None)
    assert len(sent) == 2
    return outside.proofs


@pytest.fixture(scope="module")
def proof(proofs: list[Proof]) -> Proof:
    return proofs[0]


@pytest.fixture(scope="module")
def slower_proof(proofs: list[Proof]) -> Proof:
    return proofs[1]


def test_every_level_and_bucket_is_as_rehearsed(rehearsal: Rehearsal, proof: Proof) -> None:
    assert proof.failures == rehearsal.failures == ()
    assert proof.standing is rehearsal.standing is Standing.BREAKS
    assert [level.name for level in proof.measured.levels] == [level.name for level in rehearsal.rehearsed.levels]
    pairs = list(zip(proof.measured.levels, rehearsal.rehearsed.levels, strict=True))
    assert [first.standing for first, _ in pairs] == [other.standing for _, other in pairs]
    assert {first.standing for first, _ in pairs} == {Standing.HOLDS, Standing.BREAKS}
    for first, other in pairs:
        assert first.requests == other.requests
        assert first.time_ms == pytest.approx(other.time_ms, rel=0.1)
    buckets = zip(proof.measured.buckets, rehearsal.rehearsed.buckets, strict=True)
    assert all(first.requests == other.requests for first, other in buckets)


def test_engines_as_fast_as_planned_ask_for_nothing(proof: Proof) -> None:
    assert [fitted.phase for fitted in proof.time_factors] == [Phase.PREFILL, Phase.DECODE]
    assert all(fitted.factor == pytest.approx(1.0, abs=0.03) for fitted in proof.time_factors)
    late = [figure.name for figure in proof.figures if figure.verdict is Verdict.WORSE]
    assert not [name for name in late if name.startswith("TPOT")]
    assert proof.kept_up


def test_engines_that_are_slower_are_found_with_how_much(proofs: list[Proof], tmp_path: Path) -> None:
    """By what it is more than as fast as planned: both judge one load, which a busy machine answers late."""
    planned, slower_proof = proofs
    usual = {fitted.phase: fitted.factor for fitted in planned.time_factors}
    factors = {fitted.phase: fitted for fitted in slower_proof.time_factors}
    assert {phase: fitted.factor / usual[phase] for phase, fitted in factors.items()} == pytest.approx(
        dict.fromkeys((Phase.PREFILL, Phase.DECODE), _LONGER), abs=0.03
    )
    assert all(fitted.low > 1.05 for fitted in factors.values())
    late = [figure.name for figure in slower_proof.figures if figure.verdict is Verdict.WORSE]
    assert "TPOT P50" in late
    assert [line.partition(" steps take ")[0] for line in slower_proof.advice] == ["Prefill", "Decode"]
    path = tmp_path / "calibration.yaml"
    path.write_bytes(proof_files(slower_proof)["calibration.yaml"])
    paces = {factor.name: factor.value for factor in load_calibration(path).factors if factor.gpus}
    expected = {f"pace_{phase}": 1 / (_SLOWER * fitted.factor) for phase, fitted in factors.items()}
    assert paces == pytest.approx(expected)


def test_its_files_tell_all_levels_and_are_sealed(slower_proof: Proof, tmp_path: Path) -> None:
    files = proof_files(slower_proof)
    assert set(files) == {"prove.md", "prove.json", "prove.csv", "calibration.yaml"}
    (tmp_path / "prove.json").write_bytes(files["prove.json"])
    document = read_sealed(tmp_path / "prove.json").plain()
    assert document["holds"] is False
    (tmp_path / "prove.json").write_bytes(files["prove.json"].replace(b'"holds": false', b'"holds": true', 1))
    with pytest.raises(InputError):
        read_sealed(tmp_path / "prove.json")
    page = files["prove.md"].decode()
    assert f"**The levels break at {RATE_RPS:.2f} requests/s" in page
    assert all(level.name in page for level in slower_proof.measured.levels)
    assert len(files["prove.csv"].splitlines()) == len(slower_proof.figures) + 1


KEY = "k3y-of-nobody-77"


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short allowances, and temporary folders where a test can look: a short path, as sockets have one there."""
    for module in (proof_settings, generator, measuring):
        monkeypatch.setattr(module, "DRAIN_S", 2.0)
    monkeypatch.setattr(proof_settings, "START_S", _START_S)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        assert list(Path(folder).iterdir()) == []  # nothing is left


def test_no_more_is_sent_than_was_allowed_and_the_key_is_kept(bounded: Path) -> None:
    plan, texts = with_levels(two_range_plan()), list[str]()

    def listen(_done: float) -> None:
        listed = subprocess.run(("ps", "-eo", "args"), check=True, capture_output=True, text=True)
        written = [path.read_bytes().decode("utf-8", "replace") for path in bounded.rglob("*") if path.is_file()]
        texts.extend((listed.stdout, *written))

    with open_engine(CountingEngine(failing=5)) as engine:
        settings = settings_for(engine.url, requests=500, minutes=(_START_S + 6) / 60, key=KEY)
        prepared = PreparedProof(plan, plan.scenario.workload, settings)
        scheduled = len(prepared.requests)
        start_s = time.monotonic()
        proof = prepared.run(listen)
    assert 0 < scheduled < 50  # 4 s of 5 requests/s, of 500
    assert len(engine.posts) == scheduled == len(proof.requests)
    assert max(moment for moment, _, _ in engine.posts) - start_s < _START_S + 6
    assert {headers["Authorization"] for _, headers, _ in engine.posts} == {f"Bearer {KEY}"}
    assert engine.gets[0]["Authorization"] == f"Bearer {KEY}"
    assert {body["ignore_eos"] for _, _, body in engine.posts} == {True}
    assert len(texts) > 10
    assert not any(KEY in text for text in texts)
    assert KEY not in repr(settings)
    assert not any(KEY.encode() in content for content in proof_files(proof).values())
    assert [why.partition(":")[0] for why, _ in proof.failures] == ["503"]
    assert sum(count for _, count in proof.failures) == scheduled // 5
    assert any("of 500 requests fitted" in note for note in proof.notes)


@pytest.mark.usefixtures("bounded")
def test_a_generator_that_goes_on_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks without end, in a child that heeds no signal but the last."""
    monkeypatch.setattr(proof_settings, "START_S", 0.1)
    plan = with_levels(two_range_plan())
    asks = "import sys, signal, urllib.request\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n"
    asks += "    urllib.request.urlopen(sys.argv[1] + '/v1/chat/completions', b'{\"max_tokens\": 1}').read()\n"
    with open_engine(CountingEngine()) as engine:
        words = ("sh", "-c", 'trap "" TERM; "$0" -c "$1" "$2" & wait', sys.executable, asks, engine.url)
        settings = replace(settings_for(engine.url, minutes=3 / 60), programs={generator.NAME: words})
        prepared = PreparedProof(plan, plan.scenario.workload, settings)
        with pytest.raises(PlannerError, match="had no answer within"):
            prepared.run()
        asked = len(engine.posts)
        time.sleep(1.0)
        assert len(engine.posts) == asked > 0


def test_without_the_generator_nothing_is_asked_and_the_way_is_told() -> None:
    plan = with_levels(two_range_plan())
    with open_engine(CountingEngine()) as engine:
        settings = replace(settings_for(engine.url), programs={generator.NAME: ("/no/such/aiperf",)})
        with pytest.raises(InputError, match="Load generator aiperf: must be at hand") as refused:
            PreparedProof(plan, plan.scenario.workload, settings)
    assert "pip install aiperf==" in refused.value.hint
    assert engine.posts == engine.gets == []
