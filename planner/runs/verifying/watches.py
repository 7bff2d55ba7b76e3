"""The log of a watch gone through anew: what follows from what was observed, and the plans that come of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from planner import files
from planner.domain import Scenario
from planner.domain.comparisons import Difference, Verification
from planner.domain.watching import Decision, WatchStep, clock_text
from planner.errors import InputError
from planner.files.disk.documents import read_bytes
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.journal_lines import line_of
from planner.files.plan.watch_folders import (
    CURRENT_FILE,
    LOG_FILE,
    PLANS_FOLDER,
    WatchHeader,
    load_watch,
    plan_folder,
)
from planner.files.records import record_document
from planner.files.scenario.settings import Setting
from planner.replanning.watches.watching import WatchState, advance, after, decide
from planner.runs.verifying.leaves import at_hand, document_differences, file_differences
from planner.runs.verifying.runs import plan_differences
from planner.runs.watching.fleets import Fleets, fleet_of, scenario_digest
from planner.workload import summarize

OBSERVED = f"{LOG_FILE}: what was observed, as it rests on feeds that are gone"
DECIDED = (
    f"{LOG_FILE}: what was decided; its scenario is not at hand (--scenario FILE, and --set as it was watched with)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchVerified:
    """What differs, and whether the decisions were made again, and the plans with them."""

    verification: Verification
    decided: bool


def watch_verified(folder: Path, scenario: Path | None, settings: tuple[Setting, ...] = ()) -> WatchVerified:
    """The log and `current` of the watch in `folder`. Where its `scenario` is at hand every decision is made again on
    what was observed, and its plan planned; else what the log says of plans is held against them.

    Raises InputError where the log or a plan is missing or damaged, or a scenario that is named cannot be read.
    """
    header, steps = load_watch(folder)
    question = _question(folder, header, scenario, settings)
    differences = tuple(_log_differences(folder, header, steps, question))
    if scenario is not None and question is not None:
        digests = dict(header.facts)["scenario"], scenario_digest(question)
        rows = document_differences(LOG_FILE, *({"header": {"facts": {"scenario": digest}}} for digest in digests))
        differences += tuple(rows)
    number = max((step.decision.number for step in steps), default=0)
    if number:
        content = f"{PLANS_FOLDER}/{plan_folder(folder, number).name}\n".encode()
        path = folder / CURRENT_FILE
        written = read_bytes(path, most_bytes=MOST_OF_A_LIST) if files.is_there(path) else None
        differences += tuple(file_differences(CURRENT_FILE, written, content))
    unchecked = (OBSERVED,) if question is not None else (OBSERVED, DECIDED)
    verification = Verification(files=(LOG_FILE, CURRENT_FILE), differences=differences, unchecked=unchecked)
    return WatchVerified(verification=verification, decided=question is not None)


def _question(
    folder: Path, header: WatchHeader, scenario: Path | None, settings: tuple[Setting, ...]
) -> Scenario | None:
    """The scenario as the watch was begun with it; one that is named is believed to be, and held against the log."""
    if scenario is not None:
        return files.load_scenario(scenario, summarize, settings)
    first = plan_folder(folder, 1)
    path = at_hand(files.load_run(first), folder) if files.holds_run(first) else None
    if path is None:
        return None
    try:
        read = files.load_scenario(path, summarize)
    except InputError:
        return None
    return read if scenario_digest(read) == dict(header.facts)["scenario"] else None


def _log_differences(
    folder: Path, header: WatchHeader, steps: tuple[WatchStep, ...], question: Scenario | None
) -> Iterator[Difference]:
    """Line by line. Each decision is made on those that stand before it, so that one that is wrong is told once."""
    standing = files.load_run(plan_folder(folder, 1)) if dict(header.facts)["run"] else None
    state = WatchState(settings=header.settings)
    if standing is not None:
        state = replace(state, standing=fleet_of(standing), number=1)
    fleets = None if question is None else Fleets(question, standing, give_up=header.settings.give_up)
    _, *lines = read_bytes(folder / LOG_FILE, most_bytes=MOST_OF_A_LIST).split(b"\n")
    for number, (line, step) in enumerate(zip(lines, steps, strict=False), start=2):  # a kill leaves a torn line
        state = advance(state, step.observation)
        decision = _of_its_plan(folder, step.decision) if fleets is None else decide(state, fleets.propose)
        due = json.loads(_line(header, replace(step, decision=decision)))
        for row in document_differences(LOG_FILE, json.loads(line)["step"], due["step"]):
            yield replace(row, key=f"line {number}, {row.key}")
        if step.decision.fleet is not None and fleets is not None:
            run = plan_folder(folder, step.decision.number)
            if decision.fleet is not None:
                for row in plan_differences(run, fleets.plan_of(decision.fleet)):
                    yield replace(row, file=f"{PLANS_FOLDER}/{run.name}/{PLAN_FILE}")
            fleets.stand(files.load_run(run))
        state = after(state, step.decision)


def _line(header: WatchHeader, step: WatchStep) -> bytes:
    return line_of("step", {"time": clock_text(step.observation.at_s, iso=header.iso), **record_document(step)})


def _of_its_plan(folder: Path, decision: Decision) -> Decision:
    """A decision as it is written, but for what its plan itself says."""
    if decision.fleet is None:
        return decision
    planned = fleet_of(files.load_run(plan_folder(folder, decision.number)))
    fleet = replace(
        decision.fleet, plan=planned.plan, promise_rps=planned.promise_rps, gpus=planned.gpus, nodes=planned.nodes
    )
    return replace(decision, fleet=fleet)
