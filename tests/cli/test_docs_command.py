"""`planner docs`: the reference is current, its links lead somewhere, and writing it follows the house's rules."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from command_line import TINY, Command

from planner.cli.app import build
from planner.cli.docs.command import html_page
from planner.cli.docs.markdown_pages import guide_text, markdown_pages
from planner.errors import InputError
from planner.export import ENGINES, TARGETS
from planner.files import cluster_from_section, scenario_from_document, shipped_models
from planner.files.models.gpu_specs import gpu_spec_from_section
from planner.files.models.models import model_from_config
from planner.files.reference import DOCUMENTS, key_rows
from planner.files.reference.keys import _meanings
from planner.files.sections import Section
from planner.files.tables.measurements import OPTIONAL, REQUIRED, parse_measurements
from planner.files.tables.workloads import workload_from_document
from planner.workload import summarize

VOID = {"meta", "br", "hr", "img", "link"}
KNOWN_KEYS = re.compile(r"The keys here are (.*)\.$")


class Page(HTMLParser):
    """The links and anchors of a page; a tag that is closed in the wrong place fails."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.tags: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.anchors += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference, written once."""
    folder = tmp_path_factory.mktemp("docs")
    pages = markdown_pages(typer.Context(typer.main.get_command(build()), info_name="planner"))
    for page in pages:
        (folder / f"{page.name}.md").write_text(page.text, encoding="utf-8")
        (folder / f"{page.name}.html").write_text(html_page(page, pages), encoding="utf-8")
    return folder


def commands_of(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{path} {name}")


COMMANDS = dict(commands_of(typer.main.get_command(build()), "planner"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_stands_in_the_reference_with_its_options(path: str, folder: Path) -> None:
    text = (folder / "commands.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)}
    section, shared = sections[path], sections["Options of several commands"]
    for parameter in COMMANDS[path].params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            for name in (*parameter.opts, *parameter.secondary_opts):
                assert re.search(rf"`[^`]*{re.escape(name)}\b", section), name
        told = section + shared
        if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            assert f"[default: {parameter.default}" in told
        if parameter.min is not None:
            assert f">={parameter.min}" in told or rf"{parameter.min}\<=x" in told
        if parameter.help:
            assert parameter.help.partition("<")[0][:60] in told


def test_what_several_commands_have_is_explained_once(folder: Path) -> None:
    text = (folder / "commands.md").read_text(encoding="utf-8")
    rows = Counter(re.findall(r"^\| `-.*$", text, re.MULTILINE))
    shared = re.findall(r"^\| `-.*$", text.partition("## Options of several commands")[2], re.MULTILINE)
    assert len(shared) > 20
    assert {row: rows[row] for row in shared if rows[row] > 1} == {}


@pytest.mark.parametrize(
    ("option", "names"),
    [("--target", TARGETS), ("--engine", ENGINES)],
)
def test_the_help_names_all_that_may_be_chosen(option: str, names: Collection[str], folder: Path) -> None:
    text = (folder / "commands.md").read_text(encoding="utf-8")
    assert any(line.startswith(f"| `{option} ") and names_in(line, names) for line in text.splitlines())


def names_in(line: str, names: Collection[str]) -> bool:
    return all(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line) for name in names)


def refused(read: Any, *arguments: Any, **named: Any) -> list[str]:
    """The keys that a reader knows, as it tells them of one that it does not."""
    with pytest.raises(InputError) as error:
        read(*arguments, **named)
    mistakes = getattr(error.value, "mistakes", (error.value,))
    named_keys = next((keys for mistake in mistakes if (keys := KNOWN_KEYS.search(mistake.hint or ""))), None)
    assert named_keys is not None, error.value
    return named_keys[1].split(", ")


def scenario_keys(section: str) -> list[str]:
    document: dict[str, Any] = yaml.safe_load(TINY)
    rows = {"slo.ranges[]": ("slo", {"ranges": [{"bogus": 1}]}), "placement.qos": ("placement", {"qos": {"bogus": 1}})}
    rows["placement.weights"] = ("placement", {"weights": {"bogus": 1}})
    rows["placement.tolerations[]"] = ("placement", {"tolerations": [{"bogus": 1}]})
    current = {"kind": "pareto", "goals": ["rate", "changes"], "current": [{"bogus": 1}]}
    rows["objective.current[]"] = ("objective", current)
    key, value = rows.get(section, (section, {"bogus": 1}))
    document |= {key: value} if key else value
    return refused(scenario_from_document, document, origin="test", base=Path(), summarize=summarize)


def keys_below(document: str, section: str) -> list[str]:
    """The keys of a section in the reference."""
    head = f"{section}." if section else ""
    found = [row.path.removeprefix(head) for row in key_rows(document) if row.path.startswith(head)]
    return [key for key in found if "." not in key and "[" not in key]


@pytest.mark.parametrize(
    "section",
    ["", "ranges", "cost", "slo", "slo.ranges[]", "objective", "objective.current[]", "assignment", "search", "network",
     "placement", "placement.qos", "placement.weights", "placement.tolerations[]", "routing", "survive"],
)  # fmt: skip
def test_every_key_of_a_scenario_stands_in_the_reference(section: str) -> None:
    assert scenario_keys(section) == keys_below("scenario", section)


@pytest.mark.parametrize(
    ("section", "faulty"),
    [
        ("", {"bogus": 1}),
        ("shapes.SHAPE", {"shapes": {"s": {"bogus": 1}}}),
        ("shapes.SHAPE.numa_nodes[]", {"shapes": {"s": {"numa_nodes": [{"bogus": 1}]}}}),
        ("nodes[]", {"nodes": [{"bogus": 1}]}),
        ("pods[]", {"pods": [{"bogus": 1}]}),
        ("disruption_budgets[]", {"disruption_budgets": [{"bogus": 1}]}),
    ],
)
def test_every_key_of_a_cluster_stands_in_the_reference(section: str, faulty: dict[str, Any]) -> None:
    document = {
        "name": "c",
        "shapes": {"s": {"numa_nodes": [{"socket": 0}], "cpus": 1, "memory_gb": 1}},
        "nodes": [{"name": "n", "shape": "s", "asw": ""}],
    }
    assert refused(cluster_from_section, Section(document | faulty, file="c")) == keys_below("cluster", section)


def test_every_key_of_a_gpu_stands_in_the_reference() -> None:
    known = refused(gpu_spec_from_section, Section({"bogus": 1}, file="gpu"), "gpu")
    assert set(known) == set(keys_below("gpu", ""))


def test_every_key_of_a_workload_stands_in_the_reference() -> None:
    known = {
        key
        for kind in ("lengths", "normal", "trace", "sessions")
        for key in refused(workload_from_document, Section({"kind": kind, "bogus": 1}, file="w"), Path())
    }
    assert known == set(keys_below("workload", ""))


def test_every_key_of_ours_in_a_model_stands_in_the_guide() -> None:
    config = json.loads(shipped_models()["deepseek-v3"]) | {"_planner": {"bogus": 1}}
    text = guide_text("traces-and-costs")
    for key in refused(model_from_config, Section(config, file="m")):
        assert f"`{key}`" in text


def test_every_column_of_measurements_stands_in_the_reference() -> None:
    with pytest.raises(InputError) as error:
        parse_measurements("bogus\n1\n", "m.csv")
    assert [row.path for row in key_rows("measurement") if row.required] == [*REQUIRED]
    for row in key_rows("measurement"):
        assert row.path in (error.value.message if row.required else error.value.hint or "")
    assert len(key_rows("measurement")) == len(REQUIRED) + len(OPTIONAL)


def test_every_key_has_a_meaning_and_no_meaning_is_left_over() -> None:
    for document in DOCUMENTS:
        rows = key_rows(document)
        assert [row.path for row in rows if not row.meaning] == []
        assert set(_meanings()[document]) == {row.path for row in rows}


def test_kinds_bounds_and_defaults_are_the_readers(folder: Path) -> None:
    text = (folder / "keys.md").read_text(encoding="utf-8")
    for row in (
        "| `search.iterations` | a whole number of at least 1 and at most 100,000 | `15` |",
        "| `search.method` | one of divider, direct, graph, random, sobol, grid, genetic, exact, auto | `auto` |",
        "| `search.skew` | a number of more than 0 and at most 20 or a list | `5` |",
        "| `cost.two_micro_batches` | true or false | `true` |",
        "| `name` | a name | required |",
        "| `slo.ttft_ms` | a number of more than 0 and at most 1,000,000,000 | – |",
        "| `memory_mib` | a number of more than 0 | – |",
        "| `objective.target_rps` | a number of more than 0 and at most 1,000,000,000,000 | – |",
        "| `pods[].namespace` | a text | `default` |",
    ):
        assert row in text


def test_every_link_leads_somewhere(folder: Path) -> None:
    pages = {path.name: Page(path) for path in folder.glob("*.html")}
    assert len(pages) >= 8
    for own, page in pages.items():
        assert "script" not in page.tags
        assert len(set(page.anchors)) == len(page.anchors) > 0
        for link in page.links:
            name, _, anchor = link.partition("#")
            assert (name or own) in pages
            assert not anchor or anchor in pages[name or own].anchors
    for path in folder.glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            assert (folder / (link.partition("#")[0] or path.name)).is_file()
    assert pages["index.html"].links.count("keys.html") == 2


def test_the_same_bytes_twice_and_nothing_replaced_unasked(planner: Command, here: Path) -> None:
    first = planner("docs", "--out", "docs")
    assert first.status == 0
    written = {path.name: path.read_bytes() for path in (here / "docs").iterdir()}
    assert {f"{name}.md" for name in ("index", "commands", "keys", "planning")} <= set(written)
    again = planner("docs", "--out", "docs")
    assert again.status == 2
    assert "docs: already holds a result" in again.err
    assert "--force" in again.err
    (here / "docs/keys.md").write_text("mine")
    assert planner("docs", "--out", "docs", "--force", "--json").json["files"][0] == "docs/index.md"
    assert {path.name: path.read_bytes() for path in (here / "docs").iterdir()} == written


def test_a_folder_of_others_is_left_alone(planner: Command, here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine/work.py").write_text("1")
    refused = planner("docs", "--out", "mine", "--force")
    assert refused.status == 2
    assert "mine: must be new, empty or an earlier result, holds work.py" in refused.err
    assert [path.name for path in (here / "mine").iterdir()] == ["work.py"]
