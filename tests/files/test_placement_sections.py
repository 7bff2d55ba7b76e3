"""`cluster:`, `placement:` and `objective: placed` of a scenario: read, refused, written back."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from planner.domain import (
    Encoding,
    EvictionRule,
    ObjectiveKind,
    ObjectiveSettings,
    PlacementSettings,
    PlacementWeights,
    Qos,
    Scenario,
    SearchSettings,
    Taint,
)
from planner.domain.usable import left_out_of
from planner.files import load_cluster, load_scenario, scenario_document
from planner.workload import summarize

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
Write = Callable[[str, str], Path]

CLUSTER = """\
name: small
shapes:
  h200: {gpu: H200, gpus_per_numa: 4, numa_nodes: [{socket: 0}, {socket: 1}], cpus: 96, memory_gb: 2000}
  h20: {gpu: H20, gpus_per_numa: 8, numa_nodes: [{socket: 0}], cpus: 96, memory_gb: 2000}
nodes:
- {name: a, shape: h200, asw: s0}
- {name: b, shape: h200, asw: s1}
- {name: c, shape: h20, asw: s1}
pods:
- {name: web, node: a, gpus: [0, 1, 2]}
- {name: vague, node: b, gpu_request: 2}
"""


@pytest.fixture
def placed(document: dict[str, Any], write: Write) -> dict[str, Any]:
    """A scenario with a cluster beside it."""
    write("cluster.yaml", CLUSTER)
    return document | {"cluster": "cluster.yaml"}


def _settings(read: Read, document: dict[str, Any], **section: object) -> PlacementSettings:
    return read(document | {"placement": section}).placement


def test_no_cluster_unless_asked_for(read: Read, document: dict[str, Any]) -> None:
    scenario = read(document)
    assert scenario.cluster is None
    assert scenario.placement == PlacementSettings()
    assert not {"cluster", "placement"} & set(scenario_document(scenario))


def test_a_path_is_relative_to_the_scenario_and_its_hash_an_input(
    read: Read, placed: dict[str, Any], tmp_path: Path, write: Write
) -> None:
    expected = load_cluster(tmp_path / "cluster.yaml")
    scenario = read(placed)
    assert scenario.cluster == expected
    sha256 = hashlib.sha256((tmp_path / "cluster.yaml").read_bytes()).hexdigest()
    assert ("cluster.yaml", sha256) in [(one.name, one.sha256) for one in scenario.inputs]
    path = write("scenario.yaml", json.dumps(placed))
    assert load_scenario(path, summarize).cluster == expected


def test_the_record_holds_the_cluster_in_full(read: Read, placed: dict[str, Any], tmp_path: Path) -> None:
    first = read(placed | {"placement": {"qos": "none"}})
    written = json.loads(json.dumps(scenario_document(first)))
    (tmp_path / "cluster.yaml").unlink()
    again = read(written)
    assert again.cluster == first.cluster
    assert again.placement == first.placement
    assert scenario_document(again) == written


def test_the_cluster_may_stand_in_the_scenario(read: Read, placed: dict[str, Any]) -> None:
    in_full = scenario_document(read(placed))["cluster"]
    assert read(placed | {"cluster": in_full}).cluster == read(placed).cluster


def test_an_error_in_the_cluster_says_who_refers_to_it(
    read: Read, placed: dict[str, Any], refused: Refused, write: Write
) -> None:
    write("cluster.yaml", CLUSTER.replace("gpus: [0, 1, 2]", "gpus: [9]"))
    refused(lambda: read(placed), "notebook: cluster:", "cluster.yaml", "pod default/web: gpus")
    refused(lambda: read(placed | {"cluster": "none.yaml"}), "cluster:", "none.yaml", "no such file")
    refused(lambda: read(placed | {"cluster": 3}), "cluster must be a text")
    in_full = {"name": "x", "shapes": {}, "nodes": []}
    refused(lambda: read(placed | {"cluster": in_full}), "cluster.nodes")


def test_a_type_that_no_node_has(read: Read, placed: dict[str, Any], refused: Refused) -> None:
    refused(
        lambda: read(placed | {"inventory": {"H200": 8, "H100": 8}}),
        "inventory.H100",
        "no node has H100",
        hint="H20, H200",
    )


def counted(scenario: Scenario) -> dict[str, int]:
    return {item.gpu.name: item.count for item in scenario.inventory.items}


def test_the_inventory_may_be_what_is_idle_and_usable(read: Read, placed: dict[str, Any]) -> None:
    """Of 16 H200 one pod holds three; of the other node nobody says which two are held, where single GPUs may lie."""
    scenario = read(placed | {"inventory": "cluster"})
    assert counted(scenario) == {"H20": 8, "H200": 11}
    assert scenario.cluster is not None
    assert left_out_of(scenario.cluster, scenario.placement, ("H20", "H200")) == ()
    by_number = read(placed | {"inventory": "cluster", "placement": {"qos": "best_effort"}})
    assert counted(by_number) == {"H20": 8, "H200": 11}


def test_types_without_idle_gpus_are_left_out(read: Read, placed: dict[str, Any], write: Write) -> None:
    write("cluster.yaml", CLUSTER + "- {name: all, node: c, gpus: '0-7'}\n")
    assert counted(read(placed | {"inventory": "cluster"})) == {"H200": 11}


def test_types_without_a_spec_are_left_out(read: Read, placed: dict[str, Any], write: Write) -> None:
    """A T4 beside the others refused the whole cluster."""
    write("cluster.yaml", CLUSTER.replace("gpu: H20,", "gpu: T4,"))
    scenario = read(placed | {"inventory": "cluster"})
    assert counted(scenario) == {"H200": 11}
    assert scenario.cluster is not None
    told = left_out_of(scenario.cluster, scenario.placement, counted(scenario))
    assert told[-1] == "8 idle T4 GPUs: not in the inventory (types without a GPU spec never are)"


@pytest.mark.parametrize(
    ("taint", "told"),
    [
        ("node.kubernetes.io/unschedulable", "are cordoned; uncordon them"),
        ("node.kubernetes.io/unreachable", "are unreachable; bring them back"),
        (
            "team",
            "taint team:NoSchedule is not tolerated; placement.tolerations: [{key: team, effect: NoSchedule}] would",
        ),
    ],
)
def test_nodes_that_islands_may_not_use_are_left_out(
    read: Read, placed: dict[str, Any], write: Write, taint: str, told: str
) -> None:
    """The search planned for 24 GPUs, of which the placer took 16."""
    write(
        "cluster.yaml", CLUSTER[: CLUSTER.index("pods:")].replace("asw: s0}", f"asw: s0, taints: [{{key: {taint}}}]}}")
    )
    scenario = read(placed | {"inventory": "cluster"})
    assert counted(scenario) == {"H20": 8, "H200": 8}
    assert scenario.cluster is not None
    (left_out,) = left_out_of(scenario.cluster, scenario.placement, counted(scenario))
    assert left_out.startswith("8 idle H200 GPUs on 1 node: ")
    assert told in left_out
    tolerating = {"tolerations": [{"key": taint}]}
    assert counted(read(placed | {"inventory": "cluster", "placement": tolerating})) == {"H20": 8, "H200": 16}


def test_gpus_without_cores_near_them_are_left_out(read: Read, placed: dict[str, Any], write: Write) -> None:
    write("cluster.yaml", CLUSTER.replace("cpus: 96", "cpus: 24"))
    assert counted(read(placed | {"inventory": "cluster"})) == {"H20": 3, "H200": 6}
    assert counted(read(placed | {"inventory": "cluster", "placement": {"cpus_per_gpu": 4}})) == {"H20": 6, "H200": 11}


def test_inventories_that_a_cluster_cannot_give(
    read: Read, document: dict[str, Any], placed: dict[str, Any], refused: Refused, write: Write
) -> None:
    refused(lambda: read(document | {"inventory": "cluster"}), "inventory", "no cluster is given")
    refused(lambda: read(placed | {"inventory": "clusters"}), "inventory", "the word cluster", "'clusters'")
    write("cluster.yaml", CLUSTER.replace("gpu: H20,", "gpu: H2O,").replace("gpu: H200,", "gpu: H2OO,"))
    strange = ("inventory", "cluster small", "no spec of 'H2O'", "no spec of 'H2OO'")
    refused(lambda: read(placed | {"inventory": "cluster"}), *strange, hint="H20")
    full = "pods:\n" + "".join(f"- {{name: {n}, node: {n}, gpu_request: 8}}\n" for n in "abc")
    write("cluster.yaml", CLUSTER[: CLUSTER.index("pods:")] + full)
    refused(lambda: read(placed | {"inventory": "cluster"}), "inventory", "cluster small", "no GPU is idle")
    batch = full.replace("gpu_request: 8", "gpus: '0-7', preemptible: true, priority: -10")
    write("cluster.yaml", CLUSTER[: CLUSTER.index("pods:")] + batch)
    refused(
        lambda: read(placed | {"inventory": "cluster"}),
        "no GPU is idle",
        hint="{H20: 8, H200: 16}, with placement.preempt",
    )
    write("cluster.yaml", CLUSTER[: CLUSTER.index("pods:")].replace("cpus: 96,", "cpus: 96, taints: [{key: mine}],"))
    refused(lambda: read(placed | {"inventory": "cluster"}), "16 idle H200 GPUs", "placement.tolerations")


@pytest.mark.parametrize(
    ("word", "qos"),
    [
        ("single_numa", Qos.SINGLE_NUMA),
        ("single-numa-node", Qos.SINGLE_NUMA),
        ("guaranteed", Qos.GUARANTEED),
        ("restricted", Qos.GUARANTEED),
        ("best_effort", Qos.BEST_EFFORT),
        ("best-effort", Qos.BEST_EFFORT),
        ("none", Qos.NONE),
    ],
)
def test_words_of_flextopo_and_of_the_kubelet(read: Read, document: dict[str, Any], word: str, qos: Qos) -> None:
    settings = _settings(read, document, qos=word)
    assert (settings.prefill_qos, settings.decode_qos) == (qos, qos)


def test_a_qos_of_each_phase(read: Read, document: dict[str, Any]) -> None:
    settings = _settings(read, document, qos={"prefill": "best-effort"})
    assert (settings.prefill_qos, settings.decode_qos) == (Qos.BEST_EFFORT, Qos.GUARANTEED)


FULL = {
    "qos": {"prefill": "none", "decode": "single-numa-node"},
    "cpus_per_gpu": 4,
    "memory_gb_per_gpu": 12.5,
    "tolerations": [{"key": "nvidia.com/gpu", "value": "on", "effect": "NoExecute"}, {"key": "mine"}],
    "weights": {"topology": 2, "proximity": 0, "fragmentation": 0.3, "packing": 0.4, "power": 0.5, "preemption": 0.6},
    "preempt": True,
    "priority": -7,
    "priority_class": "serving",
    "victim_rule": "combined",
    "most_victims": 0,
    "most_moves": 3,
    "most_lost_gpu_hours": 12.5,
    "lost_gpu_hour_rps": 0.25,
    "assumed_checkpoint_age_s": 600,
    "power_cap_w": 90000.5,
}


def test_every_setting_is_read_and_written_back(read: Read, placed: dict[str, Any]) -> None:
    first = read(placed | {"objective": "placed", "placement": FULL})
    expected = PlacementSettings(
        prefill_qos=Qos.NONE,
        decode_qos=Qos.SINGLE_NUMA,
        cpus_per_gpu=4,
        memory_gb_per_gpu=12.5,
        tolerations=(Taint(key="nvidia.com/gpu", value="on", effect="NoExecute"), Taint(key="mine")),
        weights=PlacementWeights(
            topology=2.0, proximity=0.0, fragmentation=0.3, packing=0.4, power=0.5, preemption=0.6
        ),
        preempt=True,
        priority=-7,
        priority_class="serving",
        victim_rule=EvictionRule.COMBINED,
        most_victims=0,
        most_moves=3,
        most_lost_gpu_hours=12.5,
        lost_gpu_hour_rps=0.25,
        assumed_checkpoint_age_s=600.0,
        power_cap_w=90000.5,
    )
    assert first.placement == expected
    default = PlacementSettings()
    # an exchange is of servers by their names, which other layouts have not
    others = [field.name for field in fields(default) if field.name != "exchange"]
    assert all(getattr(expected, name) != getattr(default, name) for name in others)
    assert read(json.loads(json.dumps(scenario_document(first)))).placement == expected
    swapped = read(placed | {"placement": {"exchange": "a/0@n1=b/0@n2"}})
    assert swapped.placement == replace(default, exchange="a/0@n1=b/0@n2")
    assert read(json.loads(json.dumps(scenario_document(swapped)))).placement == swapped.placement


def test_a_plan_on_a_cluster_is_judged_where_it_lies_unless_asked_otherwise(read: Read, placed: dict[str, Any]) -> None:
    plain = {key: value for key, value in placed.items() if key not in ("search", "objective", "routing")}
    scenario = read(plain)
    assert scenario.bucketed
    assert (scenario.objective.kind, scenario.search.iterations, scenario.search.batch_size) == (
        ObjectiveKind.PLACED,
        4,
        8,
    )
    longer = read(plain | {"search": {"iterations": 9}})
    assert (longer.search.iterations, longer.search.batch_size) == (9, 8)
    for other in (
        {"objective": "rate"},
        {"cluster": None, "placement": None},
        {"routing": {"form": "table"}},
        {"search": {"method": "exact"}},
        {"search": {"method": "random"}},
        {"promise": {"sure": 0.9}},
        {"placement": {"exchange": "a/0@n1=b/0@n2"}},
    ):
        document = {key: value for key, value in (plain | other).items() if value is not None}
        kept = read(document)
        assert kept.objective.kind is ObjectiveKind.RATE, other
        assert kept.search.iterations == SearchSettings().iterations


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"qos": "guarantee"}, ("placement.qos", "restricted", "'guarantee'")),
        ({"qos": {"prefil": "none"}}, ("placement.qos.prefil is not a known key",)),
        ({"qos": {"decode": 1}}, ("placement.qos.decode", "one of")),
        ({"cpus_per_gpu": 1.5}, ("placement.cpus_per_gpu", "a whole number")),
        ({"cpus_per_gpu": -1}, ("placement.cpus_per_gpu", "at least 0")),
        ({"memory_gb_per_gpu": -1}, ("placement.memory_gb_per_gpu", "at least 0")),
        ({"tolerations": [{"key": "k", "effect": "Never"}]}, ("placement.tolerations[0].effect", "NoSchedule")),
        ({"tolerations": {"key": "k"}}, ("placement.tolerations", "a list of mappings")),
        ({"weights": {"topology": -1}}, ("placement.weights.topology", "at least 0")),
        ({"weights": {"speed": 1}}, ("placement.weights.speed is not a known key",)),
        ({"weights": dict.fromkeys(FULL["weights"], 0)}, ("placement.weights", "all are 0")),  # type: ignore[call-overload]
        ({"power_cap_w": -1}, ("placement.power_cap_w", "at least 0")),
        ({"preempt": "yes"}, ("placement.preempt", "true or false")),
        ({"priority": "high"}, ("placement.priority", "a whole number")),
        ({"priority": 2**31}, ("placement.priority", "at most 2147483647")),
        ({"priority_class": "High_Priority"}, ("placement.priority_class", "a DNS label", "'High_Priority'")),
        ({"priority_class": "x" * 64}, ("placement.priority_class", "at most 63")),
        ({"priority_class": "-x"}, ("placement.priority_class", "a DNS label")),
        ({"priority_class": ""}, ("placement.priority_class", "a DNS label")),
        ({"victim_rule": "cheapest"}, ("placement.victim_rule", "priority, lost_work, combined", "'cheapest'")),
        ({"most_victims": -1}, ("placement.most_victims", "at least 0")),
        ({"most_victims": 1.5}, ("placement.most_victims", "a whole number")),
        ({"most_victims": None}, ("placement.most_victims", "a whole number")),
        ({"most_lost_gpu_hours": -0.5}, ("placement.most_lost_gpu_hours", "at least 0")),
        ({"most_lost_gpu_hours": float("nan")}, ("placement.most_lost_gpu_hours", "finite")),
        ({"lost_gpu_hour_rps": -1}, ("placement.lost_gpu_hour_rps", "at least 0")),
        ({"assumed_checkpoint_age_s": -1}, ("placement.assumed_checkpoint_age_s", "at least 0")),
        ({"qoss": "none"}, ("placement.qoss is not a known key",)),
    ],
)
def test_bad_settings_are_refused(
    read: Read, document: dict[str, Any], refused: Refused, section: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: read(document | {"placement": section}), *words)


# ---- objective: placed


@pytest.mark.parametrize(
    ("search", "key"),
    [
        ({"method": "graph"}, "search.method"),
        ({"method": "auto", "encoding": "graph"}, "search.encoding"),
        ({"method": "genetic", "encoding": "graph"}, "search.encoding"),
    ],
)
def test_a_graph_is_cut_only_where_there_is_a_cluster(
    read: Read, placed: dict[str, Any], document: dict[str, Any], refused: Refused, search: dict[str, str], key: str
) -> None:
    table = {"routing": {"form": "table"}, "search": search}
    assert read(placed | table).search.encoded is Encoding.GRAPH
    refused(lambda: read(document | table), "cluster must be given", f"{key} is graph", hint="path of a cluster file")
    exact = {"search": {"method": "exact", "encoding": "graph"}}
    assert read(document | table | exact).cluster is None  # it looks at no encoding


@pytest.mark.parametrize("objective", ["placed", {"kind": "placed"}])
def test_a_word_is_an_objective(read: Read, placed: dict[str, Any], objective: object) -> None:
    scenario = read(placed | {"objective": objective})
    assert scenario.objective == ObjectiveSettings(kind=ObjectiveKind.PLACED)
    assert read(scenario_document(scenario)).objective == scenario.objective


def test_other_words_are_objectives_too(read: Read, document: dict[str, Any], refused: Refused) -> None:
    assert read(document | {"objective": "rate"}).objective == ObjectiveSettings()
    refused(lambda: read(document | {"objective": "target"}), "objective.target_rps", "it is missing")
    refused(lambda: read(document | {"objective": "plced"}), "objective.kind", "placed", hint="placed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": None}, ("cluster must be given where objective.kind is placed",)),
        (
            {"objective": "rate", "placement": {"preempt": True, "lost_gpu_hour_rps": 0.5}},
            ("placement.lost_gpu_hour_rps goes with objective.kind placed", "objective.kind is rate"),
        ),
        ({"placement": {"exchange": "a/0@x=b/0@y"}}, ("placement.exchange must be left out", "got 'a/0@x=b/0@y'")),
        ({"cost": {"mode": "reference"}}, ("cost.mode must be default", "got reference")),
        ({"search": {"method": "exact"}}, ("search.method", "exact sees no nodes", "got exact")),
        ({"objective": {"kind": "placed", "target_rps": 3}}, ("objective.target_rps", "objective.kind is placed")),
    ],
)
def test_what_placed_needs(
    read: Read, placed: dict[str, Any], refused: Refused, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: read(placed | {"objective": "placed"} | change), *words)
