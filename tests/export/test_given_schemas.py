"""Schemas that the user gives: CRDs as an API server applies them, JSON schemas, and files that are neither."""

import json
from typing import Any

import pytest
import yaml
from contract_plans import single_node_plan

from planner.errors import InputError
from planner.export import find_faults, read_crds, read_manifests, render
from planner.export.checking.crds import with_defaults


def definition(schema: dict[str, Any], *, version: str = "v1", served: bool = True) -> str:
    """A CRD of a kind Widget in example.com."""
    return yaml.safe_dump(
        {
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "example.com",
                "names": {"kind": "Widget"},
                "versions": [{"name": version, "served": served, "schema": {"openAPIV3Schema": schema}}],
            },
        }
    )


SIZED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size", "mode"],
            "properties": {
                "size": {"type": "integer", "minimum": 2},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
            },
        }
    },
}


def told(spec: dict[str, Any], schema: dict[str, Any] | None = None) -> list[str]:
    """The faults of a Widget beside sound manifests."""
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}
    files = {**render(single_node_plan()), "widget.yaml": yaml.safe_dump(widget)}
    crds = read_crds({"widget.yaml": definition(schema or SIZED)})
    return [str(fault) for fault in find_faults(files, single_node_plan(), crds)]


def test_defaults_come_before_required_and_a_kind_of_the_users_is_known() -> None:
    assert told({"size": 2}) == []
    assert told({"size": 2, "port": "http", "free": {"any": 1}}) == []
    assert told({"size": 2, "port": 80}) == []


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"size": 1}, "spec.size", "1 is less than the minimum of 2"),
        ({"size": 2, "mode": "c"}, "spec.mode", "'c' is not one of ['a', 'b']"),
        ({"size": 2, "sise": 3}, "spec", "'sise' was unexpected"),
        ({"mode": "a"}, "spec", "'size' is a required property"),
        ({"size": 2, "port": 1.5}, "spec.port", "is not of type 'integer', 'string'"),
    ],
)
def test_faults_name_file_object_and_field(spec: dict[str, Any], field: str, words: str) -> None:
    (fault,) = told(spec)
    assert fault.startswith(f"widget.yaml, Widget w, {field}: must follow the given schema, got ")
    assert words in fault


def test_without_its_schema_the_kind_is_unknown() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    files = {**render(single_node_plan()), "widget.yaml": yaml.safe_dump(widget)}
    assert find_faults(files, single_node_plan()) == ()
    assert [(one.file, one.kind) for one in read_manifests(files).foreign] == [("widget.yaml", "Widget")]


def test_versions_that_are_not_served_do_not_count() -> None:
    assert read_crds({"w.yaml": definition(SIZED)}).knows("example.com/v1", "Widget")
    with pytest.raises(InputError, match="must hold a CustomResourceDefinition or a JSON schema"):
        read_crds({"w.yaml": definition(SIZED, served=False)})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "schemas, x.yaml: must be YAML or JSON"),
        ("kind: CustomResourceDefinition\nspec: {}\n", "must be a whole CustomResourceDefinition, got: KeyError"),
        ("kind: CustomResourceDefinition\nspec: []\n", "must be a whole CustomResourceDefinition"),
        ("kind: ConfigMap\n", "must hold a CustomResourceDefinition or a JSON schema, got none in 1 files"),
        ("", "got none in 1 files"),
    ],
)
def test_files_that_are_no_schemas_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_crds({"x.yaml": text})


def test_a_broken_schema_is_told_when_it_is_used() -> None:
    broken = {"type": "object", "properties": {"spec": {"type": "objekt"}}}
    with pytest.raises(InputError, match=r"schemas, widget.yaml, example.com/v1 Widget: must be a sound schema"):
        told({"size": 2}, broken)


def test_json_schemas_are_kept_by_their_file() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    assert list(read_crds({"values.schema.json": json.dumps(schema)}).plain) == ["values.schema.json"]


@pytest.mark.parametrize("place", ["http://example.com/widget.json", "file:///etc/hostname", "#/nowhere", "#anchor"])
def test_references_out_of_a_schema_are_refused_and_nothing_is_fetched(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    referring = {"type": "object", "properties": {"spec": {"$ref": place}}}
    with pytest.raises(
        InputError, match=r"schemas, widget.yaml, .*\$ref must lead to a place within the file"
    ) as caught:
        told({"size": 2}, referring)
    assert place.lstrip("#") in caught.value.message
    assert "nothing is fetched" in caught.value.hint


def test_references_within_a_schema_are_followed() -> None:
    size = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 2}}}
    within = {"type": "object", "properties": {"spec": {"$ref": "#/properties/old"}, "old": size}}
    assert told({"size": 2}, within) == []
    assert "1 is less than the minimum of 2" in told({"size": 1}, within)[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/properties/spec/properties/size"},
        {"$ref": 5},
        {"$schema": ["x"], "type": 7},
        {"$id": "http://[", "$ref": "x"},
        {"items": 3},
    ],
)
def test_schemas_that_lead_nowhere_are_told(schema: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"schemas, widget.yaml, "):
        told({"size": [1]}, {"type": "object", "properties": {"spec": {"properties": {"size": schema}}}})


def test_true_is_a_schema() -> None:
    assert with_defaults({"a": [1], "b": 2}, {"properties": {"a": {"items": True}, "b": True}}) == {"a": [1], "b": 2}
