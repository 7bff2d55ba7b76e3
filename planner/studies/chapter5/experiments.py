"""The evaluation of the paper as data: fleets, workloads, what is varied, and the published figures.

Source: Rignall 2025, chapter 5: tables 5.1 and 5.2, and the experiment parameters under figures 5.5-5.12. Values swept
and what they reached are not printed there: they are those of the raw runs in the thesis's public repository
(NathanRignall/llm-scheduling at cd34abe, data/outer), whose figures are 1 / rho_max.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.domain import Candidates, CostMode, IslandClass, Layout, SearchMethod, SearchSettings, Surrogate
from planner.errors import InputError
from planner.studies.chapter5.records import Case, Experiment, IslandCase, PublishedLevel, Setup

NAME = "chapter5"
TABLE = "table5.1"
DIVISIONS, TOKENS = "4.8", "5.13"
INNER_FIGURES = ("5.1", "5.2", "5.3", "5.4")
FIGURES = (DIVISIONS, TABLE, *INNER_FIGURES, *(f"5.{k}" for k in range(5, 13)), TOKENS)
PRICES = {"H200": 4.0, "H800": 2.0, "H20": 1.0}
"""USD per GPU and hour (section 5.1). The other types have none there; price plays no part in these experiments."""

ARTIFICIAL = "normal-500-2000"
CODE, CONVERSATION = "azure-code-2023", "azure-conv-2023"
MOST_TRIALS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of the study. None leaves the paper's number (or, where `small`, the small form's).

    `batch_size` counts where the batch size is not what is varied. `figures` of FIGURES; empty for all. `candidates`:
    where searches seek layouts, the paper's way or the planner's usual one.
    """

    figures: tuple[str, ...] = ()
    trials: int | None = None
    iterations: int | None = None
    batch_size: int | None = None
    seed: int = 0
    candidates: Candidates = Candidates.ACQUISITION
    mode: CostMode = CostMode.REFERENCE
    small: bool = False

    def chosen(self) -> tuple[str, ...]:
        """The figures asked for, in the paper's order. Raises InputError for an unknown one, or numbers below 1."""
        for figure in self.figures:
            if figure not in FIGURES:
                raise InputError(
                    f"figure: must be one of {', '.join(FIGURES)}, got {figure!r}.", hint="Choose one of these."
                )
        for name in ("trials", "iterations", "batch_size"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST_TRIALS:
                raise InputError(f"{name}: must lie in 1..{MOST_TRIALS}, got {value}.", hint="Choose another number.")
        return tuple(figure for figure in FIGURES if not self.figures or figure in self.figures)


def setup_of(gpus: Mapping[str, int], workload: str) -> Setup:
    """A fleet under a workload."""
    return Setup(gpus=tuple(gpus.items()), prices=tuple((gpu, PRICES.get(gpu, 0.0)) for gpu in gpus), workload=workload)


def document(setup: Setup, mode: CostMode) -> dict[str, object]:
    """The scenario of a setup, as a scenario file would hold it; the search is set trial by trial."""
    return {
        "name": f"{NAME}-{setup.workload}",
        "model": "deepseek-v3",
        "workload": setup.workload,
        "inventory": dict(setup.gpus),
        "prices_usd_per_gpu_hour": dict(setup.prices),
        "cost": {"mode": mode.value},
    }


# --- table 5.1

FLEETS: Mapping[str, Mapping[str, int]] = {
    "(a) mixed": {"H200": 64, "H800": 64, "H20": 128},
    "(b) mixed": {"H200": 32, "H800": 128, "H20": 128},
    "(c) uniform": {"H200": 128},
}
PUBLISHED: Mapping[tuple[str, str], tuple[float, float, float, float]] = {
    ("(a) mixed", CODE): (176, 20, 18, 18),
    ("(a) mixed", CONVERSATION): (138, 16, 5, 9),
    ("(b) mixed", CODE): (199, 21, 22, 15),
    ("(b) mixed", CONVERSATION): (126, 12, 45.5, 46),
    ("(c) uniform", CODE): (139, 46, 25, 22),
    ("(c) uniform", CONVERSATION): (114, 5, 7, 10),
}
"""R_total and its spread, D_total and its spread (requests/s); the table has `22pm15`, read as 22 ± 15."""

PLAIN = SearchSettings(candidates=Candidates.ACQUISITION, min_island_size=2, skew=5.0)
"""The paper's loop: every layout is one where the acquisition function is highest."""

WHOLE_SEARCH = replace(PLAIN, method=SearchMethod.DIVIDER, batch_size=16, iterations=15)


def _levels() -> tuple[Case, ...]:
    return tuple(
        Case(
            label=f"{fleet}, {workload}",
            value=float(place),
            setup=setup_of(FLEETS[fleet], workload),
            search=WHOLE_SEARCH,
            published=PublishedLevel(
                rate_rps=level[0],
                rate_spread_rps=level[1],
                deviation_rps=level[2],
                deviation_spread_rps=level[3],
            ),
        )
        for place, ((fleet, workload), level) in enumerate(PUBLISHED.items())
    )


# --- figures 5.5 to 5.12

STRONG = setup_of({"DGX-B300": 128, "H200": 256}, ARTIFICIAL)
DIVIDER = replace(PLAIN, method=SearchMethod.DIVIDER, batch_size=8, iterations=20)
DIRECT = replace(PLAIN, method=SearchMethod.DIRECT, batch_size=4, iterations=10, slots=16)
SPARSE = replace(DIRECT, surrogate=Surrogate.SAASBO)


Reached = Mapping[float, tuple[float, float]]
"""By value swept: mean and standard deviation of the trials' best rates (requests/s), as the thesis's runs end."""

BATCHES: Reached = {2: (572, 65), 4: (687, 102), 8: (743, 57), 16: (762, 50)}
SKEWS: Reached = {1: (701, 59), 3: (740, 39), 5: (745, 53)}
SIZES: Reached = {2: (706, 74), 4: (530, 21), 8: (365, 16), 16: (192, 20)}
DIRECT_BATCHES: Reached = {2: (171, 44), 4: (248, 21), 8: (282, 10), 16: (298, 3.4)}
SPARSE_BATCHES: Reached = {2: (99, 27), 4: (146, 61), 8: (250, 48)}
SLOTS: Reached = {8: (124, 22), 16: (104, 20), 32: (318, 183)}


def paper() -> tuple[Experiment, ...]:
    """Every outer-loop experiment of the chapter with its settings."""
    return (
        Experiment(name="inventories", figures=(TABLE,), parameter="fleet and trace", trials=5, cases=_levels()),
        _experiment("batch size", ("5.5", "5.6"), 10, "batch_size", BATCHES, DIVIDER),
        _experiment("skew range", ("5.7",), 10, "skew", SKEWS, DIVIDER),
        _experiment("least island size", ("5.8",), 10, "min_island_size", SIZES, DIVIDER),
        _experiment("direct, batch size, SAASBO", ("5.9", "5.11"), 5, "batch_size", SPARSE_BATCHES, SPARSE),
        _experiment("direct, batch size, BO", ("5.10", "5.11"), 5, "batch_size", DIRECT_BATCHES, DIRECT),
        _experiment("direct, slots, SAASBO", ("5.12",), 5, "slots", SLOTS, SPARSE),
    )


PARAMETERS = {"batch_size": "batch size", "skew": "skew range (±)", "min_island_size": "least island size (GPUs)"}


def _experiment(
    name: str, figures: tuple[str, ...], trials: int, field: str, reached: Reached, search: SearchSettings
) -> Experiment:
    return Experiment(
        name=name,
        figures=figures,
        parameter=PARAMETERS.get(field, "slots per GPU type"),
        trials=trials,
        cases=tuple(_swept(field, value, level, search) for value, level in reached.items()),
    )


def _swept(field: str, value: float, level: tuple[float, float], search: SearchSettings) -> Case:
    change: dict[str, Any] = {field: float(value) if field == "skew" else value}
    return Case(
        label=f"{value:g}",
        value=float(value),
        setup=STRONG,
        search=replace(search, **change),
        published=PublishedLevel(rate_rps=level[0], rate_spread_rps=level[1]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SmallForm:
    """Fewer trials, rounds and values, and a smaller batch where it is not what is varied."""

    trials: int
    iterations: int
    batch_size: int
    values: tuple[float, ...]


SMALL: Mapping[str, _SmallForm] = {
    "inventories": _SmallForm(trials=2, iterations=3, batch_size=8, values=(0, 1, 2, 3, 4, 5)),
    "batch size": _SmallForm(trials=2, iterations=4, batch_size=8, values=(2, 4, 8)),
    "skew range": _SmallForm(trials=2, iterations=4, batch_size=8, values=(1, 5)),
    "least island size": _SmallForm(trials=2, iterations=4, batch_size=8, values=(2, 4, 8)),
    "direct, batch size, SAASBO": _SmallForm(trials=2, iterations=3, batch_size=4, values=(2, 4)),
    "direct, batch size, BO": _SmallForm(trials=2, iterations=3, batch_size=4, values=(2, 4)),
    "direct, slots, SAASBO": _SmallForm(trials=2, iterations=3, batch_size=4, values=(8, 16)),
}
"""All of it takes about eight minutes on one core."""


def experiments(request: Request) -> tuple[Experiment, ...]:
    """What the figures asked for need, in the chapter's order. Raises InputError as `Request.chosen` does."""
    figures = set(request.chosen())
    return tuple(_requested(experiment, request) for experiment in paper() if figures & set(experiment.figures))


def _requested(experiment: Experiment, request: Request) -> Experiment:
    form = SMALL[experiment.name] if request.small else None
    values = form.values if form else tuple(case.value for case in experiment.cases)
    swept = {case.search.batch_size for case in experiment.cases}
    changes: dict[str, Any] = {"seed": request.seed, "candidates": request.candidates}
    iterations = request.iterations or (form.iterations if form else None)
    if iterations:
        changes["iterations"] = iterations
    batch_size = request.batch_size or (form.batch_size if form else None)
    if batch_size and len(swept) == 1:
        changes["batch_size"] = batch_size
    cases = [case for case in experiment.cases if case.value in values]
    return replace(
        experiment,
        trials=request.trials or (form.trials if form else experiment.trials),
        cases=tuple(replace(case, search=replace(case.search, **changes)) for case in cases),
    )


# --- table 5.2

_LADDER = ((32, 1), (16, 1), (8, 1), (4, 2))
_SMALL_ISLANDS = ((8, 4), (4, 8))
ISLANDS: tuple[tuple[str, str, Mapping[str, tuple[tuple[int, int], ...]]], ...] = (
    ("(a)", "one type, one size", {"DGX-B300": ((32, 8),)}),
    ("(b)", "one type, several sizes", {"DGX-B300": ((32, 2), (16, 4), (8, 8), (4, 16))}),
    ("(c)", "four types, one size", dict.fromkeys(("DGX-B300", "Rubin-NVL144", "H800", "H20"), ((32, 2),))),
    (
        "(d)",
        "four types, several sizes",
        {"DGX-B300": _LADDER, "Rubin-NVL144": _LADDER, "H200": _SMALL_ISLANDS, "H20": _SMALL_ISLANDS},
    ),
)
"""Label, title, and per GPU type (size, count)."""


def island_cases(request: Request) -> tuple[IslandCase, ...]:
    """The given islands of the inner problem, where a figure that shows them is asked for."""
    if not set(request.chosen()) & set(INNER_FIGURES):
        return ()
    return tuple(
        IslandCase(
            label=label,
            title=title,
            setup=setup_of({gpu: sum(size * count for size, count in rows) for gpu, rows in types.items()}, ARTIFICIAL),
            layout=Layout.of(
                IslandClass(gpu=gpu, size=size)
                for gpu, rows in types.items()
                for size, count in rows
                for _ in range(count)
            ),
        )
        for label, title, types in ISLANDS
    )
