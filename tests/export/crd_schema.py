"""A CRD's OpenAPI schema as a strict JSON Schema, with its defaults applied: upstream's file as the judge."""

from pathlib import Path
from typing import Any

import pytest
import yaml

SHARED = Path(__file__).parents[3] / "shared"
LWS_CRD = SHARED / "crds" / "lws_leaderworkersets.yaml"

needs_lws_crd = pytest.mark.skipif(not LWS_CRD.exists(), reason="needs ../shared/crds/lws_leaderworkersets.yaml")


def crd_schema(path: Path) -> dict[str, Any]:
    """The storage version's schema, closed: an object with listed properties takes no others."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    version = next(v for v in crd["spec"]["versions"] if v["storage"])
    schema = _closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["apiVersion"] = {"const": f"{crd['spec']['group']}/{version['name']}"}
    schema["properties"]["kind"] = {"const": crd["spec"]["names"]["kind"]}
    return schema


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    closed = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        closed["type"] = ["integer", "string"]
    if "properties" in schema:
        closed["properties"] = {key: _closed(value) for key, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(closed.get(key), dict):
            closed[key] = _closed(schema[key])
    return closed


def with_defaults(value: Any, schema: dict[str, Any]) -> Any:
    """`value` with the schema's defaults filled in, as an API server does before it looks at `required`."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        filled = {k: s["default"] for k, s in properties.items() if "default" in s and k not in value}
        extra = schema.get("additionalProperties")
        below = extra if isinstance(extra, dict) else {}
        return {k: with_defaults(v, properties.get(k, below)) for k, v in (value | filled).items()}
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value
