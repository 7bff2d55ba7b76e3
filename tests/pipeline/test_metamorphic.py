"""What must not make a plan worse does not: more GPUs and types, looser levels, copies, dearer money, another order.

A sample here; `make study` draws 2,000 checks.
"""

from dataclasses import replace

import pytest
from metamorphic import CHANGES, GAP, Check, Draw, checks, outcome

from planner.domain import ServingForm, worth_of

SAMPLE = (0, 2)
MANY = range(175)


def worse(made: list[Check]) -> list[str]:
    """The checks that do not hold, in words."""
    return [
        f"{check.name}: {check.better.value:.4f} (bound {check.better.bound:.4f}) for {check.least:.4f} of {check.draw}"
        for check in made
        if not check.holds
    ]


LEVELLED = Draw(
    fleet=(("H800", 24),),
    model="qwen3-30b-a3b",
    workload="azure-conv-2023",
    serving="auto",
    ttft_ms=3000.0,
    tpot_ms=45.0,
    percentile=95,
)


def test_free_forms_are_compared_as_the_rule_compares_that_chooses_them() -> None:
    """Split pools may serve more under levels than aggregated ones without: their rates are no broken order."""
    forms = {form: outcome(replace(LEVELLED, serving=form)) for form in ("split", "aggregated")}
    free = outcome(LEVELLED)
    # Where forms are free split pools may have servers of both phases beside them, and serve more.
    assert free.served >= forms[free.form.value].served * (1 - GAP)
    best = max(worth_of(alone.served, ServingForm(form)) for form, alone in forms.items())
    assert best * (1 - GAP) <= free.value <= free.bound * (1 + 1e-6)
    loose = outcome(replace(LEVELLED, ttft_ms=0.0))
    assert Check(name="no levels", draw=LEVELLED, least=free.value, better=loose).holds


@pytest.mark.parametrize("seed", SAMPLE)
def test_nothing_is_worse_beyond_the_gap(seed: int) -> None:
    assert worse(list(checks(seed))) == []


@pytest.mark.study
def test_of_two_thousand_checks_none_is_worse_beyond_the_gap() -> None:
    made = [check for seed in MANY for check in checks(seed)]
    assert len(made) >= 2000
    assert {check.name for check in made} >= {*CHANGES, "two fleets together"}
    assert sum(check.better.value > check.least > 0 for check in made) >= 1000  # most of them change something
    assert worse(made) == []
