"""The `script` target with bash itself as the judge: what it parses, what it runs, what it refuses."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from contract_plans import PLANS, placed_plan
from export_plans import MODEL, PREFILL, SMALL_DECODE, example_plan, gpu, island, plan_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_yaml import load_document

from planner.domain import ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, read_plan, render
from planner.export.objects.scripts import read_launch_script

ENGINES = ("vllm", "sglang")
COMMANDS = {"vllm": "vllm", "sglang": "python3"}
GOLDEN = Path(__file__).with_name("golden_launch_script.sh")
BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")


def scripts(plan: Plan, engine: str = "vllm", options: ExportOptions | None = None) -> dict[str, str]:
    """The islands' scripts among the files."""
    files = render(plan, target="script", engine=engine, options=options, router="none")
    return {name: text for name, text in files.items() if name.endswith(".sh")}


def bash(
    *arguments: object, folder: Path, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """bash in `folder`, where stubs of the engines come first on PATH and print what they were called with."""
    for name in COMMANDS.values():
        stub = folder / name
        if not stub.exists():
            stub.write_text('#!/bin/sh\nprintf "%s\\0" "$0" "$@"\nprintf "%s\\0" "$VLLM_NIXL_SIDE_CHANNEL_HOST"\n')
            stub.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    clean = {k: v for k, v in os.environ.items() if not k.endswith("VISIBLE_DEVICES")}
    return subprocess.run(
        [str(BASH), *map(str, arguments)],
        check=False,
        cwd=folder,
        env={**clean, "PATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
    )


def run(text: str, *arguments: str, folder: Path, devices: str = "") -> "subprocess.CompletedProcess[str]":
    """The script as a process."""
    (folder / "launch.sh").write_text(text)
    return bash("launch.sh", *arguments, folder=folder, environment={"CUDA_VISIBLE_DEVICES": devices})


def argv(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the stub was called with; its own path left out."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\0")[1:-2]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", PLANS)
def test_bash_parses_every_script(plan: str, engine: str, tmp_path: Path) -> None:
    found = scripts(PLANS[plan](), engine)
    assert len(found) == sum(i.phase is not None for i in PLANS[plan]().islands)
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    done = bash("-c", 'for f in ./*.sh; do bash -n "$f" || exit 1; done', folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_reads_as_before() -> None:
    """To write it anew: print `scripts(example_plan())["03-h20-1.sh"]` into the file."""
    assert scripts(example_plan())["03-h20-1.sh"] == GOLDEN.read_text(encoding="utf-8")


def test_a_leader_starts_with_the_flags_of_the_other_targets(tmp_path: Path) -> None:

    there = load_document(render(example_plan(), router="none")["01-h200-0.yaml"].split("---")[1])
    group = there["spec"]["leaderWorkerTemplate"]
    wanted = [
        one.replace("$(LWS_LEADER_ADDRESS)", "10.0.0.1")
        for one in group["leaderTemplate"]["spec"]["containers"][0]["args"]
    ]
    done = run(scripts(example_plan())["01-h200-0.sh"], "1", "0", "10.0.0.1", "10.0.0.1", folder=tmp_path)
    assert argv(done) == ["serve", *wanted]
    assert done.stdout.split("\0")[-2] == "10.0.0.1"


def test_a_worker_knows_its_rank_and_its_address(tmp_path: Path) -> None:
    done = run(scripts(example_plan())["02-h20-0.sh"], "0", "3", "lead.example", "own-3", folder=tmp_path)
    found = argv(done)
    assert found[0] == "serve"
    assert "--data-parallel-address=lead.example" in found
    assert "--data-parallel-start-rank=24" in found  # rank 3 of pods with 8 data-parallel ranks
    assert "--headless" in found
    assert done.stdout.split("\0")[-2] == "own-3"
    done = run(scripts(example_plan(), "sglang")["02-h20-0.sh"], "0", "3", "lead", "own", folder=tmp_path)
    assert {"--node-rank=3", "--nnodes=4", "--dist-init-addr=lead:5000"} <= set(argv(done))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "must be called with COPY RANK LEADER_ADDRESS OWN_ADDRESS, got 0 arguments"),
        (("2", "0", "a", "a"), "COPY: must be a number from 0 to 1, got '2'"),
        (("01", "0", "a", "a"), "COPY: must be a number from 0 to 1, got '01'"),
        (("copy", "0", "a", "a"), "COPY: must be a number from 0 to 1, got 'copy'"),
        (("a[$(touch pwned)]", "0", "a", "a"), "COPY: must be a number"),
        (("0", "2", "a", "a"), "RANK: must be a number from 0 to 1, got '2'"),
        (("0", "-1", "a", "a"), "RANK: must be a number from 0 to 1, got '-1'"),
        (("0", "1; touch pwned", "a", "a"), "RANK: must be a number"),
        (("0", "1", "$(touch pwned)", "a"), "address: must be a host name or an IPv4 address"),
        (("0", "1", "a", "b c"), "address: must be a host name or an IPv4 address, got 'b c'"),
        (("0", "1", "a", ""), "address: must be a host name or an IPv4 address, got ''"),
        (("0", "1", "a", "-b"), "address: must be a host name or an IPv4 address, got '-b'"),
        (("0", "1", "a", "b\nc"), "address: must be a host name"),
        (("0", "0", "a", "b"), "OWN_ADDRESS: must be LEADER_ADDRESS for rank 0, got 'b'"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_starts(arguments: Sequence[str], told: str, tmp_path: Path) -> None:
    done = run(scripts(example_plan())["01-h200-0.sh"], *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("launch.sh: ")
    assert told in done.stderr
    assert not (tmp_path / "pwned").exists()


def test_gpus_of_a_shared_host_have_to_be_chosen_and_counted(tmp_path: Path) -> None:
    plan = plan_of((PREFILL, island("H20-s", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=1))))
    whole, shared = scripts(plan).values()
    call = ("0", "0", "a", "a")
    assert run(whole, *call, folder=tmp_path).returncode == 0
    assert (
        "CUDA_VISIBLE_DEVICES: must list 8 GPUs, got '0,1'" in run(whole, *call, folder=tmp_path, devices="0,1").stderr
    )
    assert "must list the 4 GPUs of this copy, as a host has more" in run(shared, *call, folder=tmp_path).stderr
    assert run(shared, *call, folder=tmp_path, devices="4,5,6,7").returncode == 0
    assert run(shared, *call, folder=tmp_path, devices="4,5,6").returncode == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_that_may_share_a_host_listen_on_ports_of_their_own(engine: str, tmp_path: Path) -> None:
    small = ParallelConfig(tp=4, dp=1, replicas=3)
    plan = plan_of((PREFILL, island("A", "H20", Phase.DECODE, small), island("B", "H20", Phase.PREFILL, small)))
    files = render(plan, target="script", engine=engine)
    rows = json.loads(files["routing.json"])["services"]
    ports = {row["island"]: [int(leader.rpartition(":")[2]) for leader in row["leaders"]] for row in rows}
    base = {"vllm": 8000, "sglang": 30000}[engine]
    assert ports == {
        "H200-0": [base, base],
        "A": [base, base + 128, base + 256],
        "B": [base + 384, base + 512, base + 640],
    }
    for copy, port in enumerate(ports["B"]):
        done = run(files["03-b.sh"], str(copy), "0", "a", "a", folder=tmp_path, devices="0,1,2,3")
        assert f"--port={port}" in argv(done)


def test_more_copies_than_ports_are_refused() -> None:
    many = island("H20-m", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=1, replicas=257))
    with pytest.raises(
        ExportError, match=r"Island H20-m, replicas: .* at most 256 of a GPU type, .* there are 257 on H20"
    ) as refused:
        render(plan_of((PREFILL, many)), target="script")
    assert refused.value.exit_status == 3


@pytest.mark.parametrize("key", ["priority_class", "queue", "model_volume"])
def test_options_that_only_a_cluster_heeds_are_refused(key: str) -> None:
    with pytest.raises(ExportError, match=f"Target script: nothing in its files can carry {key}"):
        render(example_plan(), target="script", options=ExportOptions(**{key: "one"}))


def test_a_placed_plan_says_which_host_and_pins_only_if_asked(tmp_path: Path) -> None:
    free = scripts(placed_plan())["01-h200-0.sh"]
    assert "#   rank 1: placed on h3.example, GPUs 0,1,2,3,4,5,6,7\n" not in free  # comments are one line, one space
    assert "# rank 1: placed on h3.example, GPUs 0,1,2,3,4,5,6,7\n" in free
    assert read_launch_script(free)["pins"] == []
    call = ("1", "1", "h2.example", "h3.example")
    assert run(free, *call, folder=tmp_path).returncode == 0
    pinned = scripts(placed_plan(), options=ExportOptions(pin_nodes=True))["01-h200-0.sh"]
    assert read_launch_script(pinned)["pins"] == [
        "0:0=h0.example",
        "0:1=h1.example",
        "1:0=h2.example",
        "1:1=h3.example",
    ]
    done = run(pinned, *call, folder=tmp_path)
    assert done.returncode == 2
    assert "this host: must be h3.example, where copy 1, rank 1 is placed" in done.stderr
    mine = pinned.replace("1:1=h3.example", f"1:1={os.uname().nodename}")
    assert run(mine, *call, folder=tmp_path).returncode == 0


def test_pins_need_a_placement_and_ranks_fill_its_shares() -> None:
    options = ExportOptions(pin_nodes=True)
    with pytest.raises(InputError, match="placement: must have nodes for island"):
        render(example_plan(), target="script", options=options)
    plan = placed_plan()
    assert plan.placement is not None
    first, second, *others = plan.placement.parts
    halves = [replace(second, gpu_indices=second.gpu_indices[:4]), replace(second, gpu_indices=second.gpu_indices[4:])]
    uneven = replace(plan, placement=replace(plan.placement, parts=(first, *halves, *others)))
    text = scripts(uneven, options=options)["01-h200-0.sh"]
    assert read_launch_script(text)["pins"][:4] == [
        f"0:{rank}=h{host}.example" for rank, host in enumerate((0, 0, 1, 1))
    ]
    assert "# rank 3: placed on h1.example, GPUs 4,5,6,7\n" in text


NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("$`'\"\\;&|<>(){}[]*?!#~=%: \n\t\r,-_.@^"),
        st.characters(codec="utf-8", exclude_categories=("Cs",)),
    ),
    max_size=24,
)
PAYLOADS = st.sampled_from(
    [
        "$(touch pwned)",
        "`touch pwned`",
        "'; touch pwned; '",
        '"; touch pwned; "',
        "a\ntouch pwned\n",
        "\\'",
        "x' #",
        "$copy",
    ]
)
HOSTILE = st.one_of(NASTY, PAYLOADS)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(id_=HOSTILE, name=HOSTILE, model=HOSTILE)
def test_hostile_names_stay_words_or_are_refused(id_: str, name: str, model: str, tmp_path: Path) -> None:
    hostile = replace(SMALL_DECODE, id=f"x{id_}")
    plan = plan_of((PREFILL, hostile), name=f"plan {name}", model=replace(MODEL, name=f"m{model}"))
    try:
        files = render(plan, target="script")
    except InputError:
        assert not all(c.isprintable() for c in id_ + name + model) or len(name) > 4
        return
    text = next(text for file, text in files.items() if file.startswith("02-"))
    done = run(text, "0", "0", "a", "a", folder=tmp_path)
    assert argv(done)[:2] == ["serve", "deepseek-ai/DeepSeek-V3"]
    assert not (tmp_path / "pwned").exists()
    assert read_plan(files).islands[-1].id == hostile.id


@pytest.mark.parametrize("uri", ["hf://a/b; rm -rf ~", "/models/$(touch pwned)", "/models/a b", "hf://a/b\n--trust"])
def test_hostile_model_locations_are_refused(uri: str) -> None:
    with pytest.raises(InputError, match="uri: must be"):
        render(plan_of((PREFILL, SMALL_DECODE), model=replace(MODEL, uri=uri)), target="script")


@pytest.mark.parametrize("value", ["a b", "$(touch pwned)", "x\ny"])
def test_hostile_labels_are_refused(value: str) -> None:
    types = (gpu("H200"), gpu("H20", node_selector=(("product", value),)))
    with pytest.raises(InputError, match=r"GPU H20, node_selector\[product\]"):
        render(plan_of((PREFILL, SMALL_DECODE), gpus=types), target="script")


FILE = "01-h200-0.sh"


def test_a_script_laid_out_by_hand_still_reads() -> None:
    text = scripts(example_plan())[FILE]
    by_hand = text.replace("      vllm\n      serve\n", "      # the engine\n      vllm serve\n")
    assert by_hand != text
    assert read_launch_script(by_hand) == read_launch_script(text)


@given(st.text(max_size=200), st.integers(0, 5000))
def test_any_text_is_read_or_refused(noise: str, at: int) -> None:
    """Nothing but ValueError comes out of a broken script."""
    text = GOLDEN.read_text(encoding="utf-8")
    for broken in (noise, text[: at % len(text)] + noise + text[at % len(text) :]):
        with suppress(ValueError):
            assert read_launch_script(broken)["commands"]
