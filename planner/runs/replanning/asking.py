"""A deployed plan changed: planned anew with least change, its roll-out ordered and replayed; and its run folder."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from planner import pipeline
from planner.domain import Plan, Scenario, require_pools
from planner.domain.changes import ChangeLimits, ChangePoint, ChangeSettings, LostServers, PlanChange
from planner.domain.rollouts import Replan, RollOut
from planner.errors import ExportError, InfeasibleError, InputError
from planner.files.plan.digests import with_seal
from planner.replanning.changes import BY_SERVERS, carried_out, joining_others
from planner.replanning.finding import require_limits
from planner.replanning.losses import with_shortfall, without_lost
from planner.replanning.rollouts.interim import InterimPlans, replayed
from planner.replanning.rollouts.rolling import roll_out
from planner.report.kit.quantities import counted
from planner.report.replanning.files import DOCUMENT, change_files
from planner.report.replanning.words import change_page
from planner.runs.exports import MANIFESTS, with_carried
from planner.runs.pages import page_bytes
from planner.runs.publication import Publication, publish
from planner.runs.replanning.stages import FOLDER as STAGES
from planner.runs.replanning.stages import Gates, first_stand, stage_files
from planner.runs.replanning.steps import FOLDER, NOT_WRITTEN, RolledOut, rolled_out

HTML = "change.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPlan:
    """A plan that takes another's place. `change`: of `replan` as it can be carried out; `joining`: servers that would
    run on in other islands, and are started anew there. `lost`: island, and its servers that are lost; `guessed`: only
    a type of GPU was named, so it may have been others; `short`: types of which the inventory has fewer than ran."""

    replan: Replan
    change: PlanChange
    roll_out: RollOut
    joining: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    guessed: bool = False
    short: tuple[str, ...] = ()

    @property
    def before(self) -> Plan:
        """What is deployed, less what is lost."""
        return self.replan.before

    @property
    def plan(self) -> Plan:
        """The new plan."""
        return self.replan.plan

    @property
    def frontier(self) -> tuple[ChangePoint, ...]:
        """The best plans for so many GPUs touched."""
        return self.replan.frontier

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must be told of the change."""
        notes = []
        if self.lost:
            servers = ", ".join(f"{counted(count, 'server')} of {island}" for island, count in self.lost)
            others = (
                "; of a GPU type idle ones count first, then servers of its largest pool: name the island where it was "
                "others"
            )
            notes.append(f"lost: {servers}{others * self.guessed}")
        if self.short:
            notes.append(
                f"the inventory has fewer {' and '.join(self.short)} than ran, so servers beyond it count as lost; "
                "where they run until the change is done, say how many there are (--meanwhile)"
            )
        if self.joining:
            notes.append(
                f"{counted(self.joining, 'server')} that could run on must start anew: a copy cannot leave the island "
                "that it was started in"
            )
        return tuple(notes)


def publish_change(
    changed: ChangedPlan,
    *,
    deployed: Mapping[str, str],
    target: str = "",
    engine: str = "",
    gates: Gates | None = None,
) -> Publication:
    """Every file of the folder; nothing is written here. `deployed`: the manifests that stand (name -> text); `gates`:
    steps are written as stages for whoever applies folders, too.

    Where steps cannot be told as manifests, the run is published without them, and says so.
    """
    published = publish(changed.plan, engine=engine)
    contents = {**published.files, **_change_pages(changed)}
    try:
        steps = rolled_out(
            changed.before, changed.plan, changed.roll_out, deployed=deployed, target=target, engine=engine
        )
    except (ExportError, InputError) as error:
        note = f"no manifests of the steps were written: {error}"
        contents |= {f"{FOLDER}/{NOT_WRITTEN}": f"{note}\n".encode()}
        return Publication(files=contents, warnings=(*published.warnings, note))
    stages = {} if gates is None else _stages(changed.plan, steps, gates)
    return Publication(files=contents | _manifests(contents, steps) | stages, warnings=published.warnings)


def _stages(plan: Plan, steps: RolledOut, gates: Gates) -> dict[str, bytes]:
    """Path below the run folder -> content: the plan as a whole, then a folder a stage."""
    stands = [first_stand(plan, steps.manifests), *(stand for step in steps.steps for stand in step.stands)]
    return {
        f"{STAGES}/{number:02}/{name}": content
        for number, stand in enumerate(stands)
        for name, content in stage_files(stand, gates).items()
    }


def _manifests(contents: Mapping[str, bytes], steps: RolledOut) -> dict[str, bytes]:
    """The steps' files, and the new plan's manifests as they stand after the last."""
    carried = {f"{MANIFESTS}{name}": text for name, text in steps.manifests.items()}
    present = {path: text for path, text in carried.items() if path in contents}
    return with_carried(contents, present) | {path: text.encode() for path, text in steps.files.items()}


def _change_pages(changed: ChangedPlan) -> dict[str, bytes]:
    """What is told of the change."""
    results = (changed.change, changed.frontier, changed.roll_out, changed.plan, changed.notes)
    return {**with_seal(change_files(*results), DOCUMENT), HTML: page_bytes(change_page(*results))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuestion:
    """What is asked of a change: the new plan's scenario, times, limits, what is `lost`, the share of the rate that no
    step undercuts, and whether steps are replayed. Where times, limits and share are None, the scenario's count.
    `meanwhile`: GPUs that there are until the change is done, of types that then have more or fewer."""

    scenario: Scenario
    settings: ChangeSettings | None = None
    limits: ChangeLimits | None = None
    lost: LostServers = field(default_factory=LostServers)
    least_share: float | None = None
    replays: bool = True
    meanwhile: Mapping[str, int] = field(default_factory=dict)


def change_plan(saved: Plan, question: ChangeQuestion) -> ChangedPlan:
    """The new plan, the change, the frontier, and the steps.

    Raises InputError where a plan has no buckets or the scenario does not suit it; InfeasibleError where nothing serves
    the workload within the limits, as it can be carried out, or no order of steps leaves the share of the rate.
    """
    policy = question.scenario.changes
    times = question.settings or policy.times
    least_share = policy.least_share if question.least_share is None else question.least_share
    require_pools(saved, BY_SERVERS)
    _require_room(question)
    lost, short = with_shortfall(saved, question.scenario.inventory, question.lost, question.meanwhile)
    _require_servers(saved, without_lost(saved, lost), short)
    replan = pipeline.replan(saved, _as_before(question.scenario, short), times, question.limits, lost)
    changed = in_steps(replan, times, least_share, question.meanwhile, replays=question.replays)
    others = f"{changed.joining} servers that go on in other islands start anew there"
    require_limits(replan.plan, changed.change, question.limits or policy.limits, others, "")
    return replace(changed, lost=fewer_servers(saved, replan.before), guessed=bool(lost.gpus), short=tuple(short))


def in_steps(
    replan: Replan, times: ChangeSettings, least_share: float, meanwhile: Mapping[str, int], *, replays: bool
) -> ChangedPlan:
    """A plan near another with the change as it can be carried out, and its steps. Raises InfeasibleError where no
    order of them leaves the share."""
    before, plan = replan.before, replan.plan
    change = carried_out(replan.change, before, plan.scenario, times)
    inventory = {item.gpu.name: item.count for item in plan.scenario.inventory.items} | dict(meanwhile)
    steps = roll_out(before, plan, change, least_share=least_share, inventory=inventory)
    if replays:
        steps = replayed(steps, InterimPlans(before, plan))
    return ChangedPlan(replan=replan, change=change, roll_out=steps, joining=joining_others(replan.change))


def _as_before(scenario: Scenario, short: Mapping[str, int]) -> Scenario:
    """The scenario with the GPUs that are lost beyond what was said: inventories are those of before a loss."""
    items = (replace(item, count=item.count + short.get(item.gpu.name, 0)) for item in scenario.inventory.items)
    return replace(scenario, inventory=replace(scenario.inventory, items=tuple(items))) if short else scenario


def _require_room(question: ChangeQuestion) -> None:
    """Raises InputError where fewer GPUs are there meanwhile than the new plan may use: its servers start on them."""
    inventory = {item.gpu.name: item.count for item in question.scenario.inventory.items}
    for gpu, count in question.meanwhile.items():
        if count < inventory.get(gpu, 0):
            raise InputError(
                f"--meanwhile: {gpu}: must be at least the inventory's {inventory[gpu]}, as new servers start on them, "
                f"got {count}.",
                hint=f"Leave {gpu} out of it, or lower the inventory (--inventory).",
            )


def _require_servers(saved: Plan, before: Plan, short: Collection[str]) -> None:
    """Raises InfeasibleError where nothing is left to change; `short`: types that the inventory has too few of."""
    if before.outlook.pools:
        return
    counts = ",".join(f"{i.gpu.name}={i.count}" for i in saved.scenario.inventory.items if i.gpu.name in short)
    runs_on = f"Where they run until the change is done, say so (--meanwhile {counts}); else p"
    raise InfeasibleError(
        f"plan {saved.scenario.name}: must have servers that are left, got none: nothing runs that could be changed.",
        hint=f"{runs_on if short else 'P'}lan anew, as there is nothing to keep serving (planner plan).",
    )


def fewer_servers(saved: Plan, before: Plan) -> tuple[tuple[str, int], ...]:
    """Islands of the deployed plan that have fewer servers left, and how many are gone."""
    remaining = {pool.island: pool.count for pool in before.outlook.pools}
    gone = [(pool.island, pool.count - remaining.get(pool.island, 0)) for pool in saved.outlook.pools]
    return tuple((island, count) for island, count in gone if count)


def lost_servers(saved: Plan, words: Iterable[str]) -> LostServers:
    """What was lost: GPU=COUNT, ISLAND=COUNT, or the name of a node; each said once. InputError for other words."""
    gpus, servers, nodes = dict[str, int](), dict[str, int](), list[str]()
    types = {item.gpu.name for item in saved.scenario.inventory.items}
    islands = {island.id for island in saved.islands}
    for word in words:
        name, sign, count = word.partition("=")
        if name in (*gpus, *servers, *nodes):
            raise InputError(f"lost: must name each loss once, got {name:.80} twice.", hint="Add them up.")
        if not sign:
            nodes.append(name)
            continue
        if name not in types | islands or not (count.isascii() and count.isdecimal() and 0 < len(count) <= 9):
            raise InputError(
                f"lost: must be a GPU type or an island with a count, or a node, got {word!r:.80}.",
                hint=f"Write {min(types)}=8 or {min(islands)}=1; types: {', '.join(sorted(types))}.",
            )
        (gpus if name in types else servers)[name] = int(count)
    return LostServers(gpus=tuple(gpus.items()), servers=tuple(servers.items()), nodes=tuple(nodes))
