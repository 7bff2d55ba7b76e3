"""A fleet's change in words, tables and one document: who gives which nodes to whom, and the steps in order."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from planner.domain.fleets import FleetAim
from planner.domain.rollouts import RollOutStep
from planner.domain.serving.fleets.changes import DeploymentChange, FleetChange, FleetStep
from planner.report.fleets.tables import SERVICES_FOLDER, gpu_words
from planner.report.fleets.words import verdict
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import counted, rate, significant
from planner.report.kit.tables import Column, Table, fields, record, table_of
from planner.report.kit.tree import Page, paragraphs, section
from planner.report.replanning.words import lasting, step_words

DOCUMENT, PAGE, STEPS_PAGE = "changes.json", "change.md", "steps.md"

_SHARES = (
    "A share is what a service is promised while the step lasts, of the smaller of its promises before and after. In a "
    "step servers stop first, then others start on the nodes that they leave."
)


def change_page_of_fleet(change: FleetChange) -> Page:
    """All of it."""
    return Page(
        title=f"Change of fleet {change.plan.fleet.name}",
        verdict=moves_verdict(change),
        lead=(*paragraphs(f"The new plan: {verdict(change.plan)}"), *listed(list(change_notes(change)))),
        sections=(
            section("deployments", "Deployments", deployment_rows(change).block()),
            section(
                "steps",
                "Roll-out",
                *paragraphs(steps_verdict(change)),
                *((step_rows(change).block(), *paragraphs(_SHARES)) if change.steps else ()),
            ),
        ),
    )


def moves_verdict(change: FleetChange) -> str:
    """How many nodes and servers move, and what the best division would be worth."""
    moved, best = (sum(count for _, count in gpus) for gpus in (change.moved_gpus, change.best_moved_gpus))
    servers = sum(row.servers_before for row in change.deployments)
    stay = sum(row.servers_running_on for row in change.deployments)
    hands = f"nodes of {gpu_words(change.moved_gpus)} change hands" if moved else "no node changes hands"
    words = f"**{hands[0].upper()}{hands[1:]}; {stay:,} of {counted(servers, 'server')} run on**"
    if moved == best:
        return f"{words}. The division is the best."
    worth = f"{significant(change.best_value, 4)} {change.plan.aim.row.unit}"
    return f"{words}. In the best division, worth {worth}, nodes of {gpu_words(change.best_moved_gpus)} would."


def change_notes(change: FleetChange) -> Iterator[str]:
    """What must be known of the change."""
    for row in change.deployments:
        if row.lost.gpus:
            yield f"Lost of {escaped(row.name)}: {escaped(gpu_words(row.lost.gpus))}."
    if change.guessed:
        yield (
            "Whose nodes were lost was not said: nobody's count first, then those of batches, then of the deployment "
            "that has most. Name it where it was others' (chat/H20=8)."
        )
    if change.short:
        yield (
            f"The inventory has fewer {escaped(' and '.join(change.short))} than ran, so nodes beyond it count as "
            "lost; where they run until the change is done, say how many there are (--meanwhile)."
        )


def steps_verdict(change: FleetChange) -> str:
    """How many steps, how long, and what they leave."""
    if not change.steps:
        return "Nothing is to be done: the same servers serve the same requests."
    share, service, number = change.tightest
    least = f"at least {share:.1%} of every promise at any time"
    where = f", the least of {escaped(service)} in step {number}" if share < 1 else ""
    return (
        f"**{counted(len(change.steps), 'step')}, about {lasting(change.seconds)}; {least}**{where} (asked for: "
        f"{change.least_share:.1%})."
    )


def deployment_rows(change: FleetChange) -> Table[DeploymentChange]:
    """A row a deployment."""
    columns: tuple[Column[DeploymentChange], ...] = (
        Column("deployment", lambda row: row.name),
        Column("before", lambda row: gpu_words(_gpus(row, after=False)), title="GPUs before"),
        Column("after", lambda row: gpu_words(_gpus(row, after=True)), title="GPUs after"),
        Column("becomes", _becomes, title="what becomes of it"),
        Column("servers_before", lambda row: row.servers_before, str, "servers before"),
        Column("servers_running_on", lambda row: row.servers_running_on, str, "of them run on"),
    )
    return table_of(columns, change.deployments)


def _gpus(row: DeploymentChange, *, after: bool) -> tuple[tuple[str, int], ...]:
    part = row.after if after else row.before
    return () if part is None else part.gpus


def _becomes(row: DeploymentChange) -> str:
    if row.stays:
        return "stays as it is"
    if row.replan is not None:
        return "changes" if row.roll_out is not None and row.roll_out.steps else "runs on"
    return "comes" if row.before is None else "goes" if row.after is None else "starts anew"


def step_rows(change: FleetChange) -> Table[FleetStep]:
    """A row a step."""
    columns: tuple[Column[FleetStep], ...] = (
        Column("step", lambda step: step.number, str),
        Column("what", lambda step: " ".join(_step_words(step)), title="what happens"),
        Column("nodes", _node_words, title="nodes"),
        *(_share(change, service) for service, lower in change.lower_rps if lower),
        Column("seconds", lambda step: step.seconds, lasting, "lasts"),
    )
    return table_of(columns, change.steps)


def _share(change: FleetChange, service: str) -> Column[FleetStep]:
    return Column(
        f"{service}_share",
        lambda step: change.share_of(service, dict(step.promised_rps).get(service, 0.0)),
        "{:.1%}".format,
        f"{service} keeps",
    )


def _step_words(step: FleetStep) -> Iterator[str]:
    for name, own in step.moves:
        yield f"{escaped(name)}: {' '.join(step_words(own))}"


def _node_words(step: FleetStep) -> str:
    """`chat gives 8 H20, oss takes 8 H20`."""
    words = []
    for name, counts in step.nodes:
        for verb, sign in (("gives", -1), ("takes", 1)):
            gpus = [(gpu, sign * count) for gpu, count in counts if sign * count > 0]
            words += [f"{escaped(name)} {verb} {gpu_words(gpus)}"] if gpus else []
    return ", ".join(words) or "–"


def steps_page(change: FleetChange, folders: Mapping[tuple[str, int], str], before: str) -> Page:
    """In which order the folders of steps are applied. `folders`: of a deployment's own step, where it has one;
    `before`: the folder of the fleet that runs."""
    where = "Folders are below this one. A step's `README.md` has its commands; `NAMESPACE` is where engines run."
    parts = {row.name: row for row in change.deployments}
    return Page(
        title=f"Steps of the change of fleet {change.plan.fleet.name}",
        verdict=steps_verdict(change),
        lead=paragraphs(where if change.steps else ""),
        sections=tuple(
            section(
                f"step-{step.number}",
                f"Step {step.number}",
                *listed(list(_facts_of(change, step))),
                *paragraphs("\n".join(_commands(step, parts, folders, before))),
            )
            for step in change.steps
        ),
    )


def _facts_of(change: FleetChange, step: FleetStep) -> Iterator[str]:
    """What happens in a step, whose nodes change hands, and what is promised meanwhile."""
    yield from _step_words(step)
    if step.nodes:
        yield f"Nodes: {_node_words(step)}."
    promised = (
        f"{escaped(name)} {rate(rps)} requests/s ({change.share_of(name, rps):.1%})" for name, rps in step.promised_rps
    )
    yield f"Promised meanwhile, for about {lasting(step.seconds)}: {', '.join(promised)}."


def _commands(
    step: FleetStep, parts: Mapping[str, DeploymentChange], folders: Mapping[tuple[str, int], str], before: str
) -> list[str]:
    """What is applied, all that stops first."""
    stops, starts = list[str](), list[str]()
    for name, own in step.moves:
        folder = folders.get((name, own.number))
        if folder is not None and parts[name].replan is not None:
            both = own.stops and own.starts
            stops += [f"`{folder}`" + ": what its page has before servers start" * bool(both)] if own.stops else []
            starts += (
                [f"`{folder}`" + ": the other commands of its page" * bool(both)] if own.starts or not own.stops else []
            )
        else:
            stops += [f"Delete the objects of `{before}/{SERVICES_FOLDER}/{name}/manifests`"] if own.stops else []
            starts += [f"Apply `{SERVICES_FOLDER}/{name}/manifests`"] if own.starts else []
            other = parts[name].replan is not None and not (own.stops or own.starts)
            starts += [f"Apply `{SERVICES_FOLDER}/{name}/manifests`: the router's table"] if other else []
    return [f"{n}. {words}" for n, words in enumerate([*stops, *starts], start=1)]


def fleet_change_document(change: FleetChange) -> dict[str, Any]:
    """All of it; a side that is not there is null."""
    share, service, number = change.tightest
    return {
        "fleet": change.plan.fleet.name,
        "summary": f"{moves_verdict(change)} {steps_verdict(change)}".replace("**", ""),
        "notes": list(change_notes(change)),
        "value": float(change.plan.value),
        "best_value": float(change.best_value),
        "unit": change.plan.aim.row.unit,
        "minimises": change.plan.aim is FleetAim.TARGET,
        "moved_gpus": dict(change.moved_gpus),
        "best_moved_gpus": dict(change.best_moved_gpus),
        "running_on_share": float(change.running_on_share),
        "least_share": change.least_share,
        "reached_share": float(share),
        "tightest": {"service": service, "step": number} if change.steps else None,
        "seconds": float(change.seconds),
        "lower_rps": dict(change.lower_rps),
        "deployments": [_deployment(row) for row in change.deployments],
        "steps": [_step(change, step) for step in change.steps],
    }


def _deployment(row: DeploymentChange) -> dict[str, Any]:
    return {
        "name": row.name,
        "becomes": _becomes(row),
        "before": None if row.before is None else dict(row.before.gpus),
        "after": None if row.after is None else dict(row.after.gpus),
        "lost": dict(row.lost.gpus),
        **record(fields("servers_before", "servers_running_on"), row),
        "gpus_touched": None if row.change is None else row.change.gpus_touched,
    }


def _step(change: FleetChange, step: FleetStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "moves": [_move(name, own) for name, own in step.moves],
        "nodes": {name: dict(counts) for name, counts in step.nodes},
        "nodes_after": {name: dict(counts) for name, counts in step.nodes_after},
        "promised_rps": {name: float(rps) for name, rps in step.promised_rps},
        "shares": {name: float(change.share_of(name, rps)) for name, rps in step.promised_rps},
        "seconds": float(step.seconds),
    }


def _move(name: str, own: RollOutStep) -> dict[str, Any]:
    return {
        "deployment": name,
        "step": own.number,
        "stops": sum(item.count for item in own.stops),
        "starts": sum(item.count for item in own.starts),
        "during_rps": float(own.during_rps),
    }


def change_files_of_fleet(change: FleetChange, folders: Mapping[tuple[str, int], str], before: str) -> dict[str, bytes]:
    """Document, page and the order of the steps."""
    document = json.dumps(fleet_change_document(change), indent=2, ensure_ascii=False)
    return {
        DOCUMENT: f"{document}\n".encode(),
        PAGE: page_text(change_page_of_fleet(change)).encode(),
        STEPS_PAGE: page_text(steps_page(change, folders, before)).encode(),
    }
