"""Nodes with dozens of small pods, where not every set can be looked at: there is an answer, and it comes soon."""

import pytest
from victim_machines import asks

from planner.domain import VictimMethod, VictimRule, VictimSettings
from planner.placement.victims import Machines, best_victims, completions
from planner.placement.victims.candidates import Question

RULES = tuple(VictimRule)


def crowded(nodes: int = 1) -> Machines:
    """A GPU held by a pod of one core, and 40 pods beside it: of a budget of 3 small ones that lose nothing and four
    of 8 cores that lose much, others of half a core."""
    machines = Machines.uniform(nodes, sockets=1, numa_nodes=1, gpus=1, cpus=64.0, budgets=[("few", 3)])
    for node in range(nodes):
        machines.add(node, f"gpu-{node}", (0,), cpus=1.0, priority=1)
        for k in range(12):
            machines.add(node, f"idle-{node}-{k}", (), cpus=0.5, priority=1, checkpoint_age_s=0.0, budget="few")
        for k in range(4):
            machines.add(node, f"large-{node}-{k}", (), cpus=8.0, priority=2, checkpoint_age_s=3600.0, budget="few")
        for k in range(24):
            machines.add(node, f"small-{node}-{k}", (), cpus=1.0, priority=1, checkpoint_age_s=60.0)
    return machines


@pytest.mark.parametrize("rule", RULES)
def test_a_budget_that_cheap_pods_would_waste_is_spent_on_what_makes_room(rule: VictimRule) -> None:
    """One of the 64 cores is free: 46 take the GPU's pod (1), three of 8, and 20 of the 24 small ones."""
    machines = crowded()
    best = best_victims(machines, asks(1, cpus=46.0, priority=10), VictimSettings(rule=rule))
    assert sum(pod.startswith("large") for pod in best.pods) == 3
    assert len(best.pods) == 1 + 3 + 20
    question = Question.of(machines, asks(1, cpus=46.0, priority=10), VictimSettings(rule=rule))
    going = [machines.number[pod] for pod in best.pods]
    assert question.fits(0, going)
    assert not any(question.fits(0, [other for other in going if other != pod]) for pod in going)


@pytest.mark.parametrize("rule", RULES)
def test_sets_that_are_too_many_are_not_begun(rule: VictimRule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is known beforehand: a crowded node costs some hundred looks, not MOST_TRIES of them."""
    looks = 0
    enough = Question.enough

    def counted(self: Question, node: int, going: object) -> bool:
        nonlocal looks
        looks += 1
        return enough(self, node, going)  # type: ignore[arg-type]

    monkeypatch.setattr(Question, "enough", counted)
    nodes = 3
    best = best_victims(crowded(nodes), asks(1, cpus=46.0, priority=10), VictimSettings(rule=rule), VictimMethod.MASKS)
    assert best is not None
    assert looks < 200 * nodes < completions.MOST_TRIES
