"""Where every number comes from, and how firm it is."""

from collections.abc import Iterator

from planner.domain import CostMode, Origin, Plan
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import NONE
from planner.report.kit.tree import Cell, DataTable, Section, section
from planner.report.plan.notes import notes

SOURCES = "Where the numbers come from"
"""Title of the section that has versions and digests."""


def notes_section(plan: Plan) -> Section:
    """What a reader must know before trusting the numbers."""
    return section("notes", "Read before you trust it", *listed(notes(plan)))


def provenance_section(plan: Plan) -> Section:
    """Bands by GPU type and phase, the kind of every number, and versions with inputs folded."""
    return Section(
        name="provenance",
        title=SOURCES,
        blocks=(*([_estimates(plan)] if plan.provenance.estimates else []), _kinds(plan)),
        folded=listed(provenance_list(plan)),
        fold="Versions, seed, inputs and their digests",
    )


def _estimates(plan: Plan) -> DataTable:
    rows: list[tuple[Cell, ...]] = [
        (
            *(estimate.gpu, estimate.phase.value, estimate.origin.value),
            *((100 * band.low, 100 * band.high, band.points) if (band := estimate.band) else (None, None, None)),
            *(band.basis if band else "", estimate.source),
        )
        for estimate in plan.provenance.estimates
    ]
    return DataTable(
        columns=("GPU type", "Phase", "Rates are", "P10 (%)", "P90 (%)", "Points", "The band is of", "Source"),
        rows=tuple(rows),
        caption="How firm the rates of each GPU type are. P10 and P90: of measured over predicted rates, measurements "
        "that were left out of the fit.",
    )


def _kinds(plan: Plan) -> DataTable:
    return DataTable(
        columns=("Number", "Comes from", "How firm"),
        rows=tuple(_rows(plan)),
        caption="What kind of number each is.",
    )


def _rows(plan: Plan) -> Iterator[tuple[Cell, ...]]:
    workload, reference = plan.scenario.workload, plan.scenario.cost.mode is CostMode.REFERENCE
    yield "Memory, bandwidth, FLOPs, watts of GPUs", "data sheets (gpu_specs/, each with its source)", "as published"
    exact = "exact, but for what was told" if plan.scenario.model.assumed else "exact"
    yield "Sizes of the model", "its own config.json", exact
    requests = f"{workload.requests:,} requests" if workload.requests else "a table of lengths"
    clock = "" if workload.arrival_rps is None else f", arriving at {workload.arrival_rps:.4g}/s"
    yield f"Workload {workload.name}", f"{requests}{clock}", "measured, of that trace alone"
    yield "GPUs and prices", "the scenario", "as given"
    if reference:
        yield "Rates and step times", "the published simulator's formulas", "not physical"
    else:
        yield "Rates and step times", _rates(plan), _firm(plan)
    if plan.outlook.latencies or plan.service is not None:
        yield "TTFT, TPOT", "a model of queues on these step times", "as firm as the rates; a replay tests it"
    if plan.certificate is not None:
        yield (
            "Bounds and gaps",
            "proved by the solver under the cost model",
            "exact for the model, as firm as its rates",
        )
    if plan.sensitivity is not None:
        yield (
            "What would change it",
            "the relaxation, solved anew with other counts",
            "of the best rate, not the plan's",
        )


def _rates(plan: Plan) -> str:
    origins = {estimate.origin for estimate in plan.provenance.estimates}
    listed = ", ".join(origin.value for origin in Origin if origin in origins)
    return f"roofline formulas with fitted efficiency factors ({listed})" if listed else "the cost model"


def _firm(plan: Plan) -> str:
    return "P10–P90 above" if any(estimate.band for estimate in plan.provenance.estimates) else "no band is known"


def provenance_list(plan: Plan) -> list[str]:
    """Versions, seed and inputs."""
    provenance = plan.provenance
    libraries = ", ".join(f"{escaped(name)} {escaped(version)}" for name, version in provenance.libraries)
    return [
        f"planner {escaped(provenance.planner_version)}, Python {escaped(provenance.python_version)}",
        f"Libraries: {libraries or NONE}",
        f"Solver: {escaped(provenance.solver)}; seed: {provenance.seed}; cost mode: {escaped(provenance.cost_mode)}",
        *([f"Efficiency factors: {escaped(provenance.calibration)}"] if provenance.estimates else []),
        *(f"Input {escaped(name)}: SHA-256 {escaped(sha256)}" for name, sha256 in provenance.input_hashes),
    ]
