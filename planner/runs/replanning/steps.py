"""The steps of a roll-out as manifests: a folder a step, with a page of commands; then the new plan's own stand.

A step's files are numbered in the order of their application:

1-route.yaml  the router's table without servers that stop, and all else that serves with fewer
2-stop.yaml   engines with fewer copies; those that go altogether are deleted
3-start.yaml  engines with more copies, and new ones with what belongs to them
4-route.yaml  the router's table with them; in the last step the new plan's
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner import export, files
from planner.domain import BucketPool, Plan
from planner.domain.rollouts import RollOut, RollOutStep
from planner.domain.serving.deploy import ExportRecord
from planner.errors import ExportError
from planner.export.checking.carrying import (
    Transition,
    carried_over,
    engines_of,
    object_text,
    require_pins,
    running_engines,
    standing,
    transition,
    with_engines,
    without_engines,
)
from planner.export.found import FoundWorkload
from planner.export.objects.pods import ISLAND_LABEL, PART_OF_LABEL
from planner.replanning.rollouts.interim import InterimPlans
from planner.report.replanning.words import capacity_words, step_words
from planner.runs.deployments import Rendered, render_plan
from planner.runs.replanning.stages import Stand
from planner.runs.runbook import goes_with_engines, looks_at

Files = Mapping[str, str]

EngineKind = tuple[str, str, object, object, int, int, int]
"""What engines are started for: island, GPU type, phase, server, bucket and context."""


def in_turns(plans: Sequence[Plan], manifests: Sequence[Files]) -> list[dict[str, str]]:
    """Each plan's manifests (name -> text), with engines of equal servers of an island alike: those of the plan that
    gives pods the longest time at their end. A controller would start pods anew for another number of seconds.

    Manifests whose objects run several islands, and those of plans on nodes of their own, stay as they are.
    """
    if any(plan.placement is not None for plan in plans):
        return [dict(files) for files in manifests]
    try:
        engines = [engines_of(files) for files in manifests]
        patient: dict[EngineKind, FoundWorkload] = {}
        for plan, by_island in zip(plans, engines, strict=True):
            for kind in _kinds(plan):
                workload = by_island.get(kind[0])
                if workload is not None and (kind not in patient or _grace_of(workload) > _grace_of(patient[kind])):
                    patient[kind] = workload
        sources = [{kind[0]: patient[kind] for kind in _kinds(plan) if kind in patient} for plan in plans]
        return [with_engines(files, of_plan) for files, of_plan in zip(manifests, sources, strict=True)]
    except ExportError:
        return [dict(files) for files in manifests]


def _kinds(plan: Plan) -> Iterator[EngineKind]:
    pools: tuple[BucketPool, ...] = plan.outlook.pools
    for pool in pools:
        yield pool.island, pool.gpu, pool.phase, pool.server, pool.start, pool.end, pool.context


def _grace_of(workload: FoundWorkload) -> int:
    return grace_seconds(workload.manifest)


def grace_seconds(manifest: export.Manifest) -> int:
    """Seconds that the pods of an object are given at their end."""
    return max(_values(manifest.body, "terminationGracePeriodSeconds"), default=0)


def _values(node: object, key: str) -> Iterator[int]:
    """All values of a key, wherever it stands."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from [value] if name == key else _values(value, key)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item, key)


FOLDER, NOT_WRITTEN = "steps", "NOT-WRITTEN.txt"
ROUTE, STOP, START, ROUTE_AGAIN = "1-route.yaml", "2-stop.yaml", "3-start.yaml", "4-route.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFiles:
    """A step as files of its folder (name -> text), its commands in order, and what stands once servers have stopped,
    and once others have started."""

    name: str
    files: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[export.Step, ...] = ()
    stands: tuple[Stand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledOut:
    """`manifests`: the new plan's (name -> text), engines that run on as they were started; `steps` that lead there."""

    manifests: Mapping[str, str]
    steps: tuple[StepFiles, ...]
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Path below the run folder -> text, of all steps."""
        return {f"{FOLDER}/{step.name}/{name}": text for step in self.steps for name, text in step.files.items()}


def rolled_out(
    before: Plan, after: Plan, roll_out: RollOut, *, deployed: Mapping[str, str], target: str, engine: str
) -> RolledOut:
    """The manifests of every step; `deployed`: those that stand (name -> text).

    What stands after each step is held against its plan before it leaves. Raises ExportError where the target gives
    islands no objects of their own, and what `render_plan` raises.
    """
    plans = InterimPlans(before, after)
    rendered = render_plan(after, target=target, engine=engine, running=running_engines(deployed))
    final = carried_over(rendered.files, deployed)
    require_pins(final, after)
    _checked(final, after)
    stands, steps, state = standing(deployed), [], deployed
    for step in roll_out.steps:
        last = step is roll_out.steps[-1]
        # there is no plan of nothing: all but the engines stands until others serve
        serves = bool(step.during)
        during = _state(plans, step, rendered, deployed, final, after=False) if serves else without_engines(state)
        afterwards = final if last else _state(plans, step, rendered, deployed, final, after=True)
        stopping = transition(stands, during, annotated=False)
        starting = transition(stopping.standing, afterwards, annotated=last)
        stands, state = starting.standing, afterwards
        written = _step_files(step, roll_out, stopping, starting, rendered.record)
        steps.append(replace(written, stands=tuple(_stands(step, plans, after if last else None, stopping, starting))))
    return RolledOut(manifests=final, steps=tuple(steps), warnings=rendered.warnings)


def _stands(
    step: RollOutStep, plans: InterimPlans, new: Plan | None, stopping: Transition, starting: Transition
) -> Iterator[Stand]:
    """What stands once servers have stopped, where some do and others serve on, and once others have started: the plan
    `new` after the last step."""
    if step.stops and step.during:
        plan = plans.plan(step.during, new_table=step.new_table)
        yield Stand(title=f"{step_name(step)}: servers stop", plan=plan, objects=stopping.standing, starts=False)
    plan = new or plans.plan(step.after, new_table=step.new_table)
    yield Stand(title=f"{step_name(step)}: servers start", plan=plan, objects=starting.standing)


def _state(
    plans: InterimPlans,
    step: RollOutStep,
    rendered: Rendered,
    deployed: Mapping[str, str],
    final: Mapping[str, str],
    *,
    after: bool,
) -> Mapping[str, str]:
    """All manifests while a step lasts, or after it. What is started is pinned as it is before or after the change."""
    plan = plans.plan(step.after if after else step.during, new_table=step.new_table)
    plan = replace(plan, scenario=replace(plan.scenario, deploy=replace(plan.scenario.deploy, pin_nodes=False)))
    running = running_engines(deployed, final)
    texts = render_plan(plan, target=rendered.target, engine=rendered.engine, running=running).files
    return _checked(carried_over(texts, deployed, final), plan)


def _checked(texts: Mapping[str, str], plan: Plan) -> Mapping[str, str]:
    export.check_manifests(dict(texts), plan)
    return texts


def _step_files(
    step: RollOutStep, roll_out: RollOut, stopping: Transition, starting: Transition, record: ExportRecord
) -> StepFiles:
    name = step_name(step)
    with_engines = [item for item in starting.others if goes_with_engines(item)]
    routed = [item for item in starting.others if not goes_with_engines(item)]
    objects = {
        ROUTE: stopping.others,
        STOP: stopping.engines,
        START: (*with_engines, *starting.engines),
        ROUTE_AGAIN: (*routed, *starting.annotated),
    }
    head = f"Step {step.number} of {len(roll_out.steps)}"
    texts = {file: object_text([f"{head}: {_TITLES[file]}."], items) for file, items in objects.items() if items}
    commands = tuple(_commands(step, objects, stopping, starting))
    pages = {"README.md": _page(step, roll_out, commands), **_recorded(record, objects)}
    return StepFiles(name=name, files={**texts, **pages}, commands=commands)


def _page(step: RollOutStep, roll_out: RollOut, commands: Sequence[export.Step]) -> str:
    """How to carry out one step, in Markdown: what it does, and its commands."""
    lines = [
        f"# Step {step.number} of {len(roll_out.steps)}",
        "",
        *(f"- {line}" for line in step_words(step)),
        f"- {capacity_words(step, roll_out)}",
        "",
        "Run the commands in this folder; `NAMESPACE` is where the engines run.",
    ]
    for number, group in enumerate(commands, start=1):
        lines += ["", f"## {number}. {group.title}", "", group.why, "", *_block(group.commands)]
        if group.looks:
            lines += ["", "Then look at", "", *_block(group.looks)]
    return "\n".join(lines) + "\n"


def _block(commands: Sequence[str]) -> list[str]:
    return ["```sh", *commands, "```"]


def _recorded(record: ExportRecord, objects: Mapping[str, Sequence[export.Manifest]]) -> dict[str, str]:
    """What the step's files hold, as they stand between two plans and neither makes them alone."""
    bodies = {file: tuple(item.body for item in items) for file, items in objects.items() if items}
    recorded = replace(record, step=True, carried=bodies)
    return {files.EXPORT_RECORD_FILE: files.export_record_text(recorded).decode()} if bodies else {}


def step_name(step: RollOutStep) -> str:
    """The name of its folder: number, servers that stop and start."""
    stops, starts = (sum(item.count for item in side) for side in (step.stops, step.starts))
    words = [f"stop-{stops}"] * bool(stops) + [f"start-{starts}"] * bool(starts)
    return "-".join([f"{step.number:02}", *(words or ["route"])])


_TITLES = {
    ROUTE: "The router leaves out what stops",
    STOP: "Servers stop",
    START: "Servers start",
    ROUTE_AGAIN: "The router's next table",
}


_AGAIN = "Requests go to all that serve now. Engines that stand in the file are told what they are; their pods run on."


def _commands(
    step: RollOutStep, objects: Mapping[str, Sequence[export.Manifest]], stopping: Transition, starting: Transition
) -> Iterator[export.Step]:
    """What is typed, in order, and what to look at after it."""
    drain_s, load_s = (_longest(times) for times in (_drains(step), _loads(step)))
    gone = tuple(map(_deleted, stopping.gone))
    yield from _applied(ROUTE, objects[ROUTE], "From now on requests go to servers that stay.")
    if objects[STOP] or gone:
        grace_s = max(map(grace_seconds, (*stopping.engines, *stopping.gone)), default=0)
        yield export.Step(
            title=_TITLES[STOP],
            why=f"Requests in flight end by themselves, as a rule within {drain_s:.0f} s; pods have {grace_s} s. GPUs "
            "are free when the pods are gone: go on then.",
            commands=(*([_apply(STOP)] if objects[STOP] else []), *gone),
            looks=tuple(_pods_of((*stopping.engines, *stopping.gone))),
        )
    yield from _applied(START, objects[START], f"Weights are loaded in about {load_s:.0f} s; go on when all are ready.")
    yield from _applied(ROUTE_AGAIN, objects[ROUTE_AGAIN], _AGAIN)
    if starting.gone:
        why = "Objects that nothing refers to any more."
        yield export.Step(title="What is left over goes", why=why, commands=tuple(map(_deleted, starting.gone)))


def _applied(file: str, objects: Sequence[export.Manifest], why: str) -> Iterator[export.Step]:
    if objects:
        yield export.Step(title=_TITLES[file], why=why, commands=(_apply(file),), looks=tuple(looks_at(objects)))


def _apply(file: str) -> str:
    return f"kubectl apply --namespace NAMESPACE -f {file}"


def _deleted(manifest: export.Manifest) -> str:
    kind = shlex.quote(manifest.kind.lower())
    return f"kubectl delete --namespace NAMESPACE --ignore-not-found {kind} {shlex.quote(manifest.name)}"


def _drains(step: RollOutStep) -> list[float]:
    return [item.drain_s for item in step.stops]


def _loads(step: RollOutStep) -> list[float]:
    return [item.load_s for item in step.starts]


def _longest(seconds: Sequence[float]) -> float:
    return max(seconds, default=0.0)


def _pods_of(engines: Sequence[export.Manifest]) -> Iterator[str]:
    """Islands of one name may be in several deployments of a namespace."""
    labels = [item.labels for item in engines if ISLAND_LABEL in item.labels]
    selectors = {",".join(f"{key}={of[key]}" for key in (PART_OF_LABEL, ISLAND_LABEL) if key in of) for of in labels}
    for selector in sorted(selectors):
        yield f"kubectl get pods --namespace NAMESPACE -l {shlex.quote(selector)}"
