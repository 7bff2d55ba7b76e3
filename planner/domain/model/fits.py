"""On how few GPUs of a type a model can be served."""

from dataclasses import dataclass

from planner.domain.layout import ParallelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFit:
    """The fewest GPUs of a type that hold a copy of a model and a sequence of `tokens` (0: none were found). `degrees`:
    those that an engine takes on so many, each with how many such sequences it holds. `refusal`: why there are none."""

    gpu: str
    gpus: int
    tokens: int
    degrees: tuple[tuple[ParallelConfig, int], ...] = ()
    refusal: str = ""
