"""A plan.json that somebody has edited is not reported, exported, placed, compared, gone on with or begun with."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

from planner.api.planning import load_plan
from planner.errors import InputError

Edit = Callable[[dict[str, Any]], None]
Leaf = tuple[tuple[str | int, ...], object]


def _set(key: str | int, value: object, *path: str | int) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path:
            place = place[step]
        place[key] = value

    return edit


EDITS: dict[str, tuple[Edit, str]] = {
    "bolder": (_set("throughput_rps", 1e6), "tokens_per_s"),
    "cheaper": (_set("price_usd_per_hour", 1.0), "price_usd_per_hour"),
    "fewer GPUs": (_set("H200", 11, "scenario", "inventory"), "price_usd_per_hour"),
    "busier": (_set("utilisation", 7, "islands", 0), "utilisation"),
    "other odds": (_set("probability", 0.9, "routing", 0), "probability"),
    "other share": (_set("share", 0.5, "routing", 0), "shares"),
    "larger batch": (_set("batch_size", 99_999, "islands", 0), "batch size"),
    "other phase": (_set("phase", "decode", "islands", 0), "does not prefill"),
    "island's price": (_set("price_usd_per_hour", 0.5, "islands", 0), "its price"),
    "other gap": (_set("gap", 0.5), "gap must be"),
    "bolder bound": (_set("bound_rps", 1.0), "bound_rps must be at least"),
    "better than bound": (_set("bound", 1.0, "objective"), "objective.bound must be no worse"),
    "other gap of the objective": (_set("gap", 0.5, "objective"), "objective.gap must be"),
    "worth more": (_set("value", 1e6, "objective"), "objective.value must be"),
    "other objective": (_set("kind", "budget", "objective"), "objective.kind"),
    "larger fleet": (_set("H20", 64, "fleet"), "fleet.H20"),
    "faster decode": (_set("decode_rps", 1e6), "decode_rps must be"),
    "faster objective": (_set("objective_rps", 1e6, "assignment"), "assignment.objective_rps must be"),
    "less headroom": (_set("headroom", 0.0, "sensitivity"), "sensitivity.headroom must be"),
    "next": (_set("next_rps", 1e6, "sensitivity"), "sensitivity.next_rps must be"),
    "binds elsewhere": (_set("binding", None, "sensitivity"), "sensitivity.binding must be"),
    "cheaper node": (_set("price_usd_per_gpu_hour", 9.0, "sensitivity", "gpus", 0), "sensitivity.gpus.0.price"),
    "spare time": (_set("headroom", 9.0, "sensitivity", "ranges", 0), "sensitivity.ranges.0.headroom"),
    "faster round": (_set("best_rps", 1e6, "search", "rounds", 0), "search.rounds.0.best_rps"),
    "other progress": (_set(0, 1e6, "search", "best_by_iteration_rps"), "search.best_by_iteration_rps.0"),
    "other seed": (_set("seed", 77, "provenance"), "provenance.seed"),
    "lost route": (lambda document: document["routing"].pop(), "shares"),
}


def of_before_digests(text: str) -> dict[str, Any]:
    """The document as an earlier version wrote it: nothing but its own rows vouches for it."""
    document: dict[str, Any] = json.loads(text)
    del document["digests"]
    return document | {"schema_version": 1}


@pytest.mark.parametrize("form", ["run", "table_run"])
def test_contradictions_are_seen_without_digests(planner: Command, request: pytest.FixtureRequest, form: str) -> None:
    run = request.getfixturevalue(form)
    sound = (run / "plan.json").read_text()
    for name, (edit, word) in EDITS.items():
        document = of_before_digests(sound)
        edit(document)
        (run / "plan.json").write_text(json.dumps(document))
        answer = planner("report", run)
        assert answer.status == 2, (name, answer.err)
        assert word in answer.err, (name, answer.err)
        assert "internal" not in answer.err


def test_a_contradiction_is_seen_by_an_export_without_digests(planner: Command, run: Path) -> None:
    document = of_before_digests((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(document | {"throughput_rps": 1e6}))
    answer = planner("export", run, "--out", "manifests")
    assert (answer.status, "tokens_per_s" in answer.err) == (2, True), answer.err
    assert not Path("manifests").exists()


def leaves(value: object, *path: str | int) -> Iterator[Leaf]:
    """Every number, word, truth value and null of a document with its path."""
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, *path, key)
    else:
        yield path, value


def other(value: object) -> object:
    """A value of the same kind, so that most edits keep to the schema."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.01 + 1e-3
        case str():
            return f"{value}0"
        case _:
            return 0.5


def kind(leaf: Leaf) -> tuple[str, ...]:
    """The leaf's keys, whatever its row."""
    return tuple("*" if isinstance(key, int) else key for key in leaf[0])


SMALL = """\
name: small
model: deepseek-v3
workload: azure-code-2023
inventory: {H200: 24, H20: 32}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
"""
RANDOM = "search: {method: random, iterations: 1, batch_size: 4, min_island_size: 8, seed: 1}\n"
SCENARIOS = (
    RANDOM + "slo: {ttft_ms: 9000, tpot_ms: 90, percentile: 95}\nnetwork: {}\nrouting: {form: table}\n",
    RANDOM + "objective: {kind: pareto, goals: [rate, price, watts]}\n",
    "search: {method: exact}\nobjective: {kind: target, target_rps: 10}\n",
)


def edits_that_pass(text: str, paths: Iterable[Leaf]) -> set[str]:
    """Last keys of edits that are read as if nothing had happened; each other one is refused by its key."""
    passed = set()
    for path, value in paths:
        document = json.loads(text)
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other(value)
        Path("plan.json").write_text(json.dumps(document))
        named = ".".join(map(str, path))
        where = refusal()
        part = str(path[-1] if path[0] == "digests" else path[0])
        if not where:
            passed.add(str(path[-1]))
        else:
            assert named.startswith(where) or where.startswith(part), (named, where)
    return passed


def refusal() -> str:
    """The key by which plan.json is refused; nothing where it is read."""
    try:
        load_plan("plan.json")
    except InputError as error:
        return error.message.split(": ")[1]
    return ""


def planned_json(planner: Command, scenario: str) -> str:
    Path("small.yaml").write_text(SMALL + scenario)
    assert planner("plan", "small.yaml", "--out", "small", "--quiet", "--force").status == 0
    return Path("small/plan.json").read_text()


def test_an_edit_of_any_key_is_refused_by_its_name(planner: Command, run: Path) -> None:
    """All but the CPU-seconds, which are measured and differ from run to run. Each key once, in its last row."""
    tried: set[tuple[str, ...]] = set()
    passed: set[str] = set()
    for text in [(run / "plan.json").read_text(), *(planned_json(planner, scenario) for scenario in SCENARIOS)]:
        paths = {kind(leaf): leaf for leaf in leaves(json.loads(text))}
        passed |= edits_that_pass(text, [leaf for key, leaf in paths.items() if key not in tried])
        tried |= paths.keys()
    assert len(tried) > 250
    assert passed == {"generation_cpu_s", "evaluation_cpu_s"}


@pytest.mark.study
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_single_edit_is_refused_by_its_key(planner: Command, here: Path, scenario: str) -> None:
    text = planned_json(planner, scenario)
    assert edits_that_pass(text, leaves(json.loads(text))) == {"generation_cpu_s", "evaluation_cpu_s"}


def test_a_placed_plan_is_guarded_like_any_other(placed: Path) -> None:
    shutil.copy(placed / "cluster.json.gz", ".")
    text = (placed / "plan.json").read_text()
    paths = {kind(leaf): leaf for leaf in leaves(json.loads(text))}
    placed = [leaf for key, leaf in paths.items() if key[0].startswith("placement") or "reach" in key]
    assert len(placed) > 30
    assert edits_that_pass(text, placed) == set()


def test_another_layout_of_the_same_content_is_no_edit(planner: Command, run: Path) -> None:
    sound, text = planner("report", run).out, (run / "plan.json").read_text()
    for keys in (False, True):
        Path("elsewhere.json").write_text(json.dumps(json.loads(text), indent=4, sort_keys=keys, ensure_ascii=keys))
        assert planner("report", "elsewhere.json").status == 0
    Path("elsewhere.json").write_text(text.replace("1.0,", "1,").replace("0.0,", "0,"))  # as jq writes numbers
    assert planner("report", "elsewhere.json").out == sound


def edited(run: Path, key: str, value: object) -> None:
    document = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(document | {key: value}))


def test_every_command_reads_a_run_alike(planner: Command, run: Path) -> None:
    edited(run, "exact_rps", 1e6)
    Path("c.yaml").write_text("")
    search = "search: {method: random, warm_start: [run]}\n"
    Path("warm.yaml").write_text(SMALL + search)
    goals = "objective: {kind: pareto, goals: [rate, changes], current: run}\n"
    Path("current.yaml").write_text(SMALL + RANDOM + goals)
    shutil.copytree(run / "manifests", "manifests")
    for command in (
        ("report", "run"),
        ("export", "run", "--out", "out"),
        ("export", "run", "--check", "manifests"),
        ("place", "run", "--cluster", "c.yaml"),
        ("diff", "run", "manifests"),
        ("import", "run"),
        ("check", "warm.yaml"),
        ("check", "current.yaml"),
        ("plan", "--resume", "run"),
    ):
        answer = planner(*command)
        assert answer.status == 2, (command, answer.out, answer.err)
        assert "exact_rps: must be as it was written, got 1000000" in answer.err, (command, answer.err)


def test_a_plan_of_before_digests_is_read_and_called_unverified(planner: Command, run: Path, cluster: Path) -> None:
    sound = planner("report", run).out
    text = (run / "plan.json").read_text()
    assert "Unverified" not in sound
    (run / "plan.json").write_text(json.dumps(of_before_digests(text)))
    assert planner("report", run).status == 2  # the page there is of a verified plan
    answer = planner("report", run, "--force")
    assert answer.status == 0
    assert "unverified" in answer.err
    assert "**Unverified.**" in answer.out
    told = re.sub(r"\*\*Unverified\.\*\* .*? can\. ", "", answer.out)
    assert [line for line in told.splitlines() if "Unverified" not in line] == sound.splitlines()
    assert planner("place", run, "--cluster", cluster, "--out", "placed").status == 0
    assert "**Unverified.**" in planner("report", "placed").out  # what it carries over has not become any firmer
    document = json.loads(text)
    del document["digests"]
    (run / "plan.json").write_text(json.dumps(document))
    assert "'digests' is a required property" in planner("report", run).err


def test_images_for_other_vendors_come_from_the_command_line(planner: Command, run: Path) -> None:
    given = planner("export", "run", "--out", "manifests", "--image", "NVIDIA=registry.example/vllm:1.2.3")
    assert given.status == 0, given.err
    assert any("registry.example/vllm:1.2.3" in file.read_text() for file in Path("manifests").glob("*.yaml"))
    for wrong in ("NVIDIA", "=x:1", "NVIDIA=x:latest"):
        assert planner("export", "run", "--out", "other", "--image", wrong).status == 2
    assert not Path("other").exists()
