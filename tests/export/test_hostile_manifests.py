"""Folders that somebody edited badly, or in bad faith: every one ends in a fault that names file and field, none in a
traceback, and none is taken for sound."""

import json
from pathlib import Path

import pytest
import yaml
from contract_plans import single_node_plan
from dynamo_plans import two_pool_plan
from export_plans import example_plan
from quick_yaml import load_document, load_documents

from planner.errors import ExportError, InputError
from planner.export import TARGETS, ExportOptions, compare, find_faults, read_crds, render
from planner.files import load_manifests

DIGITS = "9" * 5000
"""More than Python turns into a number."""


def faults(files: dict[str, str], plan: object = None) -> str:
    """All faults, one a line."""
    return "\n".join(map(str, find_faults(files, plan)))  # type: ignore[arg-type]  # a plan or none


def edited(target: str, old: str, new: str, *, engine: str = "vllm") -> dict[str, str]:
    """Sound manifests with one text in place of another, in the first file that has it."""
    plan = two_pool_plan() if target == "dynamo" else example_plan()
    files = render(plan, target=target, engine=engine)
    name = next(name for name in sorted(files) if old in files[name])
    return {**files, name: files[name].replace(old, new)}


def with_table(table: str) -> dict[str, str]:
    """Sound manifests with another routing table in their ConfigMap."""
    files = render(single_node_plan(), target="kubernetes")
    config = load_document(files["routing.yaml"])
    config["data"]["routing.json"] = table
    return {**files, "routing.yaml": yaml.safe_dump(config)}


@pytest.mark.parametrize(
    ("target", "old", "told"),
    [
        ("lws", "nvidia.com/gpu: ", "GPUs of one replica"),
        ("script", "copies=", "copies: must follow the schema"),
    ],
)
def test_numbers_without_end_are_faults_and_no_traceback(target: str, old: str, told: str) -> None:
    files = edited(target, old, f"{old}'{DIGITS}' #" if old.endswith(" ") else f"{old}{DIGITS}")
    assert told in faults(files)


def test_more_copies_than_memory_holds_are_counted_and_not_listed() -> None:
    files = render(example_plan(), target="script")
    name = next(name for name in files if "copies=2" in files[name] or "copies=1" in files[name])
    text = files[name].replace("copies=1\n", "copies=99999999999\n").replace("copies=2\n", "copies=99999999999\n")
    assert "copies: must be" in faults({**files, name: text})


def test_hexadecimal_numbers_without_end_are_no_yaml() -> None:
    files = edited("lws", "replicas: ", f"replicas: 0x{'f' * 9000} # ")
    assert "must have less than 64 bits" in faults(files)


def test_a_key_twice_is_told_in_yaml_and_in_json() -> None:
    assert "the key 'replicas' is given twice" in faults(edited("lws", "  replicas:", "  replicas: 7\n  replicas:"))
    files = render(single_node_plan(), target="script")
    files["routing.json"] = files["routing.json"].replace("{", '{"routes": [],', 1)
    assert "the key 'routes' is given twice" in faults(files)
    values = edited("llm-d", "  replicas:", "  replicas: 7\n  replicas:")
    assert "the key 'replicas' is given twice" in faults(values)


@pytest.mark.parametrize("table", ["[" * 100_000, '{"services": {"service": "a", "island": "b"}, "routes": [1]}'])
def test_a_routing_table_of_another_form_is_told(table: str) -> None:
    assert "data[routing.json]" in faults(with_table(table))


@pytest.mark.parametrize("config", ["[" * 100_000, '{"isl_min": NaN}', "{}"])
def test_a_router_configuration_of_another_form_is_told(config: str) -> None:
    files = render(two_pool_plan(), target="dynamo")
    name = "00-frontend.yaml"
    documents = list(load_documents(files[name]))
    documents[0]["data"]["global-router.json"] = config
    hostile = {**files, name: yaml.safe_dump_all(documents)}
    assert [fault.where for fault in compare(hostile, files).faults]


@pytest.mark.parametrize("depth", [63, 100, 5_000])
def test_nesting_without_end_is_a_difference_and_no_traceback(depth: int) -> None:
    files = render(single_node_plan(), target="kubernetes")
    nested = "{a: " * depth + "1" + "}" * depth
    deep = files["routing.yaml"].replace("data:\n", f"data:\n  deep: {nested}\n")
    (fault,) = compare({**files, "routing.yaml": deep}, files).faults
    assert fault.where.startswith("routing.yaml")
    table = with_table("[" * depth + "]" * depth)
    assert compare(table, files).faults


@pytest.mark.parametrize("table", ["no json", "{}", '{"services": [], "routes": 7}'])
def test_a_broken_table_beside_a_router_is_told_once_and_by_its_own_check(table: str) -> None:
    files = render(two_pool_plan(), target="dynamo")
    config = load_document(files["routing.yaml"])
    config["data"]["routing.json"] = table
    assert "data[routing.json]" in faults({**files, "routing.yaml": yaml.safe_dump(config)})


def test_an_alias_is_seen_behind_a_colon(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text('{"a":&b [x],"c":*b}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"line 1: must not have YAML aliases, has \*b"):
        load_manifests(tmp_path)


def test_an_object_of_a_given_kind_needs_a_name() -> None:
    crd = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}}}],
        },
    }
    files = render(example_plan()) | {"x.yaml": "apiVersion: example.com/v1\nkind: Thing\n"}
    told = [str(fault) for fault in find_faults(files, None, read_crds({"crd.json": json.dumps(crd)}))]
    assert any("x.yaml, Thing, metadata.name: must be a name" in line for line in told), told


def test_aliases_of_a_given_schema_are_not_written_out() -> None:
    rows = ["l0: &l0 {type: string}"]
    for i in range(1, 30):
        rows.append(f"l{i}: &l{i} {{type: object, properties: {{a: *l{i - 1}, b: *l{i - 1}}}}}")
    names = "group: example.com, names: {kind: Thing}"
    schema = f"{{type: object, properties: {{{', '.join(rows)}}}}}"
    crd = f"{{{names}, versions: [{{name: v1, schema: {{openAPIV3Schema: {schema}}}}}]}}"
    crds = read_crds({"crd.yaml": f"kind: CustomResourceDefinition\nspec: {crd}\n"})
    wrong = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\nl29: {a: {c: 1}}\n"
    told = [str(fault) for fault in find_faults(render(example_plan()) | {"x.yaml": wrong}, None, crds)]
    assert any("x.yaml, Thing x, l29.a: must follow the given schema" in line for line in told), told


VALUES = {
    "name": "zz",
    "images": (("NVIDIA", "example/engine:1.2.3"),),
    "cpus_per_gpu": 3,
    "memory_gib_per_gpu": 77,
    "shared_memory_gib": 5,
    "pod_resources": (("rdma/ib", 2),),
    "topology_labels": (("asw", "example.com/rack"),),
    "pin_nodes": True,
    "priority_class": "serving",
    "queue": "batch",
    "model_volume": "weights",
    "namespace": "prod",
}


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "kubernetes"])
@pytest.mark.parametrize("option", VALUES)
def test_an_option_changes_the_files_or_is_refused(target: str, option: str) -> None:
    plan = two_pool_plan() if target == "dynamo" else example_plan()
    try:
        files = render(plan, target=target, options=ExportOptions(**{option: VALUES[option]}))
    except (ExportError, InputError):
        return
    assert files != render(plan, target=target)
