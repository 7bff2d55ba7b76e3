"""The door: a plan becomes files, and no file leaves unchecked; and the recipes of images that no registry has, folders
beside the manifests that `docker build` takes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from types import MappingProxyType

from planner.domain import Phase, Plan, RouterBehaviour, RouterGrid, Scenario
from planner.errors import ExportError, InputError
from planner.export.checking import CrdSchemas, check_manifests
from planner.export.checking.faults import pod_gpus
from planner.export.checking.services import ranks_answer
from planner.export.checking.structure import read_manifests
from planner.export.engines.dialects import ENGINES, priced_engine
from planner.export.found import FoundWorkload, Manifest
from planner.export.islands import ServingIsland, serving_islands
from planner.export.objects.evictions import eviction_files
from planner.export.objects.names import ROUTING, plan_slug
from planner.export.objects.operating.disruption import budget_files
from planner.export.objects.operating.draining import slowest_step_ms
from planner.export.objects.operating.probes import load_seconds
from planner.export.objects.router_objects import SCRIPT_KIND, is_program
from planner.export.objects.security.policies import policy_files
from planner.export.objects.shared_files import shared_files
from planner.export.options import ExportOptions, check_heeded, check_options, check_pinned
from planner.export.routers.gateways import GATEWAYS
from planner.export.routers.intervals import island_intervals
from planner.export.routers.ranks import RunningPods, with_ranks
from planner.export.routers.registry import ROUTERS, check_counts, router_named
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles, RouterProcess, Target
from planner.export.targets import target_named, unheeded_by


def render(
    plan: Plan,
    *,
    target: str = "lws",
    engine: str = "",
    options: ExportOptions | None = None,
    schemas: CrdSchemas | None = None,
    grid: RouterGrid | None = None,
    router: str = "",
    running: Mapping[str, FoundWorkload] = MappingProxyType({}),
) -> dict[str, str]:
    """Manifests that deploy `plan`: file name -> YAML text; and a script of its evictions, where pods have to go. The
    same plan gives the same bytes.

    They follow our own schemas, and `schemas` where those know a kind. The scenario's priority class is used unless
    the options name another. `engine`: the plan's own where none is named. `grid`: the uniform grid that the plan's
    routing table is on, if any. `router`: who executes the routing; empty: the target's own, or nobody where that
    cannot execute it, `none`: nobody. `running`: island -> what runs it already and is left as it is; the rest is
    written for its pods.

    Raises:
        InputError: no such target, engine or router, an option, a name, a label or a model location that cannot be
            used.
        ExportError: the plan's servers were priced for another engine, the target cannot start the engine, heed an
            option or express an island, or the router cannot execute the routing; the message names it.
        InconsistentPlanError: the plan, or what was rendered from it, breaks an invariant.
    """
    pods = {name: _running_pods(workload) for name, workload in running.items()}
    deployment = deployment_of(plan, target=target, engine=engine, options=options, grid=grid, router=router, pods=pods)
    chosen_target = deployment.target
    try:
        files = _files(deployment)
    except ExportError as error:
        if router or deployment.router is None:
            raise
        # the target's own router gives way to the table alone; what the target itself cannot do it refuses again
        reason = f"{error.message} So no router's configuration is written; the table is for one of your own."
        deployment = with_ranks(replace(deployment, router=None, unrouted=reason), pods)
        files = _files(deployment)
    if not all(kind.inventory for kind in chosen_target.kinds):  # files that describe the fleet alone deploy nothing
        files |= _budget_files(deployment)
        files |= eviction_files(deployment, classed="priority_class" not in chosen_target.unheeded)
    check_manifests(files, plan, schemas)
    check_pinned(deployment.options, images_of(files))
    return files


def deployment_of(
    plan: Plan,
    *,
    target: str = "lws",
    engine: str = "",
    options: ExportOptions | None = None,
    grid: RouterGrid | None = None,
    router: str = "",
    pods: Mapping[str, RunningPods] = MappingProxyType({}),
) -> Deployment:
    """What is deployed, as `render` takes it and with its errors, before anything is written."""
    chosen_engine = priced_engine(plan, engine)
    chosen_options = check_deployable(plan.scenario, chosen_engine.name, target, router, options or ExportOptions())
    chosen_target = target_named(target, chosen_engine.name)
    name = plan_slug(chosen_options.name or plan.scenario.name, (*(island.id for island in plan.islands), ROUTING))
    unranked = Deployment(
        name=name,
        plan=plan,
        islands=_islands(plan, name, chosen_options, chosen_target),
        engine=chosen_engine,
        target=chosen_target,
        options=chosen_options,
        grid=grid,
        intervals=island_intervals(plan),
        router=router_named(router, chosen_target, chosen_engine.name),
        slowest_step_ms=slowest_step_ms(plan),
    )
    return with_ranks(unranked, pods)


def slowest_start_s(
    plan: Plan, *, target: str, engine: str = "", options: ExportOptions | None = None, router: str = ""
) -> float:
    """Estimated seconds from the start of the slowest pods until they serve; raises as `render` does."""
    deployment = deployment_of(plan, target=target, engine=engine, options=options, router=router)
    return max(load_seconds(island, deployment) for island in deployment.islands)


def _islands(plan: Plan, name: str, options: ExportOptions, target: Target) -> tuple[ServingIsland, ...]:
    islands = tuple(replace(island, store=options.kv_store) for island in serving_islands(plan, name))
    if not options.served_names:
        return islands
    names = tuple(dict.fromkeys((target.model_name(plan.scenario.model), *options.served_names)))
    return tuple(replace(island, served_names=names) for island in islands)


def router_behaviour(plan: Plan, router: str, *, target: str, engine: str = "") -> RouterBehaviour:
    """How a router chooses where the plan is exported with it, for `target`; raises as `render` does."""
    options = plan.scenario.deploy
    if not ROUTERS[router].counts_bytes:
        options = replace(options, router_counts=ExportOptions().router_counts)
    return deployment_of(plan, target=target, engine=engine, options=options, router=router).behaviour


def _running_pods(workload: FoundWorkload) -> RunningPods:
    return RunningPods(pods=workload.pods_per_copy, gpus=pod_gpus(workload.pods[0]), by_rank=ranks_answer(workload))


def router_processes(
    plan: Plan,
    *,
    engine: str = "",
    options: ExportOptions | None = None,
    router: str = "",
    at: Callable[[Endpoint], Endpoint] = lambda endpoint: endpoint,
) -> tuple[RouterProcess, ...]:
    """The programs that execute a plan's routing, as the target `script` starts them; `at`: where each island answers,
    in place of where that target has it.

    Raises InputError and ExportError as `render` does, and where the router is no program of its own.
    """
    deployment = deployment_of(plan, target="script", engine=engine, options=options, router=router)
    target = deployment.target
    endpoints = target.manifests(deployment).endpoints
    written = deployment.router.render(deployment, [at(e) for e in endpoints]) if deployment.router else RouterFiles()
    if not written.processes:
        name = deployment.router.name if deployment.router else "none"
        programs = [name for name, other in ROUTERS.items() if target.name in other.targets]
        raise ExportError(
            f"Router {name}: must be a program that target {target.name} starts, is none.",
            hint=f"Choose one of {', '.join(programs)}.",
        )
    return written.processes


def check_deployable(
    scenario: Scenario, engine: str, target: str, router: str, options: ExportOptions
) -> ExportOptions:
    """The options, completed by what the scenario says: its priority class, and the switch levels of its cluster.

    Raises InputError and ExportError as `render` does, as far as that can be told without a plan.
    """
    chosen_target = target_named(target, engine)
    executing = router_named(router, chosen_target, engine)
    check_counts(options, executing)
    _check_served(options, executing)
    _check_key(options, executing, engine)
    check_heeded(options, chosen_target.name, unheeded_by(chosen_target))
    levels = scenario.cluster.levels if scenario.cluster else ()
    if "topology_labels" not in chosen_target.unheeded and not options.topology_labels:
        options = replace(options, topology_labels=levels)
    if "priority_class" not in chosen_target.unheeded and not options.priority_class:
        options = replace(options, priority_class=scenario.placement.priority_class)
    check_options(options, scenario.placement)
    if options.kv_store and (scenario.tiers is None or scenario.tiers.remote is None):
        raise InputError(
            f"deploy.kv_store: goes with tiers.remote, which the scenario has not, got {options.kv_store}.",
            hint="Leave it out, or plan with tiers.remote.",
        )
    return options


def _check_served(options: ExportOptions, router: Router | None) -> None:
    if options.served_names and router is not None and router.served_name is not None:
        raise ExportError(
            f"Router {router.name}: engines must serve the one name by which it picks pods, got deploy.served_names "
            f"{', '.join(options.served_names)}.",
            hint="Leave deploy.served_names out, or choose another router.",
        )


def _check_key(options: ExportOptions, router: Router | None, engine: str) -> None:
    if not options.api_key_secret:
        return
    if router is not None and not router.passes_key:
        able = ", ".join(name for name, row in ROUTERS.items() if row.passes_key)
        raise ExportError(
            f"Router {router.name}: must bring the key of clients to engines, of which nothing is known, got "
            f"deploy.api_key_secret {options.api_key_secret}.",
            hint=f"Take one of {able} (--router), or leave the key out.",
        )
    if not ENGINES[engine].key_variable:
        raise ExportError(
            f"Engine {engine}: must be able to ask for a key (deploy.api_key_secret), of which nothing is known.",
            hint="Leave the key out.",
        )


def _require_lanes(deployment: Deployment) -> None:
    lanes = sorted({island.lane for island in deployment.plan.islands if island.lane})
    if lanes and not (deployment.router is not None and deployment.router.keeps_lanes):
        able = ", ".join(name for name, router in ROUTERS.items() if router.keeps_lanes)
        hands_over = any(island.phase is not Phase.MIXED for island in deployment.plan.islands)
        why = "neither takes the other's KV caches" if hands_over else "each takes the share that it is priced for"
        raise ExportError(
            f"Router {deployment.router.name if deployment.router else 'none'}: must keep engines of {lanes[0]} and of "
            f"the new plan apart, as {why}, and cannot.",
            hint=f"Upgrade behind one of {able} (deploy.router), or beside what runs: export the new plan by itself.",
        )


def _files(deployment: Deployment) -> dict[str, str]:
    """The target's files, what stands beside them, and the router's."""
    _require_lanes(deployment)
    written = deployment.target.manifests(deployment)
    if not written.endpoints:
        return dict(written.files)
    table = shared_files(deployment, written.endpoints, applied=deployment.target.applied)
    router, target = deployment.router, deployment.target
    routed = router.render(deployment, written.endpoints) if router else RouterFiles()
    programs = target.processes(routed.processes, deployment) if target.processes and routed.processes else {}
    policies = _policy_files(deployment, written.endpoints, routed.processes)
    return {**written.files, **table, **policies, **routed.files, **programs}


def _budget_files(deployment: Deployment) -> dict[str, str]:
    """The bounds on evictions, where the target's pods can be evicted."""
    target = deployment.target
    namespace = "" if "namespace" in target.unheeded else deployment.options.namespace
    return budget_files(deployment, target.pods_of, namespace=namespace) if target.pods_of else {}


def _policy_files(
    deployment: Deployment, endpoints: Sequence[Endpoint], processes: Sequence[RouterProcess]
) -> dict[str, str]:
    """Who may speak to whom, where pods have labels to tell them by."""
    target = deployment.target
    if target.pods_of is None:
        return {}
    namespace = "" if "namespace" in target.unheeded else deployment.options.namespace
    return policy_files(deployment, target.network, target.pods_of, endpoints, processes, namespace=namespace)


def images_of(files: Mapping[str, str]) -> Iterator[str]:
    """Every image that manifests or scripts (name -> text) start."""
    for manifest, _ in read_manifests(files).sound:
        yield from _images(manifest.body)


def _images(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (image for key, image in value.items() if key == "image" and isinstance(image, str))
        for inner in value.values():
            yield from _images(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _images(inner)


DOCKERFILE, PACKAGES = "Dockerfile", "requirements.txt"


def image_files(files: Mapping[str, str]) -> dict[str, str]:
    """Path -> text of the folders that images of `files` (name -> text, manifests or scripts) are built from, whatever
    they are called: steps, and packages with their hashes. The first line of a Dockerfile says how. None where an image
    is published, or a digest says that it is built already."""
    written: dict[str, str] = {}
    for manifest, _ in read_manifests(files).sound:
        for image, words in _started(manifest):
            for program in GATEWAYS.values():
                if program.recipe and words[: len(program.program)] == program.program and "@" not in image:
                    written |= _folder(program.key.lower(), image, program.recipe)
    return written


def _started(manifest: Manifest) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The image of a router's program and the words that start it."""
    if manifest.kind == SCRIPT_KIND:
        yield manifest.body["image"], tuple(manifest.body["command"])
    elif is_program(manifest):
        for container in manifest.body["spec"]["template"]["spec"]["containers"]:
            yield container["image"], (*container.get("command", ()), *container.get("args", ()))


def _folder(name: str, image: str, recipe: str) -> dict[str, str]:
    source = resources.files("planner.export.routers").joinpath(recipe)
    texts = {file: source.joinpath(file).read_text(encoding="utf-8") for file in (DOCKERFILE, PACKAGES)}
    texts[DOCKERFILE] = f"# docker build --tag {image} {name}\n{texts[DOCKERFILE]}"
    return {f"{name}/{file}": text for file, text in texts.items()}
