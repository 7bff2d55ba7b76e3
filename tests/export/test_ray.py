"""Target `ray` held to what Ray's own classes take (`ray_serve/ray-2.60.0.json`, which `ray_serve/ray_classes.py` makes
of them), and to the plan: whose copies serve with whose, and with which words vLLM starts."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from contract_plans import PLANS, single_node_plan
from export_plans import DECODE, PREFILL, example_plan, gpu, island, plan_of, route
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from ray_serve.ray_classes import SCHEMAS

from planner.domain import Counted, Endpoints, Freed, ParallelConfig, Phase, Plan, Rule
from planner.domain.serving.deploy import DeploySettings
from planner.domain.serving.programs import PROGRAMS, Surroundings, router_of
from planner.errors import ExportError
from planner.export import ExportOptions, compare, find_faults, read_plan, render, summarize_plan
from planner.export.engines.arguments import read_flags
from planner.export.objects.scripts import read_launch_script
from planner.export.targets.ray import configs_of, engine_kwargs

FILE = "serve.yaml"
RAYS: dict[str, Any] = json.loads(SCHEMAS.read_text(encoding="utf-8"))
SERVED = [name for name in PLANS if name != "wide fleet"]
ONE_EACH = (
    island("P", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=2)),
    island("D", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1, replicas=3)),
)


def written(plan: Plan, **options: object) -> dict[str, Any]:
    """The configuration."""
    files = render(plan, target="ray", options=ExportOptions(**options))  # type: ignore[arg-type]
    document: dict[str, Any] = yaml.safe_load(files[FILE])
    return document


def hold(name: str, value: object) -> None:
    """Raises ValidationError where Ray's class of that name would."""
    Draft202012Validator(RAYS[name]).validate(value)


def hold_all(document: dict[str, Any]) -> int:
    """What `ray_classes.main` does, by schemas; the number of deployments of engines."""
    hold("ServeDeploySchema", document)
    count = 0
    for application in document["applications"]:
        module, _, builder = application["import_path"].partition(":")
        assert module == "ray.serve.llm"
        hold(builder, application["args"])
        configs = configs_of(application)
        for config in configs.values():
            hold("LLMConfig", config)
            hold("PlacementGroupConfig", config["placement_group_config"])
            hold("ModelLoadingConfig", config["model_loading_config"])
            assert config.get("accelerator_type", "H20") in RAYS["accelerators"]
            assert ("kv_transfer_config" in config["engine_kwargs"]) == (builder == "build_pd_openai_app")
        assert len({config["model_loading_config"]["model_id"] for config in configs.values()}) == 1
        count += len(configs)
    prefixes = [application["route_prefix"] for application in document["applications"]]
    assert len(set(prefixes)) == len(prefixes)
    return count


RAYS["ModelLoadingConfig"] = RAYS["LLMConfig"]["$defs"]["ModelLoadingConfig"] | {"$defs": RAYS["LLMConfig"]["$defs"]}


@pytest.mark.parametrize("plan", SERVED)
def test_rays_classes_take_the_configuration(plan: str) -> None:
    made = PLANS[plan]()
    document = written(made)
    assert hold_all(document) >= sum(i.phase is not None for i in made.islands)
    for application in document["applications"]:
        mixed = next(iter(configs_of(application).values())) if len(configs_of(application)) == 1 else None
        ranked = mixed is not None and mixed["engine_kwargs"].get("data_parallel_size", 1) > 1
        kind = "pd_" if mixed is None else "dp_" if ranked else ""
        assert application["import_path"] == f"ray.serve.llm:build_{kind}openai_app"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tensor_parallel_size", "tensor parallel"),
        ("engine_kwargs:", "engine_arguments:"),
        ("model_id:", "model_name:"),
        ("accelerator_type: H20\n", "accelerator_type: H21\n"),
        ("strategy: STRICT_PACK", "strategy: TIGHT"),
        ("kv_transfer_config:", "kv_config:"),
        ("route_prefix: /single-nodes-h20-1", "route_prefix: /single-nodes-h20-0"),
        ("proxy_location: EveryNode", "proxy_location: Everywhere"),
        ("prefill_config:", "prefill:"),
    ],
)
def test_the_judge_can_refuse(old: str, new: str) -> None:
    text = render(single_node_plan(), target="ray")[FILE]
    assert old in text
    if old == "tensor_parallel_size":  # a mapping of anything to Ray's class, and of vLLM's names to ours
        assert find_faults({FILE: text.replace(old, new)})
        return
    with pytest.raises((ValidationError, AssertionError)):
        hold_all(yaml.safe_load(text.replace(old, new)))


def test_an_island_with_several_partners_has_its_copies_divided() -> None:
    applications = written(single_node_plan())["applications"]
    counts = {
        application["name"]: [
            config["deployment_config"]["num_replicas"] for config in configs_of(application).values()
        ]
        for application in applications
    }
    assert counts == {"single-nodes-h20-0": [1, 3], "single-nodes-h20-1": [1, 1]}
    found = read_plan(render(single_node_plan(), target="ray"))
    expected = summarize_plan(single_node_plan(), engine="vllm", target="ray")
    assert found == expected


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(0, 40))
def test_copies_are_divided_by_rate_and_none_is_lost(rates: list[int], more: int) -> None:
    """Truth: the sum, one for each, and nobody is two copies from the exact share who has no single one."""
    copies = len(rates) + more
    prefill = island("P", "H200", Phase.PREFILL, ParallelConfig(tp=1, dp=1, replicas=copies))
    decodes = [
        replace(island(f"D{n}", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=1, replicas=1)), rate_rps=float(rate))
        for n, rate in enumerate(rates)
    ]
    document = written(plan_of((prefill, *decodes), name="divided"))
    divided = [a["args"]["prefill_config"]["deployment_config"]["num_replicas"] for a in document["applications"]]
    assert sum(divided) == copies
    exact = [copies * rate / sum(rates) for rate in rates]
    assert all(
        count == 1 or abs(count - share) < 1 + len(rates) / 2 for count, share in zip(divided, exact, strict=True)
    )
    if all(share >= 1 for share in exact):
        assert all(abs(count - share) < 1 for count, share in zip(divided, exact, strict=True))


def test_pools_of_pairs_many_to_many_are_refused() -> None:
    twice = [
        island(f"{kind}{n}", gpus, phase, ParallelConfig(tp=8, dp=1, replicas=2))
        for kind, gpus, phase in (("P", "H200", Phase.PREFILL), ("D", "H20", Phase.DECODE))
        for n in range(2)
    ]
    with pytest.raises(ExportError, match="pairs one prefill island with one decode island, P0 and D0 both have") as no:
        render(plan_of(tuple(twice)), target="ray")
    assert (no.value.exit_status, bool(no.value.hint)) == (3, True)
    single = (
        *ONE_EACH[:1],
        island("D", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1)),
        island("E", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1)),
    )
    with pytest.raises(
        ExportError, match=r"island D: each of its 2 partners .* needs a copy of the island, which has 1"
    ):
        render(plan_of(single), target="ray")


@pytest.mark.parametrize("key", ["priority_class", "queue", "model_volume"])
def test_what_ray_cannot_heed_is_refused(key: str) -> None:
    with pytest.raises(ExportError, match=f"Target ray: nothing in its files can carry {key}"):
        written(single_node_plan(), **{key: "x"})
    with pytest.raises(ExportError, match="Target ray, engine: must be vllm, which it can start, got 'sglang'"):
        render(single_node_plan(), target="ray", engine="sglang")


def test_gpus_that_ray_has_no_name_for_are_a_resource_of_the_nodes() -> None:
    strange = island("A", "H800", Phase.DECODE, ParallelConfig(tp=8, dp=1, replicas=2))
    files = render(plan_of((ONE_EACH[0], strange), gpus=(gpu("H200"), gpu("H800"))), target="ray")
    (application,) = yaml.safe_load(files[FILE])["applications"]
    decode = application["args"]["decode_config"]
    assert decode["placement_group_config"]["bundle_per_worker"] == {"CPU": 8, "GPU": 1, "H800": 1}
    assert "accelerator_type" not in decode
    assert "start its nodes with --resources='{\"H800\": 8}'" in files[FILE]


def test_workers_of_a_copy_lie_on_one_node_where_they_fit() -> None:
    wide = island("W", "H20", Phase.DECODE, ParallelConfig(tp=16, dp=1))
    (application,) = written(plan_of((ONE_EACH[0], wide)))["applications"]
    groups = [config["placement_group_config"] for config in configs_of(application).values()]
    assert [group["strategy"] for group in groups] == ["STRICT_PACK", "PACK"]
    ranked = written(plan_of((PREFILL, DECODE)))["applications"][0]["args"]["decode_config"]
    assert "strategy" not in ranked["placement_group_config"], "Ray packs ranks itself"
    assert ranked["engine_kwargs"]["data_parallel_size"] == 32
    assert not {"data_parallel_address", "data_parallel_size_local", "port", "api_server_count"} & set(
        ranked["engine_kwargs"]
    )


FLAG = st.from_regex(r"[a-z]{2,8}(-[a-z]{2,6}){0,2}", fullmatch=True).filter(lambda name: not name.startswith("no-"))
VALUE = st.one_of(st.integers(-5, 10**6), st.floats(0.01, 1), st.sampled_from(["fp8", "deepep_low_latency", "auto"]))


@given(st.dictionaries(FLAG, st.one_of(VALUE, st.booleans(), st.dictionaries(FLAG, VALUE, min_size=1, max_size=3))))
def test_flags_become_arguments_of_their_types(rows: dict[str, Any]) -> None:
    words = [
        (f"--{name}" if value else f"--no-{name}")
        if isinstance(value, bool)
        else f"--{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in rows.items()
    ]
    kept = {name: value for name, value in rows.items() if name not in ("port", "host")}
    assert engine_kwargs(words) == {name.replace("-", "_"): value for name, value in kept.items()}


def test_the_words_are_those_of_the_other_targets_but_for_what_ray_adds() -> None:
    here = written(single_node_plan())["applications"][0]["args"]["prefill_config"]["engine_kwargs"]
    script = render(single_node_plan(), target="script")["01-h200-0.sh"]
    there = read_flags(read_launch_script(script)["commands"]["*:leader"])
    assert {name.replace("_", "-") for name in here} == set(there) - {"port"}
    assert str(here["max_num_seqs"]) == there["max-num-seqs"]


def test_one_pool_is_served_at_the_root_by_rays_own_choice() -> None:
    files = render(plan_of(ONE_EACH), target="ray", router="ray")
    (application,) = yaml.safe_load(files[FILE])["applications"]
    assert application["route_prefix"] == "/"
    for plan in (single_node_plan(), PLANS["aggregated"]()):
        with pytest.raises(ExportError, match="one pair of pools, got 2, and Ray chooses none by length"):
            render(plan, target="ray", router="ray")
        assert "Ray chooses none by length" in render(plan, target="ray")["routing.json"]


def test_lengths_of_one_pool_are_one_pool() -> None:
    rows = [route(i.id, i.phase, start, 1.0) for i in ONE_EACH for start in (0, 2048) if i.phase]
    assert render(plan_of(ONE_EACH, routing=tuple(rows)), target="ray", router="ray")


def test_the_promise_counts_on_the_better_of_two_replicas() -> None:
    assert router_of(DeploySettings(target="ray")) == "ray"
    behaviour = PROGRAMS["ray"](Surroundings())
    for layers, freed in (
        (behaviour.prefill, Freed.PREFILLED),
        (behaviour.decode, Freed.ANSWERED),
        (behaviour.mixed, Freed.ANSWERED),
    ):
        (layer,) = layers
        assert (layer.among, layer.rule, layer.counts) == (Endpoints.RANK, Rule.BETTER_OF_TWO, Counted.REQUESTS)
        assert (layer.freed, layer.copies, layer.by_speed) == (freed, 1, False)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("num_replicas: 3", "num_replicas: 2", "num_replicas"),
        ("tensor_parallel_size: 8", "tensor_parallel_size: 4", "engine_kwargs"),
        ("GPU: 1", "GPU: 2", "must follow the schema"),
        ("import_path: ray.serve.llm:build_pd_openai_app", "import_path: os:system", "must follow the schema"),
        ("data_parallel_size: 2", "data_parallel_size: two", "must follow the schema"),
    ],
)
def test_an_edited_configuration_is_found(old: str, new: str, told: str) -> None:
    files = render(single_node_plan(), target="ray")
    text = re.sub(re.escape(old), new, files[FILE])
    assert text != files[FILE]
    edited = {**files, FILE: text}
    assert any(told in str(fault) for fault in find_faults(edited, single_node_plan()))
    assert compare(edited, files).faults


def test_the_example_names_every_island_and_both_engines_versions() -> None:
    text = render(example_plan(), target="ray")[FILE]
    assert "WARNING: that brings vLLM 0.29.0, and the plan was priced for vLLM" in text
    assert all(f"Island {i.id} of plan" in text for i in example_plan().islands if i.phase is not None)
