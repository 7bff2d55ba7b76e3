"""Documents of plan.json after an edit: with new digests, as of before digests; and what is then read."""

from dataclasses import replace
from typing import Any

from planner.domain import Plan
from planner.files.plan.digests import KEY, sealed

Document = dict[str, Any]


def resealed(document: Document) -> Document:
    """With digests of what it says now, where it has some: so that the rules beyond them are seen to hold."""
    return sealed(document) if KEY in document else document


def of_before_digests(document: Document) -> Document:
    """As an earlier version wrote it."""
    return {key: value for key, value in document.items() if key != KEY} | {"schema_version": 1}


def unverified(plan: Plan) -> Plan:
    """The plan as it is read from a document of before digests."""
    return replace(plan, provenance=replace(plan.provenance, unverified=True))
