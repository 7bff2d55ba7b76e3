"""The `network:` section of a scenario."""

from collections.abc import Collection
from dataclasses import replace

from planner.domain import AssignmentSettings, Formulation, NetworkSettings
from planner.errors import InputError
from planner.files.disk.names import canonical_keys
from planner.files.records import read_record
from planner.files.sections import Section


def read_network(document: Section, types: Collection[str]) -> NetworkSettings | None:
    """What KV transfer may take of the network; None where the section is missing or null.

    InputError where a figure is no positive number, or an uplink belongs to no GPU type of the inventory.
    """
    if document.is_empty("network"):
        return None
    section = document.section("network")
    settings = read_record(NetworkSettings, section)
    if not settings.switch_gb_s:
        return settings
    rule = "must be a GPU type of the inventory; {key} is not"
    meant = canonical_keys(section.section("uplinks_gb_s"), types, rule=rule, what="inventory's types")
    return replace(settings, switch_gb_s=tuple(sorted((meant[gpu], rate) for gpu, rate in settings.switch_gb_s)))


def require_flows(file: str, network: NetworkSettings | None, assignment: AssignmentSettings) -> None:
    """InputError where the formulation has no KV flows to hold against the network."""
    if network is not None and assignment.formulation is not Formulation.MAX_RATE:
        raise InputError(
            f"{file}: assignment.formulation must be max_rate where network is given, "
            f"got {assignment.formulation.value}.",
            hint="Leave out network, or set assignment.formulation to max_rate.",
        )
