"""Upstream's own CRD files as the judge of what targets emit."""

from pathlib import Path
from typing import Any

import pytest

from planner.export import read_crds

SHARED = Path(__file__).parents[3] / "shared"
LWS_CRD = SHARED / "crds" / "lws_leaderworkersets.yaml"

needs_lws_crd = pytest.mark.skipif(not LWS_CRD.exists(), reason="needs ../shared/crds/lws_leaderworkersets.yaml")


def crd_schema(path: Path) -> dict[str, Any]:
    """The schema of a file's only version, closed: an object with listed properties takes no others."""
    (schema,) = read_crds({path.name: path.read_text(encoding="utf-8")}).schemas.values()
    return dict(schema)
