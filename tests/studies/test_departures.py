"""Pods that leave and pods that wait: worked by hand, replayed from the records, and as the loop without departures."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import online_oracle as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openb_sources import nodes, pods, workload
from test_online import nodes_of, pods_of

from planner.domain import Semantics, TraceNode, TracePod
from planner.errors import InputError
from planner.placement.fragmentation import target_workload
from planner.placement.power_model import OPENB_POWER
from planner.studies.policies.online.departures import lengthened, simulate_departures
from planner.studies.policies.online.policies import NAMES, parse_policy
from planner.studies.policies.online.simulation import prepare, simulate
from planner.studies.policies.records import DepartureRun, Outcome, QueueSettings

FGD = parse_policy("fgd")
FIFO = QueueSettings(backfill=False)


def timed(name: str, gpus: int, creation_s: float, deletion_s: float | None) -> TracePod:
    return TracePod(
        name=name,
        cpu_milli=1000,
        memory_mib=1,
        gpus=gpus,
        gpu_milli=1000,
        creation_s=creation_s,
        deletion_s=deletion_s,
    )


def told(run: DepartureRun) -> dict[str, tuple[str, float | None, float | None, float, int]]:
    return {s.pod: (s.outcome.value, s.started_s, s.left_s, s.waited_s, s.tries) for s in run.stays}


def on_one_node(gpus: int, come: Sequence[TracePod], queue: QueueSettings) -> DepartureRun:
    node = TraceNode(name="n", cpu_milli=64_000, memory_mib=1000, gpus=gpus, gpu_model="T4")
    return simulate_departures([node], come, FGD, target_workload(come), queue=queue)


@pytest.mark.parametrize(
    ("most_wait_s", "second"),
    [
        (None, ("ran", 10, 15, 8, 2)),
        (8.0, ("failed", None, None, 8, 1)),  # gives up at the moment in which the other leaves: has waited so long
        (8.5, ("ran", 10, 15, 8, 2)),
        (3.0, ("failed", None, None, 3, 1)),
        (0.0, ("failed", None, None, 0, 1)),
    ],
)
def test_one_gpu_for_two(most_wait_s: float | None, second: tuple[object, ...]) -> None:
    run = on_one_node(1, [timed("a", 1, 0, 10), timed("b", 1, 2, 7)], QueueSettings(most_wait_s=most_wait_s))
    assert told(run) == {"a": ("ran", 0, 10, 0, 1), "b": second}
    ran = second[0] == "ran"
    assert (run.queue.ran, run.queue.failed, run.queue.waiting) == (1 + ran, 1 - ran, 0)
    assert (run.queue.waited, run.queue.retries, run.queue.wait_max_s) == (ran, ran, 8 * ran)
    used = (15 if ran else 10) / (15 if ran else 10)
    assert run.allocation_percent == pytest.approx(100 * used)
    assert run.energy_kwh * 3.6e6 == pytest.approx(run.power_w * run.moments[-1].time_s)


LARGE_FIRST = [timed("a", 1, 0, 10), timed("large", 2, 1, 6), timed("small", 1, 2, 22)]


def test_backfilling_lets_the_small_pass_and_the_large_wait() -> None:
    passed = told(on_one_node(2, LARGE_FIRST, QueueSettings()))
    assert passed["small"] == ("ran", 2, 22, 0, 1)
    assert passed["large"] == ("ran", 22, 27, 21, 3)
    queued = told(on_one_node(2, LARGE_FIRST, FIFO))
    assert queued["large"] == ("ran", 10, 15, 9, 2)
    assert queued["small"] == ("ran", 15, 35, 13, 2)


def test_whoever_gives_up_lets_those_behind_go() -> None:
    queued = told(on_one_node(2, LARGE_FIRST, QueueSettings(backfill=False, most_wait_s=4.0)))
    assert queued["large"] == ("failed", None, None, 4, 1)
    assert queued["small"] == ("ran", 5, 25, 3, 1)


def test_who_leaves_makes_room_for_who_comes_at_that_moment() -> None:
    run = on_one_node(1, [timed("a", 1, 0, 5), timed("b", 1, 5, 5), timed("c", 1, 5, None)], QueueSettings())
    assert told(run) == {
        "a": ("ran", 0, 5, 0, 1),
        "b": ("ran", 5, 5, 0, 1),
        "c": ("ran", 5, None, 0, 2),
    }
    run = on_one_node(1, [timed("a", 1, 0, None), timed("b", 1, 4, 9)], QueueSettings())
    assert [stay.outcome for stay in run.stays] == [Outcome.RAN, Outcome.WAITING]
    assert (run.queue.waiting, run.queue.failed) == (1, 0)


def coming(seed: int, count: int = 120) -> list[TracePod]:
    generator = np.random.default_rng([seed, 11])
    created = np.cumsum(generator.integers(0, 4, size=count)).tolist()
    lasts = generator.integers(0, 120, size=count).tolist()
    stays = generator.random(count) < 0.05
    return [
        replace(pod, creation_s=float(at), deletion_s=None if forever else float(at + last))
        for pod, at, last, forever in zip(pods_of(seed, count), created, lasts, stays, strict=True)
    ]


QUEUES = (
    QueueSettings(),
    FIFO,
    QueueSettings(most_wait_s=25.0),
    QueueSettings(backfill=False, most_wait_s=25.0),
    QueueSettings(most_wait_s=0.0),
)


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: f"{queue.backfill}-{queue.most_wait_s}")
def test_replay(queue: QueueSettings, seed: int) -> None:
    """From the records alone: nothing is given twice, and nobody waits, or is dropped, who fits."""
    fleet, come = nodes_of(seed, 5), coming(seed)
    run = simulate_departures(fleet, come, FGD, target_workload(come), queue=queue)
    by_name = {pod.name: pod for pod in come}
    for moment in run.moments:
        now = {node.name: oracle.Node.of(node) for node in fleet}
        waiting = []
        for stay in run.stays:
            runs = stay.started_s is not None and stay.started_s <= moment.time_s
            if runs and (stay.left_s is None or stay.left_s > moment.time_s):
                now[stay.node] = now[stay.node].after(by_name[stay.pod], stay.gpus)
            elif not runs and stay.created_s <= moment.time_s < stay.created_s + stay.waited_s:
                waiting.append(by_name[stay.pod])
        assert min(min([state.cpu, state.memory, *state.gpus]) for state in now.values()) >= 0
        assert moment.used_gpu_milli == run.gpu_milli - sum(sum(state.gpus) for state in now.values())
        at_end = moment is run.moments[-1]
        assert moment.waiting == (len(waiting) if not at_end else run.queue.waiting)
        asked = waiting if queue.backfill else waiting[:1]
        assert not any(state.fits(pod) for pod in asked for state in now.values())
    for stay in run.stays:
        pod = by_name[stay.pod]
        if stay.started_s is not None and pod.deletion_s is not None:
            assert stay.left_s == stay.started_s + pod.deletion_s - stay.created_s
        if queue.most_wait_s is not None:
            assert stay.waited_s <= queue.most_wait_s
            assert stay.outcome is not Outcome.WAITING


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: f"{queue.backfill}-{queue.most_wait_s}")
def test_the_queue_over_time_is_what_its_pods_waited(queue: QueueSettings, seed: int) -> None:
    """Little's law without expectations: the integral over time of pods waiting, running, is the sum over pods."""
    fleet, come = nodes_of(seed, 5), coming(seed)
    run = simulate_departures(fleet, come, FGD, target_workload(come), queue=queue)
    spans = np.diff([moment.time_s for moment in run.moments])
    end_s = run.moments[-1].time_s
    waiting = float(spans @ [moment.waiting for moment in run.moments[:-1]])
    running = float(spans @ [moment.running for moment in run.moments[:-1]])
    assert waiting == pytest.approx(sum(stay.waited_s for stay in run.stays))
    ends = [(s.started_s, end_s if s.left_s is None else s.left_s) for s in run.stays if s.started_s is not None]
    assert running == pytest.approx(sum(left - started for started, left in ends))
    assert (run.queue.ran, run.queue.failed, run.queue.waiting) == tuple(
        sum(stay.outcome is outcome for stay in run.stays) for outcome in Outcome
    )


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("policy", [*NAMES, "pwr:0.1+fgd:0.9", "adaptive"])
def test_where_nothing_leaves_and_nobody_waits_it_is_the_study(policy: str, semantics: Semantics) -> None:
    fleet = nodes_of(4)
    come = [replace(pod, creation_s=float(k // 3), deletion_s=None) for k, pod in enumerate(pods_of(4))]
    how = {"semantics": semantics, "seed": 3}
    queue = QueueSettings(most_wait_s=0.0)
    run = simulate_departures(fleet, come, parse_policy(policy), target_workload(come), queue=queue, **how)
    study = simulate(fleet, come, parse_policy(policy), target_workload(come), **how)
    assert [(stay.node, stay.gpus) for stay in run.stays] == [(line.node, line.gpus) for line in study.decisions]
    assert run.queue.failed == study.failures > 0
    last = study.decisions[-1]
    assert run.moments[-1].cpu_power_w == pytest.approx(last.cpu_power_w)
    assert run.moments[-1].fragmentation_milli == pytest.approx(last.fragmentation_milli)


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("policy", [name for name in NAMES if name != "random"])
def test_scores_after_removals_are_those_of_the_nodes_as_they_are(policy: str, semantics: Semantics) -> None:
    """Place and remove at random; then every score equals that of a board made anew from the same nodes."""
    fleet, come = nodes_of(9), pods_of(9)
    generator = np.random.default_rng(2)

    def fresh() -> object:
        return prepare(
            fleet,
            come,
            parse_policy(policy),
            target_workload(come),
            semantics=semantics,
            tie_order=None,
            seed=0,
            power=OPENB_POWER,
            formula=None,
        )

    simulation, empty = fresh(), fresh()
    held = []
    for pod in come:
        node, gpus = simulation.place(simulation.board.class_of(pod))
        if node >= 0:
            held.append((node, pod, gpus))
        if held and generator.random() < 0.4:
            simulation.remove(*held.pop(int(generator.integers(len(held)))))
    for node, pod, gpus in held:
        empty.board.states[node].take(pod, gpus)
    for number in range(len(fleet)):
        empty.board.judge(number)
        empty.meter.update(number)
    for there, anew in zip(simulation.board._raw, empty.board._raw, strict=True):
        assert np.array_equal(there, anew)
    assert simulation.meter.cpu_w + simulation.meter.gpu_w == empty.meter.cpu_w + empty.meter.gpu_w
    assert simulation.meter.fragmentation_milli == pytest.approx(empty.meter.fragmentation_milli)
    for node, pod, gpus in held:
        simulation.remove(node, pod, gpus)
    assert simulation.used_gpu_milli == 0
    for there, anew in zip(simulation.board._raw, fresh().board._raw, strict=True):
        assert np.array_equal(there, anew)


def test_what_has_no_times() -> None:
    pod = timed("a", 1, 5, 9)
    with pytest.raises(InputError, match="pod a: must have a creation time"):
        on_one_node(1, [replace(pod, creation_s=None)], QueueSettings())
    with pytest.raises(InputError, match="deletion time must not be before its creation at 5 s, got 3 s"):
        on_one_node(1, [replace(pod, deletion_s=3.0)], QueueSettings())
    with pytest.raises(InputError, match="must be a number above 0, at most 1,000,000, got 0"):
        lengthened([pod], 0.0)
    assert lengthened([pod, replace(pod, deletion_s=None)], 2.5) == (
        replace(pod, deletion_s=15.0),
        replace(pod, deletion_s=None),
    )
    with pytest.raises(InputError, match="the longest wait must be 0 seconds or more, got -1"):
        on_one_node(1, [pod], QueueSettings(most_wait_s=-1.0))


def test_openb_at_its_own_times() -> None:
    """The trace fills a hundredth of its cluster at its times; a quarter of its pods wait for a few of its nodes."""
    fleet, come = nodes()[::400], pods()[::4]
    runs = [
        simulate_departures(fleet, come, FGD, workload(), queue=queue)
        for queue in (QueueSettings(), QueueSettings(most_wait_s=3600.0), QueueSettings(most_wait_s=0.0))
    ]
    waits, some, none = (run.queue for run in runs)
    assert waits.failed == 0 < waits.waited
    assert 0 < some.failed < none.failed
    assert none.retries == none.waited == 0
    assert len(come) == waits.ran + waits.waiting
