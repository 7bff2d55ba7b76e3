"""Pods read quickly are the pods that the strict reader makes, and what it refuses is refused."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.domain import Cluster
from planner.errors import InputError
from planner.files import cluster_from_section
from planner.files.cluster import cluster_sections
from planner.files.sections import UnusualRowError, top_level

VALUES = st.one_of(
    st.sampled_from(
        [None, True, False, "", " ", "a", "node-0", "online", "spot", "0-1", "1,3", "3-1", "\ud800", "\x07"]
    ),
    st.integers(-2, 70),
    st.sampled_from([2**63, -(2**31), 10**16, 0.5, 1.0, -0.5, float("inf"), float("nan"), 1e12]),
    st.lists(st.sampled_from([0, 1, 2, 63, 64, -1, True, "0", 1.0]), max_size=3),
    st.dictionaries(st.sampled_from(["zone", "a/b", "!"]), st.sampled_from(["x", "", 5]), max_size=2),
)
KEYS = [
    *(
        "name",
        "node",
        "namespace",
        "gpus",
        "gpu_request",
        "gpu_share",
        "cpus",
        "memory_gb",
        "cores",
        "priority",
        "kind",
    ),
    *(
        "preemptible",
        "checkpoint_age_s",
        "node_selector",
        "anti_affinity",
        "locked",
        "age_s",
        "strange",
        "shape",
        "asw",
    ),
    *("aggregation", "nvlink_domain", "uuids", "labels", "taints"),
]
SHAPE = {"gpu": "H20", "gpus_per_numa": 2, "numa_nodes": [{"socket": 0, "cores": "0-7"}], "cpus": 8, "memory_gb": 64}


def outcome(pod: dict[str, Any], node: dict[str, Any]) -> Cluster | str:
    document = {"name": "c", "shapes": {"s": SHAPE}, "nodes": [node], "pods": [pod]}
    try:
        return cluster_from_section(top_level(document, "f"))
    except InputError as error:
        return str(error)


def strictly(pod: dict[str, Any], node: dict[str, Any]) -> Cluster | str:
    """With every row left to the strict reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_sections.QuickReader, "read", _unusual)
        patch.setattr(cluster_sections._QuickNodes, "read", _unusual)
        return outcome(pod, node)


def _unusual(*_: object) -> None:
    raise UnusualRowError("any")


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
)
def test_any_row_is_what_the_strict_reader_makes_of_it(pod_edits: dict[str, Any], node_edits: dict[str, Any]) -> None:
    pod = {"name": "p", "node": "node-0", "gpus": [0], "cores": "0-1", **pod_edits}
    node = {"name": "node-0", "shape": "s", "asw": "a", "uuids": ["u", "v"], "labels": {"zone": "b"}, **node_edits}
    assert outcome(pod, node) == strictly(pod, node), json.dumps([pod, node], default=str)
