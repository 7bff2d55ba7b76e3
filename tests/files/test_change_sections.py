"""The `changes:` section of a scenario: what changes take, how far they may go, and what options say against it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from planner.domain import Scenario
from planner.domain.changes import ChangeLimits, ChangePolicy, ChangeSettings
from planner.files import scenario_document
from planner.files.scenario.scenario_documents import scenario_hash
from planner.runs.replanning.inputs import change_limits, change_settings

Read = Callable[[Mapping[str, Any]], Scenario]
Fields = dict[str, Any]
SECTION: Fields = {
    "times": {"storage_gb_s": 4, "network_gb_s": 12.5, "start_s": 90, "drain_s": 0},
    "limits": {
        "most_gpus": 64,
        "least_running_on": 0.8,
        "turns_only": True,
        "horizon_hours": 24,
        "give_up": 0.1,
    },
    "least_share": 0.5,
}


def test_every_key_is_read_and_written_back(read: Read, document: Fields) -> None:
    scenario = read(document | {"changes": SECTION})
    assert scenario.changes == ChangePolicy(
        times=ChangeSettings(storage_gb_s=4.0, network_gb_s=12.5, start_s=90.0, drain_s=0.0),
        limits=ChangeLimits(most_gpus=64, least_running_on=0.8, turns_only=True, horizon_hours=24.0, give_up=0.1),
        least_share=0.5,
    )
    again = read(json.loads(json.dumps(scenario_document(scenario))))
    assert replace(again, inputs=()) == replace(scenario, inputs=())


def test_without_the_section_documents_are_as_they_were(read: Read, document: Fields) -> None:
    scenario = read(document)
    assert scenario.changes == ChangePolicy()
    assert "changes" not in scenario_document(scenario)
    assert scenario_hash(read(document | {"changes": SECTION})) == scenario_hash(scenario), "a search may be resumed"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"times": {"storage_gb_s": 0}}, ("changes.times.storage_gb_s", "more than 0")),
        ({"times": {"network_gb_s": float("inf")}}, ("changes.times.network_gb_s",)),
        ({"times": {"drain_s": -1}}, ("changes.times.drain_s", "at least 0")),
        ({"times": {"load_s": 1}}, ("changes.times.load_s", "not a known key")),
        ({"limits": {"most_gpus": -1}}, ("changes.limits.most_gpus", "at least 0")),
        ({"limits": {"most_gpus": 1.5}}, ("changes.limits.most_gpus",)),
        ({"limits": {"least_running_on": 80}}, ("changes.limits.least_running_on", "at most 1")),
        ({"limits": {"turns_only": "yes"}}, ("changes.limits.turns_only",)),
        ({"limits": {"horizon_hours": 0}}, ("changes.limits.horizon_hours", "more than 0")),
        ({"limits": {"give_up": 1}}, ("changes.limits.give_up", "less than 1")),
        ({"least_share": 1.1}, ("changes.least_share", "at most 1")),
        ({"most_gpus": 8}, ("changes.most_gpus", "not a known key")),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(
    read: Read, document: Fields, section: Fields, words: tuple[str, ...], refused: Callable[..., None]
) -> None:
    refused(lambda: read(document | {"changes": section}), *words)


def test_options_win_over_the_section(read: Read, document: Fields) -> None:
    policy = read(document | {"changes": SECTION}).changes
    assert change_settings(policy.times, storage_gb_s=None, start_s=None, drain_s=None) == policy.times
    assert change_settings(policy.times, storage_gb_s=1.0, start_s=0.0) == replace(
        policy.times, storage_gb_s=1.0, start_s=0.0
    )
    assert change_limits(policy.limits, None, None, None, turns_only=None) == policy.limits
    assert change_limits(policy.limits, 0, 0.0, 1.0, turns_only=False) == ChangeLimits(
        most_gpus=0, least_running_on=0.0, horizon_hours=1.0, give_up=0.1
    )
