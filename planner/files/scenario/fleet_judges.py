"""By what a fleet's division is judged, and what that needs of its file: a cluster, levels, settings of both."""

from dataclasses import replace
from pathlib import Path

from planner.domain import Cluster, InputHash, PlacementSettings
from planner.domain.arrivals import ArrivalProcess
from planner.domain.fleets import FleetAim, FleetJudge, FleetObjective, FleetScenario, FleetService
from planner.errors import InputError
from planner.files.cluster.clusters import read_cluster
from planner.files.records import read_record
from planner.files.scenario.placement_sections import read_placement, require_placeable
from planner.files.sections import Section

_SEARCHED = (FleetAim.MULTIPLE, FleetAim.WEIGHTED)
_OF_SEARCHES = ("rounds", "divisions")
_OF_REPLAYS = ("arrivals", "requests")


def read_fleet_objective(section: Section) -> FleetObjective:
    """The `objective:` of a fleet; keys that its judge does not know are refused."""
    objective = read_record(FleetObjective, section)
    judged = objective.judged
    refused = {
        **dict.fromkeys(_OF_SEARCHES, judged is FleetJudge.FORMULA),
        **dict.fromkeys(_OF_REPLAYS, judged is not FleetJudge.REPLAYED),
    }
    for key, is_refused in refused.items():
        if is_refused and key in section:
            others = "placed or replayed" if key in _OF_SEARCHES else "replayed"
            raise section.refusal(
                key,
                f"must be left out where objective.judged is {judged.value}: it goes with {others}",
                hint=f"Set objective.judged to {others}, or leave it out.",
            )
    if judged is not FleetJudge.FORMULA and objective.kind not in _SEARCHED:
        raise section.refusal(
            "judged",
            f"must be formula where objective.kind is {objective.kind.value}: only multiple and weighted are searched "
            f"for, got {judged.value}",
            hint="Set objective.kind to multiple or weighted, or leave out judged.",
        )
    if objective.arrivals not in (ArrivalProcess.POISSON, ArrivalProcess.GAMMA):
        raise section.refusal(
            "arrivals",
            "must be poisson or gamma: requests are drawn from lengths, which say nothing of when they came, got "
            f"{objective.arrivals.value}",
            hint="Choose one of them.",
        )
    return objective


def read_nodes(
    document: Section, objective: FleetObjective, base: Path
) -> tuple[Cluster | None, PlacementSettings, tuple[InputHash, ...]]:
    """The cluster and the placement at the top of a fleet's file, which it has where its division is judged placed."""
    if objective.judged is not FleetJudge.PLACED:
        for key in ("cluster", "placement"):
            if key in document:
                raise document.refusal(
                    key,
                    f"must be left out where objective.judged is {objective.judged.value}",
                    hint="Set objective.judged to placed, or plan the fleet and then place each run by itself.",
                )
        return None, PlacementSettings(), ()
    cluster, inputs = read_cluster(document, base)
    if cluster is None:
        raise document.refusal(
            "cluster",
            "must be given where objective.judged is placed, is missing",
            hint="Add the path of a cluster file, or set objective.judged to formula.",
        )
    section = document.section("placement", optional=True)
    settings = read_placement(section)
    if settings.lost_gpu_hour_rps:
        raise section.refusal(
            "lost_gpu_hour_rps",
            f"must be 0 where there are services: lost work has no demand, got {settings.lost_gpu_hour_rps:g}",
            hint="Limit placement.most_lost_gpu_hours instead.",
        )
    return cluster, settings, inputs


def require_judgeable(document: Section, fleet: FleetScenario) -> None:
    """InputError where a service cannot be judged as the objective says."""
    if fleet.objective.judged is FleetJudge.PLACED:
        _require_placed(document, fleet)
    if fleet.objective.judged is FleetJudge.REPLAYED:
        for service in fleet.interactive:
            _require_replayed(document, service)


def _require_placed(document: Section, fleet: FleetScenario) -> None:
    if fleet.share_nodes:
        raise document.refusal(
            "share_nodes",
            "must be false where objective.judged is placed: each deployment chooses nodes that no other has, got true",
            hint="Leave it out, or set objective.judged to formula.",
        )
    for service in fleet.services:
        for scenario in service.scenarios:
            require_placeable(f"{document.file}: services: {service.name}", replace(scenario, cluster=fleet.cluster))


def _require_replayed(document: Section, service: FleetService) -> None:
    where = f"{document.file}: services: {service.name}"
    for scenario in service.scenarios:
        if not scenario.slo.bounds_anything:
            raise InputError(
                f"{where}: slo must hold a bound where objective.judged is replayed: its rate is the highest that "
                "holds it; it has none.",
                hint="Add slo.ttft_ms or slo.tpot_ms, or set objective.judged to formula.",
            )
        if scenario.survive.share:
            raise InputError(
                f"{where}: survive.share must be 0 where objective.judged is replayed: replays lose no nodes, got "
                f"{scenario.survive.share:g}.",
                hint="Leave out survive, or set objective.judged to formula.",
            )
