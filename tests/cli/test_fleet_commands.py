"""Several services on one inventory at the command line: planned, checked, reported, verified, or refused."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import Command
from plain_pictures import copied_pictures
from small_fleets import FLEET

from planner.errors import EXIT_BAD_INPUT, EXIT_INFEASIBLE, EXIT_INTERRUPTED
from planner.files import load_run
from planner.files.plan.fleet_document import folder_of, load_fleet_run
from planner.runs.batches.jobs import Job
from planner.runs.fleets import fleet_of, run_fleet

ENTRIES = ["fleet.json", "nodes.csv", "services", "services.csv", "summary.md"]


@pytest.fixture(autouse=True)
def _file(here: Path) -> None:
    Path("fleet.yaml").write_text(FLEET)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small fleet, written once."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet.yaml").write_text(FLEET)
    job = Job(scenario=folder / "fleet.yaml", folder=folder / "run")
    fleet = fleet_of(job)
    assert fleet is not None
    with copied_pictures(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)
        run_fleet(job, fleet)
    return folder / "run"


@pytest.fixture
def run(written: Path, here: Path) -> Path:
    """A copy of it in the current folder."""
    shutil.copytree(written, here / "run")
    return Path("run")


def test_a_fleet_is_planned_into_one_folder(planner: Command, written: Path) -> None:
    answer = planner("plan", "fleet.yaml", "--set", "services.oss.demand=40", "--seed", "3", "--engine", "vllm")
    assert answer.status == 0
    folder = Path("runs/fleet")
    assert sorted(path.name for path in folder.iterdir()) == ENTRIES
    fleet = load_fleet_run(folder)
    assert [row.demand_rps for row in fleet.shares] == [20, 40]
    for part in fleet.plans:
        plan = load_run(folder / folder_of(part))
        assert plan.scenario.search.seed == 3
        assert {gpu: count for gpu, count in part.gpus if count} == {
            item.gpu.name: item.count for item in plan.scenario.inventory.items
        }
        written_before = sorted(path.name for path in (written / "services/chat").iterdir())
        assert sorted(path.name for path in (folder / folder_of(part)).iterdir()) == written_before
    assert "planning oss" in answer.err
    *_, promise, _, place = answer.out.strip().split("\n")
    assert "its demand, all at once" in promise
    assert place.startswith("Written to runs/fleet")


def test_json_is_the_document(planner: Command, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load_fleet_run(written)
    monkeypatch.setattr("planner.runs.fleets.run_fleet", lambda *_arguments: (stored, ("chat: strange",)))
    answer = planner("plan", "fleet.yaml", "--json")
    assert (answer.status, answer.err.strip()) == (0, "warning: chat: strange")
    assert answer.json["value"] == stored.value
    assert (answer.json["folder"], answer.json["status"]) == ("runs/fleet", 0)
    assert [row["service"] for row in answer.json["services"]] == ["chat", "oss"]


def test_a_fleet_is_checked_without_planning(planner: Command) -> None:
    answer = planner("check", "fleet.yaml")
    assert answer.status == 0
    assert "16 H20, 16 H200 would be divided" in answer.out
    facts = planner("check", "fleet.yaml", "--json").json
    assert [row["name"] for row in facts["deployments"]] == ["chat", "oss", "nightly"]
    assert facts["services"][0]["demand_rps"] == 20
    assert facts["services"][2]["tokens_a_day"] == 1_000_000_000


def test_its_page_leads_to_those_of_its_deployments(planner: Command, run: Path) -> None:
    assert planner("report", run).status == 0
    page = (run / "report.html").read_text()
    for name in ("chat", "oss"):
        assert f'href="services/{name}/report.html"' in page
        assert (run / "services" / name / "report.html").is_file()
    assert planner("report", run).status == 0  # one of the same is replaced
    answer = planner("report", run, "--out", "told", "--json")
    assert answer.json["value"] == load_fleet_run(run).value
    assert sorted(path.name for path in Path("told").iterdir()) == ["report.html", "services", "summary.md"]


def test_commands_of_runs_take_its_deployments(planner: Command, run: Path) -> None:
    assert planner("export", run / "services/chat", "--out", "manifests").status == 0
    answer = planner("explain", run)
    assert answer.status == EXIT_BAD_INPUT
    assert "Give one of its deployments, such as run/services/chat" in answer.err


def test_a_fleet_is_verified(planner: Command, run: Path) -> None:
    text = (run / "services.csv").read_text()
    (run / "services.csv").write_text(text.replace("oss,20", "oss,21"))
    answer = planner("verify", run, "--json")
    assert answer.status == EXIT_BAD_INPUT
    assert {row["file"] for row in answer.json["differences"]} == {"services.csv"}  # all else comes out again
    assert {"fleet.json", "summary.md", "services/oss/plan.json"} <= set(answer.json["files"])
    assert any("how the nodes were divided" in sentence for sentence in answer.json["unchecked"])
    anew = planner("verify", run, "--search", "--json")
    assert {row["file"] for row in anew.json["differences"]} == {"services.csv"}  # so does the division
    assert not any("how the nodes were divided" in sentence for sentence in anew.json["unchecked"])


def test_demands_that_cannot_be_met_are_told_with_what_would_do(planner: Command) -> None:
    Path("far.yaml").write_text(
        FLEET.replace("demand: 20}", "demand: 400}").replace("workload:", "objective: {kind: target}\nworkload:", 1)
    )
    answer = planner("plan", "far.yaml", "--quiet")
    assert answer.status == EXIT_INFEASIBLE
    assert "cannot be met together" in answer.err
    assert "% of every demand" in answer.err
    assert "Add " in answer.err
    assert not Path("runs/far").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (FLEET.replace("gpt-oss-20b, demand", "gpt-oss-2, demand"), "oss: model"),
        (FLEET.replace("demand: 20}", "demand: -1}", 1), "demand"),
        (FLEET.replace("name: oss", "name: chat"), "chat twice"),
        (FLEET.replace("demand: 20}", "demand: 20, wieght: 2}", 1), "wieght"),
        (FLEET.replace("demand: 20}", "demand: 20, shares: nobody}", 1), "shares"),
        (FLEET + "cluster: cluster.yaml\n", "cluster"),
    ],
)
def test_bad_input_names_its_key(planner: Command, text: str, named: str) -> None:
    Path("bad.yaml").write_text(text)
    answer = planner("plan", "bad.yaml", "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert answer.err.startswith("error: bad.yaml")
    assert named in answer.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "fleet.yaml", "quickstart"), "Plan it by itself: planner plan fleet.yaml"),
        (("plan", "fleet.yaml", "--resume", "runs/fleet"), "got a fleet"),
        (("plan", "fleet.yaml", "--set", "services.nobody.demand=4"), "there is no nobody among chat, oss, nightly"),
        (("serving", "fleet.yaml", "--out", "f"), "a scenario of one service, got a fleet"),
    ],
)
def test_what_takes_one_service_says_so(planner: Command, arguments: tuple[str, ...], words: str) -> None:
    answer = planner(*arguments)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err


def test_a_result_is_replaced_with_force_alone(planner: Command, run: Path) -> None:
    before = (run / "fleet.json").read_bytes()
    answer = planner("plan", "fleet.yaml", "--out", run, "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert "--force" in answer.err
    assert (run / "fleet.json").read_bytes() == before
    (run / "notes.txt").write_text("mine")
    assert planner("plan", "fleet.yaml", "--out", run, "--quiet", "--force").status == EXIT_BAD_INPUT
    assert (run / "notes.txt").read_text() == "mine"


def test_an_interrupt_leaves_nothing(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.proposing.fleets.planning.divided", interrupted)
    assert planner("plan", "fleet.yaml", "--quiet").status == EXIT_INTERRUPTED
    assert not Path("runs").exists()


TYPED = (
    *("--service", "chat=qwen3-30b-a3b-fp8:azure-conv-2023:20", "--service", "oss=gpt-oss-20b:azure-conv-2023"),
    *("--inventory", "H200=8,H20=8", "--ttft", "1s", "--tpot", "30ms"),
)


def test_a_fleet_begins_from_one_line(planner: Command) -> None:
    answer = planner("init", "begun.yaml", "--services", *TYPED)
    assert answer.status == 0, answer.err
    facts = planner("check", "begun.yaml", "--json").json
    assert [row["service"] for row in facts["services"]] == ["chat", "oss"]
    assert facts["services"][0]["demand_rps"] == 20
    assert facts["services"][1]["ttft_ms"] == 1000
    text = Path("begun.yaml").read_text()
    assert "# objective: {kind: target}" in text
    assert planner("init", "begun.yaml", *TYPED).status == EXIT_BAD_INPUT  # it is there


def test_what_gpus_do_for_several_services(planner: Command) -> None:
    answer = planner("max", *TYPED, "--scenario", "asked.yaml", "--out", "run", "--json")
    assert answer.status == 0, answer.err
    assert answer.json["value"] > 1
    assert load_fleet_run(Path("run")).value == answer.json["value"]
    assert planner("check", "asked.yaml", "--quiet").status == 0
    assert json.loads(Path("run/fleet.json").read_text())["name"] == "max"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("max", "--service", "chat=x", "--inventory", "H20=8"), "--service: must be NAME=MODEL:WORKLOAD"),
        (("max", "--service", "c=gpt-oss-20b:azure-conv-2023:x", "--inventory", "H20=8"), "DEMAND must be requests/s"),
        (("max", *TYPED, "--model", "gpt-oss-20b"), "--model: goes without --service"),
        (("init", "x.yaml", "--services", "--inventory", "H20=8"), "--service must be given"),
        (("init", "x.yaml", *TYPED, "--rps", "3"), "--rps: goes without --service"),
        (("max", "--inventory", "H20=8"), "--model"),
        (("cheapest", "--service", "c=gpt-oss-20b:azure-conv-2023"), "c: must have a demand, got none"),
        (("cheapest", "--service", "c=gpt-oss-20b:azure-conv-2023:9", "--rps", "3"), "--rps: goes without --service"),
        (("cheapest", "--model", "gpt-oss-20b", "--workload", "azure-conv-2023"), "--rps"),
    ],
)
def test_lines_that_say_no_fleet_are_refused(planner: Command, arguments: tuple[str, ...], words: str) -> None:
    answer = planner(*arguments)
    assert answer.status == EXIT_BAD_INPUT
    assert words in answer.err


def test_what_several_services_cost(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("offer.yaml").write_text("gpus: {H200: {usd_per_hour: 4}, H20: {usd_per_hour: 1}}\n")
    services = [word if word != "oss=gpt-oss-20b:azure-conv-2023" else f"{word}:60" for word in TYPED[:4]]
    answer = planner("cheapest", *services, "--offer", "offer.yaml", "--ttft", "1s", "--tpot", "30ms", "--json")
    assert answer.status == 0, answer.err
    assert all(row["promised_rps"] >= row["demand_rps"] * 0.999 for row in answer.json["services"])
    assert answer.json["value"] == answer.json["rent_usd_per_hour"] == 24  # of oss, a node of H20 promises 55.8
    # an offer that is too small for the least rent is found out, and raised
    monkeypatch.setattr("planner.runs.questions.services.first_rent", lambda *_terms: 1.0)
    again = planner("cheapest", *services, "--offer", "offer.yaml", "--ttft", "1s", "--tpot", "30ms", "--json")
    assert again.json["value"] == 24
