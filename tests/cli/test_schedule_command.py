"""`planner schedule`: a folder, a table, a page; what cannot be planned is refused."""

import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from command_line import Command
from small_schedules import RATES, SMALL_FLEET, hourly

from planner.errors import EXIT_INFEASIBLE
from planner.files import load_run

DAY = ("schedule", "fleet.yaml", "--rates", "day.csv", "--out", "day", "--quiet")


@pytest.fixture(autouse=True)
def _fleet(here: Path) -> None:
    Path("fleet.yaml").write_text(f"{SMALL_FLEET}serving: split\n")
    write_rates("day.csv", hourly().rates_rps)


def write_rates(name: str, rates: "tuple[float, ...]") -> None:
    rows = "".join(f"{3600 * hour},{rate!r}\n" for hour, rate in enumerate(rates))
    Path(name).write_text(f"window_start_s,requests_per_s\n{rows}")


def windows_of(folder: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(folder, "windows.csv").read_text().splitlines()))


def test_a_day_as_a_folder_that_every_tool_reads(planner: Command) -> None:
    answer = planner(
        *DAY, "--days", "0.5", "--replay", "--requests", "1500", "--json"
    )  # of a thousand, most windows are too short to tell
    assert (answer.status, answer.err) == (0, "")
    figures, rows = answer.json, windows_of("day")
    spent = sum(float(row["usd"]) + float(row["change_usd"]) for row in rows)
    assert figures["usd"] == pytest.approx(spent)
    assert figures["bound_usd"] <= figures["usd"] < figures["static_usd"]
    assert figures["unlimited_bound_usd"] <= figures["bound_usd"]
    assert sum(before["plan"] != row["plan"] for before, row in pairwise(rows)) == len(figures["changes"]) <= 4
    for row in rows:  # the plan of each window, read from its run folder, promises the window's rate
        plan = load_run(Path("day/plans", row["plan"]))
        assert float(row["rate_rps"]) <= plan.buckets.promise_rps
        assert float(row["usd"]) == pytest.approx(plan.price_usd_per_hour)
        assert (row["carried"], row["holds"]) == ("True", "True")
    again = planner("report", "day", "--json")
    assert again.json == figures
    shown = planner("report", "day", "--force")
    assert f"{figures['usd']:,.2f} USD" in shown.out
    assert 'data-chart="load-and-promise"' in Path("day/report.html").read_text()
    assert planner("report", "day/plans/level-1", "--no-page").status == 0
    replay = ("replay", "day/plans/level-1", "--trace", "lengths", "--requests", "200", "--quiet")
    assert planner(*replay).status == 0
    assert planner(*DAY).status == 2
    assert not Path("day/spot.csv").exists()


def test_fleets_that_follow_the_load_stand_beside_it_and_are_exported(planner: Command) -> None:
    answer = planner(*DAY, "--days", "0.5", "--changes", "1", "--autoscaled", "--json")
    assert (answer.status, answer.err) == (0, "")
    rows = {row["fleet"]: row for row in answer.json["autoscaled"]}
    assert rows["this schedule"]["usd"] == answer.json["usd"]
    assert rows["copies by load and hour"]["within"] > rows["HPA by queue, usual settings"]["within"]
    assert planner("report", "day", "--json").json == answer.json
    assert "Autoscaled" in planner("report", "day", "--force").out
    (plan,) = sorted(Path("day/plans").iterdir())[-1:]
    export = ("export", plan, "--target", "lws", "--monitoring", "--autoscaling", "keda", "--schedule", "day")
    assert planner(*export, "--time-zone", "Europe/Berlin", "--out", "hours").status == 0
    scalers = list(yaml.safe_load_all(Path("hours/autoscaling.yaml").read_text()))
    assert "Europe/Berlin" in Path("hours/autoscaling.yaml").read_text()
    assert any(row["type"] == "cron" for scaler in scalers for row in scaler["spec"]["triggers"])
    assert planner("export", "--check", "hours", plan).status == 0
    edited = Path("hours/autoscaling.yaml").read_text().replace("maxReplicaCount: ", "maxReplicaCount: 1", 1)
    Path("hours/autoscaling.yaml").write_text(edited)
    assert planner("export", "--check", "hours", plan).status == 2
    refused = planner("export", plan, "--target", "lws", "--schedule", "day", "--out", "no")
    assert (refused.status, "goes with autoscalers" in refused.err) == (2, True)


def test_autoscaled_copies_are_paid_by_the_hour(planner: Command) -> None:
    answer = planner(*DAY, "--days", "0.2", "--changes", "1", "--tariff", "owned", "--autoscaled")
    assert (answer.status, "paid by the hour" in answer.err) == (2, True)
    assert not Path("day").exists()


def test_owned_gpus_leave_room_for_spot(planner: Command) -> None:
    """What servers do not have of sixteen GPUs, hour by hour; beside a change fewer, as others load or drain."""
    assert planner(*DAY, "--tariff", "owned", "--changes", "1").status == 0
    free = list(csv.DictReader(Path("day/spot.csv").read_text().splitlines()))
    serving = [sum(load_run(Path("day/plans", row["plan"])).fleet.values()) for row in windows_of("day")]
    assert [(int(row["hour"]), row["gpu"]) for row in free] == [(hour, "H20") for hour in range(24)]
    rows = json.loads(Path("day/schedule.json").read_text())["windows"]
    changing = [row.get("changing", {}).get("H20", 0) for row in rows]
    assert [int(row["spot_gpus"]) for row in free] == [16 - sum(both) for both in zip(serving, changing, strict=True)]
    beside = {hour + k for hour in range(1, 24) if serving[hour] != serving[hour - 1] for k in (-1, 0)}
    assert {hour for hour, gpus in enumerate(changing) if gpus} <= beside
    assert any(changing)


def test_a_forecast_is_judged_on_the_days_that_it_did_not_know(planner: Command) -> None:
    rates = hourly().rates_rps
    write_rates("days.csv", (*rates, *(0.9 * rate for rate in rates)))
    arguments = ("schedule", "fleet.yaml", "--rates", "days.csv", "--forecast", "last-day", "--out", "two")
    answer = planner(*arguments, "--headroom", "0", "--changes", "2", "--json")
    assert (answer.status, answer.err) == (0, "")
    assert (answer.json["windows"], answer.json["carried_share"]) == (24, 1.0)
    assert answer.json["usd"] > answer.json["foresight_usd"] >= answer.json["bound_usd"]
    assert json.loads(Path("two/schedule.json").read_text())["forecast"] == "last-day"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rates", "gap.csv"), "gap.csv: must have a rate for every window; 1 of them are missing, the first after"),
        (("--rates", str(RATES)), "holds the rates of 2 pools: deepseek-r1, m-mid"),
        (("--rates", str(RATES), "--pool", "m-tiny"), "holds no pool 'm-tiny'"),
        (("--rates", "none.csv"), "none.csv: there is no such file"),
        (("--changes", "-1"), "must be 0 or more, got -1"),
        (("--set", "prices_usd_per_gpu_hour.H20=0"), "H20 costs nothing"),
        (("--set", "routing.form=table"), "routing.form must be buckets for a schedule"),
        (("--tariff", "owned", "--idle-share", "2"), "idle_share must be a number of at least 0 and at most 1, got 2"),
        (("--reserved-discount", "1"), "reserved_discount must be"),
        (("--usd-per-kwh", "nan"), "usd_per_kwh must be"),
        (("--forecast", "last-day"), "must have rates of more than 1 days"),
        (("--forecast", "last-day", "--every", "0"), "every_hours must be"),
        (("--headroom", "0.1"), "--headroom: is planned above a forecast"),
        (("--bursty",), "--bursty: goes with a replay"),
        (("--days", "3"), "up to day 3, got 1"),
        (("--from", "1"), "must lie within the 1 days"),
        (("--replay", "--requests", "0"), "must have 1 to 10,000,000 requests"),
        (("--from", "nan"), "the days must be numbers, got from nan"),
        (
            ("--rates", str(RATES), "--pool", "m-mid", "--from", "0.0209", "--days", "0.0139"),
            "must have requests in the",
        ),
        (("--changes", "1000000000"), "must be at most 1000, got 1000000000"),
    ],
)
def test_what_cannot_be_planned_is_refused(planner: Command, arguments, words) -> None:
    Path("gap.csv").write_text("time_s,rps\n0,1\n3600,2\n10800,2\n")
    answer = planner(*DAY, *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert words in " ".join(answer.err.split())
    assert not Path("day").exists()


def test_gaps_are_filled_where_that_is_asked_for_and_days_are_cut_out(planner: Command) -> None:
    Path("gap.csv").write_text("time_s,rps\n0,30\n21600,20\n64800,4\n86400,4\n108000,30\n")
    answer = planner(*DAY, "--rates", "gap.csv", "--gaps", "interpolate", "--from", "0.25", "--days", "0.75")
    assert answer.status == 0
    assert [float(row["rate_rps"]) for row in windows_of("day")] == [20, 12, 4]


def test_rates_beyond_the_fleet_are_infeasible_and_leave_nothing(planner: Command) -> None:
    write_rates("day.csv", hourly(peak_rps=400.0).rates_rps)
    answer = planner(*DAY)
    assert answer.status == EXIT_INFEASIBLE
    assert "needs 400 requests/s, which no fleet of the inventory promises" in " ".join(answer.err.split())
    assert not Path("day").exists()


def test_a_folder_that_holds_something_else_is_left_alone(planner: Command) -> None:
    Path("day").mkdir()
    Path("day/thesis.txt").write_text("mine")
    answer = planner(*DAY, "--force")
    assert answer.status == 2
    assert Path("day/thesis.txt").read_text() == "mine"
