"""Routing, simplicity and survival: what is read, what is refused, what follows for the search, the way back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from planner.domain import (
    RouterPolicy,
    RoutingForm,
    RoutingSettings,
    Scenario,
    SearchMethod,
    SearchSettings,
    SizeSet,
    SurvivalSettings,
)
from planner.domain.serving.routing import DEFAULT_FORM
from planner.files import deciding_differences, scenario_document, scenario_hash

Refused = Callable[..., None]
Read = Callable[[Mapping[str, Any]], Scenario]
Fields = dict[str, Any]
BUCKETS: Fields = {"routing": {"form": "buckets"}}


def settled(read: Read, document: Fields, **keys: Any) -> Scenario:
    """The scenario, which survives the way through a document."""
    scenario = read(document | keys)
    again = read(json.loads(json.dumps(scenario_document(scenario))))
    assert replace(again, inputs=()) == replace(scenario, inputs=())
    return scenario


@pytest.mark.parametrize("keys", [{}, {"routing": {}}, {"routing": {"form": None}}], ids=str)
def test_what_is_left_out_takes_its_default(read: Read, document: Fields, keys: Fields) -> None:
    scenario = settled(read, document, **keys)
    form = DEFAULT_FORM or RoutingForm.BUCKETS
    assert scenario.routing == RoutingSettings(form=form, most=2, policy=None, margin=0.9)
    assert (scenario.simplicity, scenario.survive) == (0.01, SurvivalSettings(nodes=1, share=0.0))


def test_every_key_is_read(read: Read, document: Fields) -> None:
    routing = {"form": "buckets", "most": 3, "policy": "least_work", "margin": 0.8}
    scenario = settled(read, document, routing=routing, simplicity=0, survive={"nodes": 2, "share": 0.5})
    assert scenario.routing == RoutingSettings(
        form=RoutingForm.BUCKETS, most=3, policy=RouterPolicy.LEAST_WORK, margin=0.8
    )
    assert (scenario.simplicity, scenario.survive) == (0, SurvivalSettings(nodes=2, share=0.5))
    assert scenario.bucketed


@pytest.mark.parametrize(
    ("form", "method", "sizes"),
    [
        ("buckets", SearchMethod.AUTO, SizeSet.WHOLE_NODES),
        ("table", SearchMethod.DIVIDER, SizeSet.ALL),
        ("sets", SearchMethod.DIVIDER, SizeSet.ALL),
    ],
)
def test_the_form_decides_how_layouts_are_come_by(
    read: Read, document: Fields, form: str, method: SearchMethod, sizes: SizeSet
) -> None:
    scenario = settled(read, document, routing={"form": form})
    assert (scenario.search.method, scenario.search.sizes) == (method, sizes)
    named = settled(read, document, routing={"form": form}, search={"method": "direct", "sizes": "powers_of_two"})
    assert (named.search.method, named.search.sizes) == (SearchMethod.DIRECT, SizeSet.POWERS_OF_TWO)
    assert replace(scenario.search, method=method, sizes=sizes) == SearchSettings(method=method, sizes=sizes)


@pytest.mark.parametrize(
    ("keys", "asked", "remedy"),
    [
        ({"cost": {"mode": "reference"}}, "cost.mode: reference", "cost.mode"),
        ({"assignment": {"formulation": "deviation"}}, "assignment.formulation: deviation", "assignment.formulation"),
    ],
)
def test_what_buckets_do_not_know_is_refused(
    read: Read, document: Fields, refused: Refused, keys: Fields, asked: str, remedy: str
) -> None:
    refused(lambda: read(document | BUCKETS | keys), "routing.form: buckets", asked, hint=f"leave out {remedy}")
    assert read(document | keys | {"routing": {"form": "table"}}).search.sizes is SizeSet.ALL


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"routing": {"form": "shares"}}, ("routing.form", "one of buckets, sets, table", "'shares'")),
        ({"routing": {"most": 0}}, ("routing.most", "at least 1", "got 0")),
        ({"routing": {"most": 9}}, ("routing.most", "at most 8", "got 9")),
        ({"routing": {"policy": "fastest"}}, ("routing.policy", "least_work", "'fastest'")),
        ({"routing": {"margin": 0}}, ("routing.margin", "more than 0", "got 0")),
        ({"routing": {"margin": 1.01}}, ("routing.margin", "at most 1", "1.01")),
        ({"routing": {"buckets": 2}}, ("routing.buckets", "not a known key")),
        ({"routing": "buckets"}, ("routing", "a mapping")),
        ({"simplicity": 1}, ("simplicity", "less than 1", "got 1")),
        ({"simplicity": -0.1}, ("simplicity", "at least 0")),
        ({"survive": {"nodes": 0}}, ("survive.nodes", "at least 1")),
        ({"survive": {"share": 1.1}}, ("survive.share", "at most 1")),
        ({"survive": {"node": 1}}, ("survive.node", "not a known key")),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(
    read: Read, document: Fields, refused: Refused, keys: Fields, words: tuple[str, ...]
) -> None:
    refused(lambda: read(document | keys), *words)


@pytest.mark.parametrize("form", ["table", "sets"])
def test_survival_goes_with_buckets(read: Read, document: Fields, refused: Refused, form: str) -> None:
    keys = {"routing": {"form": form}, "survive": {"share": 0.5}}
    refused(
        lambda: read(document | keys),
        "routing.form must be buckets where survive.share is set",
        form,
        hint="routing.form to buckets",
    )


def test_islands_of_whole_nodes_are_counted_in_nodes(read: Read, document: Fields, refused: Refused) -> None:
    """Of 16 H200 on two nodes and 8 H20 on one."""
    direct = {"method": "direct", "sizes": "whole_nodes"}
    assert read(document | {"search": direct | {"slots": 1}}).search.slots == 1
    refused(
        lambda: read(document | {"search": direct | {"slots": 1, "min_island_size": 8}, "inventory": {"H200": 16}}),
        "search.slots", "at least 2", "H200", "got 1",
    )  # fmt: skip
    refused(
        lambda: read(document | {"search": direct | {"min_island_size": 9}, "inventory": {"H200": 12, "H20": 8}}),
        "search.min_island_size", "largest island of search.sizes whole_nodes, 8 (H20)", "got 9",
    )  # fmt: skip
    table = document | {"routing": {"form": "table"}}
    assert read(table | {"search": {"min_island_size": 9}, "inventory": {"H200": 12}}).search.min_island_size == 9


def test_the_router_that_is_priced_decides_a_search(read: Read, document: Fields) -> None:
    """Not what is deployed around it, nor any router where a policy is priced."""
    begun = settled(read, document, routing={"form": "buckets"})
    others = {"router": "vllm", "target": "dynamo", "router_counts": "requests", "ranks": "server", "queue": "night"}
    for key, value in others.items():
        came = replace(begun, deploy=replace(begun.deploy, **{key: value}))
        keys = [words.split()[0] for words in deciding_differences(begun, came)]
        assert keys == ([] if key == "queue" else [f"deploy.{key}"])
        assert (scenario_hash(begun) == scenario_hash(came)) is (key == "queue")
        by_policy = (
            replace(each, routing=replace(each.routing, policy=RouterPolicy.LEAST_WORK)) for each in (begun, came)
        )
        assert deciding_differences(*by_policy) == ()
