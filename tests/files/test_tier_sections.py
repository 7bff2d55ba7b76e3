"""The section `tiers` of a scenario: read, written back, refused; and what memory adds to a GPU's rent."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from planner.domain import Scenario
from planner.domain.serving.caches.tiers import RemoteStore, TierSettings
from planner.files import scenario_document

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
DOCUMENT: dict[str, Any] = {
    "name": "again",
    "model": "deepseek-v3",
    "workload": "mooncake-conversation",
    "inventory": {"H200": 16, "H20": 16},
    "prices_usd_per_gpu_hour": {"H200": 3.5, "H20": 1.5},
    "cost": {"kv_cache_rate": "auto"},
}


@pytest.mark.parametrize(
    "tiers",
    [
        None,
        {"host_gb_per_node": 1500},
        {"host_gb_per_node": [0, 500, 1000], "host_usd_per_tb_hour": 2},
        {"ssd_gb_per_node": 9000, "ssd_gb_per_s_per_node": 20, "remote": {"gb": 1e5, "gb_per_s_per_node": 25}},
    ],
)
def test_what_is_written_reads_back(read: Read, tiers: object) -> None:
    scenario = read(DOCUMENT | ({} if tiers is None else {"tiers": tiers}))
    document = scenario_document(scenario)
    assert ("tiers" in document) == (tiers is not None)
    again = read(document)
    assert again.tiers == scenario.tiers
    assert again.inventory == scenario.inventory


def test_a_gpu_sees_its_part_of_a_node(read: Read) -> None:
    scenario = read(
        DOCUMENT | {"tiers": {"host_gb_per_node": 1600, "ssd_gb_per_node": 8000, "ssd_gb_per_s_per_node": 40}}
    )
    assert scenario.tiers is not None
    h200 = scenario.inventory.item("H200").gpu
    host, ssd = scenario.tiers.of(h200, 32)
    assert (host.gb_per_gpu, host.gb_per_s_per_gpu) == (200, 0.8 * h200.host_memory_gb_s)
    assert (ssd.gb_per_gpu, ssd.gb_per_s_per_gpu) == (1000, 5)
    store = TierSettings(remote=RemoteStore(gb=3200, gb_per_s_per_node=1e5))
    (remote,) = store.of(h200, 32)
    assert (remote.gb_per_gpu, remote.shared) == (100, True)
    assert remote.gb_per_s_per_gpu == host.gb_per_s_per_gpu  # no way past the host's link


def test_memory_that_is_bought_is_in_the_rent_and_not_in_the_price(read: Read) -> None:
    bought = {"host_gb_per_node": 2000, "host_usd_per_tb_hour": 3, "ssd_gb_per_node": 8000, "ssd_usd_per_tb_hour": 0.1}
    scenario = read(DOCUMENT | {"tiers": bought | {"ssd_gb_per_s_per_node": 20}})
    item = scenario.inventory.item("H20")
    assert item.price_usd_per_gpu_hour == 1.5
    assert item.rent_usd_per_gpu_hour == pytest.approx(1.5 + (2 * 3 + 8 * 0.1) / 8)
    assert read(DOCUMENT).inventory.item("H20").rent_usd_per_gpu_hour == 1.5


@pytest.mark.parametrize(
    ("tiers", "changes", "says"),
    [
        ({"ssd_gb_per_node": 9}, {}, ("tiers.ssd_gb_per_s_per_node must be above 0", "got 0")),
        ({"remote": {"gb": 9}}, {}, ("tiers.remote.gb_per_s_per_node", "missing")),
        ({"host_gb_per_node": -1}, {}, ("tiers.host_gb_per_node", "at least 0", "got -1")),
        ({"host_gb_per_node": [500]}, {}, ("tiers.host_gb_per_node", "at least two")),
        ({"host_gb_per_node": [500, 500]}, {}, ("tiers.host_gb_per_node", "distinct")),
        ({"host_gb": 500}, {}, ("tiers.host_gb is not a known key",)),
        ({"host_gb_per_node": 500}, {"cost": {"kv_cache_rate": 0.5}}, ("tiers must be left out unless", "auto")),
        ({"host_gb_per_node": 500}, {"routing": {"form": "table"}}, ("tiers", "buckets")),
    ],
)
def test_what_cannot_be_is_refused(
    read: Read, refused: Refused, tiers: object, changes: dict[str, Any], says: tuple[str, ...]
) -> None:
    refused(lambda: read({**DOCUMENT, **changes, "tiers": tiers}), *says)
