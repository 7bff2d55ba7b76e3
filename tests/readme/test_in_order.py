"""README and every guide can be typed from top to bottom in a fresh folder, each by itself."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from documentation import FENCE, TEXTS

MEASUREMENTS = "gpu,model,phase,tp,dp,ep,length,batch,ms\nH200,deepseek-v3,decode,1,32,32,4096,64,60\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{k},{cpus}000,393216,{gpus},{model}\n"
    for k, (model, gpus, cpus) in enumerate([("G2", 8, 96), ("T4", 2, 104)] * 4)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" + "".join(
    f"p{k},{4 + 4 * (k % 3)}000,8192,{gpus},{milli},,{60 * k},{60 * k + 1800}\n"
    for k, (gpus, milli) in enumerate([(1, 1000), (1, 500), (0, 0), (1, 470), (2, 1000)] * 6)
)


def cluster_list() -> str:
    """What `kubectl get nodes,pods -A -o json` says of a node of eight H200 with a pod on two of them."""
    held = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8"}
    asked = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}
    labels = {"rack": "r1", "nvidia.com/gpu.product": "NVIDIA-H200"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n-1", "labels": labels},
        "status": {"capacity": held, "allocatable": held},
    }
    spec = {"nodeName": "n-1", "containers": [{"name": "c", "resources": {"requests": asked}}]}
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}, "spec": spec}
    return json.dumps({"kind": "List", "items": [node, pod]})


# what a reader brings along, where the text says so: a paragraph that begins with "Yours:" names it
YOURS = {
    "trace.csv": "arrival_s,input_tokens,output_tokens\n0,100,10\n1.5,2000,20\n2,300,0\n",
    "nodes.csv": NODES,
    "pods.csv": PODS,
    "trace/server_hourly.csv": "server_id,gpu_spec_public,gpu_count,day,hour\ns1,H20,8,109,0\ns2,A10,1,109,0\n",
    "measurements.csv": MEASUREMENTS,
    "cluster-list.json": cluster_list(),
    "gpu-numa.yaml": "default: [0, 0, 0, 0, 1, 1, 1, 1]\n",
}
NAMED_ABOVE = re.compile(r"`([\w-]+\.\w+)`[,:]\n\n$")  # "With this history as `load.csv`,"
NAMED_INSIDE = re.compile(r"^.*# .*?([\w-]+\.yaml)$")  # a comment on the first line
OUTPUT = re.compile(r"<!-- output: \w[\w-]* -->\n$")  # of the commands in the block before
LEFT = {"watching": {"runs/watched/current": "plans/0002\n"}}  # a plan at first, and another as the load rises
FIRST = "planner plan quickstart --out runs/quickstart"
SMALLER = {
    "README": {
        "--ttft 2s --tpot 50ms": "--ttft 2s --tpot 50ms --serving split",
        "objective: {kind: budget,": "serving: split\nobjective: {kind: budget,",
        # the guide of re-planning replays its steps
        "azure-conv-2023 --least-share 0.85": "normal-500-2000 --least-share 0.5 --no-replay",
        "--days 0.25": "--days 0.01",
        'inventory={"H200": 64, "H800": 64, "H20": 128}': 'serving="split", inventory={"H200": 16, "H20": 32}',
    },
    "batches": {"inventory: {H200: 16}}\n": "inventory: {H200: 16}, serving: split, ranges: {width: 4096}}\n"},
    "money": {"--usd 512": "--usd 64", "H100=40,A100=24": "H100=16,A100=8"},
    "replay": {"--requests 2000 --seeds 2 --sweep": "--requests 500 --seeds 1 --sweep"},
    "schedules": {"days=0.1": "days=0.01"},
    "fleets": {
        "model: deepseek-v3": "model: qwen3-30b-a3b-fp8",
        "H200: 40, H20: 64": "H200: 16, H20: 32",
        "--days 7": "--days 1",
        "--points 4": "--points 2",
    },
    "studies": {
        "--iterations 2 --batch 4": "--iterations 1 --batch 2",
        "--machines 40 --days 2 --seeds 1-2 --curve 0.1,0.2": "--machines 20 --days 2 --seeds 1 --curve 0.1",
        "--seeds 42-43": "--seeds 42",
        "--policy baseline --policy rr-deadline --scale 0.1 --minutes 3": "--policy baseline --scale 0.1 --minutes 1",
    },
    "replanning": {"H20=96,H200=64,H800=64": "H20=16,H200=16,H800=16"},
}
"""Sizes that take long, and those that the tests take: every line is typed all the same."""
QUICKSTART = """\
name: quickstart
model: deepseek-v3
workload: azure-code-2023
inventory: {H200: 16, H800: 16, H20: 32}
serving: aggregated
"""
"""A file of that name stands for the shipped scenario, which has four times as many GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A code block: its kind, its text, the file that it is saved as, whether it shows what was printed."""

    kind: str
    body: str
    file: str | None
    is_output: bool


def steps_of(text: str) -> Iterator[Step]:
    """The code blocks in order."""
    for match in FENCE.finditer(text):
        before, body = text[: match.start()], match[2]
        named = NAMED_INSIDE.match(body.split("\n", 1)[0]) if match[1] == "yaml" else NAMED_ABOVE.search(before)
        yield Step(kind=match[1], body=body, file=named and named[1], is_output=OUTPUT.search(before) is not None)


def brought_along(text: str) -> dict[str, str]:
    """Files of the reader's own, by the paragraphs that ask for them."""
    asked = " ".join(re.findall(r"^Yours: .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL))
    named = re.findall(r"`([\w./-]+)`", asked)
    return {path: content for path, content in YOURS.items() if path in named}


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run that most guides begin with is kept once it was made: each of them copies it."""
    return tmp_path_factory.mktemp("first") / "run"


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_can_be_typed_from_a_fresh_folder(
    name: str,
    planner: Callable[[str], str],
    tmp_path: Path,
    first_run: Path,
    few_draws: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if any(step.is_output and "% sure" in step.body for step in steps_of(TEXTS[name])):
        monkeypatch.setattr("planner.evaluation.doubts.odds.DRAWS", few_draws)
    (tmp_path / "quickstart").write_text(QUICKSTART)
    for path, content in brought_along(TEXTS[name]).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    notebook: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for step in steps_of(smaller(name)):
        if step.file:
            (tmp_path / step.file).write_text(step.body)
        elif step.kind == "bash":
            printed = "".join(_typed(line, planner, first_run) for line in step.body.splitlines())
        elif step.kind == "python":
            exec(compile(step.body, f"{name}.md", "exec"), notebook)
        if step.is_output and printed:
            assert " ".join(step.body.split()) in " ".join(printed.split())
        elif step.kind != "bash":
            printed = ""
    for path, content in LEFT.get(name, {}).items():
        assert (tmp_path / path).read_text() == content


def smaller(name: str) -> str:
    """A text, as small as the tests want it."""
    text = TEXTS[name]
    for size, less in SMALLER.get(name, {}).items():
        assert size in text, size
        text = text.replace(size, less)
    return text


def _typed(line: str, planner: Callable[[str], str], first_run: Path) -> str:
    """What a line prints, which has to leave what it names after --out, --scenario, --csv, --html."""
    assert line.startswith("planner ")
    if line == FIRST and first_run.is_dir():
        shutil.copytree(first_run, "runs/quickstart")
        return ""
    printed = planner(line)
    for path in re.findall(r"--(?:out|scenario|csv|html|picture) (\S+)", line):
        assert Path(path).exists(), line
    if line == FIRST:
        shutil.copytree("runs/quickstart", first_run)
    return printed


def test_blocks_find_their_files() -> None:
    named = "```yaml\ngpus: {}   # saved as offer.yaml\n```\nWith this as `load.csv`,\n\n```text\na,b\n```\n"
    text = f"{named}```yaml\na: 1\n```\n"
    assert [step.file for step in steps_of(text)] == ["offer.yaml", "load.csv", None]
    assert {step.kind for text in TEXTS.values() for step in steps_of(text) if step.file} == {"yaml", "text"}
    assert {*brought_along("Yours: `pods.csv` and\n`trace.csv`.\n\nNot `nodes.csv`.\n\n")} == {"pods.csv", "trace.csv"}
