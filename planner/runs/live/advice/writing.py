"""The plans of advice as files: run folders of what runs and of the changes, and scenarios to plan anew from."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from planner import files
from planner.domain import CalibrationFit
from planner.domain.advice import AdvisedChange
from planner.report.advice import change_text, running_text
from planner.runs.live.advice.rebuilding import RebuiltService, Terms
from planner.runs.publication import publish
from planner.runs.questions.documents import seen_from
from planner.runs.verifying.runs import RUNNING_FILE

FLEET = "fleet.yaml"
_HEAD = "Written by `planner advise`: {what}. `planner plan` plans it."


def written_plans(
    services: Sequence[RebuiltService],
    changes: Sequence[AdvisedChange],
    terms: Terms,
    out: Path,
) -> tuple[dict[str, bytes], tuple[str, ...], str]:
    """Path -> content, what the reader must be told, and the command that plans anew (empty: nothing is to plan)."""
    contents: dict[str, bytes] = {}
    warnings: list[str] = []
    rows: list[Mapping[str, object]] = []
    for service in services:
        name, engine = service.service.name, service.plan.scenario.engine.name
        published = publish(service.plan, engine=engine)
        contents |= {f"services/{name}/{path}": text for path, text in published.files.items()}
        contents[f"services/{name}/{RUNNING_FILE}"] = running_text(service.islands, service.notes).encode()
        if (calibration := service.measured.calibration) is not None:
            fit = CalibrationFit(calibration=calibration, points=())
            contents[f"calibrations/{name}.yaml"] = files.calibration_text(fit).encode()
        if name in terms.metered and not _is_given(name, terms):
            metered = terms.metered[name]
            contents[f"workloads/{name}.yaml"] = files.workload_text(metered.profile, source=metered.source)
        document = _document(service, terms, out / "scenarios")
        head = _HEAD.format(what=f"{name}, the cheapest fleet for what is asked of it")
        contents[f"scenarios/{name}.yaml"] = files.scenario_text(document, head).encode()
        rows.append(_row(service, terms, out))
    for change in changes:
        published = publish(change.plan, engine=change.plan.scenario.engine.name)
        contents |= {f"{change.folder}/{path}": text for path, text in published.files.items()}
        contents[f"{change.folder}/change.md"] = change_text(change).encode()
        warnings += [f"change {change.folder}: {warning}" for warning in published.warnings]
    if len(services) > 1 and all(service.measured.rate_rps for service in services):
        document = _fleet(services, rows, terms)
        head = _HEAD.format(what="all services on one inventory")
        contents[FLEET] = files.scenario_text(document, head).encode()
        return contents, tuple(warnings), f"planner plan {out / FLEET} --out {out}-planned"
    if services:
        name = services[0].service.name
        return contents, tuple(warnings), f"planner plan {out}/scenarios/{name}.yaml --out {out}-planned"
    return contents, tuple(warnings), ""


def _document(service: RebuiltService, terms: Terms, folder: Path) -> Mapping[str, object]:
    """The service's scenario as it would be planned: any servers, the standard router, the cheapest that will do."""
    document = dict(service.document)
    document.pop("serving")
    margin, rate = service.plan.scenario.routing.margin, service.measured.rate_rps
    document["routing"] = {"most": 2}
    document["objective"] = (
        {"kind": "target", "target_rps": round(terms.needed_rps(rate) / margin, 6), "demand_rps": round(rate, 6)}
        if rate
        else {"kind": "rate"}
    )
    document |= _named_files(service, terms, folder, "../workloads")
    cost = _cost(service, "../calibrations")
    return {**document, **({"cost": cost} if cost else {})}


def _row(service: RebuiltService, terms: Terms, folder: Path) -> Mapping[str, object]:
    """The service in a fleet's file."""
    document = service.document
    cost = _cost(service, "calibrations")
    return {
        "name": service.service.name,
        **{key: document[key] for key in ("model", "workload")},
        **_named_files(service, terms, folder, "workloads"),
        **{key: document[key] for key in ("slo", "engine") if key in document},
        **({"cost": cost} if cost else {}),
        "demand": round(terms.needed_rps(service.measured.rate_rps), 6),
    }


def _named_files(service: RebuiltService, terms: Terms, folder: Path, workloads: str) -> dict[str, object]:
    """Model and workload as they are called from another folder."""
    values = {key: seen_from(service.document[key], folder) for key in ("model", "workload")}
    name = service.service.name
    return values if _is_given(name, terms) else {**values, "workload": f"{workloads}/{name}.yaml"}


def _is_given(name: str, terms: Terms) -> bool:
    """Whether the user names the service's workload."""
    return bool(terms.workloads.get(name) or terms.workloads.get(""))


def _cost(service: RebuiltService, calibrations: str) -> dict[str, object]:
    cost = service.document.get("cost")
    name = service.service.name
    calibrated = {"calibration": f"{calibrations}/{name}.yaml"} if service.measured.calibration is not None else {}
    return {**(dict(cost) if isinstance(cost, Mapping) else {}), **calibrated}


def _fleet(
    services: Sequence[RebuiltService], rows: Sequence[Mapping[str, object]], terms: Terms
) -> Mapping[str, object]:
    counts = dict(terms.free)
    for service in services:
        for deployment in service.service.deployments:
            counts[deployment.gpu] = counts.get(deployment.gpu, 0) + deployment.claimed_gpus
    prices = {gpu: usd for gpu, usd in terms.prices.items() if gpu in counts}
    return {
        "name": "advised",
        "inventory": dict(sorted(counts.items())),
        **({"prices_usd_per_gpu_hour": prices} if prices else {}),
        "services": list(rows),
    }
