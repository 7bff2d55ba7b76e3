"""Words and numbers that victims are asked for with: text for members, and what there is not."""

from collections.abc import Callable

import pytest
from victim_machines import asks, machine

from planner.domain import Pod, VictimMethod, VictimRule, VictimSettings
from planner.errors import InputError
from planner.placement.victims import Machines, best_victims, standard_preemption, victims_of

SCORED = VictimSettings()


def test_words_stand_for_methods_rules_and_qos() -> None:
    """As text they give what the members give, not silently something else."""
    machines = machine(sockets=2, numas=4)
    for number, (gpus, priority, hours) in enumerate((((0, 1), 5, 0), ((2, 3), 1, 9), ((4, 5, 6, 7), 3, 1))):
        machines.add(0, f"pod-{number}", gpus, priority=priority, checkpoint_age_s=3600 * hours)
    for method in VictimMethod:
        for rule in VictimRule:
            told = best_victims(machines, asks(2), VictimSettings(rule=rule), method)
            assert told == best_victims(machines, asks(2, "guaranteed"), VictimSettings(rule=rule.value), method.value)  # type: ignore[arg-type]
        assert victims_of(machines, asks(2), SCORED, method=method.value) == victims_of(  # type: ignore[arg-type]
            machines, asks(2), SCORED, method=method
        )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: best_victims(machine(), asks(1), SCORED, "foo"), "best_victims: method: must be one of standard, "),  # type: ignore[arg-type]
        (lambda: victims_of(machine(), asks(1), SCORED, method="foo"), "victims_of: method: must be one of .* 'foo'"),  # type: ignore[arg-type]
        (lambda: VictimSettings(rule="least"), "preemption.rule: must be one of score, lost_work, combined"),  # type: ignore[arg-type]
        (lambda: standard_preemption(machine(), asks(1), policy="foo"), "policy: must be random or best, got 'foo'"),  # type: ignore[arg-type]
        (lambda: standard_preemption(machine(), asks(1), policy="best", tie="x"), "tie: must be key or start"),  # type: ignore[arg-type]
        (lambda: asks(1, "firm"), "preemptor newcomer: qos: must be one of single_numa"),  # type: ignore[arg-type]
        (lambda: asks(2.5), "preemptor newcomer: gpus: must be a whole number, got 2.5"),  # type: ignore[arg-type]
        (lambda: asks(1, priority=2**31), "preemptor newcomer: priority: must be from -2147483648 to 2147483647"),
        (lambda: Machines.uniform(1, gpus=17), "machines: gpus: must be at most 16 a node, got 17"),
        (lambda: Machines.uniform(1, sockets=0), "machines: sockets: must be at least 1, got 0"),
        (lambda: machine(nodes=5).add(5, "p", (0,), priority=1), "node: must be the number of one of the 5 nodes"),
        (lambda: machine(nodes=5).add(-1, "p", (0,), priority=1), "from 0, got -1"),
        (lambda: machine().add(0, "p", (0,), priority=2**63), "pod p: priority: must be from -2147483648"),
        (lambda: machine().add(0, "p", (0,), priority=0.5), "pod p: priority: must be a whole number"),  # type: ignore[arg-type]
        (lambda: machine().add_record(-1, Pod(name="p", node="x", gpus=(0,))), "from 0, got -1"),
    ],
)
def test_words_and_numbers_that_there_are_not(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
