"""A fleet's folder changed at the command line: the new folder with its steps, or a refusal that leaves nothing."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import Command
from plain_pictures import copied_pictures
from small_fleets import FLEET, small_fleet

import planner as planner_api
from planner import pipeline
from planner.domain.serving.fleets.changes import FleetChange, FleetTerms
from planner.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INFEASIBLE, InfeasibleError, InputError
from planner.files.plan.fleet_document import load_fleet_run
from planner.runs.fleets import publish_fleet, write_fleet
from planner.runs.replanning.fleets import asked_of_fleet

MORE_CHAT = ("--set", "services.chat.demand=60")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small fleet, written once."""
    folder = tmp_path_factory.mktemp("fleet") / "run"
    with copied_pictures(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.runs.replays.router_losses._REQUESTS", 200)
        write_fleet(folder, publish_fleet(small_fleet(), figures=False))
    return folder


@pytest.fixture
def run(written: Path, here: Path) -> Path:
    """A copy of it in the current folder."""
    shutil.copytree(written, here / "run")
    return Path("run")


def test_what_stays_has_its_files_from_the_old_folder(planner: Command, run: Path) -> None:
    Path("fleet.yaml").write_text(FLEET)
    answer = planner("replan", "run", "--out", "new", "--scenario", "fleet.yaml")
    assert answer.status == EXIT_DONE
    assert "No node changes hands; 25 of 25 servers run on" in answer.out
    assert answer.out.strip().endswith("Written to new")
    for place in ("services/chat", "services/oss"):
        old, new = (
            {p.relative_to(top): p.read_bytes() for p in (top / place).rglob("*") if p.is_file()}
            for top in (run, Path("new"))
        )
        assert {name.relative_to(place): text for name, text in old.items()} == {
            name.relative_to(place): text for name, text in new.items()
        }
    assert load_fleet_run(Path("new")).value == small_fleet().value


def test_a_changed_fleet_has_its_steps_and_is_verified(planner: Command, run: Path) -> None:
    with copied_pictures():
        answer = planner("replan", "run", "--out", "new", *MORE_CHAT)
    assert answer.status == EXIT_DONE
    assert "Nodes of 8 H20 change hands" in answer.out
    assert "looking for fewer nodes that move" in answer.err
    document = json.loads(Path("new/changes.json").read_text())
    steps = Path("new/steps.md").read_text()
    folders = [line.split("`")[1] for line in steps.splitlines() if "`services/" in line]
    assert folders
    assert all((Path("new") / folder / "README.md").is_file() for folder in folders)
    assert {move["deployment"] for step in document["steps"] for move in step["moves"]} == {"chat", "oss"}
    assert document["steps"][-1]["nodes_after"] == {
        part.name: dict(part.gpus) for part in load_fleet_run(Path("new")).parts
    }
    checked = planner("verify", "new")
    assert (checked.status, "agree with what comes out" in checked.out) == (EXIT_DONE, True)


def test_json_is_the_document(planner: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = pipeline.replan_fleet(small_fleet(), small_fleet().fleet)
    asked: list[FleetTerms] = []

    def changed(_saved: object, _fleet: object, terms: FleetTerms, _tell: object) -> FleetChange:
        asked.append(terms)
        return change

    monkeypatch.setattr("planner.pipeline.replan_fleet", changed)
    typed = ("--lost", "H20=8", "--lost", "chat/H200=8", "--least-share", "0.5", "--meanwhile", "H20=24")
    answer = planner("replan", "run", "--out", "new", *typed, "--json")
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.json["folder"] == "new"
    assert (answer.json["value"], answer.json["steps"], answer.json["reached_share"]) == (change.plan.value, [], 1.0)
    assert asked == [FleetTerms(lost={"H20": 8}, lost_of={"chat": {"H200": 8}}, least_share=0.5, meanwhile={"H20": 24})]


def test_keys_of_the_folders_question_are_set_anew() -> None:
    from planner.files.scenario.settings import read_setting

    typed = ("services.chat.demand=60", "services.chat.weight=2", "services.oss.priority=3", "inventory.H200=8")
    fleet = asked_of_fleet(small_fleet(), settings=tuple(map(read_setting, typed)), inventory={"H20": 24})
    chat, oss = fleet.interactive
    assert (chat.demand_rps, chat.weight, oss.priority) == (60, 2, 3)
    assert chat.scenarios[0].objective.demand_rps == 60
    assert dict(fleet.inventory.counts) == {"H20": 24, "H200": 8}
    assert all(s.inventory == fleet.inventory for service in fleet.services for s in service.scenarios)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("--set", "services.chta.demand=60"), "must name a service with a demand, got 'chta'"),
        (("--set", "services.chat.demand=0"), "services.chat.demand must be"),
        (("--set", "services.chat.demand=many"), "services.chat.demand must be"),
        (("--set", "services.chat.model=gpt-oss-20b"), "services.NAME.demand|weight|priority or inventory.TYPE"),
        (("--set", "inventory.A100=8"), "must name GPU types of the fleet, got A100"),
        (("--inventory", "H100=8"), "inventory: must name GPU types of the fleet, got H100"),
        (("--lost", "nobody/H20=8"), "must be GPU=COUNT or DEPLOYMENT/GPU=COUNT"),
        (("--lost", "H20"), "must be GPU=COUNT or DEPLOYMENT/GPU=COUNT"),
        (("--lost", "H20=8", "--lost", "H20=8"), "must name each loss once"),
        (("--lost", "H20=4"), "must be whole nodes of 8 GPUs"),
        (("--most-gpus", "8"), "--most-gpus: must be left out for a fleet, got 8"),
        (("--scenario", "one.yaml"), "services: must be there, is missing"),
    ],
)
def test_what_cannot_be_asked_of_a_fleet_is_refused(
    planner: Command, run: Path, typed: tuple[str, ...], words: str
) -> None:
    Path("one.yaml").write_text("name: one\nmodel: gpt-oss-20b\nworkload: azure-conv-2023\ninventory: {H20: 8}\n")
    answer = planner("replan", "run", "--out", "new", *typed)
    assert answer.status == EXIT_BAD_INPUT
    assert words in " ".join(answer.err.split())
    assert not Path("new").exists()


def test_its_own_folder_and_others_files_are_not_replaced(planner: Command, run: Path) -> None:
    assert "own folder" in planner("replan", "run", "--out", "run", "--force").err
    Path("new").mkdir()
    Path("new/mine.txt").write_text("mine")
    answer = planner("replan", "run", "--out", "new", "--force", *MORE_CHAT)
    assert answer.status == EXIT_BAD_INPUT
    assert [path.name for path in Path("new").iterdir()] == ["mine.txt"]


def test_an_edited_fleet_is_not_changed(planner: Command, run: Path) -> None:
    text = (run / "fleet.json").read_text()
    (run / "fleet.json").write_text(text.replace('"demand_rps": 20.0', '"demand_rps": 21.0', 1))
    answer = planner("replan", "run", "--out", "new", *MORE_CHAT)
    assert (answer.status, Path("new").exists()) == (EXIT_BAD_INPUT, False)


def test_what_is_infeasible_leaves_nothing(planner: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise InfeasibleError("fleet company: no order of steps.", hint="Give --least-share 0.5.")

    monkeypatch.setattr("planner.pipeline.replan_fleet", refused)
    answer = planner("replan", "run", "--out", "new", "--set", "services.oss.demand=40")
    assert (answer.status, Path("new").exists()) == (EXIT_INFEASIBLE, False)
    assert "no order of steps. Give --least-share 0.5." in answer.err


def test_a_fleet_at_hand_is_changed(run: Path) -> None:
    fleet = planner_api.load("run")
    changed = fleet.replan(inventory={"H20": 24}, least_share=0.5)
    assert (changed.moved_gpus, changed.reached_share, changed.running_on_share) == ({"H20": 8, "H200": 0}, 1, 1)
    assert list(changed.deployments["becomes"]) == ["stays as it is", "changes"]
    assert list(changed.steps["nodes"]) == ["oss takes 8 H20"]
    assert "Nodes of 8 H20 change hands" in changed.summary()
    assert changed.fleet.value == changed.record.plan.value > fleet.value
    with pytest.raises(InputError, match=r"fleet\.replan\(\.\.\.\): inventory: must be GPUs by type"):
        fleet.replan(inventory=3)
