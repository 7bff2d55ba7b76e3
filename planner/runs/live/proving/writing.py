"""A proof as a page, a document, a table of its figures, and the calibration that it asks for."""

import json
from typing import Any

from planner import files, report
from planner.domain.serving.levels import Standing
from planner.files.plan.digests import with_seal
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import counted, significant
from planner.report.kit.tree import Page, paragraphs, section
from planner.report.observed import exact_figures, figure_document, figures
from planner.report.replay.tables import levels_table
from planner.report.replay.verdict import level_words, tightest
from planner.runs.live.proving.records import Proof
from planner.runs.rehearsal.writing import STANDING_WORDS, levels_beside

PAGE, DOCUMENT, FIGURES, CALIBRATION = "prove.md", "prove.json", "prove.csv", "calibration.yaml"
NAMES = (PAGE, DOCUMENT, FIGURES, CALIBRATION)
"""All that a proof's folder may hold."""
_BESIDE = "As measured, and as the same requests are replayed at the plan's step times"


def proof_words(proof: Proof) -> str:
    """Two sentences, in Markdown: whether the levels hold, and by how much."""
    measured = proof.measured
    head = (
        f"**{STANDING_WORDS[proof.standing]} at {significant(measured.rate_rps)} requests/s at {escaped(proof.url)}**"
    )
    if proof.standing is Standing.UNTOLD and not proof.kept_up:
        return f"{head}: requests were sent at {significant(proof.sent_rps)} requests/s alone."
    if proof.standing is Standing.UNTOLD:
        return f"{head}: {report.verdict(measured).replace('**', '')}"
    level = f": {level_words(tightest(measured))}" if measured.levels else ""
    predicted = {Standing.HOLDS: "hold", Standing.BREAKS: "break", Standing.UNTOLD: "are too few to tell"}
    return f"{head}{level}. Replayed as planned they {predicted[proof.predicted.standing]}."


def proof_page(proof: Proof) -> Page:
    """The verdict, what to do, levels, times, what failed."""
    levels = tuple(zip(proof.measured.levels, proof.predicted.levels, strict=True))
    speeds = [
        f"{fitted.phase.value.capitalize()}: steps take {fitted.factor:.3f} times as long as planned, "
        f"{fitted.low:.3f} to {fitted.high:.3f} (95 %), by {counted(fitted.requests, 'request')}."
        for fitted in proof.time_factors
    ]
    untold = ["Too few requests were answered, or no factor on step times explains what was measured."]
    return Page(
        title=f"Proof: {proof.measured.plan}",
        verdict=proof_words(proof),
        lead=paragraphs(_setting(proof)),
        sections=(
            section("advice", "What to do", *listed([escaped(line) for line in proof.advice or ("Nothing.",)])),
            section("levels", "Levels", levels_table(proof.measured), levels_beside("measured", levels).block(_BESIDE)),
            section("times", "Measured and predicted", figures(proof.figures).block()),
            section("speeds", "Speed of the steps", *listed(speeds or untold)),
            section(
                "failures",
                "What failed",
                *listed([f"{counted(count, 'request')}: {escaped(why)}" for why, count in proof.failures]),
            ),
            section("notes", "Notes", *listed([escaped(note) for note in proof.notes])),
        ),
    )


def _setting(proof: Proof) -> str:
    return (
        f"{counted(len(proof.requests), 'request')} like {escaped(proof.measured.trace)}, sent by {proof.generator} to "
        f"{escaped(proof.url)} for the model {escaped(proof.model)} at {significant(proof.sent_rps)} requests/s, "
        f"{significant(proof.late_p99_ms)} ms late (P99); it took {significant(proof.seconds)} s. The prediction is a "
        "replay of the requests as they were sent and as the engine counted their tokens; where measured times may "
        "lie, all servers are at P90 and at P10 of their speeds. What network and router add counts as measured."
    )


def proof_document(proof: Proof) -> dict[str, Any]:
    """All of a proof as one document; times in ms, `holds` null where it cannot be told."""
    return {
        "summary": proof_words(proof).replace("**", ""),
        "url": proof.url,
        "model": proof.model,
        "generator": proof.generator,
        "holds": proof.holds,
        "standing": proof.standing.value,
        "seconds": proof.seconds,
        "requests": len(proof.requests),
        "scheduled_rps": proof.scheduled_rps,
        "sent_rps": proof.sent_rps,
        "late_p99_ms": proof.late_p99_ms,
        "failures": [{"why": why, "requests": count} for why, count in proof.failures],
        "time_factors": [
            {"phase": f.phase.value, "factor": f.factor, "low": f.low, "high": f.high, "requests": f.requests}
            for f in proof.time_factors
        ],
        "figures": [figure_document(figure) for figure in proof.figures],
        "measured": report.replay_document(proof.measured),
        "predicted": report.replay_document(proof.predicted),
        "advice": list(proof.advice),
        "notes": list(proof.notes),
        "factors": None
        if proof.fit is None
        else {f"{f.name}.{f.family}": f.value for f in proof.fit.calibration.factors},
    }


def proof_files(proof: Proof) -> dict[str, bytes]:
    """Name -> content of what a proof's folder holds, its document sealed."""
    document = json.dumps(proof_document(proof), indent=2, ensure_ascii=False, allow_nan=False)
    written = {
        PAGE: page_text(proof_page(proof)).encode(),
        DOCUMENT: f"{document}\n".encode(),
        FIGURES: exact_figures(proof.figures).csv(),
    }
    if proof.fit is not None:
        written[CALIBRATION] = files.calibration_text(proof.fit).encode()
    return with_seal(written, DOCUMENT)
