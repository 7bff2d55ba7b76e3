"""Whatever the pool, the requests and the policy: nothing is lost or served twice, and machines keep their rules."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from serving_pools import actions_of, model, require_sound

from planner.studies.serving.measures import figures_of
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import (
    Action,
    InferenceKind,
    MachineType,
    Outage,
    ScalingSettings,
    ServingPool,
    ServingRequest,
    ServingSettings,
    VictimOrder,
)
from planner.studies.serving.simulation.cluster import RequestBook
from planner.studies.serving.simulation.run import simulate_serving
from planner.studies.serving.simulation.times import Times

TYPES = ("m", "n")
POINTS = ((1, 0.2), (2, 0.3), (4, 0.5))


@st.composite
def models(draw: st.DrawFn, memory: bool) -> tuple:
    """Models of all inference kinds; the first type runs them all, the second perhaps."""
    return tuple(
        model(
            f"model-{number}",
            points=POINTS,
            size_mb=draw(st.sampled_from([1.0, 256.0, 512.0, 1536.0])),
            kind=draw(st.sampled_from(InferenceKind)),
            prompt_s=draw(st.sampled_from([0.0, 0.1])),
            batch=draw(st.integers(1, 4)),
            memory_mb=draw(st.sampled_from([400.0, 600.0])) if memory else None,
            types=draw(st.sampled_from([TYPES, TYPES[:1]])),
        )
        for number in range(draw(st.integers(1, 5)))
    )


@st.composite
def pools(draw: st.DrawFn) -> ServingPool:
    memory = draw(st.booleans())
    first = MachineType(
        name="m",
        machines=draw(st.integers(1, 3)),
        slots=draw(st.integers(1, 3)),
        memory_mb=1000.0 if memory else None,
        reserve=draw(st.integers(0, 2)),
    )
    second = MachineType(name="n", machines=draw(st.integers(0, 2)), load_mbit_s=1024.0)
    outages = tuple(
        Outage(machine=draw(st.integers(0, first.machines + first.reserve - 1)), start_s=start_s, end_s=start_s + 3.0)
        for start_s in draw(st.sampled_from([(), (4.0, 9.5)]))
    )
    return ServingPool(
        types=(first, second),
        models=draw(models(memory)),
        outages=outages,
        scaling=ScalingSettings(period_s=0.5, idle_s=2.0, start_s=1.0, stop_s=0.5),
    )


@st.composite
def asked_of(draw: st.DrawFn, served: ServingPool) -> tuple[ServingRequest, ...]:
    rows = draw(
        st.lists(
            st.tuples(
                st.floats(0, 15).map(lambda seconds: round(seconds, 2)),
                st.integers(0, len(served.models) - 1),
                st.integers(0, 5),
                st.integers(1, 8),
            ),
            min_size=1,
            max_size=40,
        )
    )
    return tuple(
        ServingRequest(arrival_s=came, model=place, prompt_tokens=prompt, output_tokens=output)
        for came, place, prompt, output in sorted(rows)
    )


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@hypothesis_settings(max_examples=15)
def test_no_request_is_lost_or_served_twice(policy: str, data: st.DataObject) -> None:
    served = data.draw(pools())
    asked = data.draw(asked_of(served))
    chosen = ServingSettings(
        quantum_s=data.draw(st.sampled_from([0.5, 5.0, 50.0])),
        victims=data.draw(st.sampled_from(VictimOrder)),
        overdue_s=data.draw(st.sampled_from([0.0, 2.0, 50.0])),
        most_residence_s=data.draw(st.sampled_from([0.0, 3.0, 100.0])),
    )
    run = simulate_serving(served, asked, policy, seed=data.draw(st.integers(0, 3)), settings=chosen)
    require_sound(run, served, asked)
    figures = figures_of(run, served)
    machines = sum(kind.machines + kind.reserve for kind in served.types)
    assert served.types[0].machines * figures.span_s <= 3600 * figures.machine_h + 1e-6
    assert 3600 * figures.machine_h <= machines * figures.span_s + 1e-6
    assert 0 <= figures.infer_percent + figures.load_percent <= 100 + 1e-6


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@hypothesis_settings(max_examples=8)
def test_work_is_conserved(policy: str, data: st.DataObject) -> None:
    """Inferences of models that serve one request at a time take what their requests take, no more, no less."""
    names = st.sampled_from([InferenceKind.SINGLE, InferenceKind.AUTOREGRESSIVE])
    listed = tuple(model(str(k), 0.05, 64.0 * k + 1, kind=data.draw(names)) for k in range(3))
    served = ServingPool(types=(MachineType(name="m", machines=data.draw(st.integers(1, 3))),), models=listed)
    asked = data.draw(asked_of(served))
    run = simulate_serving(served, asked, policy, seed=1)
    rows = actions_of(run)
    inferring_s = sum(row[5] - row[4] for row in rows if row[1] is Action.INFER)
    book = RequestBook(served, asked, seed=1, starved_share=0.6)
    assert inferring_s == pytest.approx(sum(book.work_s))
    loads = [row for row in rows if row[1] is Action.LOAD]
    times = Times(served)
    for _, _, place, _, start_s, end_s, done in loads:
        if done:
            assert end_s - start_s == pytest.approx(times.load_s[place][0])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    served = ServingPool(
        types=(MachineType(name="m", machines=2),), models=tuple(model(str(k), 0.1, 100.0) for k in range(6))
    )
    asked = tuple(ServingRequest(arrival_s=0.03 * k, model=k * k % 6) for k in range(300))
    first, second = (simulate_serving(served, asked, policy, seed=5) for _ in range(2))
    assert actions_of(first) == actions_of(second)
    assert first.requests.finish_s.tolist() == second.requests.finish_s.tolist()
    assert simulate_serving(served, asked, policy, seed=6).requests.deadline_s.tolist() != (
        first.requests.deadline_s.tolist()
    )
