"""Folders of schedules: what is written is read, and what was edited is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_schedules import small_schedule

from planner.domain.schedules import ReplayedRung, Schedule, Tariff, TariffKind
from planner.errors import InputError
from planner.files import encode_plan
from planner.files.plan.stored_schedules import level_names, load_schedule, schedule_text


def write(folder: Path, schedule: Schedule) -> Path:
    for name, level in zip(level_names(schedule), schedule.levels, strict=True):
        (folder / "plans" / name).mkdir(parents=True)
        (folder / "plans" / name / "plan.json").write_bytes(encode_plan(level.plan))
    (folder / "schedule.json").write_bytes(schedule_text(schedule))
    return folder


RUNG = ReplayedRung(level=0, share=0.9, rate_rps=3.0, burstiness=1.0, windows=2, holds=True, within_levels=1.0)
FULL = {
    "tariff": Tariff(kind=TariffKind.OWNED, spot_share=0.0),
    "reserved": (("H20", 8),),
    "forecast": "last-day",
    "foresight_usd": 12.5,
    "emergencies": (3, 5),
    "thin_windows": (4,),
    "replayed": (RUNG,),
}


@pytest.mark.parametrize("changes", [{}, FULL], ids=["plain", "full"])
def test_what_is_written_is_read(tmp_path, changes) -> None:
    schedule = replace(small_schedule(), **changes)
    if changes:
        windows = tuple(
            replace(window, holds=number % 2 == 0, changing=(("H20", 3),) * (number == 2))
            for number, window in enumerate(schedule.windows)
        )
        schedule = replace(schedule, windows=windows)
    again = load_schedule(write(tmp_path, schedule))
    plans = [level.plan for level in schedule.levels]
    assert [encode_plan(level.plan) for level in again.levels] == list(map(encode_plan, plans))
    levels = tuple(replace(level, plan=plan) for level, plan in zip(again.levels, plans, strict=True))
    assert replace(again, levels=levels) == schedule
    assert schedule_text(again) == schedule_text(schedule)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("usd", 1.0, "usd: must be as it was written, got 1"),
        ("most_changes_a_day", 5, "most_changes_a_day: must be as it was written"),
        ("schema_version", 2, "schema_version: must be as it was written, got 2"),
        ("extra", 1, "extra"),
        ("digests", {}, "digests.plan: must be a digest, is missing"),
        ("digests", {"plan": 3}, "digests.plan: must be a digest, got 3"),
        ("digests", [1], "digests: must be a mapping of digests"),
    ],
)
def test_an_edited_schedule_is_refused(tmp_path, key, value, words) -> None:
    file = write(tmp_path, small_schedule()) / "schedule.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(InputError, match=words) as caught:
        load_schedule(tmp_path)
    assert "schedule.json" in caught.value.message


def test_another_plan_in_the_place_of_a_level_is_refused(tmp_path) -> None:
    write(tmp_path, small_schedule())
    (tmp_path / "plans/level-1/plan.json").write_bytes((tmp_path / "plans/level-2/plan.json").read_bytes())
    with pytest.raises(InputError, match="level-1: must be the plan that the schedule was made of"):
        load_schedule(tmp_path)
    (tmp_path / "plans/level-1/plan.json").unlink()
    with pytest.raises(InputError, match=r"level-1/plan\.json: cannot be read"):
        load_schedule(tmp_path)


def test_a_folder_without_a_schedule_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"schedule\.json: there is no such file"):
        load_schedule(tmp_path)
