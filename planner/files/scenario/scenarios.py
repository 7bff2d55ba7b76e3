"""Scenarios: strict reading of a planning question, and writing it back with every key spelt out.

A scenario comes from a file or from a mapping of the same keys. `model` and `workload` are a shipped name, a
path relative to the scenario's folder, or the config or workload document itself; `cluster` is such a path or document.
"""

import hashlib
import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from planner.domain import (
    AssignmentSettings,
    DeploySettings,
    InputHash,
    LengthProfile,
    ModelSpec,
    RangeSettings,
    RequestTrace,
    Scenario,
)
from planner.domain.changes import ChangePolicy
from planner.domain.serving.promise import PromiseSettings
from planner.domain.serving.routing import DEFAULT_SERVING, SIMPLICITY, ServingForm
from planner.domain.serving.targets import target_row
from planner.errors import InputError
from planner.files.cluster.clusters import read_cluster
from planner.files.disk.documents import input_hash, read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.disk.names import canonical, is_path, shipped_scenarios
from planner.files.disk.opening import is_folder, is_there
from planner.files.engines import read_engine, require_loaded
from planner.files.models.models import find_model, told_model
from planner.files.records import read_record
from planner.files.scenario.cost_sections import read_cost, read_network, read_slo, require_flows, require_prefix
from planner.files.scenario.doubts import read_doubt
from planner.files.scenario.inventories import read_inventory
from planner.files.scenario.objective_sections import (
    objective_section,
    read_objective,
    require_costed,
    require_measurable,
    require_method,
    with_default,
    with_requests,
)
from planner.files.scenario.placement_sections import (
    read_placement,
    read_routing,
    read_survival,
    require_placeable,
    with_form,
)
from planner.files.scenario.search_sections import read_search
from planner.files.scenario.settings import Setting, with_settings
from planner.files.scenario.speculation import require_choice
from planner.files.scenario.tiers import read_tiers
from planner.files.sections import NAME_PATTERN, Section, nearest_hint, referred_from, top_level
from planner.files.tables.workloads import read_workload, workload_file, workload_from_document

_STAND_INS = MappingProxyType(
    {"model": "deepseek-v3", "workload": "normal-500-2000", "inventory": {"H20": 1024, "H200": 1024}}
)
"""Where a scenario's own cannot be read, so that the rest can."""
_RESTS_ON = MappingProxyType(
    {
        "inventory": ("cluster", "placement"),
        "node_selectors": ("inventory", "cluster"),
        "ranges": ("workload",),
        "cost": ("model", "workload"),
        "network": ("inventory", "assignment"),
        "tiers": ("cost", "workload", "inventory"),
        "objective": ("inventory", "workload", "slo"),
        "placement": ("cluster",),
        "search": ("inventory", "cluster", "routing", "objective", "serving"),
    }
)
"""Key -> those that its rules look at."""

Summarize = Callable[[RequestTrace], LengthProfile]
ReadRequests = Callable[[Path], tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]]
_MOST_CELLS = 4096

_KEYS = (
    "name",
    "model",
    "workload",
    "inventory",
    "prices_usd_per_gpu_hour",
    "node_selectors",
    "ranges",
    "cost",
    "slo",
    "objective",
    "assignment",
    "search",
    "network",
    "tiers",
    "cluster",
    "placement",
    "engine",
    "routing",
    "simplicity",
    "serving",
    "survive",
    "doubt",
    "promise",
    "deploy",
    "changes",
)


def load_scenario(
    path: Path,
    summarize: Summarize,
    settings: Sequence[Setting] = (),
    read_requests: ReadRequests = read_workload,
) -> Scenario:
    """The scenario of a file, names and paths resolved; `summarize` turns a trace into a profile, `settings` set some
    of its keys anew, `read_requests` reads the file of a workload.

    `inputs` holds the SHA-256 of the scenario, of the settings, and of every file it drew on. The name of a shipped
    scenario stands for its file, unless there is a file of that name.
    """
    file = scenario_path(path)
    section, inputs = read_yaml(file), [input_hash(file)]
    if settings:
        origin = f"{path} with {', '.join(setting.text for setting in settings)}"
        section = top_level(with_settings(section.plain(), settings, str(path)), origin)
        text = "\n".join(setting.text for setting in settings)
        inputs.append(InputHash(name="settings", sha256=hashlib.sha256(text.encode()).hexdigest()))
    if "services" in section.plain():
        raise section.refusal(
            "services",
            "must be left out here: this reads a scenario of one service, got a fleet",
            hint=f"`planner plan {path}` plans a fleet; each service of it is then a run folder, RUN/services/NAME.",
        )
    return _read_all(section, file.parent, summarize, tuple(inputs), read_requests)


def scenario_path(path: Path) -> Path:
    """The file behind a path, or behind the name of a shipped scenario. InputError for a name that nothing has."""
    shipped = shipped_scenarios()
    name = canonical(str(path), shipped)
    if is_path(name, ".yaml", ".yml", ".json") or (is_there(path) and not is_folder(path)):
        return path
    if name in shipped:
        return shipped[name]
    if is_there(path) or not NAME_PATTERN.fullmatch(name):
        return path  # its reader says what is wrong with it
    raise InputError(
        f"{name}: no such file, nor is there a shipped scenario of that name.",
        hint=nearest_hint(name, shipped, noun="shipped scenarios") + " For your own give its path (.yaml).",
    )


def scenario_from_document(
    document: Mapping[str, object], *, origin: str, base: Path, summarize: Summarize
) -> Scenario:
    """The scenario of a mapping, read as strictly as a file; `origin` names it, `base` anchors its paths."""
    section = top_level(document, origin)
    inputs = (InputHash(name="scenario", sha256=_document_sha256(document, origin)),)
    return _read_all(section, base, summarize, inputs)


def _read_all(
    document: Section,
    base: Path,
    summarize: Summarize,
    inputs: tuple[InputHash, ...],
    read_requests: ReadRequests = read_workload,
) -> Scenario:
    """The scenario, or all its mistakes at once; a trace that it names is read once."""
    read_once = cache(read_requests)
    return read_all(
        document,
        lambda section: scenario_from_section(section, base, summarize, inputs, read_once),
        stand_ins=_STAND_INS,
        rests_on=_RESTS_ON,
    )


def _document_sha256(document: Mapping[str, object], origin: str) -> str:
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=_plain_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{origin}: must hold only texts, numbers, lists and mappings: {error}.",
            hint="Give plain values.",
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


def _plain_number(value: object) -> object:
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def scenario_from_section(
    document: Section,
    base: Path,
    summarize: Summarize,
    inputs: tuple[InputHash, ...] = (),
    read_requests: ReadRequests = read_workload,
) -> Scenario:
    """The scenario of a mapping with its place; `inputs` are the files that it stands in, `read_requests` reads the
    file of a workload."""
    document.allow_only(*_KEYS)
    question, read_inputs, trace = _question(document, base, summarize, read_requests)
    scenario = with_form(document.file, question)
    scenario = with_requests(document.file, scenario, objective_section(document), trace)
    section = document.section("search", optional=True)
    solved = scenario.objective.rents and not scenario.objective.kind.row.several
    search, search_inputs = read_search(section, base, scenario.inventory, bucketed=scenario.bucketed, solved=solved)
    scenario = replace(scenario, search=search, inputs=inputs + read_inputs + search_inputs)
    scenario = with_default(scenario, objective_section(document), section)
    require_method(document.file, scenario.objective, search)
    require_measurable(document.file, scenario)
    require_costed(document.file, scenario, objective_section(document), base)
    require_placeable(document.file, scenario)
    require_choice(document.file, scenario)
    return scenario


def _question(
    document: Section, base: Path, summarize: Summarize, read_requests: ReadRequests
) -> tuple[Scenario, tuple[InputHash, ...], RequestTrace | None]:
    """The scenario but for its search, whose defaults depend on the rest, the files that it refers to, and the trace
    that its workload is of."""
    model, model_inputs = _model(document, base)
    requests, workload_inputs = _workload(document, base, read_requests)
    trace = requests if isinstance(requests, RequestTrace) else None
    workload = summarize(requests) if isinstance(requests, RequestTrace) else requests
    cluster, cluster_inputs = read_cluster(document, base)
    placement = read_placement(document.section("placement", optional=True))
    inventory, inventory_inputs = read_inventory(document, cluster, placement)
    cost_section = document.section("cost", optional=True)
    cost, cost_inputs = read_cost(cost_section, base, model)
    engine = require_loaded(document, read_engine(document), model)
    deploy = read_record(DeploySettings, document.section("deploy", optional=True))
    engine = replace(engine, spans_hosts=engine.spans_hosts or target_row(deploy.target).starts_ranks)
    cost = replace(cost, engine=engine.measured_as)
    model = replace(model, kv_bytes=cost.kv_cache_dtype.element_bytes(model.kv_bytes))
    if model.stateful:
        model = replace(model, kept_states=engine.kept_states)
    require_prefix(cost_section, cost, workload)
    objective, objective_inputs = read_objective(objective_section(document), base)
    assignment = read_record(AssignmentSettings, document.section("assignment", optional=True))
    network = read_network(document, [item.gpu.name for item in inventory.items])
    require_flows(document.file, network, assignment)
    scenario = Scenario(
        name=document.name("name"),
        model=model,
        workload=workload,
        inventory=inventory,
        ranges=_ranges(document.section("ranges", optional=True), workload),
        cost=cost,
        slo=read_slo(document.section("slo", optional=True)),
        objective=objective,
        assignment=assignment,
        network=network,
        tiers=read_tiers(document, cost, [item.gpu for item in inventory.items]),
        cluster=cluster,
        placement=placement,
        engine=engine,
        routing=read_routing(document.section("routing", optional=True)),
        simplicity=document.number("simplicity", default=SIMPLICITY, low=0, below=1),
        serving=document.choice("serving", ServingForm) if "serving" in document else DEFAULT_SERVING,
        survive=read_survival(document.section("survive", optional=True)),
        doubt=read_doubt(document.section("doubt", optional=True), [item.gpu.name for item in inventory.items]),
        promise=read_record(PromiseSettings, document.section("promise", optional=True)),
        deploy=deploy,
        changes=read_record(ChangePolicy, document.section("changes", optional=True)),
    )
    inputs = (model_inputs, workload_inputs, cost_inputs, objective_inputs, cluster_inputs)
    return scenario, sum(inputs, inventory_inputs), trace


def _model(document: Section, base: Path) -> tuple[ModelSpec, tuple[InputHash, ...]]:
    if document.holds_section("model"):
        return told_model(document.section("model"), base)
    name = document.text("model")
    with referred_from(document, "model"):
        return find_model(name, base)


def _workload(
    document: Section, base: Path, read_requests: ReadRequests
) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    if document.holds_section("workload"):
        return workload_from_document(document.section("workload"), base)
    name = document.text("workload")
    with referred_from(document, "workload"):
        return read_requests(workload_file(name, base))


def _ranges(section: Section, workload: LengthProfile) -> RangeSettings:
    """`width` tokens each, or so wide that `cells` of them reach past the longest prompt: a router's grid."""
    section.allow_only("width", "cells")
    if "cells" in section:
        if "width" in section:
            raise section.refusal(
                "cells", "must stand alone: ranges must have width or cells, got both", hint="Leave one of them out."
            )
        cells = section.integer("cells", low=1, high=_MOST_CELLS)
        return RangeSettings(width=-(-(max(workload.input_tokens) + 1) // cells))
    return read_record(RangeSettings, section)
