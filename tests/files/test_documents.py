"""Reading YAML and JSON, seen through the scenario and model readers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.domain import Scenario
from planner.errors import InputError
from planner.files import load_model, load_scenario, load_workload, shipped_models
from planner.files.disk.documents import read_yaml
from planner.workload import summarize

Refused = Callable[..., None]
Write = Callable[[str, str], Path]


def _load(path: Path) -> Scenario:
    return load_scenario(path, summarize)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: a\nmodel: [1, 2\nworkload: b\n", ("line 3", "not readable YAML")),
        ("name: a\n\tmodel: b\n", ("line 2",)),
        ("name: a\nmodel: b\nname: c\n", ("line 3", "'name' is given twice")),
        ("name: a\ninventory: {H200: 1, H200: 2}\n", ("line 2", "'H200' is given twice")),
        ("? [a, b]\n: 1\n", ("line 1",)),
        ("name: !!python/object/apply:os.system [echo]\n", ("line 1", "python/object")),
        ("name: 2025-13-45\n", ("line 1", "name must be a date", "got '2025-13-45'")),
        ("- a\n- b\n", ("mapping", "list")),
        ("", ("mapping", "empty file")),
        ("just text", ("mapping", "str")),
        ("name: \x01\n", ("not readable YAML",)),
        ("1: a\n", ("keys must be text", "1 (int)")),
    ],
)
def test_unreadable_yaml_names_file_and_line(write: Write, refused: Refused, text: str, words: tuple[str, ...]) -> None:
    path = write("broken.yaml", text)
    refused(lambda: _load(path), str(path), *words)


def test_deep_nesting_is_refused_not_a_crash(write: Write, refused: Refused) -> None:
    path = write("deep.yaml", "name: " + "[" * 5000)
    refused(lambda: _load(path), "deep.yaml")
    config = write("deep.json", '{"a":' + "[" * 200_000)
    refused(lambda: load_model(str(config)), "deep.json", "nested too deeply")


def test_missing_file_and_folder_and_encoding(tmp_path: Path, refused: Refused) -> None:
    refused(lambda: _load(tmp_path / "none.yaml"), "none.yaml", "no such file", hint="Check the path")
    refused(lambda: _load(tmp_path), "cannot be read", hint="not a folder")
    (tmp_path / "latin.yaml").write_bytes("name: a\nmodel: caf\xe9\n".encode("latin-1"))
    refused(lambda: _load(tmp_path / "latin.yaml"), "latin.yaml", "line 2", "0xe9", hint="UTF-8")


def test_exponents_without_a_point_are_numbers(write: Write) -> None:
    text = "name: a\nmodel: deepseek-v3\nworkload: normal-500-2000\ninventory: {H200: 8}\n"
    text += "assignment: {gap: 1e-3}\n"
    assert _load(write("a.yaml", text)).assignment.gap == 1e-3


def test_merge_keys_are_plain_yaml(write: Write) -> None:
    text = (
        "name: a\nmodel: deepseek-v3\nworkload: normal-500-2000\ninventory: &all {H200: 8, H20: 4}\n"
        "prices_usd_per_gpu_hour: {<<: *all, H200: 3}\n"
    )
    scenario = _load(write("a.yaml", text))
    assert scenario.inventory.price_usd_per_hour == 8 * 3 + 4 * 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{\n 'a': 1}", ("line 2", "not readable JSON")),
        ('{"a": 1, "a": 2}', ("'a' is given twice",)),
        ("[1]", ("mapping", "list")),
    ],
)
def test_unreadable_json_names_file_and_place(
    write: Write, refused: Refused, text: str, words: tuple[str, ...]
) -> None:
    path = write("config.json", text)
    refused(lambda: load_model(str(path)), str(path), *words)


def test_a_byte_order_mark_is_harmless(tmp_path: Path) -> None:
    config = json.loads(shipped_models()["deepseek-v3"])
    path = tmp_path / "bom.json"
    path.write_text(json.dumps(config), encoding="utf-8-sig")
    assert load_model(str(path)).layers == 61


def test_nul_in_a_path_is_an_input_error(refused: Refused) -> None:
    refused(lambda: load_workload("./a\0b.yaml"), "cannot be read")


@pytest.mark.parametrize(("text", "value"), [("64", 64), ("-3", -3), ("0", 0), ("1_000", 1000)])
def test_integers_are_decimal(tmp_path: Path, text: str, value: int) -> None:
    path = tmp_path / "count.yaml"
    path.write_text(f"count: {text}\n")
    assert read_yaml(path).integer("count") == value


@pytest.mark.parametrize("text", ["010", "1:30", "0x10", "0b11", "0o7"])
def test_other_notations_of_integers_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "count.yaml"
    path.write_text(f"count: {text}\n")
    with pytest.raises(InputError, match="count must be a whole number"):
        read_yaml(path).integer("count")


def test_a_bomb_of_aliases_is_told_at_once(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 12)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(levels) + "\n")
    with pytest.raises(InputError, match=r"must hold at most 524,288 values, what aliases"):
        read_yaml(path).text("a11")
