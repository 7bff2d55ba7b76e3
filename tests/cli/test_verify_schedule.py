"""`planner verify` of a schedule: its money from the plans that stand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plain_pictures import copied_pictures
from small_schedules import hourly, small_fleet

from planner import files, pipeline
from planner.domain import ServingForm
from planner.domain.changes import ChangeSettings
from planner.domain.comparisons import Verification
from planner.domain.schedules import Schedule, Tariff, TariffKind
from planner.files.plan.digests import sealed
from planner.replanning.schedules.scheduling import best_schedule
from planner.runs.replanning.scheduling import schedule_files
from planner.runs.verifying import folders


def first_hours(tariff: Tariff) -> Schedule:
    """Four windows of the small fleet's day."""
    fleet = replace(small_fleet(), serving=ServingForm.SPLIT)
    return best_schedule(fleet, hourly().part(0, 4), tariff, ChangeSettings(), 4, planner=pipeline.plan)


@pytest.fixture
def _plans_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plans are verified as any run is, which is tested elsewhere."""
    monkeypatch.setattr(folders, "verify_run", lambda *_, **__: Verification(files=(), differences=()))


@pytest.mark.usefixtures("_plans_apart")
def test_rents_and_their_sum_follow_from_the_plans(here: Path) -> None:
    with copied_pictures():
        files.write_folder(here / "day", schedule_files(first_hours(Tariff())))
        sound = folders.verify(here / "day")
        assert (sound.differences, sound.unchecked) == ((), (folders.MONEY,))
        path = here / "day/schedule.json"
        document = json.loads(path.read_text())
        document["windows"][3]["usd"] += 1.0
        document["usd"] *= 0.99
        path.write_text(json.dumps(sealed(document), ensure_ascii=False))
        keys = [row.key for row in folders.verify(here / "day").differences if row.file == "schedule.json"]
    assert keys == ["usd", "windows.3.usd"]


@pytest.mark.parametrize("kind", [TariffKind.RESERVED, TariffKind.OWNED])
def test_rents_of_other_tariffs(kind: TariffKind) -> None:
    """What is reserved is paid in every window; of owned GPUs the sum alone is held, and the rest told."""
    tariff = Tariff(kind=kind)
    schedule = first_hours(tariff)
    assert folders.rent_differences(schedule) == []
    cheaper = replace(schedule, tariff=replace(tariff, reserved_discount=0.9))
    assert bool(folders.rent_differences(cheaper)) == (kind is TariffKind.RESERVED)
    assert [row.key for row in folders.rent_differences(replace(schedule, usd=schedule.usd + 1))] == ["usd"]
