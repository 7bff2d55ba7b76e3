"""Advice on what runs: verdict, tables, page, JSON and CSV."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from planner.domain.advice import Advice, AdvisedChange, RunningDeployment, ServiceAdvice
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import NONE, counted, money, rate
from planner.report.kit.tables import Column, Frame, Table, fields, of_part, record, table_of
from planner.report.kit.tree import Block, Page, Section, paragraphs, section

Gap = tuple[RunningDeployment, tuple[str, ...]]


def _promise(service: ServiceAdvice) -> str:
    calibrated = rate(service.promise_rps)
    return calibrated if not service.paces else f"{calibrated} ({rate(service.predicted_rps)} predicted)"


def _gpus(deployments: tuple[RunningDeployment, ...]) -> str:
    counts: dict[str, int] = {}
    for deployment in deployments:
        counts[deployment.gpu] = counts.get(deployment.gpu, 0) + deployment.claimed_gpus
    return ", ".join(f"{count} {gpu}" for gpu, count in sorted(counts.items()))


_SERVICE: tuple[Column[ServiceAdvice], ...] = (
    *fields("service=name"),
    Column("runs as", lambda s: ", ".join(d.label for d in s.deployments)),
    *fields("engine"),
    Column("GPUs", lambda s: _gpus(s.deployments)),
    Column("serves", lambda s: NONE if s.rate_rps is None else f"{rate(s.rate_rps)} requests/s", right=True),
    Column("can promise", _promise, right=True),
    Column("used", lambda s: s.share, "{:.0%}".format),
    Column("pace", lambda s: ", ".join(f"{pace:.0%}" for _, pace in s.paces) or NONE, right=True),
    Column("USD/h", lambda s: s.rent_usd_per_hour, money),
    Column("of it wasted", lambda s: s.wasted_usd_per_hour, money),
)
_CHANGE: tuple[Column[AdvisedChange], ...] = (
    *fields("service", "kind"),
    Column("change", lambda c: c.summary),
    Column("saves USD/h", lambda c: c.saved_usd_per_hour, money),
    Column("promises", lambda c: f"{rate(c.promise_before_rps)} to {rate(c.promise_rps)}", right=True),
    Column("servers touched", lambda c: c.servers_touched, "{:,}".format),
)
_EXACT_CHANGE: tuple[Column[AdvisedChange], ...] = fields(
    *("service", "kind", "summary", "saved_usd_per_hour", "rent_usd_per_hour", "promise_before_rps", "promise_rps"),
    *("servers_touched", "restores", "folder"),
)


def advice_verdict(advice: Advice) -> str:
    """The advice in a sentence or two."""
    count = sum(len(service.deployments) for service in advice.services)
    unread = f"; {counted(len(advice.gaps), 'engine')} cannot be judged" if advice.gaps else ""
    if not advice.services:
        return f"Of {counted(len(advice.gaps), 'engine')} that run, none can be judged as it is."
    rent = f"{'rents' if count == 1 else 'rent'} {money(advice.rent_usd_per_hour)} USD/h"
    rented = f"{counted(count, 'deployment')} {rent}{unread}"
    broken = sum(bool(service.breaks) for service in advice.services)
    trouble = f" Something is broken, or near it, in {counted(broken, 'service')}." if broken else ""
    if not advice.changes:
        return f"{rented}. No change pays.{trouble}"
    saved, one = advice.saved_usd_per_hour, len(advice.changes) == 1
    first = "first change" if one else f"first {len(advice.changes)} changes"
    worth = f"{'save' if saved >= 0 else 'cost'}{'s' if one else ''} {money(abs(saved))} USD/h"
    share = f" ({saved / advice.rent_usd_per_hour:.0%})" if saved > 0 and advice.rent_usd_per_hour else ""
    return f"{rented}. The {first} {worth}{share}.{trouble}"


def advice_page(advice: Advice) -> Page:
    """All of it."""
    lead = (
        f"Looked for in {escaped(advice.source)}. Rates are requests/s; promises keep the levels, and are to cover "
        f"what comes and {advice.headroom:.0%} more."
    )
    broken = [f"**{escaped(s.name)}**: {escaped(line)}" for s in advice.services for line in s.breaks]
    notes = [f"**{escaped(s.name)}**: {escaped(line)}" for s in advice.services for line in s.notes]
    services = (table_of(_SERVICE, advice.services).block(),) if advice.services else paragraphs("None can be judged.")
    return Page(
        title="What runs, and what to change of it",
        verdict=escaped(advice_verdict(advice)),
        lead=paragraphs(lead),
        sections=(
            section("services", "What runs", *services),
            section("breaks", "What breaks", *listed(broken or ["Nothing, as far as is told."])),
            section("changes", "What to change first", *_changes(advice)),
            *(_steps(number, change) for number, change in enumerate(advice.changes, start=1)),
            section("gaps", "What cannot be judged", *listed([_gap(gap) for gap in advice.gaps] or ["Nothing."])),
            section("notes", "What the figures rest on", *listed(notes)),
            *_next(advice),
        ),
    )


def _changes(advice: Advice) -> tuple[Block, ...]:
    if not advice.changes:
        return paragraphs("No change saves a hundredth of the rent, or is needed for what comes.")
    further = f"{counted(advice.further, 'further change')} would pay as well." if advice.further else ""
    basis = (
        "Each change goes on top of those before it. First what makes promises cover what comes, then what saves most "
        f"for each server that it touches. {further}"
    )
    return (table_of(_CHANGE, advice.changes).block(), *paragraphs(basis))


def _steps(number: int, change: AdvisedChange) -> Section:
    return section(
        f"change-{number}",
        f"Change {number}: {escaped(change.summary)}",
        *listed([escaped(step) for step in change.steps]),
        *paragraphs(f"Its plan is in {escaped(change.folder)}."),
    )


def change_text(change: AdvisedChange) -> str:
    """A change by itself, in Markdown."""
    return page_text(
        Page(
            title=f"A change of {escaped(change.service)}",
            verdict=escaped(change.summary),
            lead=(
                *paragraphs(
                    f"It saves {money(change.saved_usd_per_hour)} USD/h; the promise goes from "
                    f"{rate(change.promise_before_rps)} to {rate(change.promise_rps)} requests/s."
                ),
                *listed([escaped(step) for step in change.steps]),
            ),
            sections=(),
        )
    )


def running_text(islands: Mapping[str, RunningDeployment], notes: Sequence[str]) -> str:
    """Which deployment each island of a plan of running servers is, in Markdown."""
    rows = [f"{island}: {escaped(deployment.where)}" for island, deployment in islands.items()]
    return page_text(
        Page(
            title="Servers that run without a plan",
            verdict="The pools of this plan are deployments as they run.",
            lead=(*listed(rows), *listed([escaped(note) for note in notes])),
            sections=(),
        )
    )


def _gap(gap: Gap) -> str:
    deployment, reasons = gap
    return f"{escaped(deployment.where)}: {escaped('; '.join(reasons))}"


def _next(advice: Advice) -> tuple[Section, ...]:
    if not advice.next_command:
        return ()
    return (section("next", "What to do next", *paragraphs(f"To plan it anew: `{advice.next_command}`.")),)


_DEPLOYMENT: tuple[Column[RunningDeployment], ...] = fields(
    *("where", "kind", "namespace", "name", "start.engine", "version", "image", "start.model", "start.phase", "copies"),
    *("gpu", "gpu_source", "claimed_gpus", "start.parallel.tp", "start.parallel.dp", "start.parallel.pp"),
    *("start.context", "start.sequences", "start.tokens_per_step", "scaled_by"),
)
_EXACT_SERVICE: tuple[Column[ServiceAdvice], ...] = fields(
    *("name", "namespace", "model", "engine", "rate_rps", "needed_rps", "predicted_rps", "promise_rps", "share"),
    *("rent_usd_per_hour", "wasted_usd_per_hour"),
)


def _deployment(deployment: RunningDeployment) -> dict[str, Any]:
    return {key: None if value == "" else value for key, value in record(_DEPLOYMENT, deployment).items()}


def advice_document(advice: Advice) -> dict[str, Any]:
    """All of it as JSON; None where nothing is told."""
    return {
        "summary": advice_verdict(advice),
        "source": advice.source,
        "headroom": advice.headroom,
        "rent_usd_per_hour": advice.rent_usd_per_hour,
        "saved_usd_per_hour": advice.saved_usd_per_hour,
        "services": [
            {
                **record(_EXACT_SERVICE, service),
                "paces": [{"gpu": gpu, "pace": pace} for gpu, pace in service.paces],
                "deployments": [_deployment(deployment) for deployment in service.deployments],
                "breaks": list(service.breaks),
                "notes": list(service.notes),
            }
            for service in advice.services
        ],
        "changes": [{**record(_EXACT_CHANGE, change), "steps": list(change.steps)} for change in advice.changes],
        "further_changes": advice.further,
        "not_judged": [{**_deployment(deployment), "reasons": list(reasons)} for deployment, reasons in advice.gaps],
        "next": advice.next_command or None,
    }


Row = tuple[RunningDeployment, ServiceAdvice | None, tuple[str, ...]]
_ROW: tuple[Column[Row], ...] = (
    *of_part(lambda row: row[0], fields("namespace", "name", "kind", "start.engine", "version", "start.model", "gpu")),
    *of_part(lambda row: row[0], fields("claimed_gpus", "copies")),
    *of_part(lambda row: row[1], fields("service=name")),
    *of_part(
        lambda row: row[1], fields("rate_rps", "promise_rps", "rent_usd_per_hour", "wasted_usd_per_hour"), "service_"
    ),
    Column("not_judged", lambda row: "; ".join(row[2])),
)


def exact_deployments(advice: Advice) -> Table[Row]:
    """Every deployment, as in advise.csv."""
    judged = [(deployment, service, ()) for service in advice.services for deployment in service.deployments]
    return table_of(_ROW, [*judged, *((deployment, None, reasons) for deployment, reasons in advice.gaps)])


def advice_frame(advice: Advice) -> Frame:
    """One row a deployment."""
    return exact_deployments(advice).frame()


ADVICE_FILES = ("advise.md", "advise.csv", "changes.csv", "advise.json")


def advice_files(advice: Advice) -> dict[str, bytes]:
    """advise.md, advise.json, advise.csv (a row a deployment) and changes.csv."""
    document = json.dumps(advice_document(advice), indent=2, ensure_ascii=False, allow_nan=False)
    return {
        "advise.md": page_text(advice_page(advice)).encode(),
        "advise.csv": exact_deployments(advice).csv(),
        "changes.csv": table_of(_EXACT_CHANGE, advice.changes).csv(),
        "advise.json": f"{document}\n".encode(),
    }
