"""The `network:` section: what is read, what is refused, and the way back."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from planner.domain import NetworkSettings, Scenario
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]


def test_no_network_unless_asked_for(read: Read, document: dict[str, Any]) -> None:
    assert read(document).network is None
    assert read(document | {"network": None}).network is None
    assert "network" not in scenario_document(read(document))


def test_an_empty_section_takes_the_defaults(read: Read, document: dict[str, Any]) -> None:
    assert read(document | {"network": {}}).network == NetworkSettings(nic_share=0.5, switch_gb_s=())


def test_uplinks_are_read_in_order_of_name(read: Read, document: dict[str, Any]) -> None:
    network = read(document | {"network": {"nic_share": 1, "uplinks_gb_s": {"H200": 400, "H20": 200}}}).network
    assert network == NetworkSettings(nic_share=1.0, switch_gb_s=(("H20", 200.0), ("H200", 400.0)))


@pytest.mark.parametrize("section", [{}, {"nic_share": 0.25, "uplinks_gb_s": {"H20": 12.5}}])
def test_the_way_back(read: Read, document: dict[str, Any], section: dict[str, Any]) -> None:
    first = read(document | {"network": section})
    again = read(scenario_document(first))
    assert again.network == first.network


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"nic_share": 0}, ("network.nic_share", "more than 0", "got 0")),
        ({"nic_share": -0.5}, ("network.nic_share", "more than 0")),
        ({"nic_share": 1.5}, ("network.nic_share", "at most 1")),
        ({"uplinks_gb_s": {"H20": -1}}, ("network.uplinks_gb_s.H20", "more than 0", "got -1")),
        ({"uplinks_gb_s": {"H20": 0}}, ("network.uplinks_gb_s.H20", "more than 0")),
        ({"uplinks_gb_s": {"H20": "fast"}}, ("network.uplinks_gb_s.H20", "a number")),
        ({"uplinks_gb_s": {"H21": 100}}, ("network.uplinks_gb_s.H21", "GPU type of the inventory")),
        ({"uplinks_gb_s": 400}, ("network.uplinks_gb_s", "a mapping")),
        ({"nic": 0.5}, ("network.nic is not a known key",)),
    ],
)
def test_bad_figures_are_refused(
    read: Read, document: dict[str, Any], refused: Refused, section: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: read(document | {"network": section}), *words)


def test_a_network_that_is_no_mapping_is_refused(read: Read, document: dict[str, Any], refused: Refused) -> None:
    refused(lambda: read(document | {"network": True}), "network", "a mapping")


def test_the_deviation_formulation_takes_no_network(read: Read, document: dict[str, Any], refused: Refused) -> None:
    asked = document | {"network": {}, "assignment": {"formulation": "deviation"}}
    refused(lambda: read(asked), "assignment.formulation must be max_rate where network is given", "got deviation")
