"""The performance table: one row an island class, all sizes of a GPU type at once.

A replica's rate depends on its shape alone, so each shape is computed once and every size that holds copies of it
multiplies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, divisors
from planner.cost.backend import TabulatedBackend, open_backend
from planner.cost.device import CostContext, require_figures
from planner.cost.grid import Degrees, RateGrid, mean_prompts
from planner.cost.parallelism import choose, further, replica_shapes, require_drafts
from planner.cost.rates import decode_rates, prefill_rates
from planner.cost.reference import reference_configurations, reference_rates
from planner.cost.residuals.bands import band_of, origin_of
from planner.cost.service_levels import ServiceBounds
from planner.domain import (
    PHASES,
    Band,
    ClassPerformance,
    CostMode,
    CostSettings,
    CostSource,
    GpuSpec,
    IslandClass,
    ModelSpec,
    Origin,
    ParallelConfig,
    Phase,
    PhasePerformance,
    SloSettings,
    Workload,
)
from planner.errors import InputError

LARGEST_SOUGHT_ISLAND = 512
MOST_FURTHER = 2  # configurations for prefill beside the one that suits all ranges best
_SHAPES_AT_ONCE = 256  # bounds the arrays to a few megabytes


def tabulate(
    gpu: GpuSpec,
    size: int,
    *,
    model: ModelSpec,
    workload: Workload,
    settings: CostSettings,
    slo: SloSettings | None = None,
) -> ClassPerformance:
    """What an island of `size` GPUs does in each phase and range, at its one best configuration per phase."""
    return tabulate_sizes(gpu, [size], model=model, workload=workload, settings=settings, slo=slo)[0]


def tabulate_sizes(
    gpu: GpuSpec,
    sizes: Sequence[int],
    *,
    model: ModelSpec,
    workload: Workload,
    settings: CostSettings,
    slo: SloSettings | None = None,
) -> list[ClassPerformance]:
    """`tabulate` for every size, much cheaper than one by one. Rates keep to `slo`; reference mode does not heed it.

    Raises InputError where the GPU lacks a figure, or a profile has nothing on it.
    """
    require_figures(gpu)
    require_drafts(model, settings)
    context = CostContext(gpu=gpu, model=model, settings=settings)
    halves = {phase: _phase(context, sizes, phase, workload, slo) for phase in PHASES}
    return [
        ClassPerformance(
            island=IslandClass(gpu=gpu.name, size=size),
            prefill=prefill[0],
            decode=decode[0],
            further=tuple(
                (phase, performance)
                for phase, performances in zip(PHASES, (prefill, decode), strict=True)
                for performance in performances[1:]
            ),
        )
        for size, prefill, decode in zip(sizes, halves[Phase.PREFILL], halves[Phase.DECODE], strict=True)
    ]


def require_placeable(settings: CostSettings) -> None:
    """Raises InputError in reference mode and of a profile's times: neither knows where GPUs lie."""
    if settings.mode is CostMode.REFERENCE or settings.source is CostSource.TABULATED:
        raise InputError(
            f"cost: mode must be default and source analytic to price a placement, got {settings.mode.value}, "
            f"{settings.source.value}.",
            hint="Leave out the cluster, or choose the formulas.",
        )


def tabulate_placed(
    gpu: GpuSpec,
    phase: Phase,
    parallel: ParallelConfig,
    *,
    model: ModelSpec,
    workload: Workload,
    settings: CostSettings,
    slo: SloSettings | None = None,
) -> PhasePerformance:
    """What an island of this configuration does where it lies (`settings.reach`); every replica like the worst.

    Raises InputError in reference mode and of a profile's times: neither knows where GPUs lie.
    """
    require_placeable(settings)
    require_figures(gpu)
    context = CostContext(gpu=gpu, model=model, settings=settings)
    grid = _RATES[phase](
        open_backend(context), context, workload, Degrees.of([parallel]), ServiceBounds.of(slo, workload)
    )
    shapes = _Shapes.priced(context, phase, [parallel], {parallel.devices: range(1)}, grid)
    return _performance(shapes, 0, parallel.replicas, grid.rates_rps[0] * parallel.replicas)


def smallest_island(
    gpu: GpuSpec,
    phase: Phase,
    *,
    model: ModelSpec,
    workload: Workload,
    settings: CostSettings,
    slo: SloSettings | None = None,
) -> int | None:
    """Fewest GPUs of this type that serve every range of `phase` in one island; None beyond 512 GPUs."""
    require_figures(gpu)
    context = CostContext(gpu=gpu, model=model, settings=settings)
    for first in range(1, LARGEST_SOUGHT_ISLAND + 1, 64):
        # Piece by piece: most models fit into the first.
        sizes = range(first, first + 64)
        for size, rows in zip(sizes, _phase(context, sizes, phase, workload, slo), strict=True):
            if all(rate > 0 for rate in rows[0].rates_rps):
                return size
    return None


def _phase(
    context: CostContext,
    sizes: Sequence[int],
    phase: Phase,
    workload: Workload,
    slo: SloSettings | None,
) -> list[list[PhasePerformance]]:
    """By size the configuration that an island runs; of prefill under bounds on TTFT also others that do better on some
    ranges."""
    if context.settings.mode is CostMode.REFERENCE:
        return [[_reference_row(context, size, phase, workload)] for size in sizes]
    shapes = _Shapes.of(context, sizes, phase, workload, slo)
    probabilities = np.array([r.probability for r in workload.ranges])
    bounds = ServiceBounds.of(slo, workload)
    # Only where waits count may several configurations beat one that suits all ranges.
    queues = phase is Phase.PREFILL and bounds is not None and bounds.bounds_ttft
    further_count = MOST_FURTHER if queues else 0
    return [_rows(shapes, size, probabilities, context, further_count) for size in sizes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """Replica shapes of every number of GPUs that some size holds copies of, and what one replica does."""

    configs: list[ParallelConfig]
    rows: dict[int, range]
    grid: RateGrid
    origin: tuple[Origin, str]
    band: Band | None

    @classmethod
    def of(
        cls,
        context: CostContext,
        sizes: Sequence[int],
        phase: Phase,
        workload: Workload,
        slo: SloSettings | None,
    ) -> "_Shapes":
        """The shapes for `sizes`, computed in pieces that bound the memory they take."""
        configs: list[ParallelConfig] = []
        rows: dict[int, range] = {}
        for devices in sorted({d for size in sizes for d in divisors(size)}):
            shapes = replica_shapes(context, devices)
            rows[devices] = range(len(configs), len(configs) + len(shapes))
            configs += shapes
        backend, of_phase = open_backend(context), _RATES[phase]
        if isinstance(backend, TabulatedBackend):
            backend.require_coverage(phase, mean_prompts(workload))
        bounds = ServiceBounds.of(slo, workload)
        pieces = [
            of_phase(backend, context, workload, Degrees.of(configs[k : k + _SHAPES_AT_ONCE]), bounds)
            for k in range(0, len(configs), _SHAPES_AT_ONCE)
        ]
        return cls.priced(context, phase, configs, rows, RateGrid.joined(pieces, len(workload.ranges)))

    @classmethod
    def priced(
        cls, context: CostContext, phase: Phase, configs: list[ParallelConfig], rows: dict[int, range], grid: RateGrid
    ) -> "_Shapes":
        """Shapes whose rates are there, with where these come from and how sure they are."""
        band = band_of(context.gpu, context.model, phase, context.settings)
        return cls(configs=configs, rows=rows, grid=grid, origin=origin_in(context, phase), band=band)

    def of_size(self, size: int) -> Iterator[tuple[int, int]]:
        """(row, copies) of every configuration of `size` GPUs, fewest replicas first."""
        for devices in reversed(divisors(size)):
            for row in self.rows[devices]:
                yield row, size // devices


def origin_in(context: CostContext, phase: Phase) -> tuple[Origin, str]:
    """Where times in a context come from, in a class and in words."""
    if context.settings.source is CostSource.TABULATED:
        return Origin.USER, "profile: step times interpolated"
    return origin_of(context.gpu, context.model, phase, context.settings)


_RATES = {Phase.PREFILL: prefill_rates, Phase.DECODE: decode_rates}


def _rows(
    shapes: _Shapes, size: int, probabilities: Array, context: CostContext, further_count: int
) -> list[PhasePerformance]:
    """The configuration of an island, and at most so many `further` ones."""
    pairs = list(shapes.of_size(size))
    if not pairs:
        return [_idle(len(probabilities), f"no parallel configuration of {size} GPUs suits {context.model.name}")]
    rows, copies = (np.array(column) for column in zip(*pairs, strict=True))
    rates = shapes.grid.rates_rps[rows] * copies[:, None]
    served = (rates > 0).sum(axis=1)
    chosen = choose(rates, probabilities, among=np.flatnonzero(served == served.max()).tolist())
    if chosen is None:
        return [_idle(len(probabilities), _shortage(context, [shapes.configs[row] for row in rows]))]
    return [
        _performance(shapes, int(rows[k]), int(copies[k]), rates[k])
        for k in (chosen, *further(rates, probabilities, chosen, further_count))
    ]


def _performance(shapes: _Shapes, row: int, copies: int, rates: Array) -> PhasePerformance:
    """`copies` replicas of one shape, which have these rates together."""
    config, (origin, source) = shapes.configs[row], shapes.origin
    return PhasePerformance(
        parallel=ParallelConfig(tp=config.tp, dp=config.dp, pp=config.pp, replicas=copies),
        rates_rps=tuple(rates.tolist()),
        batch_sizes=tuple(shapes.grid.batch_sizes[row].astype(int).tolist()),
        step_ms=tuple(shapes.grid.step_ms[row].tolist()),
        origin=origin,
        origin_source=source,
        band=shapes.band,
        utilisation_limits=_cells(shapes.grid.utilisation_limits, row),
        service_ms=_cells(shapes.grid.service_ms, row),
    )


def _cells(grid: Array | None, row: int) -> tuple[float, ...]:
    return () if grid is None else tuple(grid[row].tolist())


def _reference_row(context: CostContext, size: int, phase: Phase, workload: Workload) -> PhasePerformance:
    gpu, model = context.gpu, context.model
    configs = reference_configurations(phase, size)
    grid = reference_rates(phase, gpu, model, context.settings, workload, configs)
    chosen = choose(grid.rates_rps, np.array([r.probability for r in workload.ranges]))
    if chosen is None:
        return _idle(len(workload.ranges), f"{size} {gpu.name} cannot hold {model.name} (by the simulator's literals)")
    return PhasePerformance(
        parallel=configs[chosen],
        rates_rps=tuple(grid.rates_rps[chosen].tolist()),
        batch_sizes=tuple(grid.batch_sizes[chosen].astype(int).tolist()),
        step_ms=tuple(grid.step_ms[chosen].tolist()),
        origin_source="Shallowsim's factors",
    )


def _idle(ranges: int, reason: str) -> PhasePerformance:
    return PhasePerformance(
        parallel=None, rates_rps=(0.0,) * ranges, batch_sizes=(0,) * ranges, step_ms=(0.0,) * ranges, reason=reason
    )


def _shortage(context: CostContext, configs: list[ParallelConfig]) -> str:
    """Why nothing is served, with the least that one GPU would have to hold."""
    gpu, model, settings = context.gpu, context.model, context.settings
    degrees = Degrees.of(configs)
    experts = memory.experts_on_device(model, settings, degrees.devices)
    weights_gb = float(memory.weights_gb(model, tp=degrees.tp, experts_on_device=experts, pp=degrees.pp).min())
    usable = memory.usable_gb(gpu)
    buffers = float(memory.activation_gb(model, settings.max_tokens_per_step, degrees.tp).min())
    # Memory is not what is short, so the profile has no answer.
    if weights_gb <= usable and settings.source is CostSource.TABULATED:
        return f"the profile has no measurement of {model.name} on so many {gpu.name} at these lengths"
    return (
        f"{model.name} puts at least {weights_gb:.0f} GB of weights on each GPU; "
        f"one {gpu.name} offers {usable:.0f} GB for weights, KV cache and a step's buffers"
        + (f", {buffers:.1f} GB of these in prefill" if weights_gb <= usable else "")
    )
