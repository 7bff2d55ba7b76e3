"""The steps of a change in words and commands of kubectl, for objects that the planner did not write."""

from collections import Counter
from collections.abc import Iterator, Sequence

from planner.domain import BucketPool, Phase
from planner.domain.advice import RunningDeployment
from planner.domain.changes import ServerChange
from planner.domain.rollouts import Replan, RollOut
from planner.errors import InfeasibleError
from planner.export.engines.started import DIALECTS
from planner.replanning.rollouts.rolling import roll_out
from planner.report.kit.quantities import counted
from planner.runs.live.advice.rebuilding import RebuiltService
from planner.runs.live.advice.states import Pooled

Steps = tuple[str, tuple[str, ...], int]
"""The change in a line, its steps, and the servers that it touches."""
_SCALED = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet"})
"""Kinds that `kubectl scale` knows."""
_ROLLED = frozenset({"Deployment", "StatefulSet"})
"""Kinds that `kubectl rollout status` knows."""


def copies_steps(rebuilt: RebuiltService, before: Pooled, after: Pooled) -> Steps:
    """Other numbers of the same servers."""
    new = {pool.island: pool.count for pool in after.pools}
    rows = list[Steps]()
    for pool in before.pools:
        target, deployment, unit = new.get(pool.island, 0), rebuilt.islands[pool.island], before.units[pool.island]
        if target != pool.count:
            words = f"{deployment.label} from {pool.count // unit} to {target // unit} copies"
            rows.append((words, _scale(deployment, target // unit), abs(pool.count - target)))
    return _together(rows)


def flags_steps(rebuilt: RebuiltService, after: Pooled, resize: Steps) -> Steps:
    """Other flags of the same servers, and as many as it then takes."""
    old = {pool.island: pool for pool in Pooled.of(rebuilt).pools}
    rows = list[Steps]()
    for pool in after.pools:
        deployment = rebuilt.islands[pool.island]
        if flags := ", ".join(_flags(deployment, old[pool.island], pool)):
            rows.append((f"{deployment.label} with {flags}", _restart(deployment, flags), pool.count))
    return _together([*rows, resize])


def _together(rows: Sequence[Steps]) -> Steps:
    """Several in a row."""
    words = "; ".join(words for words, _, _ in rows if words)
    return words, tuple(step for _, steps, _ in rows for step in steps), sum(touched for _, _, touched in rows)


def _flags(deployment: RunningDeployment, before: BucketPool, after: BucketPool) -> Iterator[str]:
    """Flags with their new values, as its engine counts them."""
    dialect = next(row for row in DIALECTS if row.engine == deployment.start.engine)
    groups = after.server.parallel.dp if dialect.shared else 1
    lets_in_more = (deployment.start.sequences or before.server.batch_size + 1) > before.server.batch_size
    if lets_in_more or after.server.batch_size != before.server.batch_size:
        yield f"--{dialect.fields['sequences'][0]} {after.server.batch_size * groups}"
    if after.phase is not Phase.DECODE and after.server.tokens_per_step != before.server.tokens_per_step:
        yield f"--{dialect.fields['budget'][0]} {after.server.tokens_per_step * groups}"


def router_steps(rebuilt: RebuiltService, after: Pooled, resize: Steps) -> Steps:
    """Another router before them, and as many as it then takes."""
    router = after.scenario.deployed_router or "one that knows how busy servers are"
    names = ", ".join(sorted({deployment.label for deployment in rebuilt.islands.values()}))
    step = (
        f"Put a router that knows how busy servers are ({router}) before {names}: the change's folder has its "
        "manifests under manifests/; point clients at its Service."
    )
    return _together([(f"{names} behind {router}", (step,), 1), resize])


def servers_steps(rebuilt: RebuiltService, replan: Replan) -> Steps:
    """Other servers than those before the change, in the order of a roll-out where there is one."""
    change = replan.change
    touched = sum(row.count for row in change.changes if not row.kind.runs_on)
    fleet = "; ".join(
        f"{counted(pool.count, 'server')} of {pool.server.parallel.devices} {pool.gpu} ({pool.phase.value}, prompts of "
        f"{pool.start} to {pool.end - 1} tokens)"
        for pool in replan.plan.outlook.pools
    )
    steps = [
        "Its new servers, Services and router are under manifests/ of the change's folder; those that run on are "
        "yours: leave their objects as they are, and name their Services to the router."
    ]
    inventory = {item.gpu.name: item.count for item in replan.plan.scenario.inventory.items}
    counts = {pool.island: pool.count // _unit(rebuilt.islands[pool.island]) for pool in replan.before.outlook.pools}
    try:
        steps += _in_order(rebuilt, roll_out(replan.before, replan.plan, change, inventory=inventory), counts)
    except InfeasibleError as error:
        steps.append(f"No order of steps leaves most of the rate, so choose a quiet hour: {error.message}")
        steps += _rows(rebuilt, change.changes, change.changes, counts)
    return f"{rebuilt.service.name} on {fleet}", tuple(steps), touched


def _in_order(rebuilt: RebuiltService, rolled: RollOut, counts: dict[str, int]) -> Iterator[str]:
    for step in rolled.steps:
        yield from _rows(rebuilt, step.stops, step.starts, counts)
        yield (
            f"Meanwhile {step.during_rps:.4g} requests/s can be served, of {rolled.lower_rps:.4g} before or after it "
            f"all; then {step.after_rps:.4g}."
        )
    yield "Point clients at the new plan's router."


def _rows(
    rebuilt: RebuiltService, stops: Sequence[ServerChange], starts: Sequence[ServerChange], counts: dict[str, int]
) -> Iterator[str]:
    """What ends, then what begins, each object once. `counts`: its copies meanwhile, by island."""
    ending, beginning = Counter[str](), Counter[str]()
    for row in stops:
        if row.before is not None and not row.kind.runs_on:
            ending[row.before.island] += row.count
    for row in starts:
        if row.after is not None and not row.kind.runs_on:
            beginning[row.after.island] += row.count
    for island, servers in ending.items():
        deployment = rebuilt.islands[island]
        counts[island] = max(0, counts[island] - -(-servers // _unit(deployment)))
        yield from _scale(deployment, counts[island])
    for island, servers in beginning.items():
        if (running := rebuilt.islands.get(island)) is not None:
            counts[island] = counts.get(island, 0) + -(-servers // _unit(running))
            yield from _scale(running, counts[island])
            continue
        counts[island] = counts.get(island, 0) + servers
        yield (
            f"Start {counted(servers, 'server')} of island {island}, with replicas: {counts[island]} in its file: "
            f"kubectl{_in(rebuilt.service.namespace)} apply -f manifests/*-{island}.yaml"
        )


def _unit(deployment: RunningDeployment) -> int:
    """Servers of a copy."""
    return max(1, deployment.servers // max(1, deployment.copies))


def _scale(deployment: RunningDeployment, copies: int) -> tuple[str, ...]:
    """The commands that bring a deployment to so many copies."""
    replicas = copies * (1 if deployment.kind == "LeaderWorkerSet" else deployment.pods_per_copy)
    scaler = (
        f"{deployment.scaled_by} sets the copies of {deployment.label}: set its minReplicas (and maxReplicas) to "
        f"{replicas} first, or it undoes the next step."
    )
    step = f"Set the copies of {deployment.name} to {copies} in {deployment.where}."
    if deployment.kind in _SCALED:
        step = f"{_kubectl(deployment, 'scale')} --replicas={replicas}"
    elif deployment.kind == "Pod" and not copies:
        step = _kubectl(deployment, "delete")
    return (scaler, step) if deployment.scaled_by else (step,)


def _restart(deployment: RunningDeployment, flags: str) -> tuple[str, ...]:
    words, wait = f"Set {flags} in the arguments of {deployment.label}", "Wait until its copies serve again"
    edit = _kubectl(deployment, "edit") if deployment.kind in _SCALED else deployment.where
    status = f": {_kubectl(deployment, 'rollout status')}" if deployment.kind in _ROLLED else "."
    return f"{words}: {edit}", f"{wait}{status}"


def _kubectl(deployment: RunningDeployment, verb: str) -> str:
    return f"kubectl{_in(deployment.namespace)} {verb} {deployment.kind.lower()}/{deployment.name}"


def _in(namespace: str) -> str:
    return f" -n {namespace}" if namespace else ""
