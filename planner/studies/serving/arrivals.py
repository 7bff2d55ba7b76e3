"""When requests come: drawn after totals and a profile over the minutes, or as counts by minute say.

| symbol | meaning | unit | source |
|---|---|---|---|
| N_m | requests of model m in all | 1 | recovered totals of the thesis' run, or a share of a rate |
| w_k | weight of minute k: 1, or `spike_factor` in `spike_minutes` | 1 | ours: the thesis' profile is not published |

N_m requests fall on minutes by a multinomial draw with weights w; within a minute they are uniform (the thesis, 5.4).

Each model is given so many random functions; their invocations of consecutive minutes from a random start are summed.
Columns: HashOwner, HashApp, HashFunction, Trigger, then 1 to 1440, one a minute of the day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from planner.errors import InputError
from planner.files.disk.csv_rows import csv_cells, number_of
from planner.studies.serving.records import ServedModel, ServingRequest

S_PER_MINUTE = 60.0
WARSAW_SPIKES = (9, 10, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalLaw:
    """Drawn arrivals. `totals`: requests of each model, before `scale`; minutes count from 0.

    Tokens of models that answer token by token: lognormal with these means (of prompts and answers; `tokens`: other
    ones by model) and that spread of the logarithm.
    """

    totals: Mapping[str, float]
    minutes: int = 30
    spike_minutes: tuple[int, ...] = WARSAW_SPIKES
    spike_factor: float = 4.0
    scale: float = 1.0
    prompt_tokens: float = 1000.0
    output_tokens: float = 200.0
    token_spread: float = 0.8
    tokens: Mapping[str, tuple[float, float]] = field(default_factory=dict)


MinuteCounts = Mapping[str, Sequence[int]]


def draw_counts(models: Sequence[ServedModel], law: ArrivalLaw, seed: int) -> dict[str, list[int]]:
    """Requests of each model in each minute."""
    weights = np.ones(law.minutes)
    weights[[minute for minute in law.spike_minutes if minute < law.minutes]] = law.spike_factor
    draws = np.random.default_rng([seed, 2])
    shares = weights / weights.sum()
    return {
        model.name: draws.multinomial(round(law.scale * law.totals.get(model.name, 0.0)), shares).tolist()
        for model in models
    }


def requests_of(
    models: Sequence[ServedModel], counts: MinuteCounts, law: ArrivalLaw, seed: int
) -> tuple[ServingRequest, ...]:
    """Requests in order of arrival, uniform within each minute of `counts`."""
    draws = np.random.default_rng([seed, 3])
    rows: list[tuple[float, int, int, int]] = []
    for place, model in enumerate(models):
        numbers = counts.get(model.name, ())
        minutes = np.repeat(np.arange(len(numbers)), numbers)
        arrival_s = S_PER_MINUTE * (minutes + draws.random(len(minutes)))
        tokens = (
            _tokens(law, model.name, len(minutes), draws)
            if model.kind.by_token
            else np.zeros((2, len(minutes)), dtype=int)
        )
        prompt_tokens, output_tokens = tokens.tolist()
        rows.extend(zip(arrival_s.tolist(), [place] * len(minutes), prompt_tokens, output_tokens, strict=True))
    rows.sort()
    return tuple(
        ServingRequest(arrival_s=at_s, model=place, prompt_tokens=prompt, output_tokens=output)
        for at_s, place, prompt, output in rows
    )


def _tokens(law: ArrivalLaw, model: str, count: int, draws: np.random.Generator) -> np.ndarray:
    """Tokens of prompts and answers, whole numbers from 1."""
    means = law.tokens.get(model, (law.prompt_tokens, law.output_tokens))
    middle = np.log([[mean] for mean in means]) - law.token_spread**2 / 2
    return np.maximum(1, np.rint(np.exp(middle + law.token_spread * draws.standard_normal((2, count))))).astype(int)


ID_COLUMNS = ("HashOwner", "HashApp", "HashFunction", "Trigger")
FUNCTIONS_PER_MODEL = 40
MOST_INVOCATIONS = 10_000_000


def read_azure_functions(
    path: Path, models: Sequence[ServedModel], *, minutes: int, seed: int, functions: int = FUNCTIONS_PER_MODEL
) -> dict[str, list[int]]:
    """Requests of each model in each minute. InputError: other columns, too few functions or minutes, no counts."""
    rows = csv_cells(path)
    header = [cell.strip() for cell in next(rows, [])]
    of_day = len(header) - len(ID_COLUMNS)
    if tuple(header[: len(ID_COLUMNS)]) != ID_COLUMNS or of_day < minutes:
        raise InputError(
            f"{path}: must have columns {', '.join(ID_COLUMNS)} and at least {minutes} of minutes, got {len(header)} "
            "columns.",
            hint="Give invocations_per_function_md.anon.d*.csv of the Azure Public Dataset.",
        )
    draws = np.random.default_rng([seed, 4])
    first = len(ID_COLUMNS) + int(draws.integers(of_day - minutes + 1))
    counts = [_counts(path, number, cells, len(header), first, minutes) for number, cells in enumerate(rows, start=1)]
    needed = functions * len(models)
    if len(counts) < needed:
        raise InputError(
            f"{path}: must hold {functions} functions for each of {len(models)} models, {needed} in all, got "
            f"{len(counts)}.",
            hint="Give a longer file, or fewer models.",
        )
    chosen = draws.choice(len(counts), size=(len(models), functions), replace=False)
    table = np.array(counts, dtype=np.int64)
    return {model.name: table[row].sum(axis=0).tolist() for model, row in zip(models, chosen, strict=True)}


def _counts(path: Path, number: int, cells: Sequence[str], width: int, first: int, minutes: int) -> list[int]:
    """A function's invocations in the minutes that are replayed."""
    values = [number_of(cell) for cell in cells[first : first + minutes]]
    if len(cells) != width or not all(0 <= value <= MOST_INVOCATIONS and value.is_integer() for value in values):
        raise InputError(
            f"{path}: row {number} must hold {width} cells, whole numbers from 0 in the minutes, got {len(cells)} "
            "cells or another value.",
            hint="Mend or drop the row.",
        )
    return [int(value) for value in values]
