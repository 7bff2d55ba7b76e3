"""`planner export`: topology objects of a placed run, what the check of a folder claims, and seeded mistakes that only
the run tells."""

import re
from pathlib import Path

import pytest
from command_line import Command

NRT, FLEX = "noderesourcetopologies.yaml", "flextopo.yaml"


def texts_of(folder: Path) -> dict[str, bytes]:
    """The files of an export but for the topology objects, and what tells of them."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    left_out = (NRT, FLEX, "kustomization.yaml", "README.md", "export.record")
    return {path.name: path.read_bytes() for path in paths if path.name not in left_out}


def test_topology_objects_come_with_a_placed_run_and_pass_its_check(planner: Command, placed: Path) -> None:
    answer = planner("export", placed, "--out", "made", "--topology-objects")
    assert answer.status == 0, answer.err
    made = Path("made")
    assert {NRT, FLEX} <= {path.name for path in made.iterdir()}
    assert planner("export", "--check", made, placed).status == 0
    assert planner("import", made, "--out", "back.json").status == 0
    plain = planner("export", placed, "--out", "plain")
    assert plain.status == 0
    assert texts_of(Path("plain")) == texts_of(made)
    nodes = made / NRT
    nodes.write_text(re.sub(r"(?m)^  name: .*$", "  name: nowhere", nodes.read_text(), count=1))
    wrong = planner("export", "--check", made, placed)
    assert wrong.status == 2
    told = rf"{NRT}, NodeResourceTopology [^ ]+, metadata.name: must be '[^']+' as planned, got 'nowhere'"
    assert re.search(told, wrong.out)


def test_topology_objects_of_a_run_on_no_nodes_are_refused_and_nothing_is_written(planner: Command, run: Path) -> None:
    answer = planner("export", run, "--out", "made", "--topology-objects")
    assert (answer.status, answer.out) == (2, "")
    assert "placement: must have nodes to write topology objects of, has none" in " ".join(answer.err.split())
    assert not Path("made").exists()


def test_a_fleet_is_checked_against_its_run(planner: Command, run: Path) -> None:
    assert planner("export", run, "--out", "made", "--target", "kueue").status == 0
    alone, held = planner("export", "--check", "made"), planner("export", "--check", "made", run)
    assert (alone.status, held.status) == (2, 0)
    assert "must be held against the plan that it was exported from" in " ".join(alone.err.split())
    assert f"3 files are what the plan {run} exports (target kueue, engine vllm, router none)" in held.out


@pytest.mark.parametrize(
    ("options", "file", "old", "new", "field"),
    [
        (("--pin-nodes",), "01-*.yaml", r"(?m)^( +)- [^ ]*\n( +)priority", r"\1- elsewhere\n\2priority", "values"),
        ((), "priority-class.yaml", r"value: \d+", "value: 7", "PriorityClass serving, value"),
        ((), "priority-class.yaml", "Policy: .*", "Policy: PreemptLowerPriority", "serving, preemptionPolicy"),
        ((), "01-*.yaml", r"max-num-seqs=\d+", "max-num-seqs=9999", "args.--max-num-seqs: must be"),
        ((), "01-*.yaml", r"max-model-len=\d+", "max-model-len=64", "args.--max-model-len: must be"),
    ],
)
def test_mistakes_that_the_run_tells(
    planner: Command, placed: Path, options: tuple[str, ...], file: str, old: str, new: str, field: str
) -> None:
    answer = planner("export", placed, "--out", "made", "--priority-class", "serving", *options)
    assert answer.status == 0, answer.err
    (path,) = Path("made").glob(file)
    text = re.sub(old, new, path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    told = planner("export", "--check", "made", placed)
    assert told.status == 2
    assert any(line.startswith(path.name) and field in line for line in told.out.splitlines()), told.out


def test_the_check_refuses_options_that_it_would_not_heed(planner: Command, run: Path) -> None:
    assert planner("export", run, "--out", "made").status == 0
    answer = planner("export", "--check", "made", "--engine", "sglang", "--grid-cells", "8", "--pin-nodes")
    assert (answer.status, answer.out) == (2, "")
    assert "--engine, --grid-cells, --pin-nodes: must be left out with --check" in answer.err
    assert planner("export", "--check", "made", run, "--json").status == 0
