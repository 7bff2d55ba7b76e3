"""Every target's exports, put to judges of other people: Kubernetes' and the CRDs' schemas and rules, kubectl, Helm,
ShellCheck, Dynamo's GlobalRouter. `python tests/export/tools/table.py` prints what they looked at as a table, and what
the engines' parsers did (`test_engine_parsers`).

Judges that cannot refuse would prove nothing: for each there is something wrong that it has to find.
"""

import subprocess
from pathlib import Path

import pytest
from dynamo_plans import LONG, SHORT, two_pool_plan
from export_plans import DECODE, SMALL_DECODE, route
from tools import locations, table
from tools.judges import JUDGES, TOOLS, Files, Judged
from tools.locations import require

from planner.domain import Phase
from planner.export import render


def asked(export: table.Export, judge: str, files: Files) -> Judged:
    require(*filter(None, [TOOLS.get(judge, "")]))
    return JUDGES[judge](files)


# judge, target, plan, a file, what becomes what, a word of the refusal
WRONG = (
    (
        "kubernetes",
        "lws",
        "several nodes",
        "routing.yaml",
        "kind: ConfigMap\n",
        "kind: ConfigMap\ndatas: {}\n",
        "datas",
    ),
    ("kubernetes", "kubernetes", "single nodes", "02-h20-0.yaml", "replicas: 3", "replicas: three", "three"),
    ("crds", "lws", "several nodes", "02-h20-0.yaml", "size: 4", "size: four", "size"),
    ("crds", "dynamo", "several nodes", "00-frontend.yaml", "replicas: 2", "replicas: two", "replicas"),
    ("crds", "llm-d", "several nodes", "01.values.yaml", "multinode: true", "multinode: 'yes'", "multinode"),
    ("cel", "kueue", "single nodes", "queues.yaml", "- nvidia.com/gpu\n", "- nvidia.com/gpu\n    - cpu\n", "covered"),
    ("cel", "disaggregatedset", "several nodes", "disaggregatedset.yaml", "replicas: 2\n", "replicas: 0\n", "replicas"),
    ("kustomize", "lws", "several nodes", "02-h20-0.yaml", "mixed-fleet-h20-0", "mixed-fleet-h200-0", "registered id"),
    ("helm", "llm-d", "several nodes", "01.values.yaml", "  enabled: true\n  samp", "  enabled: false\n  samp", "env"),
    ("helm", "llm-d", "several nodes", "01.values.yaml", "multinode: true", "multinode: 'yes'", "multinode"),
    ("helm", "llm-d", "several nodes", "01.values.yaml", "value: '5600'", "value: '{{ .Values.nothing }'", "helm"),
    ("helm", "llm-d", "single nodes", "01.values.yaml", "memory: 512Gi", "memory: [512]", "[512] is not valid"),
    ("shellcheck", "script", "several nodes", "02-h20-0.sh", "if (($# != 4))", "if (($# != 4)", "SC"),
    ("shellcheck", "script", "several nodes", "02-h20-0.sh", '"${0##*/}"', "${0##*/}", "SC2086"),
    ("shellcheck", "slurm", "several nodes", "slurm.sbatch", '"$state/names"\nwait', "$state/names\nwait", "SC2086"),
    ("global_router", "dynamo", "two pools", "00-frontend.yaml", '"isl_resolution": 2', '"isl_resolution": 5', "Error"),
)


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row[0]}: {row[3]}, {row[5]:.20}")
def test_every_judge_can_say_no(row: tuple[str, ...]) -> None:
    judge, target, plan, file, old, new, word = row
    export = table.export_of(target, "vllm", plan)
    assert old in export.files[file]
    before, after = (
        asked(export, judge, {**export.files, file: export.files[file].replace(old, text)}) for text in (old, new)
    )
    assert before.count
    assert not before.refused
    assert any(word in line for line in after.refused), after


@pytest.mark.parametrize("judge", JUDGES)
def test_every_judge_takes_every_export(judge: str) -> None:
    """Kustomize takes the files of an export together; to the others each is put by itself, and once."""
    require(*filter(None, [TOOLS.get(judge, "")]))
    count, seen = 0, set[tuple[str, str]]()
    for export in table.exports():
        files = {row: text for row, text in export.files.items() if judge == "kustomize" or (row, text) not in seen}
        if files:
            answer = JUDGES[judge](files)
            assert not answer.refused, f"{export.target}, {export.engine}, {export.plan_name}: {answer.refused}"
            count += answer.count
            seen |= files.items()
    assert count


def test_values_of_releases_are_held_to_the_schema_of_the_chart_that_is_given() -> None:
    files = table.export_of("llm-d", "vllm", "several nodes").files
    assert JUDGES["crds"](files).count == sum(name.endswith(".values.yaml") for name in files)


@pytest.mark.parametrize("cells", [2, 4, 32])
def test_the_global_router_loads_grids_of_any_size(cells: int) -> None:
    require("dynamo")
    width = 4096 // cells
    rows = [
        route(name, phase, cell * width, share, width)
        for cell in range(cells)
        for name, phase, share in (
            ((SHORT, LONG)[cell % 2].id, Phase.PREFILL, 1.0),
            (DECODE.id, Phase.DECODE, 0.75),
            (SMALL_DECODE.id, Phase.DECODE, 0.25),
        )
    ]
    files = render(two_pool_plan(routing=tuple(rows)), target="dynamo")
    assert JUDGES["global_router"](files) == Judged(count=1)


def outcome(*tools: str) -> str:
    """What becomes of a test that needs `tools`."""
    try:
        require(*tools)
    except pytest.skip.Exception:
        return "skipped"
    except pytest.fail.Exception:
        return "failed"
    return "run"


def test_a_tool_that_is_missing_fails_in_ci_alone_and_only_where_it_could_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "TOOLS", tmp_path)
    monkeypatch.setattr(locations, "UNREACHABLE", tmp_path / "unreachable")
    monkeypatch.delenv("CI", raising=False)
    assert outcome("cel", "kubectl") == "skipped"
    monkeypatch.setenv("CI", "true")
    assert outcome("cel", "kubectl") == "failed"
    (tmp_path / "unreachable").write_text("cel", encoding="utf-8")
    assert (outcome("cel"), outcome("cel", "kubectl")) == ("skipped", "failed")
    for pins, expected in ((locations.pins("cel"), "run"), ("cel-expr-python==0.0.1\n", "skipped")):
        (tmp_path / "cel").mkdir(exist_ok=True)
        (tmp_path / "cel" / locations.MARK).write_text(pins, encoding="utf-8")
        assert outcome("cel") == expected


def test_routers_start_where_they_are_installed(router_programs: dict[str, list[str]]) -> None:
    for name, words in router_programs.items():
        flag = "-v" if name == "haproxy" else "--help"
        done = subprocess.run(
            [*words, flag], env=locations.router_environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (name, done.stderr[-500:])
