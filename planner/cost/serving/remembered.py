"""Servers that were priced before on the same buckets are not priced again.

A plan asks for the same prices many times over: for each form of its pools, for its bound, for one node more and one
less; a question of money for every fleet that it tries. Prices follow from what is asked alone: model, GPU type and
settings, servers, and numbers of the ranges, which are compared to the last bit, whatever buckets mix them. What is
remembered cannot be written to.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from planner.cost.device import CostContext
from planner.cost.serving.buckets import Buckets

MANY = 40_000
"""Servers times ranges of the largest answer that is remembered: 62 MB at 39 batches and five times (ms) of each."""
MOST_NUMBERS = 40_000_000
"""Of all answers of a pricing: 320 MB."""

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


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    """The answer for some servers; `rows`: of each of them. `size`: numbers that it has."""

    rows: Mapping[object, int]
    servers: T
    size: int


class _Memory(Generic[T]):
    """Answers by question, the last that were asked for; of one question several, for different servers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, list[_Answer[T]]] = OrderedDict()
        self._size = 0

    def answer(self, question: Hashable, options: Sequence[object]) -> T | None:
        """The answer for these servers, drawn from one for more where there is one; None: nobody asked."""
        for answer in self._answers.get(question, ()):
            if all(option in answer.rows for option in options):
                self._answers.move_to_end(question)
                rows = [answer.rows[option] for option in options]
                if rows == list(range(len(answer.rows))):
                    return answer.servers
                drawn: T = answer.servers.among(rows)  # type: ignore[attr-defined]  # records of servers have it
                return _unwritable(drawn)
        return None

    def keep(self, question: Hashable, options: Sequence[object], servers: T) -> None:
        """Remember an answer; the oldest are forgotten."""
        answer = _Answer({option: row for row, option in enumerate(options)}, servers, _size_of(servers))
        alike = [old for old in self._answers.pop(question, []) if not set(old.rows) <= set(answer.rows)]
        self._answers[question] = [*alike, answer]
        self._size = sum(old.size for answers in self._answers.values() for old in answers)
        while self._size > MOST_NUMBERS and len(self._answers) > 1:
            _, oldest = self._answers.popitem(last=False)
            self._size -= sum(old.size for old in oldest)


def _size_of(answer: object) -> int:
    values = (getattr(answer, column.name) for column in fields(answer))  # type: ignore[arg-type]  # records all
    return sum(value.size for value in values if isinstance(value, np.ndarray))


def remembered(
    order: Callable[[Sequence[Any]], Sequence[Any]] = tuple,
) -> Callable[[Pricing[T, Option, P]], Pricing[T, Option, P]]:
    """A pricing `of(cls, context, options, buckets, ...)` of ranges, which answers the same question once, also for
    some of the servers of before, if it is not too large: what nobody asks again would fill the memory. `order`: that
    of the answer's rows."""

    def remembering(price: Pricing[T, Option, P]) -> Pricing[T, Option, P]:
        memory = _Memory[T]()

        def of(
            cls: Any, context: CostContext, options: Sequence[Option], buckets: Buckets, /, *more: Any, **keywords: Any
        ) -> T:
            if len(options) * len(buckets.prompts) > MANY or not options:
                return price(cls, context, options, buckets, *more, **keywords)
            ranges, rows = _Ranges.of(buckets), order(options)
            hashable = tuple(tuple(value) if isinstance(value, list) else value for value in more)
            question = (cls, context, ranges, hashable, tuple(sorted(keywords.items())))
            answer = memory.answer(question, rows)
            if answer is None:
                answer = _unwritable(price(cls, context, options, ranges.alone, *more, **keywords))
                memory.keep(question, rows, answer)
            return answer

        return update_wrapper(of, price)

    return remembering


def _unwritable(answer: T) -> T:
    """The same record, whose arrays refuse to be written to."""
    for name in (column.name for column in fields(answer)):  # type: ignore[arg-type]  # records all
        value = getattr(answer, name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return answer
