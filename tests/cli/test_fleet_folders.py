"""Commands of runs on the folder of a fleet: exported, replayed, placed, scheduled, held beside another."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from command_line import Command
from small_fleets import FLEET, curved_fleet, small_fleet

from planner import pipeline
from planner.domain.fleets import FleetPlan
from planner.errors import EXIT_BAD_INPUT, EXIT_FAILURE
from planner.files.plan.fleet_document import load_fleet_run
from planner.files.scenario.fleets import load_fleet
from planner.runs.fleets import publish_fleet, write_fleet
from planner.workload import summarize


def saved(plan: FleetPlan, folder: str) -> Path:
    write_fleet(Path(folder), publish_fleet(plan, figures=False))
    return Path(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small fleet with a curve, written once; nobody changes it."""
    folder = tmp_path_factory.mktemp("fleets") / "company"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)
        return saved(curved_fleet(), str(folder))


def table(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_a_fleet_is_exported(planner: Command, written: Path, here: Path) -> None:
    answer = planner("export", written, "--target", "lws", "--queues", "--out", "manifests", "--json")
    assert answer.json["targets"] == {"chat": "lws", "oss": "lws"}
    folder = Path("manifests")
    assert {path.name for path in folder.iterdir()} == {"chat", "oss", "fleet"}
    assert {str(path) for path in folder.rglob("*") if path.is_file()} == set(answer.json["files"])
    front = list(yaml.safe_load_all((folder / "fleet/front.yaml").read_text()))
    assert any("oss" in json.dumps(row) and "chat" in json.dumps(row) for row in front)
    again = planner("export", written, "--target", "lws", "--out", "manifests")
    assert again.status == EXIT_BAD_INPUT  # nothing is overwritten unasked


def test_every_service_is_replayed(planner: Command, written: Path) -> None:
    answer = planner("replay", written, "--requests", "1500", "--seeds", "1", "--rate", "0.5x", "--strict", "--json")
    assert answer.status == 0
    fleet = small_fleet()
    margin = fleet.parts[0].deployment.promised
    assert answer.json["share"] == pytest.approx(0.5 / margin)
    assert answer.json["holds"] is True
    rates = {row["Service"]: row["requests/s"] for row in answer.json["services"]}
    assert rates == {part.name: pytest.approx(0.5 * part.plan.throughput_rps, rel=0.04) for part in fleet.parts}
    broken = planner("replay", written, "--requests", "1500", "--seeds", "1", "--rate", "1.6x", "--strict", "--quiet")
    assert broken.status == 3
    assert "break" in broken.out


def test_a_fleet_is_placed(planner: Command, written: Path, here: Path) -> None:
    made = planner("cluster", "synth", "--nodes", "8", "--type", "H200=0.5", "--type", "H20=0.5", "--load", "0",
                   "--out", "nodes.json")  # fmt: skip
    assert made.status == 0
    answer = planner("place", written, "--cluster", "nodes.json", "--out", "placed", "--json")
    assert answer.status == 0
    nodes = [row["nodes"].split(", ") for row in answer.json["deployments"]]
    assert len({node for row in nodes for node in row}) == sum(map(len, nodes)) == 4  # each has its own
    placed = load_fleet_run(Path("placed"))
    assert all(part.plan.placement is not None for part in placed.parts)
    assert [share.promised_rps for share in placed.shares] == [part.promise_rps for part in placed.parts]
    assert planner("verify", "placed", "--json").json["agrees"]
    refused = planner("place", written, "--cluster", "nodes.json")
    assert refused.status == EXIT_BAD_INPUT
    assert "--out: must be given" in refused.err


def test_a_fleet_is_scheduled(planner: Command, written: Path, here: Path) -> None:
    answer = planner("schedule", written, "--out", "day", "--replay", "--requests", "200", "--json")
    assert answer.status == 0
    assert answer.json["days"] == 1
    week = pipeline.schedule_fleet(curved_fleet())
    assert answer.json["gained_tokens_a_day"] == week.gained_tokens_a_day
    assert [row["deployment"] for row in answer.json["levels"]] == ["chat", "oss"]
    assert {row["holds"] for row in answer.json["replays"]} == {True}
    assert sorted(path.name for path in Path("day").iterdir()) == [
        "levels.csv", "replays.csv", "report.html", "schedule.md", "windows.csv",
    ]  # fmt: skip
    rows = table("day/windows.csv")
    assert len(rows) == 24
    assert {float(row["rate_rps chat"]) for row in rows} == {5.0, 11.0, 20.0}
    flat = planner("schedule", saved(small_fleet(), "flat"), "--out", "none")
    assert (flat.status, Path("none").exists()) == (EXIT_BAD_INPUT, False)
    assert "must have a curve of rates" in flat.err


def test_fleets_stand_beside_each_other(planner: Command, written: Path, here: Path) -> None:
    fleet = small_fleet()
    chat, oss = fleet.parts
    other = replace(fleet, parts=(chat, replace(oss, gpus=(("H200", 8),))), value=fleet.value / 2)
    saved(other, "other")
    answer = planner("compare", written, "other", "--csv", "fleets.csv", "--html", "fleets.html")
    assert answer.status == 0
    assert f"The best value has company: {fleet.value:.4g} times the demands" in answer.out
    rows = table("fleets.csv")
    assert [row["fleet"] for row in rows] == ["company", "other"]
    assert [row["idle"] for row in rows] == ["none", "8 H20"]
    assert float(rows[0]["chat_rps"]) == pytest.approx(chat.promise_rps)
    assert "Fleets beside each other" in Path("fleets.html").read_text()
    mixed = planner("compare", written, written / "services/chat")
    assert (mixed.status, "must be the folder of a fleet" in mixed.err) == (EXIT_BAD_INPUT, True)


def test_what_changes_hands_is_told(planner: Command, written: Path, here: Path) -> None:
    fleet = small_fleet()
    chat, oss = fleet.parts
    saved(replace(fleet, parts=(chat, replace(oss, gpus=(("H200", 8),)))), "other")
    answer = planner("diff", written, "other", "--json", "--exit-code")
    assert answer.status == EXIT_FAILURE
    assert answer.json["gpus"] == [
        {"deployment": "oss", "gpu": "H20", "before": 8, "after": 0},
        {"deployment": "nobody", "gpu": "H20", "before": 0, "after": 8},
    ]
    assert [row["gpus"] for row in answer.json["services"]] == ["8 H20, 8 H200", "8 H200"]
    same = planner("diff", written, written, "--exit-code")
    assert same.status == 0
    assert "No node changes hands" in same.out
    assert planner("diff", written, written / "services/chat").status == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("export {} --out m --namespace serving", "--namespace: must be left out"),
        ("replay {} --sweep", "--sweep: must be left out"),
        ("replay {} --rate 20", "--rate: must be promise or such as 0.9x"),
        ("schedule {} --out d --tariff owned", "--tariff: must be left out"),
        ("compare {} {} --sort rate", "--sort: must be left out"),
        ("export {}/services/chat --out m --queues", "--queues: goes with the folder of a fleet"),
    ],
)
def test_what_does_not_go_with_fleets_is_refused(
    planner: Command, written: Path, here: Path, line: str, words: str
) -> None:
    answer = planner(*line.replace("{}", str(written)).split())
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err
    assert list(here.iterdir()) == []


def test_what_growth_costs(planner: Command, here: Path) -> None:
    Path("fleet.yaml").write_text(FLEET)
    answer = planner("frontier", "fleet.yaml", "--points", "3", "--out", "growth", "--json")
    assert answer.status == 0
    rows = answer.json["points"]
    value = small_fleet().value
    assert [row["multiple"] for row in rows] == [pytest.approx(value * k / 3, rel=0.02) for k in (1, 2, 3)]
    rents = [row["rent_usd_per_hour"] for row in rows]
    assert rents == sorted(rents)
    assert rents[-1] == 80  # all of the GPUs
    for row in rows:
        assert row["bound_usd_per_hour"] <= row["rent_usd_per_hour"] * (1 + 1e-9)
    # the first is what planning for that demand comes to
    target = FLEET.replace("demand: 20", f"demand: {20 * rows[0]['multiple']}").replace(
        "workload:", "objective: {kind: target}\nworkload:", 1
    )
    Path("target.yaml").write_text(target)
    fleet = load_fleet(Path("target.yaml"), summarize)
    assert fleet is not None
    assert pipeline.plan_fleet(fleet).value == rents[0]
    assert {path.name for path in Path("growth").iterdir()} == {"frontier.csv", "frontier.md", "frontier.html"}


@pytest.mark.parametrize(
    ("document", "points", "words"),
    [
        (FLEET, "1", "--points: must be 2 to 100 of a fleet, got 1"),
        (FLEET.replace("{H200: 4, H20: 1}", "{H200: null, H20: 1}"), "3", "must have a price for every type"),
        (FLEET.replace("  - {name: oss", "  # {name: oss"), "3", "must be several for a curve of all demands"),
    ],
)
def test_what_has_no_curve_of_growth_is_refused(
    planner: Command, here: Path, document: str, points: str, words: str
) -> None:
    Path("fleet.yaml").write_text(document)
    answer = planner("frontier", "fleet.yaml", "--points", points, "--out", "growth")
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err
    assert not Path("growth").exists()
