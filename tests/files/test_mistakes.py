"""All mistakes of a file at once: each with its key and line, none invented."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError, SeveralMistakesError
from planner.files import load_calibration, load_cluster, load_scenario, load_workload
from planner.files.disk.mistakes import MOST_MISTAKES, key_lines, read_all
from planner.files.sections import Section
from planner.workload import summarize

SOUND: dict[str, Any] = {
    "name": "ours",
    "model": "qwen3-235b-a22b",
    "workload": "normal-500-2000",
    "inventory": {"H100": 40, "A100": 24, "H200": 16},
    "prices_usd_per_gpu_hour": {"H100": 2.5, "A100": 1.5, "H200": 4},
    "ranges": {"width": 2048},
    "cost": {"max_tokens_per_step": 8192, "two_micro_batches": True, "mode": "default"},
    "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
    "assignment": {"solver": "highs", "gap": 0.01},
    "search": {"method": "exact", "work_limit": 20, "seed": 1},
    "network": {"nic_share": 0.5},
    "placement": {"most_victims": 9, "weights": {"topology": 1}},
    "simplicity": 0.01,
    "engine": "vllm",
    "survive": {"share": 0},
}
FAULTS: dict[str, Any] = {
    "name": "our fleet",
    "model": "qwen5",
    "workload": "azure-cod-2023",
    "inventory.H100": "many",
    "inventory.A100": -1,
    "inventory.H200": 1.5,
    "prices_usd_per_gpu_hour.H100": "two",
    "ranges.width": 0,
    "cost.max_tokens_per_step": 0,
    "cost.two_micro_batches": "yes, please",
    "cost.mode": "exactly",
    "slo.ttft_ms": "4s",
    "slo.tpot_ms": -60,
    "assignment.solver": "gurobi",
    "assignment.gap": 2,
    "search.method": "hill",
    "search.seed": -1,
    "network.nic_share": "half",
    "placement.most_victims": "all",
    "placement.weights.topology": "much",
    "simplicity": 7,
    "engine": "vlllm",
    "survive.share": "a node",
    "serach": {},
    "cost.gpus_per_swich": 8,
    "inventory.H2OO": 4,
    "slo.tfft_ms": 1,
}
"""Path -> a value that cannot stand there, or a key that nobody knows."""


def with_faults(paths: list[str]) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(yaml.safe_dump(SOUND))
    for path in paths:
        *above, key = path.split(".")
        section = document
        for name in above:
            section = section[name]
        section[key] = FAULTS[path]
    return document


def read(text: str, folder: Path) -> InputError:
    path = folder / "ours.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_scenario(path, summarize)
    return error.value


def test_the_sound_one_is_sound(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(SOUND, sort_keys=False))
    assert load_scenario(tmp_path / "ours.yaml", summarize).name == "ours"


@pytest.mark.parametrize("path", FAULTS)
def test_each_alone_is_one_sentence_with_its_line(path: str, tmp_path: Path) -> None:
    text = yaml.safe_dump(with_faults([path]), sort_keys=False)
    error = read(text, tmp_path)
    assert not isinstance(error, SeveralMistakesError), error
    assert f"{path}" in error.message
    assert error.where.startswith(f"line {key_lines(text)[path]}: ")


@given(paths=st.lists(st.sampled_from(sorted(FAULTS)), min_size=2, max_size=9, unique=True))
def test_all_of_several_are_told_and_no_others(paths: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = yaml.safe_dump(with_faults(paths), sort_keys=False)
    error = read(text, tmp_path_factory.mktemp("mistakes"))
    assert isinstance(error, SeveralMistakesError)
    lines = key_lines(text)
    listed = [line for line in error.message.splitlines()[1:] if re.match(r"  line \d", line)]
    assert len(listed) == len(paths), error
    for path in paths:
        assert any(line.startswith(f"  line {lines[path]}: {path}") for line in listed), (path, error)
    assert error.exit_status == 2


def test_the_five_of_a_newcomer(tmp_path: Path) -> None:
    """Typing slips of a first scenario, told in one go."""
    text = (
        "name: our fleet\nmodel: qwen3-235b\nworkload: azure-code-2023\ninventory:\n  H1000: 40\n  A100: 24\n"
        "slo: {ttft_ms: 4s}\nserach: {method: exact}\n"
    )
    message = str(read(text, tmp_path))
    for words in (
        "5 mistakes",
        "line 1: name must be",
        "line 2: model",
        "Did you mean qwen3-235b-a22b",
        "line 5: inventory.H1000 is not a known GPU type. Did you mean H100",
        "line 7: slo.ttft_ms must be a number",
        "line 8: serach is not a known key. Did you mean search",
    ):
        assert words in message


def test_a_misspelt_key_is_not_told_as_missing_too(tmp_path: Path) -> None:
    error = read("name: a\nmodel: deepseek-v3\nworklaod: normal-500-2000\ninventory: {H20: 64}\n", tmp_path)
    assert "worklaod is not a known key" in error.message
    assert not isinstance(error, SeveralMistakesError)


def test_what_may_only_follow_is_not_told(tmp_path: Path) -> None:
    """Of a workload that cannot be read nobody knows whether it has prefixes."""
    text = yaml.safe_dump(SOUND | {"workload": "none", "cost": {"kv_cache_rate": "auto"}}, sort_keys=False)
    error = read(text, tmp_path)
    assert "workload" in error.message
    assert "kv_cache_rate" not in str(error)


def test_at_most_twenty(tmp_path: Path) -> None:
    text = yaml.safe_dump(SOUND | {f"key{n}": 1 for n in range(40)})
    message = str(read(text, tmp_path))
    assert f"{MOST_MISTAKES} mistakes, and perhaps more" in message
    assert message.count("not a known key") == MOST_MISTAKES


CLUSTER = """\
name: mine
shapes:
  s: {gpu: H20, gpus_per_numa: 4, numa_nodes: [{socket: 0, cores: 0-7}], cpus: -8, memory_gb: 64}
nodes:
- {name: n-1, shape: s, asw: a}
- {name: n-2, shape: t, asw: a}
- {name: ' n-3', shape: s, asw: a}
pods:
- {name: p, node: n-1, gpus: [0], qos: best}
"""
CALIBRATION = """\
name: mine
factors:
  one: {name: matmul, family: hopper, value: 99, provenance: x}
  two: {name: nobody, family: hopper, value: 1, provenance: x}
"""
WORKLOAD = "name: a b\nkind: normal\nmean: few\nstandard_deviation: 2\nlow: 1\nhigh: 0.5\n"


@pytest.mark.parametrize(
    ("name", "text", "load", "words"),
    [
        ("c.yaml", CLUSTER, load_cluster, ("line 3: shapes.s.cpus", "line 6: nodes[1].shape", "line 7: nodes[2].name")),
        ("f.yaml", CALIBRATION, load_calibration, ("line 3: factors.one", "line 4: factors.two.name")),
        ("w.yaml", WORKLOAD, lambda path: load_workload(str(path)), ("line 1: name", "line 3: mean", "line 6: high")),
    ],
)
def test_other_files_too(
    name: str, text: str, load: Callable[[Path], object], words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        load(tmp_path / name)
    for word in words:
        assert word in str(error.value)


def test_mistakes_of_a_file_that_another_refers_to(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(CALIBRATION)
    document = SOUND | {"cost": {"calibration": "f.yaml"}, "slo": {"ttft_ms": "4s"}}
    message = str(read(yaml.safe_dump(document, sort_keys=False), tmp_path))
    for words in ("2 mistakes", "cost.calibration", "factors.one", "factors.two.name", "slo.ttft_ms"):
        assert words in message


def test_a_defect_met_with_stand_ins_hides_no_mistake() -> None:
    def reader(section: Section) -> object:
        size = section.integer("size", low=1)
        return {4: "four"}[size]  # a defect unless it is 4

    with pytest.raises(InputError, match="size must be a whole number"):
        read_all(Section({"size": "x"}, file="f"), reader)


def test_aliases_of_aliases_are_walked_once(tmp_path: Path) -> None:
    """Each level stands for ten of the one before."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    error = read("\n".join(["l0: &l0 [x]", *levels, "name: 5\n"]), tmp_path)
    assert "must hold at most 524,288 values, what aliases (*) stand for counted each time" in str(error)
