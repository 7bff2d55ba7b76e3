"""`check_manifests` on damaged manifests: each fault is caught and named by file, object and field."""

import re
from collections.abc import Callable

import pytest
from export_plans import DECODE, example_plan, island, plan_of, route
from quick_yaml import load_document

from planner.domain import ParallelConfig, Phase
from planner.errors import InconsistentPlanError
from planner.export import check_manifests, render

PREFILL_FILE, DECODE_FILE, SMALL_FILE = "01-h200-0.yaml", "02-h20-0.yaml", "03-h20-1.yaml"
DECODE_SET = "02-h20-0.yaml, LeaderWorkerSet mixed-fleet-h20-0, "
WORKER = r"spec.leaderWorkerTemplate.workerTemplate.spec"


def replaced(file: str, old: str, new: str, count: int = -1) -> Callable[[dict[str, str]], None]:
    """A fault: `old` becomes `new` in one file (everywhere, or `count` times)."""

    def damage(files: dict[str, str]) -> None:
        assert old in files[file]
        files[file] = files[file].replace(old, new, count)

    return damage


def removed(file: str) -> Callable[[dict[str, str]], None]:
    """A fault: one file is missing."""

    def damage(files: dict[str, str]) -> None:
        del files[file]

    return damage


FAULTS = {
    "GPU count": (
        replaced(DECODE_FILE, "nvidia.com/gpu: 8", "nvidia.com/gpu: 4"),
        DECODE_SET + "spec.leaderWorkerTemplate.size x limits: must be the 32 GPUs",
    ),
    "GPU count of the leader alone": (
        replaced(DECODE_FILE, "nvidia.com/gpu: 8", "nvidia.com/gpu: 4", 1),
        DECODE_SET + "spec.leaderWorkerTemplate.size x limits: must be the 32 GPUs",
    ),
    "size": (
        replaced(DECODE_FILE, "size: 4", "size: 5"),
        DECODE_SET + "spec.leaderWorkerTemplate.size x limits",
    ),
    "replicas": (
        replaced(PREFILL_FILE, "replicas: 2", "replicas: 3"),
        "01-h200-0.yaml, LeaderWorkerSet mixed-fleet-h200-0, spec.replicas: must be the 2 replicas",
    ),
    "unknown field": (
        replaced(SMALL_FILE, "restartPolicy:", "restartPolcy:"),
        "03-h20-1.yaml, LeaderWorkerSet mixed-fleet-h20-1, spec.leaderWorkerTemplate: must follow the schema",
    ),
    "unknown field of a Service": (
        replaced(SMALL_FILE, "targetPort:", "target:"),
        "03-h20-1.yaml, Service mixed-fleet-h20-1-leader, spec.ports.0: must follow the schema",
    ),
    "type label": (
        replaced(DECODE_FILE, "planner/gpu: H20", "planner/gpu: H200"),
        "Manifests: GPUs per type must be the plan's",
    ),
    "island label": (
        replaced(DECODE_FILE, "planner/island: h20-0", "planner/island: h20-1"),
        "metadata.labels.planner/island: must name a serving island, each once",
    ),
    "object name": (
        replaced(DECODE_FILE, "name: mixed-fleet-h20-0\n", "name: Mixed_Fleet\n", 1),
        "02-h20-0.yaml, LeaderWorkerSet Mixed_Fleet, metadata.name: must be a DNS label",
    ),
    "name used twice": (
        replaced(DECODE_FILE, "name: mixed-fleet-h20-0\n", "name: mixed-fleet-h200-0\n", 1),
        "02-h20-0.yaml, LeaderWorkerSet mixed-fleet-h200-0, metadata.name: must be unique",
    ),
    "Service with the set's name": (
        replaced(DECODE_FILE, "name: mixed-fleet-h20-0-leader", "name: mixed-fleet-h20-0"),
        "02-h20-0.yaml, Service mixed-fleet-h20-0, metadata.name: must be unique",
    ),
    "Service that selects nothing": (
        replaced(
            DECODE_FILE,
            "leaderworkerset.sigs.k8s.io/name: mixed-fleet-h20-0",
            "leaderworkerset.sigs.k8s.io/name: gone",
        ),
        "02-h20-0.yaml, Service mixed-fleet-h20-0-leader, spec.selector.leaderworkerset.sigs.k8s.io/name",
    ),
    "Service renamed": (
        replaced(DECODE_FILE, "name: mixed-fleet-h20-0-leader", "name: mixed-fleet-h20-9-leader"),
        "routing.yaml, ConfigMap mixed-fleet-routing, data[routing.json] decode 0-2047: must name a Service",
    ),
    "route to the other phase": (
        replaced("routing.yaml", '-h20-0-leader", "share"', '-h200-0-leader", "share"', 1),
        "data[routing.json] decode 0-2047: must name a Service of an island that serves decode",
    ),
    "unrouted range": (
        replaced("routing.yaml", '"prefill", "range_start": 2048', '"prefill", "range_start": 2049'),
        "data[routing.json] prefill 2048-6094: shares must sum to 1, got 0.0",
    ),
    "shares": (
        replaced("routing.yaml", '"share": 0.5', '"share": 0.4', 1),
        "routing.yaml, ConfigMap mixed-fleet-routing, data[routing.json] decode 0-2047: shares must sum to 1",
    ),
    "negative share": (
        replaced("routing.yaml", '"share": 0.5', '"share": -0.5', 1),
        "share must lie in 0..1",
    ),
    "table that is no JSON": (
        replaced("routing.yaml", '"routes"', "routes"),
        "routing.yaml, ConfigMap mixed-fleet-routing, data[routing.json]: must hold JSON rows",
    ),
    "missing island": (removed(SMALL_FILE), "every serving island needs a workload, got no workload of H20-1"),
    "missing routing table": (removed("routing.yaml"), "exactly one routing table"),
    "unknown kind": (
        replaced("routing.yaml", "kind: ConfigMap", "kind: Secret"),
        "routing.yaml, kind: must be one of",
    ),
    "no YAML": (replaced("routing.yaml", "kind:", "kind: ["), "routing.yaml: must be YAML"),
    "no object": (
        replaced("routing.yaml", "---\n", "---\n- 1\n---\n"),
        "routing.yaml: every document must be an object, got list",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught_and_named(fault: str) -> None:
    damage, message = FAULTS[fault]
    files = render(example_plan())
    damage(files)
    with pytest.raises(InconsistentPlanError, match=re.escape(message)):
        check_manifests(files, example_plan())


def test_a_plan_with_an_unrouted_range_does_not_leave() -> None:
    prefill = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1))
    rows = (
        route("H200-0", Phase.PREFILL, 0, 1.0),
        route("H200-0", Phase.PREFILL, 2048, 1.0),
        route(DECODE.id, Phase.DECODE, 0, 1.0),
    )
    with pytest.raises(InconsistentPlanError, match=r"decode 2048-6094: shares must sum to 1, got 0"):
        render(plan_of((prefill, DECODE), routing=rows))


def test_a_table_without_routes_does_not_leave() -> None:
    with pytest.raises(InconsistentPlanError, match="must route a range"):
        render(plan_of((DECODE,), routing=()))


def test_manifests_of_another_plan_do_not_pass() -> None:
    other = plan_of((island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=16)),))
    files = render(example_plan())
    assert load_document(files["routing.yaml"])["kind"] == "ConfigMap"
    with pytest.raises(InconsistentPlanError):
        check_manifests(files, other)
