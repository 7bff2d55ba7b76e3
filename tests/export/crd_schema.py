"""Upstream's own CRD files as the judge of what targets emit."""

from typing import Any

from reference_data import reference_names, reference_text

from planner.export import CrdSchemas, read_crds


def upstream_crds(pattern: str = "*") -> CrdSchemas:
    """The schemas of the CRD files whose name matches."""
    return read_crds({name: reference_text(name) for name in reference_names(f"crds/{pattern}")})


def crd_schema(pattern: str) -> dict[str, Any]:
    """The schema of a file's only version, closed: an object with listed properties takes no others."""
    (schema,) = upstream_crds(pattern).schemas.values()
    return dict(schema)
