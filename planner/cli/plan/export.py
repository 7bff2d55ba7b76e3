"""`planner export`: manifests from a run, and the check of manifests that are there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders, saved_runs
from planner.cli.program.every_command import ANY_ENGINE, any_of
from planner.cli.program.export_options import export_options
from planner.cli.program.option_records import with_records
from planner.cli.program.policy_options import PolicyOptions
from planner.domain.serving.targets import TARGET_ROWS
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import DeploySettings, Plan
    from planner.export import CrdSchemas
    from planner.runs.deployments import Rendered
    from planner.runs.exports import CheckedExport

NOT_CHECKED = "Not checked: the operators' CEL rules, admission webhooks, and whether nodes are free."


@with_records
def command(
    context: typer.Context,
    run: Annotated[Path | None, typer.Argument(help="A run folder, or its plan.json.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the manifests.")] = None,
    target: Annotated[
        str,
        typer.Option(
            help=f"Kind of manifests: {any_of(TARGET_ROWS)}. [default: the scenario's, else lws]", show_default=False
        ),
    ] = "",
    router: Annotated[
        str, typer.Option(help="Who executes the routing, or none. [default: the target's]", show_default=False)
    ] = "",
    engine: Annotated[str, typer.Option(help=f"{ANY_ENGINE}. [default: the scenario's]", show_default=False)] = "",
    name: Annotated[str, typer.Option(help="What object names begin with; else the scenario's name.")] = "",
    image: Annotated[
        list[str] | None,
        typer.Option(help="VENDOR=IMAGE: a pinned image for a vendor's GPUs, as AMD=name:tag; or VLLM-ROUTER=IMAGE."),
    ] = None,
    cpus_per_gpu: Annotated[int | None, typer.Option(help="Whole cores of a pod for each of its GPUs.")] = None,
    memory_gib_per_gpu: Annotated[int | None, typer.Option(help="GiB of a pod for each of its GPUs.")] = None,
    pod_resource: Annotated[
        list[str] | None, typer.Option(help="RESOURCE=COUNT of every pod, as rdma/ib=8; may be repeated.")
    ] = None,
    topology: Annotated[
        list[str] | None,
        typer.Option(help="LEVEL=LABEL: the node label of a switch level (asw, aggregation), to keep copies together."),
    ] = None,
    pin_nodes: Annotated[bool, typer.Option("--pin-nodes", help="Only the nodes of the plan's placement.")] = False,
    priority_class: Annotated[str, typer.Option(help="Name of a PriorityClass to make and use.")] = "",
    queue: Annotated[str, typer.Option(help="Kueue LocalQueue that admits the workloads.")] = "",
    model_volume: Annotated[str, typer.Option(help="Name of a claim for the weights, sized from the model.")] = "",
    queues: Annotated[
        bool, typer.Option("--queues", help="Of a fleet: Kueue admits deployments, by quotas that sum to its GPUs.")
    ] = False,
    grid_cells: Annotated[
        int | None,
        typer.Option(
            help="Cells of prompt length of a target's grid router (dynamo). [default: 32]", show_default=False
        ),
    ] = None,
    topology_objects: Annotated[
        bool,
        typer.Option("--topology-objects", help="NodeResourceTopology and FlexTopo of the placement's nodes, too."),
    ] = False,
    namespace: Annotated[
        str, typer.Option(help="Kubernetes namespace of the graphs (dynamo). [default: default]", show_default=False)
    ] = "",
    weights: Annotated[
        str,
        typer.Option(
            help="Who fetches weights: job (once, into --model-volume), node (once a node) or hub (every pod). "
            "[default: job with --model-volume, else hub]",
            show_default=False,
        ),
    ] = "",
    hf_secret: Annotated[
        str, typer.Option(help="NAME[:KEY] of the Secret with the Hugging Face token; KEY is HF_TOKEN.")
    ] = "",
    load_gb_per_s: Annotated[
        float | None, typer.Option(help="GB/s at which a pod reads weights. [default: 1]", show_default=False)
    ] = None,
    rdma: Annotated[
        str, typer.Option(help="RESOURCE[=COUNT] of pods that talk to others, as rdma/ib; else one for each GPU.")
    ] = "",
    hugepages: Annotated[str, typer.Option(help="SIZE=AMOUNT of a pod's huge pages, as 2Mi=4Gi.")] = "",
    nccl_ib_hca: Annotated[str, typer.Option(help="Network cards for NCCL, as mlx5; else NCCL chooses.")] = "",
    compute_domains: Annotated[
        bool, typer.Option("--compute-domains", help="ComputeDomains for copies that count on NVLink between hosts.")
    ] = False,
    socket_interface: Annotated[str, typer.Option(help="Interface of rendezvous between pods, as eth0.")] = "",
    kv_store: Annotated[
        str, typer.Option(help="Address of the store of tiers.remote, as lm://store:65432 or mooncake://master:50051.")
    ] = "",
    bytes_per_token: Annotated[
        float | None,
        typer.Option(
            help="Of a prompt's text, for routers that know a request's size alone (haproxy). [default: 4]",
            show_default=False,
        ),
    ] = None,
    router_counts: Annotated[
        str,
        typer.Option(
            help="bytes or requests: what haproxy counts of a prefill server. [default: bytes]", show_default=False
        ),
    ] = "",
    ranks: Annotated[
        str,
        typer.Option(
            help="What a router chooses among: rank, server, or auto: ranks where all can. [default: auto]",
            show_default=False,
        ),
    ] = "",
    served_name: Annotated[
        list[str] | None, typer.Option(help="What requests may call the model beside its own name; may be repeated.")
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(help="OPTION=VALUE of the job (slurm), as partition=gpu, or partition.H200=hopper."),
    ] = None,
    monitoring: Annotated[
        bool, typer.Option("--monitoring", help="PodMonitor and PrometheusRule, too (Prometheus operator).")
    ] = False,
    autoscaling: Annotated[
        str,
        typer.Option(help="none, hpa or keda: autoscalers with the plan's bounds. [default: none]", show_default=False),
    ] = "",
    prometheus: Annotated[str, typer.Option(help="Where keda asks, as http://prometheus.monitoring.svc:9090.")] = "",
    schedule: Annotated[
        Path | None,
        typer.Option(help="Folder of `planner schedule`: autoscalers have its hours as floors, and copies to spare."),
    ] = None,
    time_zone: Annotated[str, typer.Option(help="Of the schedule's hours, as Europe/Berlin; else UTC.")] = "",
    *,
    policies: PolicyOptions,
    check: Annotated[
        Path | None,
        typer.Option(help="Write nothing: compare this folder with what RUN exports, or the run that it lies in."),
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option(help="Folder of CRDs and JSON schemas that manifests must follow as well.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace manifests that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write deployment manifests for a plan; their GPUs sum to the plan's or nothing is written.

    Of a fleet's folder: a folder a deployment, and what routes requests to them by model."""
    if check is not None:
        _refuse_writing_options(context)
        _check(check, run, schemas, as_json=json)
        return
    if run is None or out is None:
        raise typer.BadParameter("must be given to write manifests", param_hint="RUN" if run is None else "--out")
    if fleet_folders.of_fleet(run):
        fleet_folders.export_fleet(
            context,
            run,
            out,
            target=target,
            engine=engine,
            router=router,
            queues=queues,
            schemas=_schemas(schemas),
            force=force,
            as_json=json,
        )
        return
    _refuse_queues(queues)
    plan = saved_runs.read_run(run)
    options = export_options(
        policies.applied_to(plan.scenario.deploy),
        target=target,
        router=router,
        name=name,
        images=image,
        cpus_per_gpu=cpus_per_gpu,
        memory_gib_per_gpu=memory_gib_per_gpu,
        pod_resources=pod_resource,
        topology=topology,
        pin_nodes=pin_nodes,
        priority_class=priority_class,
        queue=queue,
        model_volume=model_volume,
        namespace=namespace,
        weights=weights,
        hf_secret=hf_secret,
        load_gb_per_s=load_gb_per_s,
        rdma=rdma,
        hugepages=hugepages,
        nccl_ib_hca=nccl_ib_hca,
        socket_interface=socket_interface,
        kv_store=kv_store,
        compute_domains=compute_domains,
        bytes_per_token=bytes_per_token,
        router_counts=router_counts,
        ranks=ranks,
        served_names=served_name,
        sbatch=sbatch,
        monitoring=monitoring,
        autoscaling=autoscaling,
        prometheus=prometheus,
        time_zone=time_zone,
    )
    options = _scheduled(plan, schedule, options, engine)
    rendered = _rendered(plan, engine, options, grid_cells, schemas, topology_objects=topology_objects)
    _write(out, rendered, force=force, as_json=json)


def _refuse_queues(queues: object) -> None:
    if queues:
        raise InputError(
            "--queues: goes with the folder of a fleet, got a run.", hint="Give --queue NAME for one plan."
        )


def _scheduled(plan: "Plan", schedule: Path | None, options: "DeploySettings", engine: str) -> "DeploySettings":
    """With what a schedule tells autoscalers, where there is one."""
    from planner.files.plan.stored_schedules import load_schedule
    from planner.runs.deployments import options_of_schedule

    if schedule is None:
        return options
    if options.autoscaling == "none":
        raise InputError(
            "--schedule: goes with autoscalers, got deploy.autoscaling none.",
            hint="Add --autoscaling keda, or leave it out.",
        )
    return options_of_schedule(plan, load_schedule(schedule), options, engine=engine)


def _refuse_writing_options(context: typer.Context) -> None:
    options = [
        f"--{name.replace('_', '-')}"
        for name in sorted(context.params)
        if name not in ("run", "check", "schemas", "json")
        and (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if options:
        raise InputError(
            f"{', '.join(options)}: must be left out with --check, which writes nothing.",
            hint="Target, engine, router and options are read from the record beside the manifests.",
        )


def _rendered(
    plan: "Plan",
    engine: str,
    options: "DeploySettings",
    grid_cells: int | None,
    schemas: Path | None,
    *,
    topology_objects: bool,
) -> "Rendered":
    from planner import export
    from planner.plans import router_grid
    from planner.runs import deployments

    chosen = export.TARGETS.get(options.target)
    if grid_cells is not None and chosen is not None and not chosen.by_grid:
        raise InputError(
            f"--grid-cells: must be left out with --target {options.target}, whose routers take the plan's own ranges.",
            hint="Leave it out, or plan with `ranges: {cells: N}`.",
        )
    return deployments.render_plan(
        plan,
        engine=engine,
        options=options,
        cells=router_grid.CELLS if grid_cells is None else grid_cells,
        schemas=_schemas(schemas),
        topology_objects=topology_objects,
        price_router=True,
    )


def _schemas(folder: Path | None) -> "CrdSchemas | None":
    from planner import export, files

    return export.read_crds(files.load_schemas(folder)) if folder else None


def _write(out: Path, rendered: "Rendered", *, force: bool, as_json: bool) -> None:
    from planner import files

    files.write_folder(out, rendered.folder, force=force)
    names = [str(out / name) for name in rendered.folder]
    for warning in rendered.warnings:
        screen.show_warning(warning)
    if as_json:
        head = {"target": rendered.target, "engine": rendered.engine, "router": rendered.router}
        screen.show_json({**head, "files": names, "warnings": list(rendered.warnings)})
    else:
        screen.show_text(f"{len(names)} files written to {out}")


def _check(folder: Path, run: Path | None, schemas: Path | None, *, as_json: bool) -> None:
    """Print every difference; exit status 2 if there is one."""
    from planner import export
    from planner.runs import exports

    source = run or exports.run_above(folder)
    checked = exports.check_export(folder, None if source is None else saved_runs.read_run(source))
    crds = _schemas(schemas)
    schema_faults = export.read_manifests(checked.manifests, crds).faults if crds else ()
    faults, others = (*checked.compared.faults, *schema_faults), checked.compared.others
    if as_json:
        screen.show_json(
            {
                "files": list(checked.names),
                "faults": [str(fault) for fault in faults],
                "not_looked_at": list(others),
            }
        )
    else:
        for fault in faults:
            screen.show_text(str(fault))
    if faults:
        raise InputError(
            f"{folder}: {len(faults)} difference{'s' if len(faults) > 1 else ''} in {len(checked.names)} files.",
            hint=checked.remedy,
        )
    if not as_json:
        screen.show_text(_passed(checked, source, schemas))
        if others:
            screen.show_text(f"Not checked, as the plan writes no such things: {'; '.join(others)}.")


def _passed(checked: "CheckedExport", run: Path | None, schemas: Path | None) -> str:
    record = checked.record
    against = "its record" if record.step else f"what the plan {run} exports"
    followed = f", and follow the schemas of {schemas}" if schemas else ""
    return (
        f"{len(checked.names)} files are {against} (target {record.target}, engine {record.engine}, router "
        f"{record.router}) but for what operators may change{followed}. {NOT_CHECKED}"
    )
