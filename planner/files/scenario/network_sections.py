"""The `network:` section of a scenario."""

from collections.abc import Collection

from planner.domain import AssignmentSettings, Formulation, NetworkSettings
from planner.errors import InputError
from planner.files.records import read_record
from planner.files.sections import Section, nearest_hint


def read_network(document: Section, types: Collection[str]) -> NetworkSettings | None:
    """What KV transfer may take of the network; None where the section is missing or null.

    InputError where a figure is no positive number, or an uplink belongs to no GPU type of the inventory.
    """
    if document.is_empty("network"):
        return None
    section = document.section("network")
    settings = read_record(NetworkSettings, section)
    for gpu, _ in settings.switch_gb_s:
        if gpu not in types:
            key = section.section("uplinks_gb_s").key_path(gpu)
            raise InputError(
                f"{section.file}: {key} must be a GPU type of the inventory; {gpu} is not.",
                hint=nearest_hint(gpu, tuple(types), what="inventory's types"),
            )
    return settings


def require_flows(file: str, network: NetworkSettings | None, assignment: AssignmentSettings) -> None:
    """InputError where the formulation has no KV flows to hold against the network."""
    if network is not None and assignment.formulation is not Formulation.MAX_RATE:
        raise InputError(
            f"{file}: assignment.formulation must be max_rate where network is given, "
            f"got {assignment.formulation.value}.",
            hint="Leave out network, or set assignment.formulation to max_rate.",
        )
