"""A plan's own mix, sent to what serves it within bounds, and what that says of the plan."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from planner.domain import LengthProfile, Phase, Plan, RequestTrace
from planner.domain.arrivals import Requests
from planner.domain.serving.levels import Standing
from planner.errors import InputError
from planner.evaluation.replay.paces import FittedTime
from planner.evaluation.replay.replaying import PlanReplay
from planner.plans.observed.paced import paced_calibration
from planner.proposing.feasibility import posed
from planner.runs.live.proving import generator
from planner.runs.live.proving.endpoint import served_model
from planner.runs.live.proving.measuring import TOLERANCE, Measured, proved_requests
from planner.runs.live.proving.records import Proof, ProvedRequest
from planner.runs.live.proving.settings import DRAIN_S, ProofSettings, check_proof, within_bounds
from planner.runs.live.proving.texts import engine_bodies
from planner.runs.rehearsal.prompts import Sender
from planner.runs.rehearsal.records import quantile
from planner.runs.replays.replay_settings import replay_settings
from planner.units import MS_PER_S

Progress = Callable[[float], None]


class PreparedProof:
    """A load that is known, and has not been sent: who asks for it may still be told how much it is. Raises InputError
    for a value that cannot be, a generator that is not at hand, or an address that is no engine with the plan's model.

    `requests`: all that will be sent, and when."""

    def __init__(self, plan: Plan, source: RequestTrace | LengthProfile, settings: ProofSettings) -> None:
        check_proof(settings)
        self._plan, self._settings = plan, settings
        chosen = replay_settings(
            plan,
            router=settings.router or None,
            requests=settings.requests,
            seeds=(settings.seed,),
            warm_up=settings.warm_up,
            length_spread=0.0,  # the texts of a load have as many bytes a token as the router is told
        )
        generator.require_generator(settings)
        self._model = served_model(settings, plan)
        self._replay = PlanReplay(plan, posed(plan.scenario).workload, source, chosen)
        drawn = self._replay.requests(settings.rate_rps, settings.seed)
        if not len(drawn):
            raise InputError("prove: must have a request that the plan serves, got none.", hint="Name another --trace.")
        self.requests: Requests = within_bounds(drawn, settings)

    def run(self, progress: Progress = lambda _: None) -> Proof:
        """Send them, and judge what comes.

        Raises:
            PlannerError: the generator ended without an answer to any.
        """
        start_s = time.monotonic()
        sender = Sender(model=self._model, bytes_per_token=self._bytes_per_token)
        bodies = engine_bodies(self.requests, sender, self._replay.fleet, f"{time.time_ns():x}")
        with tempfile.TemporaryDirectory() as folder:
            sent = generator.send(Path(folder), self._settings, self._model, (self.requests, bodies), progress)
        return self._judged(sent, time.monotonic() - start_s)

    @property
    def _bytes_per_token(self) -> float:
        chosen = self._settings.bytes_per_token
        return self._plan.scenario.deploy.bytes_per_token if chosen is None else chosen

    def _judged(self, sent: generator.Sent, seconds: float) -> Proof:
        settings, requests = self._settings, self.requests
        records, rows = sent.records, proved_requests(requests, sent)
        measured = Measured(self._plan, self._replay, settings.rate_rps, rows)
        factors = measured.time_factors()
        source = f"planner prove: {len(records)} requests at {_rate(rows):.4g} requests/s"
        name = f"{self._plan.scenario.name}-proved"
        lags_ms = [record.start_ms - requests.arrival_ms[number] for number, record in records.items()]
        proof = Proof(
            url=settings.base_url,
            model=self._model,
            generator=f"{generator.NAME} {generator.VERSION}",
            seconds=seconds,
            scheduled_rps=requests.rate_rps if len(requests) > 1 else settings.rate_rps,
            sent_rps=_rate([row for row in rows if row.number in records]),
            late_p99_ms=quantile([lag - min(lags_ms) for lag in lags_ms], 0.99),
            measured=measured.result,
            predicted=measured.predicted,
            figures=measured.figures(),
            time_factors=factors,
            requests=tuple(rows),
            failures=tuple(Counter(row.failure for row in rows if row.failure).most_common()),
            fit=paced_calibration(self._plan, {each.phase: each.factor for each in factors}, name, source),
            notes=(*requests.notes, *self._notes(rows)),
        )
        return replace(proof, advice=tuple(_advice(proof, requests)))

    def _notes(self, rows: Sequence[ProvedRequest]) -> Iterator[str]:
        asked_for, sent = self._settings.requests, len(self.requests)
        if sent < asked_for:
            yield (
                f"{sent:,} of {asked_for:,} requests fitted into {self._settings.minutes:g} minutes at "
                f"{self._settings.rate_rps:.4g} requests/s; --minutes gives more time."
            )
        if len(rows) < sent:
            yield (
                f"{sent - len(rows):,} requests had less than {DRAIN_S:g} s for their answers until the time was up, "
                "or were not sent: they are left out."
            )


def _rate(rows: Sequence[ProvedRequest]) -> float:
    """Mean rate (requests/s) from the first to the last."""
    span_s = (max(row.arrival_ms for row in rows) - min(row.arrival_ms for row in rows)) / MS_PER_S if rows else 0.0
    return (len(rows) - 1) / span_s if span_s > 0 else 0.0


def _advice(proof: Proof, requests: Requests) -> Iterator[str]:
    """What to do next, causes before what they cause."""
    if not proof.kept_up:
        yield (
            f"Requests were sent at {proof.sent_rps:.4g}/s where {proof.scheduled_rps:.4g}/s were scheduled: start the "
            "proof on a machine that keeps up, near the router."
        )
    yield from _lengths(proof, requests)
    yield from map(_speed, filter(_is_off, proof.time_factors))
    if proof.standing is Standing.BREAKS and not any(map(_is_off, proof.time_factors)):
        yield (
            "Levels break, and no step is known to be slower: try the routing by itself (planner rehearse RUN), and "
            "see that all servers run (planner observe RUN)."
        )


def _lengths(proof: Proof, requests: Requests) -> Iterator[str]:
    answered = [row for row in proof.requests if not row.failure]
    if not answered:
        return
    ratio = fmean(row.prompt_tokens for row in answered) / fmean(requests.prompt_tokens[r.number] for r in answered)
    if abs(ratio - 1) > TOLERANCE:
        yield (
            f"Prompts had {ratio:.2f} x the tokens that they were to have by the engine's own count: repeat it with "
            f"--bytes-per-token {1 / ratio:.2f} times the present one."
        )
    short = sum(row.answer_tokens < requests.answer_tokens[row.number] for row in answered)
    if short > TOLERANCE * len(answered):
        yield (
            f"{short:,} answers were shorter than asked: the engine or the router does not heed ignore_eos, so that it "
            "was loaded less than planned."
        )
    in_one_piece = sum(_in_one_piece(row) for row in answered)
    if in_one_piece > len(answered) / 2:
        yield (
            f"{in_one_piece:,} answers came in one piece, so that TTFT is of whole answers and TPOT tells nothing: "
            "have what lies in between pass streams on as they come, or give the address of the plan's own router."
        )


_PIECE_MS = 0.1


def _in_one_piece(row: ProvedRequest) -> bool:
    """Whether several tokens came at once, as through a proxy that holds streams back."""
    if row.first_ms is None or row.ended_ms is None or row.answer_tokens < 2:
        return False
    return row.ended_ms - row.first_ms < _PIECE_MS


def _is_off(fitted: FittedTime) -> bool:
    """Whether steps take another time than planned, beyond chance."""
    return not fitted.low <= 1.0 <= fitted.high and abs(fitted.factor - 1) >= _OFF


_OFF = 0.02
"""From which on another calibration would change a plan."""


def _speed(fitted: FittedTime) -> str:
    steps = "Prefill steps" if fitted.phase is Phase.PREFILL else "Decode steps"
    return (
        f"{steps} take {fitted.factor:.3f} x what is planned ({fitted.low:.3f} to {fitted.high:.3f}). Plan again with "
        "this proof's calibration.yaml (--out writes it) under cost.calibration."
    )
