"""A rehearsal as a page, a document and a table of its requests."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from planner import report
from planner.domain.replay import ReplayResult
from planner.domain.serving.levels import LevelCheck, Standing
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import counted, percent, significant
from planner.report.kit.tables import Column, Table, fields, table_of
from planner.report.kit.tree import Page, paragraphs, section
from planner.report.replay.tables import latency_table, levels_table
from planner.report.replay.verdict import level_words, tightest
from planner.report.replay.words import share_with, time_with
from planner.runs.rehearsal.records import MOST_LATE, KilledServer, Lateness, PoolUse, Rehearsal
from planner.runs.rehearsal.traffic import Outcome

PAGE, DOCUMENT, REQUESTS = "rehearsal.md", "rehearsal.json", "requests.csv"
NAMES = (PAGE, DOCUMENT, REQUESTS)
"""All that a rehearsal's folder holds."""
STANDING_WORDS = {
    Standing.HOLDS: "The levels hold",
    Standing.BREAKS: "The levels break",
    Standing.UNTOLD: "Cannot tell",
}
LevelPair = tuple[LevelCheck, LevelCheck]


def rehearsal_page(rehearsal: Rehearsal) -> Page:
    """The verdict first, then levels, times, pools, what failed, who died."""
    rehearsed, replayed = rehearsal.rehearsed, rehearsal.replayed
    levels = tuple(zip(rehearsed.levels, replayed.levels, strict=True))
    return Page(
        title=f"Rehearsal: {rehearsed.plan} behind {rehearsal.router}",
        verdict=verdict_words(rehearsal),
        lead=paragraphs(_setting(rehearsal), lateness_words(rehearsal.lateness, keeps_up=rehearsal.keeps_up)),
        sections=(
            section("levels", "Levels", levels_table(rehearsed), levels_beside("rehearsed", levels).block(_BESIDE)),
            section("times", "Times (of the plan)", latency_table(rehearsed).block()),
            section("pools", "Requests by pool", table_of(_POOLS, rehearsal.pools).block()),
            section("failures", "What failed", *listed([_failure(*row) for row in rehearsal.failures])),
            section("killed", "Servers that died", *listed(_deaths(rehearsal))),
            section("notes", "Notes", *listed([escaped(note) for note in rehearsal.notes])),
        ),
    )


_BESIDE = "The same requests through the router, and replayed in virtual time as the planner takes it to route"
_POOLS: tuple[Column[PoolUse], ...] = (
    *fields("Island=island", "Phase=phase"),
    Column("Planned", lambda use: use.planned, percent),
    Column("Rehearsed", lambda use: use.rehearsed, percent),
    Column("Replayed", lambda use: use.replayed, percent),
)


def levels_beside(seen: str, levels: Sequence[LevelPair]) -> Table[LevelPair]:
    """One row a level: as it was seen (`rehearsed`, `measured`), and as it was replayed."""
    columns: tuple[Column[LevelPair], ...] = (
        Column("Level", lambda pair: pair[0].name, escaped, right=False),
        Column(f"Keep it, {seen}", lambda pair: pair[0].share, share_with),
        Column("Keep it, replayed", lambda pair: pair[1].share, share_with),
        Column(f"Time, {seen}", lambda pair: pair[0].value_ms, time_with),
        Column("Time, replayed", lambda pair: pair[1].value_ms, time_with),
    )
    return table_of(columns, levels)


def verdict_words(rehearsal: Rehearsal) -> str:
    """Two sentences, in Markdown: whether the levels hold behind the router, and by how much."""
    result = rehearsal.rehearsed
    at = f"at {significant(result.rate_rps)} requests/s behind {rehearsal.router}"
    head = f"**{STANDING_WORDS[rehearsal.standing]} {at}**"
    if not rehearsal.keeps_up:
        return f"{head}: the simulated engines were late, so what is late here may be this machine's doing."
    if result.standing is Standing.UNTOLD:
        return f"{head}: too few requests came; {report.verdict(result).replace('**', '')}"
    level = f": {level_words(tightest(result))}" if result.levels else ""
    return f"{head}{level}. Replayed in virtual time they {_state(rehearsal.replayed)}."


def _state(result: ReplayResult) -> str:
    words = {Standing.HOLDS: "hold", Standing.BREAKS: "break", Standing.UNTOLD: "are too few to tell"}
    return words[result.standing]


def _setting(rehearsal: Rehearsal) -> str:
    result, programs = rehearsal.rehearsed, ", ".join(dict.fromkeys(rehearsal.programs))
    count, servers = len(rehearsal.outcomes), sum(use.servers for use in result.islands)
    return (
        f"{counted(count, 'request')} like {escaped(result.trace)} through {escaped(programs)} on the loopback, before "
        f"{counted(servers, 'simulated server')}; plan time ran {significant(rehearsal.slower)} times as slowly as the "
        f"wall's. It took {significant(rehearsal.seconds)} s. A router's own periods (health checks, timeouts) are not "
        "slowed, and one copy of each program ran."
    )


def lateness_words(late: Lateness, *, keeps_up: bool) -> str:
    """Whether the engines' process spoke in time, a sentence in Markdown."""
    judged = "kept up" if keeps_up else "**did not keep up**: try a larger `--slower`, or a quieter machine"
    return (
        f"The engines' process {judged}: {percent(late.share)} of its {late.words:,} words came more than "
        f"{significant(late.allowed_ms)} ms of the plan late ({percent(MOST_LATE)} may), P99 "
        f"{significant(late.p99_ms)} ms; requests were sent {significant(late.sent_p99_ms)} ms late (P99)."
    )


def _failure(why: str, count: int) -> str:
    return f"{counted(count, 'request')}: {escaped(why)}"


def _deaths(rehearsal: Rehearsal) -> list[str]:
    """What each lost, and what failed though none of them had it."""
    lines = [_death(death) for death in rehearsal.killed]
    if lines and rehearsal.elsewhere:
        others = counted(rehearsal.elsewhere, "request")
        lines.append(f"{others} failed besides, which had not reached a server that died, or went elsewhere.")
    return lines


def _death(death: KilledServer) -> str:
    back = "did not come back within the run" if death.back_s is None else f"came back at {significant(death.back_s)} s"
    return (
        f"{escaped(death.server)} died at {significant(death.at_s)} s with {counted(death.answering, 'request')}, of "
        f"which {death.lost} were lost; it {back}."
    )


def rehearsal_document(rehearsal: Rehearsal) -> dict[str, Any]:
    """All of a rehearsal as one document; times in ms of the plan, `holds` null where it cannot be told."""
    return {
        "summary": verdict_words(rehearsal).replace("**", ""),
        "router": rehearsal.router,
        "programs": list(rehearsal.programs),
        "holds": rehearsal.holds,
        "standing": rehearsal.standing.value,
        "slower": rehearsal.slower,
        "seconds": rehearsal.seconds,
        "requests": len(rehearsal.outcomes),
        "failed": sum(count for _, count in rehearsal.failures),
        "failures": [{"why": why, "requests": count} for why, count in rehearsal.failures],
        "failed_elsewhere": rehearsal.elsewhere,
        "killed": [asdict(death) for death in rehearsal.killed],
        "lateness": asdict(rehearsal.lateness) | {"keeps_up": rehearsal.keeps_up},
        "pools": [asdict(use) | {"phase": use.phase.value} for use in rehearsal.pools],
        "rehearsed": report.replay_document(rehearsal.rehearsed),
        "replayed": report.replay_document(rehearsal.replayed),
        "notes": list(rehearsal.notes),
    }


_REQUEST: tuple[Column[Outcome], ...] = (
    *fields("number", "failure"),
    Column("first_ms", lambda outcome: _number(outcome.first_ms)),
    Column("ended_ms", lambda outcome: _number(outcome.ended_ms)),
    Column("sent_late_ms", lambda outcome: outcome.sent_late_ms),
)


def _number(value: float) -> float | None:
    return None if isnan(value) else value


def request_table(outcomes: Sequence[Outcome]) -> Table[Outcome]:
    """One row a request."""
    return table_of(_REQUEST, outcomes)


def rehearsal_files(rehearsal: Rehearsal) -> dict[str, bytes]:
    """Name -> content of what a rehearsal's folder holds."""
    document = json.dumps(rehearsal_document(rehearsal), indent=2, ensure_ascii=False, allow_nan=False)
    return {
        PAGE: page_text(rehearsal_page(rehearsal)).encode(),
        DOCUMENT: f"{document}\n".encode(),
        REQUESTS: request_table(rehearsal.outcomes).csv(),
    }
