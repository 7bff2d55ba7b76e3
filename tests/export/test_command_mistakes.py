"""Commands, rendezvous flags and ports that somebody has edited: wrong ones are told in their field, by the folder
alone and against the plan; sound ones pass."""

import re
from collections.abc import Iterator
from functools import cache

import pytest
from command_edits import COMMAND_CASES, Edit, SoundEdit
from flag_mistakes import FLAG_MISTAKES
from port_mistakes import PORT_MISTAKES
from program_mistakes import PROGRAM_MISTAKES
from rendezvous_mistakes import RENDEZVOUS_MISTAKES
from sound_edits import SOUND_EDITS

from planner.domain import Plan
from planner.export import find_faults
from planner.export.engines.arguments import doubled
from planner.export.engines.groups import program_arguments
from planner.export.targets.dynamo.engines import joined

MISTAKES = (*RENDEZVOUS_MISTAKES, *PROGRAM_MISTAKES, *PORT_MISTAKES, *FLAG_MISTAKES)
RENDEZVOUS_LINE = re.compile(
    r"(?m)^ *(- )?--(headless|(data-parallel-(address|rpc-port|size-local|start-rank)|nnodes|node-rank|master-addr|"
    r"dist-init-addr)=.*)\n"
)


@cache
def case(name: str, router: str = "") -> tuple[Plan, dict[str, str]]:
    """A case's plan and its sound manifests, rendered once."""
    return COMMAND_CASES[name].plan(), COMMAND_CASES[name].files(router)


def test_no_mistake_is_there_twice_and_every_case_is_used() -> None:
    assert len({(edit.case, edit.file, edit.where, edit.name) for edit in MISTAKES}) == len(MISTAKES)
    assert {edit.case for edit in MISTAKES} == set(COMMAND_CASES)


@pytest.mark.parametrize("edit", MISTAKES, ids=lambda one: f"{one.case}: {one.name}, {one.file}")
def test_a_mistake_is_told_in_its_field(edit: Edit) -> None:
    plan, files = case(edit.case)
    edited = edit.apply(files)
    assert edited != files
    for known in (None, plan):
        found = find_faults(edited, known)
        assert edit.where in {fault.where for fault in found}, [str(fault) for fault in found]
        assert all(fault.expected and fault.got for fault in found)


@pytest.mark.parametrize("edit", SOUND_EDITS, ids=lambda one: f"{one.case}: {one.name}")
def test_a_sound_edit_passes(edit: SoundEdit) -> None:
    plan, files = case(edit.case, "none")  # a router's configuration would have to be edited along
    edited = edit.apply(files)
    assert edited != files
    for known in (None, plan):
        assert [str(fault) for fault in find_faults(edited, known)] == []


def without_one_line(files: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The manifests less one rendezvous flag, for each of them; a master port has a default."""
    for name, text in files.items():
        for line in RENDEZVOUS_LINE.finditer(text):
            yield f"{name}: {line[0].strip()}", {**files, name: text[: line.start()] + text[line.end() :]}


@pytest.mark.parametrize("name", [name for name in COMMAND_CASES if re.search("ranks|spanning", name)])
def test_no_rendezvous_flag_can_be_left_out(name: str) -> None:
    _, files = case(name)
    tried = 0
    for told, damaged in without_one_line(files):
        tried += 1
        assert find_faults(damaged), told
    assert tried or name.startswith(("dynamo", "kserve"))  # there an operator or a preset writes them


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (("vllm", "serve", "m"), ("m",)),
        (("/opt/bin/vllm", "serve"), ()),
        (("env", "A=1", "B=", "vllm", "serve", "m"), ("m",)),
        (("python3.12", "-m", "module", "m"), ("m",)),
        (("/usr/bin/env", "A=1", "python", "-m", "module"), ()),
        (("vllm",), None),
        (("vllm", "bench"), None),
        (("sleep", "vllm", "serve"), None),
        (("env", "A=1"), None),
        (("env", "sleep", "A=1", "vllm", "serve"), None),
        (("sh", "-c", "vllm serve"), None),
        ((), None),
    ],
)
def test_a_program_is_told_by_its_first_words(words: tuple[str, ...], arguments: tuple[str, ...] | None) -> None:
    assert program_arguments(words, [("vllm", "serve"), ("python3", "-m", "module")]) == arguments


def test_short_flags_are_words_of_their_own_and_negative_numbers_are_values() -> None:
    words = ("--a", "-tp", "8", "--seed", "-1", "--b", "1", "-e", "--c", "-0.5", "-n=2")
    assert joined(words) == ("--a", "-tp=8", "--seed=-1", "--b=1", "-e", "--c=-0.5", "-n=2")


def test_flags_given_twice_are_told_once_with_all_values() -> None:
    words = ("--a=1", "--b", "--a=2", "--b", "--c=1", "--c=2", "-a=3")
    assert list(doubled(words, {"a", "b"})) == [
        ("--a must be given once", "1 and 2"),
        ("--b must be given once", "no value and no value"),
    ]


@pytest.mark.parametrize("port", ["[8000]", '"8000"', "null", "{}", "-8000", "8e3", '"http"', "800000"])
def test_ports_of_a_table_are_numbers_that_its_service_has(port: str) -> None:
    _, files = case("lws, vllm, ranks")
    edited = {**files, "routing.yaml": files["routing.yaml"].replace('"port": 8000', f'"port": {port}', 1)}
    (fault,) = find_faults(edited)
    assert fault.where.endswith("data[routing.json] services mixed-fleet-h200-0-leader")


@pytest.mark.parametrize("leaders", ["{}", "[[]]", '"a:8000"', "null", '["", ""]', '[":8000", ":8000"]', "[1, 2]"])
def test_leaders_of_a_table_are_hosts_with_ports(leaders: str) -> None:
    _, files = case("lws, vllm, ranks")
    text = re.sub(r'"leaders": \[[^]]*\]', f'"leaders": {leaders}', files["routing.yaml"], count=1)
    found = find_faults({**files, "routing.yaml": text})
    assert {fault.where.partition("] ")[2] for fault in found} == {"services mixed-fleet-h200-0-leader"}
