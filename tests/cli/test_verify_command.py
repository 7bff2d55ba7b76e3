"""`planner verify`: a run computed anew; edits whose digests were written anew are found all the same."""

import json
import random
import shutil
from pathlib import Path

import pytest
from command_line import TINY, Command
from run_edits import edit, leaves

from planner import files, pipeline
from planner.files.plan.digests import sealed
from planner.runs.verifying import runs as verifying

PLACED, SPLIT = "placed", "split"
KNOWN: dict[object, object] = {}
SCENARIOS = {
    "run": TINY,
    SPLIT: """\
name: small
model: gpt-oss-20b
workload: azure-conv-2023
inventory: {H100: 16, A100: 16}
slo: {ttft_ms: 3000, tpot_ms: 60}
serving: split
survive: {nodes: 1, share: 0.5}
""",
}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes of the same question is worked out once: hundreds of edits leave the question as it is."""
    remade, publish = pipeline.remade, verifying.publish

    def once(kind, key, make):
        if (kind, key) not in KNOWN:
            KNOWN[kind, key] = make()
        return KNOWN[kind, key]

    def plan_of(saved, **options):
        key = json.dumps(files.scenario_document(saved.scenario)), str(saved.scenario.inputs), str(saved.search)
        return once("plan", (*key, str(options)), lambda: remade(saved, **options))

    def files_of(plan, engine=""):
        return once("files", (files.encode_plan(plan), engine), lambda: publish(plan, engine=engine))

    monkeypatch.setattr(pipeline, "remade", plan_of)
    monkeypatch.setattr(verifying, "publish", files_of)


def changed(run: Path, *path: object, value: object) -> None:
    """Another value in plan.json, its digests written anew."""
    document = json.loads((run / "plan.json").read_text())
    spot = document
    for key in path[:-1]:
        spot = spot[key]
    assert spot[path[-1]] != value
    spot[path[-1]] = value
    (run / "plan.json").write_text(json.dumps(sealed(document), ensure_ascii=False))


def test_a_run_as_it_was_written_agrees(planner: Command, tiny: Path, run: Path) -> None:
    assert planner("report", run).status == 0
    assert planner("replay", run, "--trace", "lengths", "--requests", "300", "--out", run / "replay").status == 0
    assert planner("report", run).status == 0  # the page shows the replay now
    answer = planner("verify", run, "--scenario", tiny)
    assert (answer.status, answer.err) == (0, "")
    assert "files agree with what comes out" in answer.out
    assert "search.trials" in answer.out  # what nobody could check is told
    assert planner("verify", run, "--search", "--json").json["agrees"] is True


def test_what_audits_cannot_see_is_found(planner: Command, run: Path, remembered: None) -> None:
    document = json.loads((run / "plan.json").read_text())
    late, low = document["buckets"]["latencies"][0]["late_ms"], document["rate_band"]["low_rps"]
    edits = (
        (("buckets", "latencies", 0, "late_ms"), late / 2),
        (("rate_band", "low_rps"), low * 1.1),
        (("buckets", "losses", 0, "rate_rps"), document["buckets"]["losses"][0]["rate_rps"] * 1.2),
        (("assignment", "optimal"), not document["assignment"]["optimal"]),
    )
    sound = (run / "plan.json").read_bytes()
    for path, value in edits:
        (run / "plan.json").write_bytes(sound)
        changed(run, *path, value=value)
        assert planner("report", run, "--no-page").status == 0  # nothing in the run contradicts it
        answer = planner("verify", run, "--json")
        assert answer.status == 2
        key = ".".join(map(str, path))
        rows = [row for row in answer.json["differences"] if row["key"] == key]
        assert [json.loads(row["written"]) for row in rows] == [value]
        assert [row["file"] for row in rows] == ["plan.json"]
    shown = planner("verify", run)
    assert shown.status == 2
    assert "assignment.optimal" in shown.out


def test_files_that_are_missing_or_too_many_are_found(planner: Command, run: Path, remembered: None) -> None:
    (run / "pools.csv").unlink()
    (run / "notes.txt").write_text("mine")
    answer = planner("verify", run, "--json")
    assert {(row["file"], row["due"]) for row in answer.json["differences"] if row["file"] != "pools.csv"} == {
        ("notes.txt", "(nothing)")
    }
    assert [row["written"] for row in answer.json["differences"] if row["file"] == "pools.csv"] == ["(nothing)"]


def test_a_question_is_held_against_its_file(planner: Command, tiny: Path, run: Path, remembered: None) -> None:
    changed(run, "scenario", "search", "surrogate", value="saasbo")
    assert planner("verify", run).status == 2  # a file of its name lies in the current folder
    Path("elsewhere").mkdir()
    tiny = tiny.rename("elsewhere/tiny.yaml")
    alone = planner("verify", run, "--json")
    assert any("its file is not at hand" in words for words in alone.json["unchecked"])
    # nothing follows from it but the digest of the plan that the export's record holds
    assert {row["file"] for row in alone.json["differences"]} == {"manifests/export.record"}
    answer = planner("verify", run, "--scenario", tiny, "--json")
    assert answer.status == 2
    keys = [row["key"] for row in answer.json["differences"] if row["file"] == "plan.json"]
    assert keys == ["scenario.search.surrogate"]
    assert planner("verify", run, "--set", "search.seed=1").status == 2


def test_a_replay_with_other_words_is_found(planner: Command, run: Path, remembered: None) -> None:
    assert planner("replay", run, "--trace", "lengths", "--requests", "300", "--out", run / "replay").status == 0
    path = run / "replay/replay.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"holds": True, "summary": "All is well."}))
    assert "must be as it was written" in planner("report", run).err  # its digests tell
    path.write_text(json.dumps(sealed(document | {"summary": "All is well."})))
    assert planner("report", run).status == 0  # whoever writes them anew is believed,
    answer = planner("verify", run, "--json")  # but not here
    assert answer.status == 2
    assert ("replay/replay.json", "summary") in {(row["file"], row["key"]) for row in answer.json["differences"]}


def test_edits_drawn_from_every_leaf_are_found(planner: Command, run: Path, tiny: Path, remembered: None) -> None:
    assert planner("report", run).status == 0
    missed = _missed(planner, run, tiny, count=16, seed=37)
    assert missed == []


@pytest.mark.study
@pytest.mark.parametrize("kind", ["run", SPLIT, PLACED])
def test_a_hundred_edits_of_each_of_three_folders(planner: Command, here: Path, remembered: None, kind: str) -> None:
    """Of all that is drawn nothing passes; a searched run is searched again."""
    scenario = Path("asked.yaml")
    scenario.write_text(SCENARIOS.get(kind, SCENARIOS["run"]))
    run = Path("drawn")
    assert planner("plan", scenario, "--out", run, "--quiet").status == 0
    if kind == PLACED:
        types = ("--type", "H200=1", "--type", "H20=1")
        synth = ("cluster", "synth", "--nodes", 40, "--seed", 2, "--load", 0.5, *types, "--out", "c.yaml")
        assert planner(*synth).status == 0
        assert planner("place", run, "--cluster", "c.yaml", "--out", "on-nodes").status == 0
        run = Path("on-nodes")
    if kind == SPLIT:
        replay = ("replay", run, "--trace", "lengths", "--requests", "300", "--out", run / "replay")
        assert planner(*replay).status == 0
    assert planner("report", run).status == 0
    assert _missed(planner, run, scenario, count=100, seed=37) == []


def _missed(planner: Command, run: Path, scenario: Path, *, count: int, seed: int) -> list[str]:
    """Edits that are not found, or do not end in status 2."""
    rng, missed = random.Random(seed), []
    every = leaves(run)
    names = sorted({leaf.file for leaf in every})
    for number in range(count):
        name = rng.choice(names)
        leaf = rng.choice(every if number % 2 else [leaf for leaf in every if leaf.file == name])
        shutil.rmtree("edited", ignore_errors=True)
        shutil.copytree(run, "edited")
        edit(Path("edited"), leaf, rng)
        options = ("--scenario", scenario, "--search") if "search" in str(leaf) else ("--scenario", scenario)
        if planner("verify", "edited", *options).status != 2:
            missed.append(str(leaf))
    return missed
