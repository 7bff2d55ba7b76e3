"""What each policy is known for, on pools small enough to say what must happen."""

import numpy as np
import pytest
from serving_pools import actions_of, model, pool, requests, require_sound

from planner.errors import InputError
from planner.studies.serving.policies.named import POLICIES, parse_serving_policy
from planner.studies.serving.records import (
    Action,
    Curve,
    InferenceKind,
    InferenceTimes,
    MachineType,
    Outage,
    ScalingSettings,
    ServedModel,
    ServingPool,
    ServingRequest,
    ServingSettings,
)
from planner.studies.serving.simulation.log import stays_of
from planner.studies.serving.simulation.run import ServingRun, simulate_serving

LOAD_1_S = 512.0
"""MB that load in a second."""


def loads_of(run: ServingRun, place: int | None = None) -> list[tuple[int, float]]:
    """Machines and starts of loads, of one model or of all."""
    return [(row[0], row[4]) for row in actions_of(run) if row[1] is Action.LOAD and place in (None, row[2])]


def busy(rate: float, until_s: float, place: int = 0) -> list[tuple[float, int]]:
    return [(k / rate, place) for k in range(int(rate * until_s))]


def test_baseline_never_makes_a_second_copy_and_the_others_do() -> None:
    """A second's work comes every half second: one copy falls behind, a second machine stands idle."""
    served = pool(model(seconds=1.0), machines=2, slots=1)
    asked = requests(*busy(2.0, 10.0))
    for policy in POLICIES:
        run = simulate_serving(served, asked, policy, seed=1)
        machines = {machine for machine, _ in loads_of(run)}
        assert len(machines) == (1 if policy == "baseline" else 2), policy


def test_baseline_reloads_only_after_an_inference_or_a_pause() -> None:
    """One machine, one place. `b` comes while `a` loads: `a` serves first, then goes."""
    served = pool(model("a", 0.1, LOAD_1_S), model("b", 0.1, LOAD_1_S), slots=1)
    run = simulate_serving(served, requests((0.0, 0), (0.5, 1)), "baseline", seed=1)
    assert loads_of(run) == [(0, 0.0), (0, pytest.approx(1.1))]
    assert run.requests.finish_s.tolist() == pytest.approx([1.1, 2.2])


def test_baselines_victims_go_in_the_order_that_is_set() -> None:
    """Two places: `a` (large) is used last, `b` loaded last; `c` takes the place of the one that the order names."""
    listed = (model("a", 0.1, LOAD_1_S), model("b", 0.1, 51.2), model("c", 0.1, 51.2))
    asked = requests((0.0, 0), (2.0, 1), (4.0, 0), (6.0, 2))
    for order, gone in (("lru", 1), ("oldest", 0), ("largest", 0)):
        run = simulate_serving(pool(*listed), asked, "baseline", seed=1, settings=ServingSettings(victims=order))
        assert [row[2] for row in actions_of(run) if row[1] is Action.UNLOAD] == [gone]


def test_plain_round_robin_loads_whatever_nobody_asks_for() -> None:
    """One place, three models, quantum 2 s, requests for the first alone: it comes round every third turn."""
    served = pool(*(model(name, 0.01, 51.2) for name in "abc"), slots=1)
    asked = requests((0.0, 0), (20.0, 0))
    run = simulate_serving(served, asked, "rr", seed=1, settings=ServingSettings(quantum_s=2.0))
    order = [row[2] for row in actions_of(run) if row[1] is Action.LOAD]
    assert order[:6] == [0, 1, 2, 0, 1, 2]
    starts = [start_s for _, start_s in loads_of(run)]
    assert np.diff(starts[:5]) == pytest.approx([2.1] * 4)


def test_quantum_logic_keeps_what_is_used() -> None:
    """The same, with a request every second: plain Round Robin takes the model away, quantum logic does not."""
    served = pool(*(model(name, 0.01, 51.2) for name in "abc"), slots=1)
    asked = requests(*busy(1.0, 20.0))
    chosen = ServingSettings(quantum_s=2.0)
    assert len(loads_of(simulate_serving(served, asked, "rr", seed=1, settings=chosen))) > 6
    assert len(loads_of(simulate_serving(served, asked, "rr-quantum", seed=1, settings=chosen))) == 1


def test_starvation_tracking_loads_what_most_wait_for() -> None:
    """One place, held by `a` for 5 s. Three wait for `c`, one for `b`, which is next in the circle."""
    served = pool(*(model(name, 0.01, 51.2, sla_s=1.0) for name in "abc"), slots=1)
    asked = requests((0.0, 0), (1.0, 1), (1.1, 2), (1.2, 2), (1.3, 2))
    chosen = ServingSettings(quantum_s=5.0, overdue_s=100.0)
    orders = {
        policy: [
            row[2]
            for row in actions_of(simulate_serving(served, asked, policy, seed=1, settings=chosen))
            if row[1] is Action.LOAD
        ]
        for policy in ("rr-quantum", "rr-starvation")
    }
    assert orders["rr-quantum"][:3] == [0, 1, 2]
    assert orders["rr-starvation"][:3] == [0, 2, 1]


def test_larger_models_have_longer_quanta() -> None:
    """Load times 1 s and 0.1 s: quanta of 10 s and 1 s; idle places go when theirs has ended."""
    served = pool(model("a", 0.01, LOAD_1_S), model("b", 0.01, 51.2), model("c", 0.01, 51.2), slots=1)
    for first, quantum_s in ((0, 10.0), (1, 1.0)):
        asked = requests((0.0, first), (0.5, 2))
        chosen = ServingSettings(overdue_s=100.0)
        run = simulate_serving(served, asked, "rr-model-quantum", seed=1, settings=chosen)
        served_s = float(run.requests.finish_s[0])
        assert loads_of(run, 2)[0][1] == pytest.approx(served_s + quantum_s)


def test_deadlines_decide_only_in_the_last_improvement() -> None:
    """Both models are there and busy. `b` came later and is due sooner."""
    served = pool(model("a", 0.5, 0.0512, sla_s=9.0), model("b", 0.5, 0.0512, sla_s=2.0))
    asked = requests((0.0, 0), (0.0, 1), (5.0, 0), (5.1, 0), (5.2, 1))
    finish = {
        policy: simulate_serving(served, asked, policy, seed=1).requests.finish_s.tolist()
        for policy in ("rr-model-quantum", "rr-deadline")
    }
    assert finish["rr-model-quantum"][3:] == pytest.approx([6.0, 6.5])
    assert finish["rr-deadline"][3:] == pytest.approx([6.5, 6.0])


def test_clockwork_spreads_a_queue_and_batches_within_the_deadline() -> None:
    served = pool(model(seconds=1.0), machines=4, slots=1)
    run = simulate_serving(served, requests(*((0.0, 0) for _ in range(8))), "clockwork", seed=1)
    assert len({machine for machine, _ in loads_of(run)}) == 4
    batched = model(kind=InferenceKind.BATCHED, points=((1, 0.5), (4, 2.0)), batch=4, sla_s=1.6)
    rows = requests((0.0, 0), *((0.1, 0) for _ in range(4)))
    run = simulate_serving(pool(batched), rows, "clockwork", seed=1)
    sizes = [row[3] for row in actions_of(run) if row[1] is Action.INFER]
    assert sizes == [1, 2, 2]  # four would take 2 s; two keep the first one's deadline


@pytest.mark.parametrize("policy", POLICIES)
def test_a_busy_model_does_not_starve_another_for_ever(policy: str) -> None:
    """One place and twice the work that fits, for 120 s; one request for `b` at 3 s. Its wait is bounded."""
    served = pool(model("a", 0.2, 51.2), model("b", 0.2, 51.2), slots=1)
    asked = tuple(sorted(requests(*busy(10.0, 120.0), (3.0, 1)), key=lambda row: row.arrival_s))
    chosen = ServingSettings(overdue_s=5.0, most_residence_s=30.0)
    run = simulate_serving(served, asked, policy, seed=1, settings=chosen)
    require_sound(run, served, asked)
    (place,) = np.flatnonzero(run.requests.model == 1)
    assert float(run.requests.start_s[place] - run.requests.arrival_s[place]) < 40.0
    unbounded = ServingSettings(overdue_s=1e6, most_residence_s=1e6)
    if policy in ("baseline", "rr-quantum", "rr-starvation", "rr-deadline"):
        run = simulate_serving(served, asked, policy, seed=1, settings=unbounded)
        assert float(run.requests.start_s[place] - run.requests.arrival_s[place]) > 200.0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_running_batch_that_is_always_joined_ends_for_others(policy: str) -> None:
    """A batch of `a` that new requests would keep alive; `b` shares the machine, then has none at all."""
    stream = model("a", 0.05, 51.2, kind=InferenceKind.CONTINUOUS_BATCH, batch=4, sla_s=60.0)
    other = model("b", 0.2, 51.2, sla_s=2.0)
    rows = sorted([(0.2 * k, 0, 1, 8) for k in range(300)] + [(10.0, 1, 1, 1)])
    asked = requests(*rows)
    for slots in (1, 2):
        served = pool(stream, other, slots=slots)
        run = simulate_serving(served, asked, policy, seed=1)
        require_sound(run, served, asked)
        (place,) = np.flatnonzero(run.requests.model == 1)
        assert float(run.requests.start_s[place] - run.requests.arrival_s[place]) < 45.0


def test_machines_of_two_types_run_what_they_can() -> None:
    listed = (model("a", 0.1, LOAD_1_S, types=("m", "n")), model("b", 0.1, LOAD_1_S, types=("n",)))
    types = (MachineType(name="m", machines=1), MachineType(name="n", machines=1, load_mbit_s=8192.0))
    served = ServingPool(types=types, models=listed)
    asked = requests(*((0.5 * k, k % 2) for k in range(40)))
    for policy in POLICIES:
        run = simulate_serving(served, asked, policy, seed=1)
        require_sound(run, served, asked)
        assert {row[0] for row in actions_of(run) if row[2] == 1} == {1}
        spans = {row[0]: row[5] - row[4] for row in actions_of(run) if row[1] is Action.LOAD and row[6]}
        assert spans[1] == pytest.approx(0.5)


@pytest.mark.parametrize("policy", POLICIES)
def test_faster_types_come_first(policy: str) -> None:
    times = {
        "m": InferenceTimes(step=Curve(points=((1, 0.3),))),
        "n": InferenceTimes(step=Curve(points=((1, 0.1),))),
    }
    listed = ServedModel(name="a", size_mb=51.2, kind=InferenceKind.SINGLE, times=times)
    types = (MachineType(name="m", machines=2), MachineType(name="n", machines=1))
    run = simulate_serving(ServingPool(types=types, models=(listed,)), requests((0.5, 0)), policy, seed=1)
    assert run.requests.machine.tolist() == [2]
    assert run.requests.finish_s - run.requests.start_s == pytest.approx([0.1])


def test_two_models_share_a_machine_only_if_both_fit() -> None:
    listed = (model("a", 0.1, 51.2, memory_mb=600.0), model("b", 0.1, 51.2, memory_mb=600.0))
    asked = requests(*((2.0 * k, k % 2) for k in range(8)))
    for memory_mb, loads in ((1000.0, 8), (1200.0, 2)):
        run = simulate_serving(pool(*listed, memory_mb=memory_mb), asked, "baseline", seed=1)
        assert len(loads_of(run)) == loads


def test_the_reserve_wakes_for_starved_requests_and_sleeps_again() -> None:
    served = ServingPool(
        types=(MachineType(name="m", machines=1, slots=1, reserve=2),),
        models=(model("a", 1.0, 0.0512, sla_s=4.0),),
        scaling=ScalingSettings(period_s=1.0, idle_s=5.0, start_s=2.0, stop_s=0.5),
    )
    asked = requests(*busy(2.0, 20.0), (80.0, 0))
    run = simulate_serving(served, asked, "clockwork", seed=1)
    require_sound(run, served, asked)
    rows = actions_of(run)
    ups = [row for row in rows if row[1] is Action.SCALE_UP]
    downs = [row for row in rows if row[1] is Action.SCALE_DOWN]
    assert {row[0] for row in ups} == {row[0] for row in downs} == {1, 2}
    assert all(row[5] - row[4] == pytest.approx(2.0) for row in ups)
    assert all(row[5] - row[4] == pytest.approx(0.5) for row in downs)
    assert all(stay.end_s < 80.0 for machine in (1, 2) for stay in stays_of(run.actions, machine, 100.0))


def test_a_crash_loses_the_models_and_no_request() -> None:
    served = ServingPool(
        types=(MachineType(name="m", machines=2, slots=1),),
        models=(model("a", 1.0, LOAD_1_S),),
        outages=(Outage(machine=0, start_s=1.5, end_s=3.0), Outage(machine=1, start_s=50.0)),
        scaling=ScalingSettings(start_s=1.0),
    )
    asked = requests((0.0, 0), (60.0, 0))
    run = simulate_serving(served, asked, "baseline", seed=1)
    require_sound(run, served, asked)
    assert run.requests.machine.tolist() == [1, 0]
    assert run.requests.finish_s[0] == pytest.approx(1.5 + 1.0 + 1.0)  # begun at 1.0, broken off, loaded elsewhere
    assert [row[6] for row in actions_of(run) if row[1] is Action.INFER] == [False, True, True]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outages": (Outage(machine=9, start_s=0.0),)}, "must be of a machine from 0 to 0"),
        ({"outages": (Outage(machine=0, start_s=5.0, end_s=4.0),)}, "before it ends"),
        ({"outages": (Outage(machine=0, start_s=1.0),)}, "not lost for good"),
        ({"types": (MachineType(name="m", machines=0),)}, "must be 1 to 1,000"),
        ({"types": (MachineType(name="other", machines=1),)}, "model a: must have a machine"),
        ({"types": (MachineType(name="m", machines=1, memory_mb=0.01),)}, "memory for it"),
        ({"scaling": ScalingSettings(period_s=0.0)}, "period_s: must be 0.001 or more"),
    ],
)
def test_pools_that_cannot_serve_are_refused(change: dict[str, object], said: str) -> None:
    from dataclasses import replace

    with pytest.raises(InputError, match=said) as refused:
        simulate_serving(replace(pool(model()), **change), requests((0.0, 0)), "rr", seed=1)  # type: ignore[arg-type]
    assert refused.value.hint


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ServingSettings(quantum_s=0.0), "quantum_s: must be 0.001 or more"),
        (ServingSettings(overdue_s=-1.0), "overdue_s: must be 0 or more"),
        (ServingSettings(horizon_s=float("nan")), "horizon_s"),
        (ServingSettings(period_s=float("inf")), "at most"),
        (ServingSettings(shortest_quantum_s=70.0), "shortest_quantum_s: must be at most longest_quantum_s"),
    ],
)
def test_constants_out_of_range_are_refused(settings: ServingSettings, said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate_serving(pool(model()), (ServingRequest(arrival_s=0.0, model=0),), "rr", seed=1, settings=settings)


def test_unknown_policies_are_refused() -> None:
    assert parse_serving_policy(" RR-Deadline ").by_deadline
    with pytest.raises(InputError, match="must be one of baseline, clockwork, rr"):
        parse_serving_policy("fifo")
