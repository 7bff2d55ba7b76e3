"""Sets of victims: naive, IMP and masks against the records themselves, on clusters of every kind."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from victim_clusters import clusters, preemptors
from victim_machines import EXACT, asks, machine
from victim_oracle import alignment, place, ways

from planner.domain import (
    Cluster,
    Preemptor,
    Qos,
    VictimMethod,
    VictimRule,
    VictimSettings,
)
from planner.errors import InputError
from planner.placement.victims import Machines, best_victims, victims_of

SCORED = VictimSettings()
ANY_SETTINGS = st.builds(
    VictimSettings,
    rule=st.sampled_from(VictimRule),
    alpha=st.sampled_from((0.0, 0.5, 0.999, 1.0)),
    protected_s=st.sampled_from((0.0, 60.0)),
    socket=st.sampled_from((0.5, 1.0)),
)


def keyed(machines: Machines, sets: dict[int, tuple[tuple[int, ...], ...]]) -> dict[int, set[frozenset[str]]]:
    return {
        node: {frozenset(machines.pod(pod).key for pod in going) for going in candidates}
        for node, candidates in sets.items()
    }


def possible(cluster: Cluster, preemptor: Preemptor, machines: Machines) -> bool:
    """Whether any node could hold it if it were empty; where not, every door says so."""
    try:
        victims_of(machines, preemptor, SCORED)
    except InputError:
        return False
    return True


def check(cluster: Cluster, preemptor: Preemptor, rules: VictimSettings, exclude: frozenset[str]) -> None:
    machines = Machines.of(cluster)
    truth = ways(cluster, preemptor, rules, exclude)
    if not possible(cluster, preemptor, machines):
        assert not truth
        return
    expected = {node: {way.victims for way in found} for node, found in truth.items()}
    for method in EXACT:
        found = victims_of(machines, preemptor, rules, method=method, exclude=exclude)
        assert keyed(machines, found) == expected, method
        assert all(len(set(sets)) == len(sets) for sets in found.values())
    answers = [best_victims(machines, preemptor, rules, method, exclude=exclude) for method in EXACT]
    assert answers[0] == answers[1] == answers[2]
    if not truth:
        assert answers[0] is None
        return
    best = answers[0]
    if rules.rule is not VictimRule.SCORE:
        truth = ways(cluster, preemptor, rules, exclude, every=True)
    places = {way: place(cluster, way, preemptor, rules) for found in truth.values() for way in found}
    least = min(places.values())
    at = [node.name for node in cluster.nodes].index(best.node)
    mine = [way for way in places if way.node == at and way.victims == frozenset(best.pods)]
    assert min(places[way] for way in mine) == least  # the set; the place on it is the narrowest
    taken = frozenset(best.gpus)
    assert taken in {way.gpus for way in mine}
    if preemptor.qos is not Qos.NONE and rules.rule is not VictimRule.LOST_WORK:
        assert round(-best.score, 9) == least[1]
    assert best.alignment is alignment(cluster.nodes[at], taken)


@given(clusters(), preemptors(), ANY_SETTINGS)
def test_all_methods_find_every_smallest_set_and_the_same_best(
    cluster: Cluster, preemptor: Preemptor, rules: VictimSettings
) -> None:
    check(cluster, preemptor, rules, frozenset())


@given(clusters(tight=True), preemptors(tight=True), ANY_SETTINGS, st.integers(0, 3))
def test_they_do_where_cpus_memory_and_budgets_bind(
    cluster: Cluster, preemptor: Preemptor, rules: VictimSettings, excluded: int
) -> None:
    check(cluster, preemptor, rules, frozenset(pod.key for pod in cluster.pods[:excluded]))


@pytest.mark.parametrize(
    ("gpus", "held", "aligned", "options"), [(4, 2, 2, 6), (2, 1, 12, 28), (4, 1, 2, 70), (8, 1, 1, 1), (1, 2, 4, 4)]
)
@pytest.mark.parametrize("method", EXACT)
def test_closed_forms_of_full_nodes(method: VictimMethod, gpus: int, held: int, aligned: int, options: int) -> None:
    """Same socket: 1/3 of pairs of aligned pairs, 12/28 of pairs of single GPUs, 2/70 of fours."""
    machines = machine()
    for k in range(0, 8, held):
        machines.add(0, f"pod-{k}", range(k, k + held), priority=200)
    assert len(victims_of(machines, asks(gpus), SCORED, method=method)[0]) == aligned
    everything = victims_of(machines, asks(gpus, Qos.BEST_EFFORT), SCORED, method=method)
    assert len(everything[0]) == options
    assert everything == victims_of(machines, asks(gpus, Qos.NONE), SCORED, method=method)


@pytest.mark.parametrize("method", EXACT)
def test_twelve_options_of_the_paper_four_of_which_fail(method: VictimMethod) -> None:
    """FlexTopo paper, figure 3: one machine has its four small pods in one socket, the other two and two."""
    machines = machine(nodes=2)
    for node, taken, single in ((0, ((0, 1), (2, 3)), (4, 5, 6, 7)), (1, ((0, 1), (6, 7)), (2, 3, 4, 5))):
        for number, pair in enumerate(taken):
            machines.add(node, f"b-{node}-{number}", pair, priority=1000, preemptible=False)
        for gpu in single:
            machines.add(node, f"c-{node}-{gpu}", (gpu,), priority=500)
    options = victims_of(machines, asks(2, Qos.BEST_EFFORT), SCORED, method=method)
    aligned = victims_of(machines, asks(2), SCORED, method=method)
    assert {node: len(sets) for node, sets in options.items()} == {0: 6, 1: 6}
    assert {node: len(sets) for node, sets in aligned.items()} == {0: 6, 1: 2}
    assert list(victims_of(machines, asks(4), SCORED, method=method)) == [0]
    assert list(victims_of(machines, asks(4, Qos.BEST_EFFORT), SCORED, method=method)) == [0, 1]


def test_subsets_of_every_target_are_all_smaller_sets() -> None:
    """What the mask form rests on, by enumeration on one node: a set makes room iff it holds owners of a target."""
    machines = machine(sockets=2, numas=4)
    for number, gpus in enumerate(((0,), (1, 4), (2, 3, 5), (6,))):
        machines.add(0, f"pod-{number}", gpus, priority=1)
    (smallest,) = victims_of(machines, asks(2), SCORED).values()
    for size in range(1, 5):
        fitting = [s for s in combinations(range(4), size) if victims_after(machines, s)]
        if fitting:
            assert tuple(fitting) == smallest
            return


def victims_after(machines: Machines, going: tuple[int, ...]) -> bool:
    """Whether the newcomer fits once these are gone, as an empty set of victims tells."""
    trial = machines.copy()
    for pod in going:
        trial.remove(pod)
    return ((),) in victims_of(trial, asks(2), SCORED).values()
