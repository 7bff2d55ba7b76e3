"""`planner plan` and `planner place` where pods may go: what plan.json lists, limits, and bad input."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import TABLE, TINY, Command, untimed

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE
from planner.files import load_run
from planner.files.plan.digests import sealed


def shape(gpu: str) -> dict[str, Any]:
    numas = [{"id": k, "socket": k, "cores": f"{48 * k}-{48 * k + 47}"} for k in range(2)]
    return {"gpu": gpu, "gpus_per_numa": 4, "numa_nodes": numas, "cpus": 96, "memory_gb": 1000}


@pytest.fixture
def cluster(here: Path) -> dict[str, Any]:
    """Four nodes of each type; half of them are held by pods that may go."""
    nodes = [
        {"name": f"{gpu.lower()}-{k}", "shape": gpu, "asw": f"asw-{gpu.lower()}"}
        for gpu in ("H200", "H20")
        for k in range(4)
    ]
    pods = [
        {"name": f"p-{one['name']}", "node": one["name"], "gpus": list(range(8)), "cpus": 8, "priority": 5}
        | {"preemptible": True, "checkpoint_age_s": 3600, "age_s": 7200, "disruption_budget": "batch"}
        for one in nodes[1::2]
    ]
    budgets = [{"name": "batch", "allowed": 4}]
    shapes = {gpu: shape(gpu) for gpu in ("H200", "H20")}
    document = {"name": "held", "shapes": shapes, "nodes": nodes, "pods": pods, "disruption_budgets": budgets}
    Path("c.yaml").write_text(yaml.safe_dump(document))
    return document


def scenario(text: str = TINY, **placement: object) -> Path:
    settings = {"preempt": True, "priority": 1000, **placement}
    Path("on.yaml").write_text(
        text.replace("min_island_size: 12", "min_island_size: 8")
        + f"cluster: c.yaml\nplacement: {json.dumps(settings)}\n"
    )
    return Path("on.yaml")


def report_of(run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(run, "plan.json").read_text())["placement_report"]
    return found


def test_plan_json_lists_victims_their_lost_work_and_their_order(planner: Command, cluster: dict[str, Any]) -> None:
    asked = scenario(priority_class="serving-high", victim_rule="lost_work")
    answer = planner("plan", asked, "--out", "run")
    assert answer.status == EXIT_DONE, answer.err
    report = report_of("run")
    victims = report["victims"]
    assert len(victims) == 4
    assert [row["order"] for row in victims] == [1, 2, 3, 4]
    assert all(row["lost_gpu_hours"] == 8.0 for row in victims)
    assert report["evictions"] == {"victims": 4, "gpus": 32, "lost_gpu_hours": 32.0, "unknown_lost_work": 0}
    document = json.loads(Path("run/plan.json").read_text())
    assert document["scenario"]["placement"]["priority_class"] == "serving-high"
    text = Path("run/summary.md").read_text()
    assert "**4 pods have to go first**; they lose 32.0 GPU-hours" in text
    assert "| Order |" in text.replace("  ", " ")
    loaded = load_run(Path("run"))
    assert loaded.placement is not None
    assert loaded.scenario.cluster.disruption_budgets[0].allowed == 4


def test_plan_json_tells_which_evictions_an_island_waits_for(planner: Command, cluster: dict[str, Any]) -> None:
    """Every node is one pod's, islands have four GPUs: two come up on one pod's GPUs, and both wait for it."""
    held = [dict(cluster["pods"][0], name=f"q-{one['name']}", node=one["name"]) for one in cluster["nodes"]]
    budgets = [{"name": "batch", "allowed": 6}]
    Path("c.yaml").write_text(yaml.safe_dump(cluster | {"pods": held, "disruption_budgets": budgets}))
    asked = scenario(TABLE)
    asked.write_text(
        asked.read_text().replace("batch_size: 2, min_island_size: 8", "batch_size: 4, min_island_size: 4")
    )
    answer = planner("plan", asked, "--out", "run")
    assert answer.status == EXIT_DONE, answer.err
    report = report_of("run")
    orders = {row["order"]: row for row in report["victims"]}
    parts: Any = json.loads(Path("run/plan.json").read_text())["placement"]
    for site in report["sites"]:
        nodes = {part["node"] for part in parts if part["island"] == site["island"]}
        assert nodes == {orders[order]["node"] for order in site["waits_for"]}  # a pod a node
    own = {(row["island"], order) for order, row in orders.items()}
    others = [one for one in report["sites"] if any((one["island"], order) not in own for order in one["waits_for"])]
    assert others
    text = Path("run/summary.md").read_text()
    assert all(f"{one['island']} after {', '.join(map(str, one['waits_for']))}" in text for one in others[:3])
    planner("place", "run", "--cluster", "c.yaml", "--preempt", "--force")
    assert report_of("run")["sites"] == report["sites"]
    document = json.loads(Path("run/plan.json").read_text())
    document["placement_report"]["sites"][0]["waits_for"] = []
    edited = "placement_report.sites.0: must be as it was written"
    for written, told in ((document, edited), (sealed(document), "waits_for")):
        Path("run/plan.json").write_text(json.dumps(written))
        answer = planner("report", "run")
        assert answer.status == EXIT_BAD_INPUT
        assert told in answer.err


def test_limits_are_constraints_and_what_is_kept_out_says_so(planner: Command, cluster: dict[str, Any]) -> None:
    """24 GPU-hours may be lost, those of three victims; the limit on victims alone would let all four go."""
    answer = planner("plan", scenario(TABLE, most_victims=4, most_lost_gpu_hours=24.5), "--out", "run")
    assert answer.status == EXIT_DONE, answer.err
    report = report_of("run")
    assert 0 < len(report["victims"]) <= 3
    told = [one for one in report["shortfalls"] if one["resource"] == "evictions"]
    assert told
    assert all("short of evictions: it takes" in one["reason"] for one in told)
    assert all(one["remedies"][0].startswith("placement.most_lost_gpu_hours") for one in told)


def test_no_room_within_the_limits_is_infeasible(planner: Command, cluster: dict[str, Any]) -> None:
    held = [
        dict(pod, name=f"q-{k}", node=one["name"])
        for k, one in enumerate(cluster["nodes"])
        for pod in cluster["pods"][:1]
    ]
    Path("c.yaml").write_text(yaml.safe_dump(cluster | {"pods": held}))
    answer = planner("plan", scenario(most_victims=0), "--out", "run")
    assert answer.status == EXIT_INFEASIBLE
    assert "short of evictions" in answer.err
    assert "placement.most_victims" in answer.err
    assert "`planner plan on.yaml --resume run`" in answer.err
    assert [path.name for path in Path("run").rglob("*")] == ["search", "journal.jsonl"]
    judged = Path("run/search/journal.jsonl").read_bytes()
    answer = planner("plan", scenario(most_victims=8), "--resume", "run")  # as the hint says
    assert answer.status == EXIT_DONE, answer.err
    assert planner("plan", "on.yaml", "--out", "whole").status == EXIT_DONE
    assert untimed(Path("run")) == untimed(Path("whole"))
    assert judged.count(b'{"judged"') == len(json.loads(Path("run/plan.json").read_text())["search"]["trials"])


def test_a_placed_run_may_be_limited(planner: Command, run: Path, cluster: dict[str, Any]) -> None:
    options = ("--preempt", "--most-victims", 3, "--most-lost-gpu-hours", 100)
    answer = planner("place", run, "--cluster", "c.yaml", *options, "--out", "three")
    assert answer.status == EXIT_DONE, answer.err
    assert 0 < len(report_of("three")["victims"]) <= 3
    settings = json.loads(Path("three/plan.json").read_text())["scenario"]["placement"]
    assert (settings["most_victims"], settings["most_lost_gpu_hours"]) == (3, 100.0)
    for option, most in (("--most-victims", 3), ("--most-lost-gpu-hours", 100)):
        answer = planner("place", run, "--cluster", "c.yaml", option, most, "--out", "none")
        assert answer.status == EXIT_BAD_INPUT
        assert f"{option}: limits which pods may be evicted, and none may" in answer.err
        assert not Path("none").exists()
    assert planner("place", run, "--cluster", "c.yaml", "--most-victims", -1).status == EXIT_BAD_INPUT
    assert planner("place", run, "--cluster", "c.yaml", "--most-lost-gpu-hours", "inf").status == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({"most_victims": -1}, ("placement.most_victims", "at least 0", "-1")),
        ({"most_lost_gpu_hours": -1}, ("placement.most_lost_gpu_hours", "at least 0")),
        ({"priority_class": "Not A Label"}, ("placement.priority_class", "DNS label")),
        ({"victim_rule": "random"}, ("placement.victim_rule", "'random'")),
    ],
)
def test_bad_settings_end_with_status_two(
    planner: Command, cluster: dict[str, Any], placement: dict[str, Any], words: tuple[str, ...]
) -> None:
    answer = planner("plan", scenario(**placement), "--out", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert all(word in answer.err for word in words), answer.err
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"disruption_budgets": []}, ("disruption_budget", "'batch'", "add the budget")),
        ({"disruption_budgets": [{"name": "batch", "allowed": -1}]}, ("disruption_budgets[0].allowed", "at least 0")),
        ({"disruption_budgets": [{"name": "batch", "allowed": 1}] * 2}, ("disruption_budgets", "listed once")),
    ],
)
def test_budgets_that_contradict_the_pods_are_refused(
    planner: Command, cluster: dict[str, Any], change: dict[str, Any], words: tuple[str, ...]
) -> None:
    Path("c.yaml").write_text(yaml.safe_dump(cluster | change))
    answer = planner("plan", scenario(), "--out", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert all(word in answer.err for word in words), answer.err


def test_a_plan_that_evicts_comes_with_a_script_that_the_check_knows(planner: Command, cluster: dict[str, Any]) -> None:
    assert planner("plan", scenario(), "--out", "run").status == EXIT_DONE
    answer = planner("export", "run", "--out", "manifests")
    assert answer.status == EXIT_DONE
    assert "evictions.sh: the islands' pods name no priority class" in " ".join(answer.err.split())
    victims = [(*row["pod"].split("/"), row["node"]) for row in report_of("run")["victims"]]
    script = Path("manifests/evictions.sh")
    lines = [line.split()[1:] for line in script.read_text().splitlines() if line.startswith("evict ")]
    assert lines == [list(row) for row in victims]
    assert planner("export", "--check", "manifests", "run").status == EXIT_DONE  # the record lies beside them
    script.write_text(script.read_text().replace(f"evict {' '.join(victims[-1])}\n", ""))
    answer = planner("export", "--check", "manifests", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert f'evictions.sh, line "evict {victims[-1][0]} ' in answer.out
    assert "as planned, got nothing" in " ".join(answer.out.split())
    assert "evictions.sh" not in planner("export", "run", "--out", "named", "--priority-class", "serving").err


def test_what_an_inventory_of_the_cluster_leaves_out_is_told(planner: Command, cluster: dict[str, Any]) -> None:
    """One H200 node is cordoned, one H20 node belongs to a team: what is planned for can be placed."""
    taints = ("node.kubernetes.io/unschedulable", "team")
    nodes = [dict(one) for one in cluster["nodes"]]
    for one, taint in zip((nodes[0], nodes[4]), taints, strict=True):
        one["taints"] = [{"key": taint}]
    Path("c.yaml").write_text(yaml.safe_dump(cluster | {"nodes": nodes, "pods": []}))
    asked = scenario(preempt=False)
    asked.write_text(asked.read_text().replace("inventory: {H200: 32, H20: 32}", "inventory: cluster"))
    answer = planner("check", asked, "--json")
    assert answer.json["inventory"] == {"H20": 24, "H200": 24}
    assert answer.json["left_out"] == [
        "8 idle H20 GPUs on 1 node: taint team:NoSchedule is not tolerated; placement.tolerations: "
        "[{key: team, effect: NoSchedule}] would open them",
        "8 idle H200 GPUs on 1 node: are cordoned; uncordon them (kubectl uncordon)",
    ]
    answer = planner("check", asked)
    assert "left out of the cluster: 8 idle H20 GPUs" in " ".join(answer.err.split())
    assert planner("plan", asked, "--out", "run").status == EXIT_DONE
    text = Path("run/summary.md").read_text()
    assert "Left out of the cluster: 8 idle H200 GPUs on 1 node: are cordoned" in text
    assert report_of("run")["shortfalls"] == []


def test_an_inventory_of_a_cluster_that_nobody_may_use_is_refused(planner: Command, cluster: dict[str, Any]) -> None:
    nodes = [one | {"taints": [{"key": "node.kubernetes.io/unreachable"}]} for one in cluster["nodes"]]
    Path("c.yaml").write_text(yaml.safe_dump(cluster | {"nodes": nodes}))
    asked = scenario(TABLE)
    asked.write_text(asked.read_text().replace("inventory: {H200: 32, H20: 32}", "inventory: cluster"))
    answer = planner("plan", asked, "--out", "run")
    assert answer.status == EXIT_BAD_INPUT
    assert "on 2 nodes: are unreachable" in " ".join(answer.err.split())
