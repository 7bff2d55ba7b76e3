"""Mistakes in Dynamo's manifests are told in their fields: the router's grid, pools, graphs and workers."""

import re
from collections.abc import Callable

import pytest
from dynamo_plans import DECODES, FIRST, FRONT, two_pool_plan

from planner.export import find_faults, render

GRAPH = r"DynamoGraphDeployment mixed-fleet-"
MAP = rf"{FRONT}, ConfigMap mixed-fleet-ctrl-routes, data\[global-router.json\] "
STRATEGY = "prefill_pool_selection_strategy"


def replaced(file: str, old: str, new: str) -> Callable[[dict[str, str]], None]:
    """A mistake: `old` becomes `new` once in one file."""

    def damage(files: dict[str, str]) -> None:
        assert old in files[file]
        files[file] = files[file].replace(old, new, 1)

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (replaced(FRONT, "[[0], [1]]", "[[1], [0]]"), rf"{MAP}{STRATEGY}\.prefill_pool_mapping\.0: prompts of 0-2047"),
        (replaced(FRONT, "[[0], [1]]", "[[0], [2]]"), rf"{MAP}{STRATEGY}\.prefill_pool_mapping\.1: must name a pool"),
        (replaced(FRONT, "[[0], [1]]", "[[0], [-1]]"), rf"{MAP}{STRATEGY}\.prefill_pool_mapping\.1: must name a pool"),
        (replaced(FRONT, "[[0], [1]]", "[[0]]"), rf"{MAP}{STRATEGY}\.prefill_pool_mapping: must have 2 rows"),
        (
            replaced(FRONT, "[[0], [1]]", "[[0], [1, 1]]"),
            rf"{MAP}{STRATEGY}\.prefill_pool_mapping\.1: must have 1 entr",
        ),
        (
            replaced(FRONT, '"isl_resolution": 2', '"isl_resolution": 3'),
            rf"{STRATEGY}\.prefill_pool_mapping: must have 3",
        ),
        (
            replaced(FRONT, '"isl_max": 4096', '"isl_max": 4000'),
            rf"{MAP}{STRATEGY}\.isl_resolution: cells must not cut",
        ),
        (
            replaced(FRONT, '"isl_max": 4096', '"isl_max": 8192'),
            rf"{MAP}{STRATEGY}\.isl_resolution: cells must not cut",
        ),
        (replaced(FRONT, '"ttft_max": 1000.0', '"ttft_max": 0.0'), rf"{MAP}{STRATEGY}\.ttft_max: must be above"),
        (replaced(FRONT, '"ttft_max"', '"ttft_maximum"'), rf"{MAP}{STRATEGY}: must follow the schema"),
        (replaced(FRONT, '"disagg"', '"agg"'), rf"{MAP}mode: must follow the schema"),
        (replaced(FRONT, '"num_decode_pools": 1', '"num_decode_pools": 2'), rf"{MAP}num_decode_pools: must be the 1"),
        (
            replaced(FRONT, '"default-mixed-fleet-p1"', '"default-mixed-fleet-p0"'),
            rf"{MAP}prefill_pool_dynamo_namespaces\.1",
        ),
        (replaced(FRONT, '"default-mixed-fleet-d0"', '"mixed-fleet-d0"'), rf"{MAP}decode_pool_dynamo_namespaces\.0"),
        (replaced(FRONT, '{"mode"', "{mode"), r"data\[global-router.json\]: must be JSON"),
        (
            replaced(FRONT, "            name: mixed-fleet-ctrl-routes", "            name: elsewhere"),
            r"components\.1\.podTemplate\.spec\.volumes: must hold the ConfigMap mixed-fleet-ctrl-routes",
        ),
        (lambda files: files.pop(FRONT), "must hold one GlobalRouter and its configuration, got 0 and 0"),
        (replaced(FRONT, "default-mixed-fleet-ctrl", "default-other"), rf"{GRAPH}ctrl, .*args: --namespace must be"),
        (
            replaced(FRONT, "- --model-name\n          - deepseek-ai", "- --model-name\n          - other"),
            r"args: --model-name must be deepseek-ai",
        ),
        (
            replaced(FIRST, "default-mixed-fleet-p0.prefill", "default-mixed-fleet-p0.backend"),
            r"--endpoint must be .*prefill",
        ),
        (
            replaced(FIRST, "- default-mixed-fleet-p0\n", "- default-mixed-fleet\n"),
            r"components\.1\..*args: --namespace must be",
        ),
        (
            replaced(FIRST, "DYN_NAMESPACE_WORKER_SUFFIX", "SUFFIX"),
            r"components\.1\..*env: must hold DYN_NAMESPACE_WORKER",
        ),
        (replaced(FIRST, "dynamo.vllm", "dynamo.mocker"), r"components\.1\..*command: must start an engine"),
        (
            replaced(FIRST, "nodeCount: 2", "nodeCount: 1"),
            r"components\.1\.multinode\.nodeCount: must follow the schema",
        ),
        (
            replaced(FIRST, "nodeCount: 2", "nodeCount: 3"),
            r"components\.1\.multinode\.nodeCount x limits: must be the 16",
        ),
        (replaced(FIRST, "replicas: 2", "replicas: 3"), r"components\.1\.replicas: must be the 2 replicas of H200-0"),
        (
            replaced(FIRST, "- --tensor-parallel-size\n          - '4'", "- --tensor-parallel-size=4"),
            r"args: the parallel degrees",
        ),
        (
            replaced(FIRST, "- --data-parallel-size\n          - '4'", "- --data-parallel-size\n          - '2'"),
            r"args: the parallel",
        ),
        (replaced(FIRST, "type: prefill", "type: decode"), r"components\.1\.type: must be prefill"),
        (replaced(FIRST, "type: prefill", "type: preffil"), r"components\.1\.type: must follow the schema"),
        (
            replaced(FIRST, "- name: main", "- name: engine"),
            r"components\.0\.podTemplate.*name: must follow the schema",
        ),
        (replaced(FIRST, "name: router", "name: H200-0"), r"components\.\d\.name: must be unique in the graph"),
        (
            replaced(FIRST, "- name: h200-0\n", f"- name: h200-{'0' * 30}\n"),
            r"components\.1\.name: must count at most 45",
        ),
        (
            replaced(FIRST, "vllm-runtime:1.3.1", "vllm-runtime:latest"),
            r"components\.0\..*image: must name a fixed version",
        ),
        (
            replaced(FIRST, "vllm-runtime:1.3.1", "vllm-runtime:release"),
            r"components\.0\.runtimeVersionOverride: must tell",
        ),
        (
            replaced(DECODES, "sharedMemorySize: 16Gi", "sharedMemorySize: 16GB"),
            r"sharedMemorySize: must follow the schema",
        ),
    ],
)
def test_a_mistake_is_caught_in_its_field(damage: Callable[[dict[str, str]], None], told: str) -> None:
    files = render(two_pool_plan(), target="dynamo")
    damage(files)
    faults = [str(fault) for fault in find_faults(files, two_pool_plan())]
    assert any(re.search(told, fault) for fault in faults), faults


def test_the_table_in_the_files_is_enough_to_catch_a_wrong_pool() -> None:
    files = render(two_pool_plan(), target="dynamo")
    assert find_faults(files) == ()
    replaced(FRONT, "[[0], [1]]", "[[1], [0]]")(files)
    assert any("prompts of 0-2047 tokens must go to h200-0" in str(fault) for fault in find_faults(files))
