"""Speculative decoding: what drafts tokens, how many, and how many of them are accepted.

A pass verifies k drafted tokens of every sequence beside its next one, and yields 1 + a1 + a1 a2 + ... + a1 ... ak
tokens: a[i] is the chance of the i-th drafted token where those before it were accepted.

Chances that were measured, and stand where nobody gives others:

| method | a1, a2, a3 | measured of |
|---|---|---|
| mtp | 0.80, 0.50, 0.60 | DeepSeek-R1 and V3: 1.81, 2.18 and 2.44 tokens a pass with one, two and three drafted |
| eagle | 0.70, 0.68, 0.62 | Llama-3.1-8B, Qwen3-8B and gpt-oss-20b, their mean: 1.70, 2.18 and 2.47 tokens |

Of other models they are carried over. Sources: vLLM, pull request 12755 (R1, one drafted: 81 to 82.3 %); LMSYS,
"Accelerating SGLang with Multiple Token Prediction", July 2025 (V3, two and three); vLLM,
tests/v1/spec_decode/test_acceptance_length.py (EAGLE-3 on MT-Bench, temperature 0). DeepSeek's own report has 85 to
90 % for the first token (arXiv 2412.19437, section 5.4.3): less is promised here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from operator import mul
from types import MappingProxyType
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.model.sizes import Size, SizeOrNone

MOST_DRAFTED = 8


class DraftMethod(StrEnum):
    """`mtp`: the model's own layers for further tokens. `eagle`: a small model of its own, in the manner of EAGLE-3."""

    MTP = "mtp"
    EAGLE = "eagle"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Chances by position, and what the names of the models begin with that they were measured of."""

    acceptance: tuple[float, ...]
    models: tuple[str, ...]


_MEASURED: Mapping[DraftMethod, _Measured] = MappingProxyType(
    {
        DraftMethod.MTP: _Measured(acceptance=(0.80, 0.50, 0.60), models=("deepseek-v3", "deepseek-r1")),
        DraftMethod.EAGLE: _Measured(acceptance=(0.70, 0.68, 0.62), models=("llama-3.1-8b", "qwen3-8b", "gpt-oss-20b")),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """A draft in the manner of EAGLE-3: one dense layer as wide as the model, in 16 bits, and a head of its own."""

    uri: Annotated[str, Key("where engines load it from")]
    vocab_size: Annotated[Size, Key("of its own head", unit="tokens")] = 32_000
    ffn_size: Annotated[SizeOrNone, Key("0: as the model's widest dense FFN, else four times its width")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How tokens are drafted. `tokens` a step (None: each pool has what serves most); `acceptance`: the chance of each
    (of further ones the last; empty: what was measured); `draft`: EAGLE's model."""

    method: Annotated[DraftMethod, Key("what drafts")] = DraftMethod.MTP
    tokens: Annotated[int | None, Bounds(low=0, high=MOST_DRAFTED), Key("drafted a step, or auto")] = None
    acceptance: Annotated[
        tuple[float, ...], Bounds(above=0, high=1), Key("chance of each, if those before it were accepted", sparse=True)
    ] = ()
    draft: Annotated[DraftModel | None, Key("what EAGLE drafts with: its uri, or a section", sparse=True)] = None

    @property
    def chances(self) -> tuple[float, ...]:
        """Of as many drafted tokens as anything is known of."""
        return self.acceptance or _MEASURED[self.method].acceptance

    @property
    def choices(self) -> tuple[int | None, ...]:
        """Numbers of tokens that a pool may choose from: as many as chances are known of; None: there is no choice."""
        return (None,) if self.tokens is not None else tuple(range(1 + min(MOST_DRAFTED, len(self.chances))))

    @property
    def drafted(self) -> int:
        """Tokens drafted a step; 0 as long as they are the planner's choice."""
        return self.tokens or 0

    @property
    def gain(self) -> float:
        """Tokens that a pass yields a sequence."""
        return self.gained(self.drafted)

    def gained(self, tokens: int) -> float:
        """Tokens that a pass yields a sequence with so many drafted."""
        chances = (*self.chances, *[self.chances[-1]] * (tokens - len(self.chances)))
        every: float = sum(accumulate(chances[:tokens], mul), 1.0)
        return every

    def carried_over(self, model: str) -> bool:
        """Whether the chances were measured of other models, and nobody gave the model's own."""
        return not self.acceptance and not model.lower().startswith(_MEASURED[self.method].models)
