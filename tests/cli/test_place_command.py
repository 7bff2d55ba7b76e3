"""`planner place`: a run put on a cluster, in its own folder or another, or refused with nothing changed."""

import gzip
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from command_line import TINY, Command, untimed

import planner as front
from planner.cli.cluster.repairing import repair_paths
from planner.domain import Cluster, Pod
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE
from planner.evaluation.exchanges import exchange_of
from planner.files import encode_plan, load_cluster, load_run, write_cluster
from planner.placement import Fleet, violations

ROWS = {"island", "replica", "node", "gpu_indices", "numa_nodes", "asw", "tp", "cores", "nics"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_placed_in_its_folder(planner: Command, run: Path, cluster: Path, painted: None) -> None:
    before = contents(run)
    answer = planner("place", run, "--cluster", cluster)
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert "## Placement" in answer.out
    document = json.loads((run / "plan.json").read_text())
    assert all(set(row) == ROWS for row in document["placement"])
    sizes = {island["id"]: island["size"] for island in document["islands"]}
    held = dict.fromkeys(sizes, 0)
    for row in document["placement"]:
        held[row["island"]] += len(row["gpu_indices"])
    assert held == sizes
    nodes = {node.name: node for node in load_cluster(cluster).nodes}
    assert all(nodes[row["node"]].asw == row["asw"] for row in document["placement"])
    lines = (run / "placement.csv").read_text().splitlines()
    assert lines[0] == "island,replica,node,gpu_indices,numa_nodes,asw"
    assert len(lines) == 1 + len(document["placement"])
    assert (run / "figures" / "placement.png").exists()
    assert "## Placement" in (run / "summary.md").read_text()
    assert contents(run).keys() >= before.keys()
    assert planner("report", run).status == EXIT_DONE


def test_a_placed_run_is_placed_again_only_if_asked(planner: Command, placed: Path, cluster: Path) -> None:
    before = contents(placed)
    answer = planner("place", placed, "--cluster", cluster)
    assert answer.status == EXIT_BAD_INPUT
    assert "is placed already" in answer.err
    assert contents(placed) == before
    again = planner("place", placed, "--cluster", cluster, "--force", "--json")
    assert again.status == EXIT_DONE
    assert contents(placed) == before
    assert again.json["placement"] == json.loads(before["plan.json"])["placement"]


def test_another_folder_leaves_the_run_as_it_was(planner: Command, run: Path, cluster: Path) -> None:
    before = contents(run)
    options = ("--qos", "best-effort", "--cpus-per-gpu", 4)
    assert planner("place", run, "--cluster", cluster, "--out", "placed", *options).status == EXIT_DONE
    assert contents(run) == before
    settings = json.loads(Path("placed/plan.json").read_text())["scenario"]["placement"]
    assert (settings["qos"], settings["cpus_per_gpu"]) == ({"prefill": "best_effort", "decode": "best_effort"}, 4)
    assert planner("place", run, "--cluster", cluster, "--out", "placed").status == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster", "none.yaml"), ("none.yaml", "no such file")),
        (("--cluster", "c.yaml", "--qos", "tight"), ("--qos", "'tight'")),
        (("--cluster", "tiny.yaml"), ("tiny.yaml",)),
    ],
)
def test_bad_input_changes_nothing(
    planner: Command, run: Path, cluster: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    Path("tiny.yaml").write_text(TINY)
    before = contents(run)
    answer = planner("place", run, *options)
    assert answer.status == EXIT_BAD_INPUT
    assert all(word in answer.err for word in words), answer.err
    assert contents(run) == before


def test_a_cluster_without_room_is_infeasible(planner: Command, run: Path) -> None:
    small = ("cluster", "synth", "--nodes", 2, "--load", 0.9, "--type", "H200=1", "--type", "H20=1", "--out", "s.yaml")
    assert planner(*small).status == EXIT_DONE
    before = contents(run)
    answer = planner("place", run, "--cluster", "s.yaml")
    assert answer.status == EXIT_INFEASIBLE
    assert "GPUs are asked for" in answer.err
    assert contents(run) == before


def test_a_file_needs_a_folder_to_be_placed_in(planner: Command, run: Path, cluster: Path) -> None:
    answer = planner("place", run / "plan.json", "--cluster", cluster)
    assert answer.status == EXIT_BAD_INPUT
    assert "--out" in answer.err


def test_a_scenario_may_name_its_cluster(planner: Command, here: Path, cluster: Path) -> None:
    Path("on.yaml").write_text(TINY + "cluster: c.yaml\nobjective: placed\nplacement: {qos: restricted}\n")
    assert planner("plan", "on.yaml", "--out", "on").status == EXIT_DONE
    document = json.loads(Path("on/plan.json").read_text())
    assert document["objective"]["kind"] == "placed"
    assert document["placement_report"]["placed_rps"] == document["throughput_rps"]
    assert [name for name, _ in document["provenance"]["inputs_sha256"]].count("c.yaml") == 1
    placed = planner("place", "on", "--cluster", "c.yaml", "--force")
    assert placed.status == EXIT_DONE
    assert json.loads(Path("on/plan.json").read_text())["placement"] == document["placement"]
    wrong = planner("place", "on", "--cluster", "c.yaml", "--out", "swapped", "--exchange", "a/0@x=b/0@y")
    assert (wrong.status, Path("swapped").exists()) == (EXIT_BAD_INPUT, False)
    assert "placement.exchange: does not go with objective.kind placed" in wrong.err


def test_islands_may_be_cut_from_the_clusters_graph(planner: Command, here: Path, cluster: Path) -> None:
    cut = TINY.replace("method: random", "method: random, encoding: graph") + "routing: {form: table}\n"
    Path("cut.yaml").write_text(cut + "cluster: c.yaml\nobjective: placed\nplacement: {qos: restricted}\n")
    assert planner("plan", "cut.yaml", "--out", "cut").status == EXIT_DONE
    assert planner("plan", "cut.yaml", "--out", "again").status == EXIT_DONE
    assert untimed(Path("cut")) == untimed(Path("again"))
    document = json.loads(Path("cut/plan.json").read_text())
    idle = {"H200": 32, "H20": 32}
    for trial in document["search"]["trials"]:
        for gpu, size, count in trial["layout"]:
            assert size >= 12
            assert size * count <= idle[gpu]
    Path("cut.yaml").write_text(cut)
    answer = planner("plan", "cut.yaml", "--out", "none")
    assert (answer.status, Path("none").exists()) == (EXIT_BAD_INPUT, False)
    assert "cluster must be given where search.encoding is graph" in answer.err


def test_what_is_written_holds_on_the_cluster(placed: Path, cluster: Path) -> None:
    from planner.evaluation.placing import demands_of

    plan = load_run(placed)
    assert plan.placement is not None
    assert violations(load_cluster(cluster), demands_of(plan), plan.placement) == ()


def test_the_cluster_is_kept_once_beside_the_plan(planner: Command, placed: Path, cluster: Path, here: Path) -> None:
    document = json.loads((placed / "plan.json").read_text())
    assert document["scenario"]["cluster"].keys() == {"file", "sha256"}
    assert load_run(placed).scenario.cluster == load_cluster(cluster)
    told = planner("report", placed).out
    moved = here / "elsewhere"
    placed.rename(moved)
    assert planner("report", moved).out == told
    assert planner("place", moved, "--cluster", cluster, "--out", "again").status == EXIT_DONE
    stored = (moved / "cluster.json.gz").read_bytes()
    assert (here / "again" / "cluster.json.gz").read_bytes() == stored
    document = json.loads(planner("report", moved, "--json").out)
    assert len(document["scenario"]["cluster"]["nodes"]) == 40  # what is printed stands alone


def test_a_plan_without_its_cluster_is_refused(planner: Command, placed: Path) -> None:
    stored = (placed / "cluster.json.gz").read_bytes()
    (placed / "cluster.json.gz").unlink()
    answer = planner("report", placed)
    assert answer.status == EXIT_BAD_INPUT
    assert "cluster.json.gz must be there, is missing" in answer.err
    assert "Put the file back" in answer.err
    (placed / "cluster.json.gz").write_bytes(gzip.compress(gzip.decompress(stored).replace(b"H200", b"H100")))
    answer = planner("export", placed, "--out", "m")
    assert answer.status == EXIT_BAD_INPUT
    assert "must be the cluster that" in answer.err


def test_a_plan_with_its_cluster_inside_is_read_as_ever(planner: Command, placed: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    plan = load_run(placed)
    (tmp_path / "old" / "plan.json").write_bytes(encode_plan(plan))
    assert load_run(tmp_path / "old") == plan
    assert planner("report", tmp_path / "old").status == EXIT_DONE


def test_repairs_are_told_and_written(planner: Command, run: Path, cluster: Path) -> None:
    answer = planner("place", run, "--cluster", cluster, "--out", "placed", "--repairs", "mended")
    assert answer.status == EXIT_DONE
    assert "## Repairs" in answer.out
    assert (Path("mended") / "repairs.md").read_text() in answer.out + "\n"
    head = (Path("mended") / "repairs.csv").read_text().splitlines()[0]
    assert head.startswith("island,rate_rps,ideal_rps,kind,repair,repaired_rps,plan_rps,plan_repaired_rps")
    again = ("place", run, "--cluster", cluster, "--out", "again", "--repairs", "mended")
    assert planner(*again).status == EXIT_BAD_INPUT
    answer = planner(*again, "--force", "--json")
    assert len(answer.json["repairs"]) == len((Path("mended") / "repairs.csv").read_text().splitlines()) - 1
    assert answer.json["loaded_w"] > 0
    for out, folder, words in (
        ((), "other", "goes with --out"),
        (("--out", "fresh"), "fresh/other", "must lie outside"),
        (("--out", "fresh"), str(run), "must lie outside"),
        (("--out", "fresh", "--exchange", "a/0@x=b/0@y"), "other", "does not go with --repairs"),
    ):
        wrong = planner("place", run, "--cluster", cluster, *out, "--repairs", folder)
        assert wrong.status == EXIT_BAD_INPUT
        assert words in wrong.err
    options = {"--qos": None, "--cpus-per-gpu": 0, "--preempt": True}
    paths = repair_paths(run / "plan.json", cluster, Path("other"), Path("fresh"), options, "sglang")
    assert (paths.run, paths.options, paths.engine) == (run, ("--cpus-per-gpu", "0", "--preempt"), "sglang")
    wrong = planner("place", run, "--cluster", cluster, "--out", "swapped", "--exchange", "a/0@x=b/0@y")
    assert wrong.status == EXIT_BAD_INPUT
    assert "placement.exchange" in wrong.err


def idle_nodes(cluster: Path, h200: int, h20: int) -> Cluster:
    """The first so many nodes of each type that are idle."""
    whole = load_cluster(cluster)
    busy = {pod.node for pod in whole.pods}
    idle = {gpu: [n for n in whole.nodes if n.gpu == gpu and n.name not in busy] for gpu in ("H200", "H20")}
    return replace(whole, nodes=(*idle["H200"][:h200], *idle["H20"][:h20]), pods=())


def test_an_exchange_holds_for_its_own_call_alone(
    planner: Command, run: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = idle_nodes(cluster, 4, 4)
    nodes = tuple(replace(node, asw=f"s{k // 2}") for k, node in enumerate(idle.nodes))
    write_cluster(replace(idle, nodes=nodes), cluster, force=True)
    assert planner("place", run, "--cluster", cluster, "--out", "placed").status == EXIT_DONE
    placed = load_run(Path("placed"))
    assert placed.placement is not None
    parts, fleet = placed.placement.parts, Fleet.of(load_cluster(cluster))
    word = next(filter(None, (exchange_of(one, other, fleet) for one, other in combinations(parts, 2))))
    made = planner("place", run, "--cluster", cluster, "--out", "swapped", "--exchange", word)
    assert made.status == EXIT_DONE
    swapped = load_run(Path("swapped"))
    assert swapped.scenario.placement.exchange == word
    assert swapped.placement is not None
    assert set(swapped.placement.parts) != set(parts)
    assert planner("place", "swapped", "--cluster", cluster, "--out", "again").status == EXIT_DONE
    again = load_run(Path("again"))
    assert (again.scenario.placement.exchange, again.placement) == ("", placed.placement)
    at_hand = front.load("swapped").place("c.yaml").record
    assert (at_hand.scenario.placement.exchange, at_hand.placement) == ("", again.placement)
    # repairs are those of the plan without it
    told = front.cluster("c.yaml").repairs(front.load("swapped"), limit=1)
    assert told.equals(front.cluster("c.yaml").repairs(front.load(run), limit=1))
    monkeypatch.setattr("planner.evaluation.repairs._KINDS", {})
    mended = planner("place", "swapped", "--cluster", cluster, "--out", "more", "--repairs", "mended")
    assert (mended.status, "## Repairs" in mended.out) == (EXIT_DONE, True)


@pytest.fixture
def one_gpu_short(run: Path, cluster: Path) -> Path:
    """As many nodes as the plan takes, with a batch job on one of their GPUs: nobody decodes."""
    idle = idle_nodes(cluster, 4, 2)
    batch = Pod(name="p", node=idle.nodes[-1].name, gpus=(0,), gpu_request=1, cpus=1.0, preemptible=True, priority=-1)
    write_cluster(replace(idle, pods=(batch,)), Path("short.yaml"), force=False)
    return Path("short.yaml")


def test_what_would_make_room_is_told_as_json_where_nothing_can_be_placed(
    planner: Command, run: Path, one_gpu_short: Path
) -> None:
    line = ("place", run, "--cluster", one_gpu_short, "--out", "placed")
    answer = planner(*line, "--repairs", "mended", "--json")
    assert (answer.status, Path("placed").exists()) == (EXIT_INFEASIBLE, False)
    assert "do not serve every bucket" in answer.err
    assert answer.json.keys() == {"repairs"}
    rows = answer.json["repairs"]
    pools = json.loads((run / "plan.json").read_text())["islands"]
    assert sorted(row["island"] for row in rows) == sorted(pool["id"] for pool in pools)
    node = load_cluster(one_gpu_short).pods[0].node
    assert {(row["kind"], row["repair"]) for row in rows} == {("eviction", f"evict default/p from {node}")}
    assert {(row["rate_rps"], row["plan_rps"]) for row in rows} == {(0.0, 0.0)}
    after = Path("mended") / "01-eviction" / "cluster-after.yaml"
    assert all(row["commands"][1].endswith(f"--cluster {after}") for row in rows)
    evicted = planner("place", run, "--cluster", after, "--out", "placed", "--json").json
    assert {row["plan_repaired_rps"] for row in rows} == {evicted["throughput_rps"]}
    served = {site["island"]: site["rate_rps"] for site in evicted["placement_report"]["sites"]}
    assert {row["island"]: row["repaired_rps"] for row in rows if row["repaired_rps"]} == pytest.approx(served)


def test_that_nothing_makes_room_is_told_as_well(planner: Command, run: Path, one_gpu_short: Path) -> None:
    kept = load_cluster(one_gpu_short)
    pods = tuple(replace(pod, preemptible=False) for pod in kept.pods)
    write_cluster(replace(kept, pods=pods), one_gpu_short, force=True)
    line = ("place", run, "--cluster", one_gpu_short, "--out", "placed", "--force", "--repairs", "mended")
    answer = planner(*line, "--json")
    assert (answer.status, answer.json.keys()) == (EXIT_INFEASIBLE, {"repairs"})
    rows = answer.json["repairs"]
    assert [(row["kind"], row["repair"], row["commands"]) for row in rows] == [(None, None, [])] * len(rows)
    assert {(row["repaired_rps"], row["plan_repaired_rps"], row["lost_gpu_hours"]) for row in rows} == {(0, 0, None)}
    words = planner(*line)
    assert (words.status, Path("placed").exists()) == (EXIT_INFEASIBLE, False)
    assert "no single change that was tried wins any of it back" in words.out
    assert "Tried, each by placing again: 0 exchanges, 1 move, 0 evictions, " in words.out
