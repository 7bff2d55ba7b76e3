"""Repairs of a placed plan as commands, and the folder that they run from: scripts, and the cluster afterwards."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner import defragmentation, export, files, report
from planner.domain import Cluster, Layout, ObjectiveKind, ObjectiveSettings, Scenario, SearchMethod
from planner.domain.defragmentation import (
    Defragmentation,
    DefragmentationSettings,
    MoveStep,
    Occupation,
    Repair,
    RepairKind,
    RepairReport,
)
from planner.report.kit.markdown import sections_text

AFTER, SCENARIO, PAGE, TABLE = "cluster-after.yaml", "scenario.yaml", "repairs.md", "repairs.csv"
MOST_REPAIRS = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPaths:
    """What a user typed: the run before it was placed, the cluster's file, and the folder of the repairs; the options
    of placing and the engine, which hold for the commands too."""

    run: Path
    cluster: Path
    folder: Path
    options: tuple[str, ...] = ()
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRepairs:
    """Commands of each repair, and the files that they need, by their path in the folder."""

    commands: Mapping[Repair, tuple[str, ...]]
    files: Mapping[str, bytes]


def written_repairs(repairs: RepairReport, scenario: Scenario, layout: Layout, paths: RepairPaths) -> WrittenRepairs:
    """The first repairs of a report on a scenario with a cluster, each once; `layout`: of the plan that is repaired.

    Raises InputError where a name could not stand in a script.
    """
    commands: dict[Repair, tuple[str, ...]] = {}
    contents: dict[str, bytes] = {}
    run = paths.run if paths.run.name not in ("", "..") else paths.run.resolve()
    engine = ("--engine", paths.engine) if paths.engine else ()
    for repair in repairs.each[:MOST_REPAIRS]:
        name = f"{len(commands) + 1:02}-{repair.kind.value}"
        folder, out = paths.folder / name, run.with_name(f"{run.name}-{name}")
        own_files, script = _files_of(repair, scenario, layout)
        contents |= {f"{name}/{file}": content for file, content in own_files.items()}
        place = ("planner", "place", str(run), "--out", str(out), *paths.options, *engine, "--cluster")
        anew = ("planner", "plan", str(folder / SCENARIO), "--out", str(out), *engine)
        if script:
            # a plan that was chosen for other nodes is made anew
            again = anew if scenario.objective.kind.row.placed else (*place, str(folder / AFTER))
            commands[repair] = (shlex.join(("bash", str(folder / script))), shlex.join(again))
        elif repair.exchange:
            commands[repair] = (shlex.join((*place, str(paths.cluster), "--exchange", repair.exchange)),)
        else:
            commands[repair] = (shlex.join(anew),)
    return WrittenRepairs(commands=commands, files=contents)


def folder_files(repairs: RepairReport, written: WrittenRepairs) -> dict[str, bytes]:
    """Everything that lies in the folder: the page, its table, and what the commands need."""
    page = "\n\n".join(sections_text([report.repairs_section(repairs, written.commands)]))
    return {PAGE: f"{page}\n".encode(), TABLE: report.repairs_table(repairs).csv(), **written.files}


def folder_names() -> list[str]:
    """What the folder may hold."""
    scripts = (export.MIGRATION_SCRIPT, f"{export.MIGRATION_FOLDER}/step-0001.json", export.EVICTIONS_FILE)
    folders = [f"{number:02}-{kind.value}" for number in range(1, MOST_REPAIRS + 1) for kind in RepairKind]
    return [PAGE, TABLE, *(f"{folder}/{name}" for folder in folders for name in (*scripts, AFTER, SCENARIO))]


def _scenario_of(layout: Layout, scenario: Scenario, cluster: Cluster) -> bytes:
    """What plans such a layout on the cluster's nodes: a search that begins with it, and ends there."""
    search = replace(scenario.search, method=SearchMethod.AUTO, iterations=1, batch_size=2, earlier=(layout,))
    objective = ObjectiveSettings(kind=ObjectiveKind.PLACED)
    placement = replace(scenario.placement, exchange="")
    posed = replace(scenario, objective=objective, search=search, placement=placement, cluster=cluster)
    return files.scenario_text(files.scenario_document(posed)).encode()


def _files_of(repair: Repair, scenario: Scenario, layout: Layout) -> tuple[dict[str, bytes], str]:
    """What a repair needs, and the script among it; `layout`: the plan's own."""
    cluster = scenario.cluster
    assert cluster is not None, "a plan is placed on a cluster"
    if repair.layout is not None:
        return {SCENARIO: _scenario_of(repair.layout, scenario, cluster)}, ""
    if repair.move is not None:
        after = defragmentation.replay(cluster, (repair.move,))
        scripts = export.migration_files(_as_migration(repair, cluster))
        script = export.MIGRATION_SCRIPT
    elif repair.pod:
        after = replace(cluster, pods=tuple(pod for pod in cluster.pods if pod.key != repair.pod))
        scripts = {export.EVICTIONS_FILE: export.eviction_script(repair.pod, repair.node)}
        script = export.EVICTIONS_FILE
    else:
        return {}, ""
    contents = {name: content.encode() for name, content in scripts.items()}
    if scenario.objective.kind.row.placed:
        contents[SCENARIO] = _scenario_of(layout, scenario, after)
    return contents | {AFTER: files.cluster_text(after).encode()}, script


def _as_migration(repair: Repair, cluster: Cluster) -> Defragmentation:
    """One move as what the scripts of moves are made of: nothing new comes to its node meanwhile."""
    move = repair.move
    assert move is not None, "it is a move"
    node = next(node for node in cluster.nodes if node.name == move.source)
    step = MoveStep(number=1, goal=node.name, gpu=node.gpu, gpus=len(node.gpus), moves=1, last_move=1)
    unknown = Occupation(nodes=0, full=0, empty=0, gpus=0, allocated=0)  # no file tells of it
    return Defragmentation(
        cluster=cluster.name,
        settings=DefragmentationSettings(),
        moves=(move,),
        steps=(step,),
        rounds=(),
        before=unknown,
        after=unknown,
    )
