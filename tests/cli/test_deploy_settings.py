"""`deploy:` of a scenario: one `planner plan` writes the manifests, flags override, and what cannot be is refused."""

from pathlib import Path

import pytest
import yaml
from command_line import TINY, Command

from planner import files
from planner.domain import SWITCH_LEVELS
from planner.files.sections import top_level


def scenario(**deploy: object) -> Path:
    path = Path("deployed.yaml")
    path.write_text(yaml.safe_dump({**yaml.safe_load(TINY), "deploy": deploy}))
    return path


def contents(folder: str) -> dict[str, bytes]:
    """Path below the folder -> content of each file."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_one_plan_writes_what_the_flags_write_and_flags_override(planner: Command) -> None:
    assert planner("plan", scenario(target="script", name="dusk"), "--out", "run").status == 0
    written = contents("run/manifests")
    assert {path.rpartition(".")[2] for path in written} >= {"sh", "cfg", "json", "md", "record"}
    assert not any(path.endswith("yaml") for path in written)
    assert b"dusk" in b"".join(written.values())
    assert planner("export", "run", "--out", "again").status == 0
    assert contents("again") == written
    assert planner("export", "run", "--target", "lws", "--name", "day", "--out", "other").status == 0
    texts = b"".join(contents("other").values())
    assert (b"kind: LeaderWorkerSet" in texts, b"day" in texts, b"dusk" in texts) == (True, True, False)


def test_the_settings_are_in_the_record_and_read_back(planner: Command) -> None:
    keys = {
        "target": "lws",
        "cpus_per_gpu": 4,
        "memory_gib_per_gpu": 32,
        "pod_resources": {"rdma/ib": 8},
        "topology": {"asw": "example.com/rack"},
        "queue": "users",
        "priority_class": "serving",
        "model_volume": "weights",
        "router": "none",
    }
    assert planner("plan", scenario(**keys), "--out", "run").status == 0
    plan = files.load_run(Path("run"))
    assert plan.scenario.deploy.pod_resources == (("rdma/ib", 8),)
    assert files.scenario_document(plan.scenario)["deploy"] == keys
    manifests = "".join(path.read_text() for path in Path("run/manifests").glob("*.yaml"))
    assert all(word in manifests for word in ("rdma/ib: 8", "queue-name: users", "claimName: weights", "serving"))


@pytest.mark.parametrize(
    ("keys", "status", "words"),
    [
        ({"target": "nomad"}, 2, "Target 'nomad': must be one of lws"),
        ({"target": "lws", "router": "nobody"}, 2, "Router 'nobody': must be one of"),
        ({"target": "script", "queue": "users"}, 3, "nothing in its files can carry queue"),
        ({"queue": "Users!"}, 2, "queue: must be a DNS label"),
        ({"images": {"NVIDIA": "engine:latest"}}, 2, "must name a fixed tag"),
        ({"shared_memory_gib": 0}, 2, "deploy.shared_memory_gib"),
        ({"pod_resources": {"rdma/ib": "8"}}, 2, "deploy.pod_resources.rdma/ib"),
        ({"topology": {"pod": "x"}}, 2, "topology"),
        ({"traget": "lws"}, 2, "traget"),
    ],
)
def test_what_no_manifests_can_have_is_refused_before_the_search(
    planner: Command, keys: dict[str, object], status: int, words: str
) -> None:
    answer = planner("plan", scenario(**keys), "--out", "run")
    assert (answer.status, answer.out) == (status, "")
    assert words in answer.err
    assert not Path("run").exists()


def test_the_levels_of_a_cluster_stand_in_its_file() -> None:
    node = {"name": "n", "shape": "s", "asw": "a", "aggregation": "b"}
    shape = {
        "gpu": "H200",
        "gpus_per_numa": 4,
        "numa_nodes": [{"socket": 0, "cores": f"{c}-{c + 7}", "memory_gb": 10} for c in (0, 8)],
        "cpus": 16,
        "memory_gb": 20,
    }
    document = {"name": "c", "shapes": {"s": shape}, "nodes": [node], "levels": {"asw": "example.com/rack"}}
    cluster = files.cluster_from_section(top_level(document, "cluster"))
    assert cluster.levels == (("asw", "example.com/rack"),)
    assert files.cluster_document(cluster)["levels"] == document["levels"]
    assert set(dict(cluster.levels)) <= set(SWITCH_LEVELS)
