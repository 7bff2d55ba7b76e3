"""Servers that were priced before on the same buckets are not priced again.

A plan asks for the same prices many times over: for each form of its pools, for its bound, for one node more and one
less; a question of money for every fleet that it tries. Prices follow from what is asked alone: model, GPU type and
settings, servers, and numbers of the ranges, which are compared to the last bit, whatever buckets mix them. What is
remembered cannot be written to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from planner.cost.device import CostContext
from planner.cost.serving.buckets import Buckets

FEW = 400
"""Servers times ranges of a small answer. They are remembered apart, as many a bound asks for would push them out."""
MANY = 5_000
"""Of the largest that are remembered: 8 MB at 39 batches and five times (ms) of each."""
MOST_FEW, MOST_MANY = 256, 12  # answers at a time; each is full at some 100 MB, mostly far from it

P = ParamSpec("P")
T = TypeVar("T")
Option = TypeVar("Option")
Pricing = Callable[Concatenate[type[T], CostContext, Sequence[Option], Buckets, P], T]


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Ranges of a workload, equal where their numbers are; `alone` are they without the buckets that mix them."""

    numbers: tuple[bytes, ...]
    alone: Buckets = field(compare=False)

    @classmethod
    def of(cls, buckets: Buckets) -> "_Ranges":
        """A pricing that asked for the mixes would find none."""
        ranges = len(buckets.prompts)
        alone = replace(buckets, intervals=(), weights=np.empty((0, ranges)), probabilities=np.empty(0))
        return cls(tuple(column.tobytes() for column in (alone.prompts, alone.longest, alone.answers)), alone)


def remembered(price: Pricing[T, Option, P]) -> Pricing[T, Option, P]:
    """A pricing `of(cls, context, options, buckets, ...)` of ranges, which answers the same question once, if it is not
    too large: what nobody asks again would fill the memory."""

    def priced(cls: Any, context: CostContext, options: Any, ranges: _Ranges, *more: Any, **keywords: Any) -> T:
        answer: T = price(cls, context, options, ranges.alone, *more, **keywords)
        return _unwritable(answer)

    small, large = lru_cache(maxsize=MOST_FEW)(priced), lru_cache(maxsize=MOST_MANY)(priced)

    def of(
        cls: Any, context: CostContext, options: Sequence[Option], buckets: Buckets, /, *more: Any, **keywords: Any
    ) -> T:
        size = len(options) * len(buckets.prompts)
        if size > MANY:
            return price(cls, context, options, buckets, *more, **keywords)
        memory = small if size <= FEW else large
        hashable = (tuple(value) if isinstance(value, list) else value for value in more)
        return memory(cls, context, tuple(options), _Ranges.of(buckets), *hashable, **keywords)

    return update_wrapper(of, price)


def _unwritable(answer: T) -> T:
    """The same record, whose arrays refuse to be written to."""
    for name in (column.name for column in fields(answer)):  # type: ignore[arg-type]  # records all
        value = getattr(answer, name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return answer
