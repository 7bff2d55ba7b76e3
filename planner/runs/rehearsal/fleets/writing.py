"""A fleet's rehearsal as a page, a document and a table of its requests."""

import json
from dataclasses import asdict
from typing import Any

from planner import report
from planner.domain.serving.levels import LevelCheck, Standing
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import NONE, counted, percent, rate, significant
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section
from planner.report.replay.tables import LEVELS_STATE
from planner.report.replay.words import share_with
from planner.runs.rehearsal.fleets.records import FleetRehearsal, RehearsedService
from planner.runs.rehearsal.writing import DOCUMENT, PAGE, REQUESTS, STANDING_WORDS, lateness_words, request_table

_LevelRow = tuple[RehearsedService, LevelCheck, LevelCheck]


def _state(standing: Standing | None) -> str:
    return NONE if standing is None else LEVELS_STATE[standing]


_SERVICE: tuple[Column[RehearsedService], ...] = (
    Column("Service", lambda row: row.rehearsed.service, right=False),
    Column("Deployment", lambda row: row.rehearsed.deployment, right=False),
    Column("Promised (requests/s)", lambda row: row.promised_rps, rate),
    Column("Sent (requests/s)", lambda row: row.rehearsed.rate_rps, rate),
    Column("Requests", lambda row: row.rehearsed.requests),
    Column("Failed", lambda row: row.failed),
    Column("Within all levels, rehearsed", lambda row: share_with(row.rehearsed.within_levels), str),
    Column("Replayed", lambda row: share_with(row.replayed.within_levels), str),
    Column("Levels", lambda row: _state(row.rehearsed.standing), str, right=False),
)
_LEVEL: tuple[Column[_LevelRow], ...] = (
    Column("Service", lambda row: row[0].rehearsed.service, right=False),
    Column("Deployment", lambda row: row[0].rehearsed.deployment, right=False),
    Column("Level", lambda row: row[1].name, right=False),
    Column("Keep it, rehearsed", lambda row: row[1].share, share_with),
    Column("Keep it, replayed", lambda row: row[2].share, share_with),
    Column("Must", lambda row: row[1].needed, percent),
)


def rehearsed_services(rehearsal: FleetRehearsal) -> Table[RehearsedService]:
    """One row a service and deployment."""
    return table_of(_SERVICE, rehearsal.services)


def fleet_rehearsal_page(rehearsal: FleetRehearsal) -> Page:
    """The verdict first, then services, their levels, and what failed."""
    levels = [
        (service, *pair)
        for service in rehearsal.services
        for pair in zip(service.rehearsed.levels, service.replayed.levels, strict=True)
    ]
    return Page(
        title=f"Rehearsal: fleet {rehearsal.rehearsed.fleet}",
        verdict=fleet_verdict_words(rehearsal),
        lead=paragraphs(_setting(rehearsal), *_lateness(rehearsal)),
        sections=(
            section("services", "Services", rehearsed_services(rehearsal).block()),
            section("levels", "Levels", table_of(_LEVEL, levels).block()),
            section("failures", "What failed", *listed(_failures(rehearsal))),
            section("notes", "Notes", *listed([escaped(note) for note in rehearsal.notes])),
        ),
    )


def fleet_verdict_words(rehearsal: FleetRehearsal) -> str:
    """In Markdown: whether the levels of all services hold behind the front, and whose do not."""
    at = f"at {percent(rehearsal.share)} of what all services are promised, behind the front and all routers"
    if rehearsal.standing is None:
        return f"**No service has levels**, {at}."
    head = f"**{STANDING_WORDS[rehearsal.standing]} {at}**"
    if not rehearsal.keeps_up:
        return f"{head}: the simulated engines were late, so what is late here may be this machine's doing."
    others = [row.rehearsed.service for row in rehearsal.services if row.rehearsed.standing is not Standing.HOLDS]
    whose = f": {escaped(', '.join(dict.fromkeys(others)))} of all services" if others else ""
    return f"{head}{whose}. Replayed in virtual time: {_state(rehearsal.replayed.standing)}."


def _setting(rehearsal: FleetRehearsal) -> str:
    servers = sum(use.servers for result in rehearsal.rehearsed.results for use in result.islands)
    return (
        f"{counted(len(rehearsal.outcomes), 'request')} of all services with a demand, each of which names its own as "
        f"`model`, through {escaped(', '.join(rehearsal.programs))} on the loopback, before "
        f"{counted(servers, 'simulated server')}; plan time ran {significant(rehearsal.slower)} times as slowly as the "
        f"wall's. It took {significant(rehearsal.seconds)} s. Periods of the programs (health checks, timeouts) are "
        "not slowed, and one copy of each ran."
    )


def _lateness(rehearsal: FleetRehearsal) -> list[str]:
    worst = max(rehearsal.lateness, key=lambda lateness: lateness.share)
    return [lateness_words(worst, keeps_up=rehearsal.keeps_up)]


def _failures(rehearsal: FleetRehearsal) -> list[str]:
    return [
        f"{escaped(row.rehearsed.service)}: {counted(count, 'request')}: {escaped(why)}"
        for row in rehearsal.services
        for why, count in row.failures
    ]


def fleet_rehearsal_document(rehearsal: FleetRehearsal) -> dict[str, Any]:
    """All of it as one document; times in ms of the plan, `holds` null where it cannot be told."""
    return {
        "summary": fleet_verdict_words(rehearsal).replace("**", ""),
        "programs": list(rehearsal.programs),
        "share": rehearsal.share,
        "holds": rehearsal.holds,
        "standing": None if rehearsal.standing is None else rehearsal.standing.value,
        "slower": rehearsal.slower,
        "seconds": rehearsal.seconds,
        "requests": len(rehearsal.outcomes),
        "services": [
            {
                "service": row.rehearsed.service,
                "deployment": row.rehearsed.deployment,
                "promised_rps": row.promised_rps,
                "sent_rps": row.rehearsed.rate_rps,
                "requests": row.rehearsed.requests,
                "failures": [{"why": why, "requests": count} for why, count in row.failures],
                "within_levels": row.rehearsed.within_levels.mean,
                "replayed_within_levels": row.replayed.within_levels.mean,
                "standing": None if row.rehearsed.standing is None else row.rehearsed.standing.value,
                "levels": [_level(*pair) for pair in zip(row.rehearsed.levels, row.replayed.levels, strict=True)],
            }
            for row in rehearsal.services
        ],
        "lateness": [asdict(lateness) for lateness in rehearsal.lateness],
        "keeps_up": rehearsal.keeps_up,
        "deployments": [
            {"rehearsed": report.replay_document(rehearsed), "replayed": report.replay_document(replayed)}
            for rehearsed, replayed in zip(rehearsal.rehearsed.results, rehearsal.replayed.results, strict=True)
        ],
        "notes": list(rehearsal.notes),
    }


def _level(rehearsed: LevelCheck, replayed: LevelCheck) -> dict[str, Any]:
    shares = (None if level.share is None else level.share.mean for level in (rehearsed, replayed))
    return {
        "name": rehearsed.name,
        "needed": rehearsed.needed,
        **dict(zip(("rehearsed", "replayed"), shares, strict=True)),
    }


def fleet_rehearsal_files(rehearsal: FleetRehearsal) -> dict[str, bytes]:
    """Name -> content of what the folder holds."""
    document = json.dumps(fleet_rehearsal_document(rehearsal), indent=2, ensure_ascii=False, allow_nan=False)
    return {
        PAGE: page_text(fleet_rehearsal_page(rehearsal)).encode(),
        DOCUMENT: f"{document}\n".encode(),
        REQUESTS: request_table(rehearsal.outcomes).csv(),
    }
