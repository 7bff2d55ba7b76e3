"""Plans of several pools, and Dynamo's manifests taken apart."""

import json
from typing import Any

from export_plans import DECODE, SMALL_DECODE, island, plan_of, route
from quick_yaml import load_documents

from planner.domain import ParallelConfig, Phase, Plan

CONFIG = "global-router.json"
FRONT, FIRST, DECODES = "00-frontend.yaml", "01-prefill-0.yaml", "03-decode-0.yaml"
SHORT = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=4, dp=4, replicas=2), batch_size=2)
LONG = island("H200-1", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1), batch_size=2)


def two_pool_plan(**changes: Any) -> Plan:
    """Prompts below 2048 tokens go to one prefill island, longer ones to another; two islands share all decodes."""
    rows = [route(SHORT.id, Phase.PREFILL, 0, 1.0), route(LONG.id, Phase.PREFILL, 2048, 1.0)]
    for start in (0, 2048):
        rows += [route(DECODE.id, Phase.DECODE, start, 0.75), route(SMALL_DECODE.id, Phase.DECODE, start, 0.25)]
    return plan_of((SHORT, LONG, DECODE, SMALL_DECODE), **{"routing": tuple(rows), **changes})


def objects(files: dict[str, str], kind: str) -> list[dict[str, Any]]:
    """Every object of one kind, in the files' order."""
    return [d for text in files.values() for d in load_documents(text) if d["kind"] == kind]


def graphs(files: dict[str, str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Graph name -> component name -> component."""
    return {
        g["metadata"]["name"]: {c["name"]: c for c in g["spec"]["components"]}
        for g in objects(files, "DynamoGraphDeployment")
    }


def router_config(files: dict[str, str]) -> dict[str, Any]:
    """The GlobalRouter's configuration."""
    maps = [m["data"][CONFIG] for m in objects(files, "ConfigMap") if CONFIG in m["data"]]
    assert len(maps) == 1
    config: dict[str, Any] = json.loads(maps[0])
    return config


def words(component: dict[str, Any]) -> list[str]:
    """The arguments of a component's container."""
    found: list[str] = component["podTemplate"]["spec"]["containers"][0]["args"]
    return found
