"""What the Warsaw thesis leaves open: each reading on small pools, and how the calibration goes through them."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from serving_oracle import Baseline, Box
from serving_pools import actions_of, model, pool, requests, require_sound

from planner.studies.serving.arrivals import draw_counts
from planner.studies.serving.reconciled import calibration
from planner.studies.serving.reconciled.calibration import ALTERNATIVES, MIDDLE, STEPS, Attempt, calibrate, distance
from planner.studies.serving.reconciled.readings import (
    NEAREST,
    PUBLISHED,
    SCOPES,
    Choices,
    law_as_read,
    law_of,
    settings_as_read,
    settings_of,
)
from planner.studies.serving.records import Absence, Action, Reading, ServingSettings
from planner.studies.serving.simulation.run import ServingRun, simulate_serving
from planner.studies.serving.warsaw import TOTALS, dnn_models

LOAD_1_S = 512.0
"""MB that load in a second."""


def starts_of_loads(run: ServingRun) -> list[float]:
    return [row[4] for row in sorted(actions_of(run), key=lambda row: row[4]) if row[1] is Action.LOAD]


def test_baseline_loads_for_whom_the_reading_says() -> None:
    """Four machines, inferences of 10 s, loads of 1 s; a request at 0, four more at 2 s.

    `nowhere`: one copy, whatever waits. `no-idle`: the first of the four has a load, and the next one when that is
    over (its machine serves the first). `each`: all three other machines load at once, for three of the four.
    """
    served = pool(model(seconds=10.0, size_mb=LOAD_1_S), machines=4, slots=1)
    asked = requests((0.0, 0), *((2.0, 0) for _ in range(4)))
    loads = {}
    for absence in Absence:
        run = simulate_serving(served, asked, "baseline", seed=1, settings=ServingSettings(absence=absence))
        require_sound(run, served, asked)
        loads[absence] = starts_of_loads(run)
    assert loads == {
        Absence.NOWHERE: [0.0],
        Absence.NO_IDLE: pytest.approx([0.0, 2.0, 3.0, 4.0]),
        Absence.EACH: pytest.approx([0.0, 2.0, 2.0, 2.0]),
    }


def test_dispatch_is_time_of_the_machine() -> None:
    """Lindley's queue with a service of 0.1 + 0.2 s; the model is there from 0.0001 s on."""
    served = pool(model(seconds=0.1), slots=1)
    asked = requests((1.0, 0), (1.1, 0), (1.2, 0), (9.0, 0))
    run = simulate_serving(served, asked, "baseline", seed=1, settings=ServingSettings(dispatch_s=0.2))
    assert run.requests.start_s.tolist() == pytest.approx([1.0001, 1.3001, 1.6001, 9.0])
    assert run.requests.finish_s.tolist() == pytest.approx([1.3001, 1.6001, 1.9001, 9.3])


def test_a_late_start_brings_what_came_before_all_at_once() -> None:
    """Their deadlines stay where they were: of three requests the first two are served from 5 s on."""
    served = pool(model(seconds=0.1, sla_s=1.0), slots=1)
    asked = requests((1.0, 0), (4.9, 0), (8.0, 0))
    run = simulate_serving(served, asked, "rr", seed=1, settings=ServingSettings(late_start_s=5.0))
    assert run.requests.start_s.tolist() == pytest.approx([5.0, 5.1, 8.0])
    assert (run.requests.finish_s > run.requests.deadline_s).tolist() == [True, False, False]


def test_an_ended_quantum_comes_before_requests_where_it_is_read_so() -> None:
    """One place, `a` always asked for, `b` once: plain Round Robin gives `b` its turn after 2 s, else when `a` has no
    request. Quantum logic renews the quantum of `a` with each inference, under both readings alike."""
    served = pool(model("a", 0.1, 51.2), model("b", 0.1, 51.2), slots=1)
    asked = tuple(sorted(requests(*((0.05 * k, 0) for k in range(200)), (0.5, 1)), key=lambda row: row.arrival_s))
    waits = {}
    for policy in ("rr", "rr-quantum"):
        for first in (True, False):
            chosen = ServingSettings(quantum_s=2.0, quanta_first=first, overdue_s=1e6)
            run = simulate_serving(served, asked, policy, seed=1, settings=chosen)
            require_sound(run, served, asked)
            (place,) = np.flatnonzero(run.requests.model == 1)
            waits[policy, first] = float(run.requests.start_s[place])
    assert waits["rr", True] == pytest.approx(0.1 + 2.0 + 0.1, abs=0.11)
    assert waits["rr", False] > 10.0
    assert waits["rr-quantum", True] == waits["rr-quantum", False] > 10.0


def test_a_quantum_that_inferences_renew_breaks_into_nothing() -> None:
    """Two places, `a` always asked for; the quantum of `b` has long ended when `c` is asked for: it waits for `a`."""
    served = pool(*(model(name, 0.1, 51.2) for name in "abc"), slots=2)
    rows = (*((1.0 + 0.05 * k, 0) for k in range(200)), (0.5, 1), (5.0, 2))
    asked = tuple(sorted(requests(*rows), key=lambda row: row.arrival_s))
    starts = []
    for first in (True, False):
        chosen = ServingSettings(quantum_s=2.0, quanta_first=first, overdue_s=1e6)
        run = simulate_serving(served, asked, "rr-quantum", seed=1, settings=chosen)
        (place,) = np.flatnonzero(run.requests.model == 2)
        starts.append(float(run.requests.start_s[place]))
    assert starts[0] == starts[1] > 15.0


def test_the_published_arrivals_are_steady_beside_their_spikes() -> None:
    """1,700 a minute (section 6.3) outside of spikes, and the published totals of each model."""
    for spikes in (1, 2, 3):
        law = law_of(Choices(spikes=spikes))
        counts = np.array(list(draw_counts(dnn_models(), law, 7).values()))
        assert counts.sum(axis=1).tolist() == list(TOTALS.values())
        by_minute = counts.sum(axis=0)
        assert np.delete(by_minute, law.spike_minutes).mean() == pytest.approx(1700, rel=0.01)
        extra = by_minute[list(law.spike_minutes)].sum() - spikes * 1700
        assert extra == pytest.approx(54_831 - 30 * 1700, rel=0.08)


def test_the_literal_reading_is_what_there_was() -> None:
    assert settings_as_read(Reading.LITERAL) == ServingSettings()
    assert law_as_read(Reading.LITERAL).spike_minutes == (9, 10, 20)
    assert settings_as_read(Reading.PUBLISHED).absence is NEAREST.absence is Absence.EACH


def test_unbounded_stays_are_unbounded() -> None:
    assert settings_of(Choices(bounded=False), {}).overdue_s >= 1e9
    assert settings_of(Choices(), {}).overdue_s == ServingSettings().overdue_s


def test_the_distance_is_a_usual_factor() -> None:
    exact = [row.value for row in PUBLISHED]
    assert distance(exact) == 0
    assert distance([2 * value for value in exact]) == pytest.approx(math.log(2))
    halves = [value * factor for value, factor in zip(exact, (2, 0.5, 2, 0.5, 2, 0.5), strict=True)]
    assert distance(halves) == pytest.approx(math.log(2))
    assert math.isfinite(distance([0.0] * len(exact)))


BOTTOM = {scope.name: (3 * number + 2) % STEPS for number, scope in enumerate(SCOPES)}


def bowl(stage: str, choices: Choices, steps: Mapping[str, int], _seed: int, _scale: float) -> Attempt:
    """Instead of the simulator: a bowl whose bottom is known, and choices with a price each."""
    far = sum((steps[name] - BOTTOM[name]) ** 2 for name in BOTTOM) / (len(BOTTOM) * STEPS**2)
    price = 0.2 * (choices.spikes != 2) + 0.1 * choices.bounded + (choices.absence is Absence.EACH)
    figures = tuple(row.value * math.exp(far + price) for row in PUBLISHED)
    return Attempt(stage=stage, choices=choices, steps=dict(steps), figures=figures)


def test_choices_come_one_at_a_time_and_then_constants_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "run_reading", bowl)
    monkeypatch.setattr(calibration, "proposed", lambda judged, _seed: [dict(judged[0].steps), dict(BOTTOM)])
    attempts = list(calibrate(14, 5))
    count = 1 + sum(len(values) - 1 for _, values in ALTERNATIVES)
    screen, rest = attempts[:count], attempts[count : count + 14]
    # around the bottom, which was met by the search, nothing is nearer: a step each way, and no further
    beside = [sum(abs(row.steps[name] - BOTTOM[name]) for name in BOTTOM) for row in attempts[count + 14 :]]
    assert beside == [1] * sum((step > 0) + (step < STEPS - 1) for step in BOTTOM.values())
    assert all((row.stage, row.steps) == ("screen", MIDDLE) for row in screen)
    changed = [
        sum(getattr(row.choices, name) != getattr(Choices(), name) for name, _ in ALTERNATIVES) for row in screen
    ]
    assert changed == [0] + [1] * (len(screen) - 1)
    # section 6.3 decides for whom Baseline loads, the others by their distance
    assert {row.choices for row in rest} == {replace(Choices(), spikes=2, bounded=False)}
    # what was judged before is not run again: chance goes on where the search has nothing new
    assert [row.stage for row in rest] == ["middle", *["chance"] * 11, "search", "chance"]
    assert len({tuple(row.steps.values()) for row in rest}) == 14
    assert rest[12].steps == BOTTOM
    assert [row.steps for row in calibrate(9, 5)] == [row.steps for row in attempts[: len(screen) + 9]]


def test_constants_move_one_by_one_to_the_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    """From wherever chance and a search that proposes nothing new have come: the bowl has one bottom."""
    monkeypatch.setattr(calibration, "run_reading", bowl)
    monkeypatch.setattr(calibration, "proposed", lambda judged, _seed: [dict(judged[0].steps)])
    assert calibration.nearest_of(list(calibrate(13, 5))[9:]).steps == BOTTOM


@pytest.mark.study
def test_the_search_comes_nearer_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "run_reading", bowl)
    rest = [row for row in calibrate(18, 5) if row.stage not in ("screen", "one by one")]
    assert [row.stage for row in rest] == ["middle", *["chance"] * 11, *["search"] * 6]
    assert min(row.distance for row in rest[12:]) < min(row.distance for row in rest[:12])


@pytest.mark.parametrize("absence", Absence)
def test_baseline_is_that_of_another_implementation(absence: Absence) -> None:
    """60 drawn pools each: every request begins when it does there, and the same models are loaded at the
    same times on the same machines."""
    draws = np.random.default_rng(11)
    for _ in range(60):
        count, boxes = int(draws.integers(2, 6)), int(draws.integers(1, 5))
        load_s, infer_s = draws.uniform(0.2, 2.0, count), draws.uniform(0.05, 0.6, count)
        rows = sorted(zip(draws.uniform(0, 20, 60).tolist(), draws.integers(count, size=60).tolist(), strict=True))
        late_s, dispatch_s, idle_s = (float(draws.choice(values)) for values in ((0.0, 4.0), (0.0, 0.13), (0.3, 1.7)))
        listed = tuple(model(str(k), float(infer_s[k]), float(load_s[k]) * LOAD_1_S, sla_s=1e6) for k in range(count))
        settings = ServingSettings(
            absence=absence, dispatch_s=dispatch_s, late_start_s=late_s, idle_s=idle_s, overdue_s=1e6
        )
        run = simulate_serving(pool(*listed, machines=boxes), requests(*rows), "baseline", seed=1, settings=settings)
        other = Baseline(
            load_s=[one.size_mb * 8 / 4096 for one in listed],
            infer_s=infer_s.tolist(),
            requests=rows,
            boxes=[Box() for _ in range(boxes)],
            absence=absence.value,
            idle_s=idle_s,
            dispatch_s=dispatch_s,
            late_s=late_s,
        )
        other.run()
        assert run.requests.start_s.tolist() == pytest.approx([other.starts[k] for k in range(len(rows))])
        loads = sorted((round(row[4], 6), row[0], row[2]) for row in actions_of(run) if row[1] is Action.LOAD)
        assert loads == sorted((round(at_s, 6), *where) for at_s, *where in other.loads)
