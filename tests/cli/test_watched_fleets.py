"""`planner watch` of a fleet's folder: one look at the loads of its services, and what comes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command
from small_fleets import FLEET, small_fleet

from planner.errors import EXIT_BAD_INPUT
from planner.files.plan.fleet_document import load_fleet_run
from planner.runs.fleets import publish_fleet, write_fleet


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small fleet, with a node that nobody has; nobody changes it."""
    folder = tmp_path_factory.mktemp("watched") / "company"
    planned, inventory = small_fleet(), small_fleet().fleet.inventory
    items = tuple(replace(i, count=i.count + 8 * (i.gpu.name == "H20")) for i in inventory.items)
    larger = replace(inventory, items=items)
    services = tuple(
        replace(row, scenarios=tuple(replace(posed, inventory=larger) for posed in row.scenarios))
        for row in planned.fleet.services
    )
    spare = replace(planned, fleet=replace(planned.fleet, inventory=larger, services=services))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)
        write_fleet(folder, publish_fleet(spare, figures=False))
    return folder


def feed(**rates: list[float]) -> None:
    """Minutes of rates by service."""
    rows = [f"{60 * k},{name},{rate}" for name, values in rates.items() for k, rate in enumerate(values)]
    Path("loads.csv").write_text("\n".join(["time_s,service,requests_per_s", *rows, ""]))


def promised() -> dict[str, float]:
    return {share.service: share.promised_rps for share in small_fleet().shares}


def test_a_fleet_that_keeps_its_promises_stands(planner: Command, written: Path, here: Path) -> None:
    rates = promised()
    # a minute's peak above the promise is no median of five
    feed(chat=[0.5 * rates["chat"]] * 8 + [1.4 * rates["chat"], 20.0], oss=[20.0] * 10)
    answer = planner("watch", written, "--feed", "loads.csv", "--once", "--out", "next", "--json")
    assert answer.status == 0
    assert (answer.json["verdict"], answer.json["cause"], answer.json["folder"]) == ("keep", None, None)
    row = answer.json["services"][0]
    assert (row["service"], row["load_rps"]) == ("chat", pytest.approx(0.5 * rates["chat"]))
    assert row["highest_rps"] == pytest.approx(1.4 * rates["chat"])
    assert not Path("next").exists()
    assert (
        "The fleet stands: chat takes most, 50 %"
        in planner("watch", written, "--feed", "loads.csv", "--once", "--out", "next").out
    )


def test_a_load_beyond_a_promise_divides_anew(planner: Command, written: Path, here: Path) -> None:
    load = 1.1 * promised()["oss"]
    chat = 0.85 * promised()["chat"]
    feed(chat=[chat] * 10, oss=[load] * 10)
    answer = planner("watch", written, "--feed", "loads.csv", "--once", "--headroom", "0.1", "--out", "next", "--json")
    assert answer.status == 0, answer.err
    assert (answer.json["verdict"], answer.json["cause"]) == ("replan", "load")
    after = load_fleet_run(Path("next"))
    assert after.fleet.service("oss").demand_rps == pytest.approx(1.1 * load)
    assert after.fleet.service("chat").demand_rps == pytest.approx(1.1 * chat)
    assert {share.service: share.promised_rps for share in after.shares}["oss"] > load
    assert Path("next/steps.md").is_file()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--once: must be given for the folder of a fleet"),
        (("--once", "--simulate"), "--simulate: must be left out"),
        (("--once", "--feed", "loads.csv"), "--feed: must be one file"),
    ],
)
def test_what_is_no_look_at_a_fleet_is_refused(
    planner: Command, written: Path, here: Path, flags: tuple[str, ...], words: str
) -> None:
    feed(chat=[10.0] * 10, oss=[20.0] * 10)
    answer = planner("watch", written, "--feed", "loads.csv", "--out", "next", *flags)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err


def test_a_service_without_a_load_is_refused(planner: Command, written: Path, here: Path) -> None:
    feed(chat=[10.0] * 10, mail=[20.0] * 10)
    answer = planner("watch", written, "--feed", "loads.csv", "--once", "--out", "next")
    assert answer.status == EXIT_BAD_INPUT
    assert "oss" in answer.err


def test_a_fleet_for_least_rent_changes_where_that_saves(planner: Command, here: Path) -> None:
    """Near loads save nothing, small ones most of the rent."""
    document = FLEET.replace("workload:", "objective: {kind: target}\nworkload:", 1).replace(
        "demand: 20", "demand: 200"
    )
    Path("fleet.yaml").write_text(document)
    assert planner("plan", "fleet.yaml", "--out", "company", "--quiet").status == 0
    rent = load_fleet_run(Path("company")).rent_usd_per_hour
    line = ("watch", "company", "--feed", "loads.csv", "--once", "--headroom", "0.1", "--json")
    feed(chat=[182.0] * 10, oss=[182.0] * 10)
    answer = planner(*line, "--out", "next")
    assert (answer.status, answer.json["verdict"]) == (0, "keep"), answer.err
    assert not Path("next").exists()
    feed(chat=[1.0] * 10, oss=[1.0] * 10)
    smaller = planner(*line, "--out", "smaller")
    assert (smaller.json["verdict"], smaller.json["cause"]) == ("replan", "saving")
    assert load_fleet_run(Path("smaller")).rent_usd_per_hour <= 0.9 * rent
