"""Servers that are faster or slower than predicted: what is priced for the prediction, at another pace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from planner.cost.device import CostContext
from planner.domain import Phase

P = ParamSpec("P")
T = TypeVar("T")
Option = TypeVar("Option")
Pricing = Callable[Concatenate[type[T], CostContext, Sequence[Option], P], T]


def paced(phase: Phase) -> Callable[[Pricing[T, Option, P]], Pricing[T, Option, P]]:
    """A pricing `of(cls, context, options, ...)` of servers of a phase, which heeds `settings.paces`. It is asked
    without them, so that what it remembers serves every pace."""

    def pacing(price: Pricing[T, Option, P]) -> Pricing[T, Option, P]:
        def of(cls: Any, context: CostContext, options: Sequence[Option], /, *more: Any, **keywords: Any) -> T:
            paces = context.settings.paces
            if not paces:
                return price(cls, context, options, *more, **keywords)
            predicted = replace(context, settings=replace(context.settings, paces=()))
            pace = next((row.pace for row in paces if (row.gpu, row.phase) == (context.gpu.name, phase)), 1.0)
            servers: Any = price(cls, predicted, options, *more, **keywords)
            at_pace: T = servers.at_pace(pace)
            return at_pace

        return update_wrapper(of, price)

    return pacing
