"""Simple layouts of a whole inventory: one kind of island per GPU type, or islands of one type alone.

| symbol | meaning | unit |
|---|---|---|
| P, D | rate of all islands of a type, did they nothing but prefill, or decode, the whole mix | requests/s |
| f | share of a type's islands that prefill | 1 |

A layout promises max over f of min(sum f P, sum (1 - f) D): types with the largest P / D prefill first. It is a guess
to choose by, not a bound: islands told apart by length serve more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from planner.assignment import IslandKind, Offer
from planner.domain import IslandClass, Layout, Phase

MOST_SIZES = 5
"""Sizes of a type that are combined with those of the others, of each phase."""

MOST_MIXED = 4
"""Layouts of all types that are worth judging, those of most promise."""

TINY = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uniform:
    """All islands of one type, of one size."""

    island: IslandClass
    count: int
    prefill_rps: float
    decode_rps: float


def simple_layouts(offer: Offer) -> list[Layout]:
    """The most promising simple layouts of an offer whose `roles` are known, best first."""
    by_type = [
        list(_uniform(kinds, gpus, offer.probabilities)) for kinds, gpus in zip(offer.roles, offer.counts, strict=True)
    ]
    alone = [(max(sizes, key=lambda uniform: _promise([uniform])),) for sizes in by_type if sizes]
    mixed = sorted(product(*(_few(sizes) for sizes in by_type if sizes)), key=_promise, reverse=True)
    chosen = sorted([*mixed[:MOST_MIXED], *alone], key=_promise, reverse=True)
    layouts = (
        Layout.of(uniform.island for uniform in each for _ in range(uniform.count))
        for each in chosen
        if _promise(each) > 0
    )
    return list(dict.fromkeys(layouts))


def _uniform(kinds: Sequence[IslandKind], gpus: int, probabilities: Sequence[float]) -> Iterator[_Uniform]:
    """All GPUs of a type in islands of one size, for each size."""
    best: dict[tuple[IslandClass, Phase], float] = {}
    for kind in kinds:
        key = (kind.island.plain, kind.phase)
        best[key] = max(best.get(key, 0.0), _mix_rps(kind, probabilities))
    for island in sorted({island for island, _ in best}):
        count = gpus // island.size
        yield _Uniform(
            island=island,
            count=count,
            prefill_rps=count * best.get((island, Phase.PREFILL), 0.0),
            decode_rps=count * best.get((island, Phase.DECODE), 0.0),
        )


def _mix_rps(kind: IslandKind, probabilities: Sequence[float]) -> float:
    """Rate of one island on the whole mix; 0 where it does not serve all of it."""
    rates = kind.shared_rps
    return 1 / sum(p / rate for p, rate in zip(probabilities, rates, strict=True)) if min(rates) > 0 else 0.0


def _few(sizes: Sequence[_Uniform]) -> list[_Uniform]:
    """The sizes that prefill or decode fastest."""
    prefill = sorted(sizes, key=lambda uniform: -uniform.prefill_rps)[:MOST_SIZES]
    decode = sorted(sizes, key=lambda uniform: -uniform.decode_rps)[:MOST_SIZES]
    return list({uniform.island: uniform for uniform in (*prefill, *decode)}.values())


def _promise(each: Sequence[_Uniform]) -> float:
    """max over f of min(sum f P, sum (1 - f) D), fractions of islands allowed."""
    first = sorted(each, key=lambda uniform: uniform.prefill_rps / max(uniform.decode_rps, TINY), reverse=True)
    prefill, decode = 0.0, sum(uniform.decode_rps for uniform in first)
    for uniform in first:
        if prefill + uniform.prefill_rps >= decode - uniform.decode_rps:
            both = uniform.prefill_rps + uniform.decode_rps
            share = (decode - prefill) / both if both > 0 else 0.0
            return prefill + share * uniform.prefill_rps
        prefill += uniform.prefill_rps
        decode -= uniform.decode_rps
    return min(prefill, decode)
