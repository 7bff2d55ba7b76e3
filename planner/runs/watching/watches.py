"""`planner watch`: feeds observed, decisions logged, plans written; its log with what it comes to, and its page."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path

from planner import export, files
from planner.domain import Plan, Scenario
from planner.domain.watching import (
    DAY_S,
    Cause,
    Decision,
    Feed,
    Fleet,
    Observation,
    Verdict,
    WatchLog,
    WatchSettings,
    WatchStep,
)
from planner.errors import InputError
from planner.files.plan.watch_folders import WatchFolder, WatchHeader, load_watch, plan_folder
from planner.files.records import read_record
from planner.files.scenario.settings import Setting
from planner.files.sections import top_level
from planner.files.tables.feeds import load_feed
from planner.plans.provenance import versions
from planner.replanning.changes import changes_between
from planner.replanning.watches.hindsight import tally, windows_of
from planner.replanning.watches.inputs import Timeline, Usual
from planner.replanning.watches.watching import WatchState, advance, after, decide
from planner.report.kit.markdown import page_text
from planner.report.replanning import watch_tables
from planner.report.replanning.watch_page import watch_page
from planner.runs import publication
from planner.runs.batches.jobs import ENGINE
from planner.runs.pages import page_bytes
from planner.runs.replanning.stages import Gates
from planner.runs.watching.acting import Acting, RollingOut
from planner.runs.watching.fleets import (
    Fleets,
    fleet_of,
    require_same_model,
    require_watchable,
    scenario_digest,
    usual_of,
)
from planner.runs.watching.live_feeds import FileFeed, LiveFeed
from planner.runs.watching.publishing import change_files, plan_files, without_times
from planner.workload import summarize

LONGEST_S = 7 * DAY_S
"""Between two observations."""

MOST_TICKS = 1_000_000
"""Of a simulation: two years of minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time as it is. Tests have others."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchJob:
    """What is to be watched. `run`: the plan that stands at first (None: one is made). `ticks`: observations of this
    call; `until_s`: none after it. `simulate`: the feeds' own times, as fast as plans are made. `stale_s`: a file that
    nobody has written for so long is told (None: none is). `live`: sources beside the files in `feeds`. `acting`: where
    changes are committed stage by stage (None: they are not)."""

    scenario: Path
    feeds: tuple[Path, ...]
    out: Path
    run: Path | None = None
    every_s: float = 60.0
    simulate: bool = False
    ticks: int | None = None
    until_s: float | None = None
    stale_s: float | None = None
    force: bool = False
    changes: tuple[Setting, ...] = ()
    settings: WatchSettings = field(default_factory=WatchSettings)
    live: tuple[LiveFeed, ...] = ()
    acting: Acting | None = None


def watch(job: WatchJob, clock: Clock | None = None) -> Iterator[WatchStep]:
    """Each observation with its decision, once both are on the disk; those of earlier processes do not come again.

    Raises InputError where the scenario, a feed, the run or the folder cannot be used, before anything is observed; a
    feed that breaks later is told in the steps' notes.
    """
    _require_times(job)
    scenario = files.load_scenario(job.scenario, summarize, job.changes)
    require_watchable(scenario)
    engine = scenario.engine.name or ENGINE
    publication.require_deployable(scenario, engine)
    start = None if job.run is None else files.load_run(job.run)
    if start is not None:
        require_same_model(start, scenario)
        _require_same_names(job, start, scenario)
    label = export.slug(scenario.deploy.name or scenario.name)
    rolling = None if job.acting is None else RollingOut(job.acting, job.out, label)
    source = _source(job, scenario, clock or Clock(), rolling)
    with closing(WatchFolder.open(job.out, _header(job, scenario, start, source), force=job.force)) as folder:
        yield from _Watch(folder, scenario, start, engine, rolling).through(source, job.ticks)


def watch_settings(**rules: float) -> WatchSettings:
    """Settings with these fields. InputError names the first that there is not, or that is out of its bounds."""
    return read_record(WatchSettings, top_level(dict(rules), "watch"))


def _require_times(job: WatchJob) -> None:
    """InputError where a length of time, or a count, cannot be one."""
    lengths = (("every", job.every_s), ("stale", job.stale_s))
    for name, seconds in lengths:
        if seconds is not None and not 0 < seconds <= LONGEST_S:
            raise InputError(f"watch: {name}: must be a time of at most a week, got {seconds:g} s.", hint="Give 60 s.")
    if job.ticks is not None and job.ticks < 1:
        raise InputError(f"watch: ticks: must be at least 1, got {job.ticks}.", hint="Leave it out for no end.")
    if job.simulate and job.acting is not None:
        raise InputError(
            "watch: repository: is of what runs now, got a simulation.", hint="Leave it out, or do not simulate."
        )
    if job.simulate and job.live:
        raise InputError(
            f"watch: {job.live[0].name}: tells what is now, got a simulation.", hint="Leave it out, or do not simulate."
        )
    if job.stale_s is not None and job.simulate:
        raise InputError(
            "watch: stale: is of feeds as they are now, got a simulation.", hint="Leave it out, or do not simulate."
        )


def _require_same_names(job: WatchJob, start: Plan, scenario: Scenario) -> None:
    """InputError where the objects of the plan that stands are called otherwise than those of the next would be."""
    names = [given.deploy.name or given.name for given in (start.scenario, scenario)]
    if job.acting is not None and names[0] != names[1]:
        raise InputError(
            f"--run {job.run}: must be called as the scenario's plans will be, {names[1]}, got {names[0]}.",
            hint=f"Keep the names of what runs: --set deploy.name={names[0]}.",
        )


class _Watch:
    """A watch at work in its folder."""

    def __init__(
        self, folder: WatchFolder, scenario: Scenario, start: Plan | None, engine: str, rolling: RollingOut | None
    ) -> None:
        self.folder, self.engine, self._rolling = folder, engine, rolling
        self._live = dict(folder.header.facts)["mode"] == "live"
        self.fleets = Fleets(scenario, start, give_up=folder.header.settings.give_up, in_steps=rolling is not None)
        self.state = WatchState(settings=folder.header.settings)
        if start is not None:
            self.state = replace(self.state, standing=fleet_of(start), number=1)
            if not folder.steps:
                self._put(1, start)
        for step in folder.steps:
            self.state = after(advance(self.state, step.observation), step.decision)
        number = self.state.number
        if number:
            folder.point(number)
            self.fleets.stand(self._read(number))

    def through(self, source: "_Simulated | _Live", ticks: int | None) -> Iterator[WatchStep]:
        """One step after the other, at most so many."""
        before = self.folder.steps[-1].observation if self.folder.steps else None
        for observation in islice(source.observations(len(self.folder.steps), before), ticks):
            yield self._step(self._with_rolling(observation), durable=source.live)

    def _with_rolling(self, observation: Observation) -> Observation:
        """Carry out what is due, and tell what is still to come."""
        if self._rolling is None:
            return observation
        return replace(observation, rolling=self._rolling.go_on(self.state.number, observation.at_s))

    def _step(self, observation: Observation, *, durable: bool) -> WatchStep:
        self.state = advance(self.state, observation)
        decision = decide(self.state, self.fleets.propose)
        if decision.fleet is not None:
            self._put(decision.number, self.fleets.plan_of(decision.fleet), decision)
            self.fleets.stand(self._read(decision.number))
        step = WatchStep(observation=observation, decision=decision)
        self.folder.add(step, durable=durable or decision.verdict is Verdict.REPLAN)
        self.state = after(self.state, decision)
        if decision.fleet is not None:
            self.folder.point(decision.number)
            if self._rolling is not None:
                self._rolling.go_on(decision.number, observation.at_s)
        return step

    def _put(self, number: int, plan: Plan, decision: Decision | None = None) -> None:
        """A plan's run folder; of a change that is watched as it happens with its steps."""
        plan, gates = without_times(plan), self._gates(decision)
        standing, fleet = self.fleets.standing, None if decision is None else decision.fleet
        if fleet is None or standing is None or not self._live:
            contents = plan_files(plan, self.engine, gates)
        else:
            before = plan_folder(self.folder.folder, number - 1)
            steps = self.fleets.steps_to(fleet, plan)
            contents = change_files(steps, standing, before, self.engine, plan, gates)
        self.folder.put_plan(number, contents)

    def _gates(self, decision: Decision | None) -> Gates | None:
        """What stages wait for. Where load or a loss is the reason, times are beyond the levels until it is done."""
        if self._rolling is None:
            return None
        levels = decision is None or decision.cause not in (Cause.LOAD, Cause.LOST)
        return Gates(engine=self.engine, window=self._rolling.window, levels=levels)

    def _read(self, number: int) -> Plan:
        """A plan as it lies on the disk: what comes next is the same for a watch that goes on from there."""
        return files.load_run(plan_folder(self.folder.folder, number))


class _Simulated:
    """The feeds' own times, one observation every so often from the first to the last."""

    live = False

    def __init__(self, job: WatchJob, usual: Usual) -> None:
        gpus = [gpu for gpu, _ in usual.counts]
        feeds = [load_feed(path, gpus) for path in job.feeds]
        clocks = {feed.iso for feed in feeds if feed.iso is not None}
        if len(clocks) > 1:
            raise InputError(
                "--feed: times must be all dates or all numbers, got both.", hint="Give one kind of time in all feeds."
            )
        self.iso = True in clocks
        self.timeline = Timeline(feeds, usual)
        self.begin_s, end_s = self.timeline.span_s or (0.0, 0.0)
        self.every_s = job.every_s
        self.end_s = end_s if job.until_s is None else min(end_s, job.until_s)
        if (self.end_s - self.begin_s) / self.every_s > MOST_TICKS:
            raise InputError(
                f"--every: must give at most {MOST_TICKS:,} observations, got "
                f"{(self.end_s - self.begin_s) / self.every_s:,.0f}.",
                hint="Observe less often, or cut the feeds.",
            )

    def observations(self, number: int, before: Observation | None) -> Iterator[Observation]:
        """From the one of that number on; `before`: the last of an earlier process."""
        while (at_s := self.begin_s + number * self.every_s) <= self.end_s:
            before = self.timeline.observe(at_s, before)
            yield before
            number += 1


class _Live:
    """Sources as they are now, again and again."""

    live, iso = True, True

    def __init__(self, job: WatchJob, scenario: Scenario, clock: Clock, *, coming_up: bool) -> None:
        """`coming_up`: engines that a feed tells of may not be there yet, so that it begins empty."""
        self.job, self.scenario, self.clock = job, scenario, clock
        self.usual = usual_of(scenario)
        now_s = clock.now()
        self.feeds = [
            (source, Feed(file=source.name, values=()) if coming_up else source.read(scenario, now_s))
            for source in _live_feeds(job)
        ]

    def observations(self, _number: int, before: Observation | None) -> Iterator[Observation]:
        """One now, and one whenever the time has come."""
        earlier: tuple[str, ...] = ()
        until_s = math.inf if self.job.until_s is None else self.job.until_s
        while (now_s := self.clock.now()) <= until_s:
            at_s = now_s if before is None else max(now_s, before.at_s)
            failures = self._read(now_s)
            timeline = Timeline([feed for _, feed in self.feeds], self.usual, before)
            of_feeds = [note for _, feed in self.feeds for note in feed.notes]
            notes = (*failures, *timeline.refusals(at_s), *of_feeds)
            fresh = tuple(note for note in notes if note not in earlier)
            before, earlier = replace(timeline.observe(at_s, before), notes=fresh), notes
            yield before
            self.clock.sleep(max(0.0, self._next_s(at_s) - self.clock.now()))

    def _read(self, now_s: float) -> list[str]:
        """Read all sources; what cannot be read stays as it was, and is told."""
        failures = []
        for place, (source, _) in enumerate(self.feeds):
            try:
                self.feeds[place] = (source, source.read(self.scenario, now_s))
            except InputError as error:
                failures.append(f"{error.message} What was read before stands.")
        return failures

    def _next_s(self, at_s: float) -> float:
        """The next multiple of the interval: a slow plan delays no observation but its own."""
        return (math.floor(at_s / self.job.every_s) + 1) * self.job.every_s


def _live_feeds(job: WatchJob) -> tuple[LiveFeed, ...]:
    return (*(FileFeed(path=path, stale_s=job.stale_s) for path in job.feeds), *job.live)


def _source(job: WatchJob, scenario: Scenario, clock: Clock, rolling: RollingOut | None) -> _Simulated | _Live:
    if job.simulate:
        return _Simulated(job, usual_of(scenario))
    return _Live(job, scenario, clock, coming_up=rolling is not None and rolling.coming_up)


def _header(job: WatchJob, scenario: Scenario, start: Plan | None, source: _Simulated | _Live) -> WatchHeader:
    return WatchHeader(
        name=scenario.name,
        settings=job.settings,
        facts=(
            ("scenario", scenario_digest(scenario)),
            ("version", repr(versions()) if job.simulate else ""),
            ("run", "" if start is None else fleet_of(start).plan),
            ("mode", "simulated" if job.simulate else "live"),
            ("every", f"{job.every_s:g} s"),
            *_feed_facts(job),
        ),
        every_s=job.every_s,
        iso=source.iso,
    )


def _feed_facts(job: WatchJob) -> Iterator[tuple[str, str]]:
    """A history is the same when a simulation goes on; a live feed changes."""
    if job.simulate:
        names = [files.input_hash(path).sha256 for path in job.feeds]
    else:
        names = [source.name for source in _live_feeds(job)]
    for number, name in enumerate(names, start=1):
        yield f"feed {number}", name


def read_log(folder: Path) -> WatchLog:
    """The log of the watch in `folder`, which may be at work. InputError where it is none, or is damaged."""
    header, steps = load_watch(folder)
    numbers = {step.decision.fleet.plan: step.decision.number for step in steps if step.decision.fleet is not None}
    start = None
    if dict(header.facts)["run"]:
        start = fleet_of(files.load_run(plan_folder(folder, 1)))
        numbers.setdefault(start.plan, 1)

    @cache
    def plan_at(number: int) -> Plan:
        return files.load_run(plan_folder(folder, number))

    def change_usd(before: Fleet, later: Fleet) -> float:
        plan = plan_at(numbers[later.plan])
        change = changes_between(plan_at(numbers[before.plan]), plan, plan.scenario.changes.times)
        return change.usd or 0.0  # watches have prices

    return WatchLog(
        name=header.name,
        iso=header.iso,
        settings=header.settings,
        windows=tuple(windows_of(steps, header.every_s, start)),
        tally=tally(steps, header.settings, change_usd, last_s=header.every_s, start=start),
    )


WINDOWS_FILE, WORDS_FILE = "windows.csv", "watch.md"


def watch_html(log: WatchLog, source: str) -> bytes:
    """The page of what was watched so far."""
    return page_bytes(watch_page(log), source)


def watch_files(log: WatchLog, source: str) -> dict[str, bytes]:
    """Relative path -> content: the page, the words, a row an observation."""
    return {
        files.PAGE_FILE: watch_html(log, source),
        WORDS_FILE: page_text(watch_page(log)).encode(),
        WINDOWS_FILE: watch_tables.windows(log).csv(),
    }


def source_of(folder: Path) -> str:
    """By which a page is known to be of this watch, however far it has come: what it was begun with."""
    header, _ = load_watch(folder)
    return f"watch {hashlib.sha256(repr((header.name, header.facts, header.settings)).encode()).hexdigest()}"
