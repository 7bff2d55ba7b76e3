"""Repairs as commands: scripts that evict and move just these pods, and a scenario that begins with the layout."""

import shlex
from dataclasses import replace
from pathlib import Path

from planner.cli.cluster.repairing import RepairsAtHand
from planner.domain import ClusterNode, IslandClass, Layout, NodeGpu, NumaNode, Pod, SearchMethod
from planner.domain.cluster import Cluster
from planner.domain.defragmentation import IslandRepair, Move, Repair, RepairKind, RepairReport
from planner.domain.objective import ObjectiveKind
from planner.export.objects.evictions import read_evictions
from planner.files import load_cluster, load_scenario, scenario_from_document
from planner.runs.replanning.repairing import RepairPaths, folder_files, folder_names, written_repairs
from planner.workload import summarize

DOCUMENT = {
    "name": "small",
    "model": "qwen3-30b-a3b",
    "workload": "normal-500-2000",
    "inventory": {"H20": 16},
    "ranges": {"width": 4096},
}


def node(name: str) -> ClusterNode:
    gpus = tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=0) for k in range(8))
    numa = NumaNode(id=0, socket=0, cores=tuple(range(64)))
    return ClusterNode(name=name, gpu="H20", gpus=gpus, numa_nodes=(numa,), cpus=64.0, memory_gb=512.0, asw=name)


def test_each_repair_has_its_commands(tmp_path: Path) -> None:
    pod = Pod(name="p", namespace="team", node="n1", gpus=(0, 1), gpu_request=2, cpus=4.0, preemptible=True)
    cluster = Cluster(name="c", nodes=(node("n1"), node("n2")), pods=(pod,))
    scenario = scenario_from_document(DOCUMENT, origin="test", base=tmp_path, summarize=summarize)
    scenario = replace(scenario, cluster=cluster, search=replace(scenario.search, method=SearchMethod.EXACT))
    move = Move(order=1, wave=1, step=1, pod="team/p", source="n1", target="n2", gpus=2, gpu_indices=(0, 1))
    layout = Layout.of([IslandClass(gpu="H20", size=8)] * 2)
    changes = {"rate_rps": 2.0, "rates_rps": (("i", 2.0),)}
    repairs = (
        Repair(kind=RepairKind.MOVE, move=move, **changes),
        Repair(kind=RepairKind.EVICTION, pod="team/p", node="n1", lost_gpu_hours=None, **changes),
        Repair(kind=RepairKind.EXCHANGE, exchange="i/0@n1=j/0@n2", **changes),
        Repair(kind=RepairKind.LAYOUT, layout=layout, **changes),
    )
    rows = tuple(
        IslandRepair(island=f"i{k}", rate_rps=1, ideal_rps=2, repair=r) for k, r in enumerate((*repairs, None))
    )
    report = RepairReport(cluster="c", rate_rps=1, unplaced_rps=2, islands=rows, tried=((RepairKind.MOVE, 1, 3),))
    options = ("--cpus-per-gpu", "4", "--preempt")
    paths = RepairPaths(
        run=Path("runs/a b"), cluster=Path("c.yaml"), folder=Path("mended"), options=options, engine="sglang"
    )
    written = written_repairs(report, scenario, layout, paths)
    files = folder_files(report, written)
    assert set(files) <= set(folder_names())
    commands = [[shlex.split(line) for line in written.commands[repair]] for repair in repairs]
    assert commands[0][0] == ["bash", "mended/01-move/migrate.sh"]
    for again in (commands[0][1], commands[1][1], commands[2][0]):
        assert again[:3] == ["planner", "place", "runs/a b"]
        assert again[5:11] == [*options, "--engine", "sglang", "--cluster"]
    assert commands[1][0] == ["bash", "mended/02-eviction/evictions.sh"]
    assert commands[2][0][-2:] == ["--exchange", "i/0@n1=j/0@n2"]
    assert commands[3][0][:3] == ["planner", "plan", "mended/04-layout/scenario.yaml"]
    assert commands[3][0][-2:] == ["--engine", "sglang"]
    here = written_repairs(report, scenario, layout, replace(paths, run=Path()))
    assert f"{Path.cwd()}-01-move" in here.commands[repairs[0]][1]
    (body,) = read_evictions(files["02-eviction/evictions.sh"].decode())
    assert body == {"evictions": [{"namespace": "team", "pod": "p", "node": "n1"}]}
    assert b"start team p n1 n2" in files["01-move/migrate.sh"]
    for name in ("01-move/cluster-after.yaml", "02-eviction/cluster-after.yaml", "04-layout/scenario.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(files[name])
    judged = replace(scenario, objective=replace(scenario.objective, kind=ObjectiveKind.PLACED))
    anew = written_repairs(report, judged, layout, paths)
    assert anew.commands[repairs[0]][1].startswith("planner plan mended/01-move/scenario.yaml")
    assert "01-move/scenario.yaml" in anew.files
    assert [p.node for p in load_cluster(tmp_path / "01-move/cluster-after.yaml").pods] == ["n2"]
    assert load_cluster(tmp_path / "02-eviction/cluster-after.yaml").pods == ()
    planned = load_scenario(tmp_path / "04-layout/scenario.yaml", summarize)
    assert (planned.objective.kind, planned.search.earlier) == (ObjectiveKind.PLACED, (layout,))
    page = files["repairs.md"].decode()
    assert "Tried, each by placing again: 1 move. Not tried: 2 of 3 moves." in page
    assert "work since an unknown checkpoint" in page
    (row,) = (line for line in page.splitlines() if line.startswith("| i3 "))
    assert row.split("|")[5].strip() == "–"


def test_repairs_without_a_folder_of_their_own_have_no_commands(tmp_path: Path) -> None:
    scenario = scenario_from_document(DOCUMENT, origin="test", base=tmp_path, summarize=summarize)
    scenario = replace(scenario, cluster=Cluster(name="c", nodes=(node("n1"),)))
    many = [
        Repair(kind=RepairKind.EXCHANGE, rate_rps=1.0, rates_rps=(), exchange=f"i/{k}@n1=j/0@n2") for k in range(100)
    ]
    rows = tuple(IslandRepair(island="i", rate_rps=1, ideal_rps=2, repair=repair) for repair in many)
    report = RepairReport(cluster="c", rate_rps=1, unplaced_rps=2, islands=rows, tried=())
    paths = RepairPaths(run=Path("run"), cluster=Path("c.yaml"), folder=Path("mended"))
    written = written_repairs(report, scenario, Layout.of([IslandClass(gpu="H20", size=8)]), paths)
    assert folder_files(report, written)["repairs.md"].count(b"```bash") == 99
    document = RepairsAtHand(report=report, written=written, folder=paths.folder).document()
    assert [len(row["commands"]) for row in document] == [1] * 99 + [0]
