"""HAProxy's configuration: sound to HAProxy itself, cut where the plan cuts, and held against the plan when edited."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from contract_plans import aggregated_plan, beside_plan, single_node_plan
from export_plans import island, plan_of, route
from router_reading.comparing import router_faults
from router_reading.haproxy import prompt_tokens, read_backends
from routers_run.drawn_plans import drawn_plan
from routers_run.programs_run import program_words

from planner.domain import PHASES, LengthMeasure, ParallelConfig, Phase, Plan, RouterBehaviour
from planner.domain.serving.programs import Surroundings
from planner.domain.serving.routers import Rule
from planner.errors import InputError
from planner.export import ExportOptions, render
from planner.export.routers.haproxy import LUA_FILE, body_bytes
from planner.export.routers.intervals import routed_buckets
from planner.export.routers.intervals_served import server_weights
from planner.export.routers.registry import ROUTERS
from planner.export.templating import file_of

DRAWN = range(8)
_NAMES = re.compile(r' "?[a-z0-9.-]+(?:\.\$\{NAMESPACE\}[a-z.]+)?:(\d+)"? (weight|check)')


def config(files: dict[str, str]) -> str:
    """haproxy.cfg, of whatever target."""
    if "haproxy.cfg" in files:
        return files["haproxy.cfg"]
    documents = yaml.safe_load_all(files["router.yaml"])
    return next(str(d["data"]["haproxy.cfg"]) for d in documents if d["kind"] == "ConfigMap")


def two_intervals(cut: int = 2048) -> Plan:
    """Prompts below `cut` tokens to one island of two servers; longer ones to two islands, which share 3 to 1."""
    pair = ParallelConfig(tp=8, dp=1, replicas=2)
    islands = tuple(island(name, "H20", Phase.MIXED, pair) for name in ("a", "b", "c"))
    rows = tuple(
        route(name, phase, start, share, cut)
        for phase in PHASES
        for name, start, share in (("a", 0, 1.0), ("b", cut, 0.75), ("c", cut, 0.25))
    )
    return plan_of(islands, name="two", routing=rows)


@cache
def files_of_two(target: str) -> dict[str, str]:
    """The files of `two_intervals`; not to be changed."""
    return render(two_intervals(), target=target)


def test_haproxy_takes_the_configuration_of_drawn_plans(tmp_path: Path) -> None:
    program = program_words("haproxy")
    for seed in DRAWN:
        target = ("lws", "script", "kubernetes")[seed % 3]
        path = tmp_path / f"{seed}.cfg"
        text = config(render(drawn_plan(seed), target=target, router="haproxy"))
        (tmp_path / LUA_FILE).write_text(file_of(LUA_FILE))
        path.write_text(_NAMES.sub(r' "${ADDRESS}:\1" \2', text))  # nobody is asked for names
        environment = os.environ | {"ADDRESS": "127.0.0.1", "NAMESPACE": "default"}
        done = subprocess.run(
            [*program, "-c", "-f", path], capture_output=True, text=True, env=environment, check=False, cwd=tmp_path
        )
        assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("seed", DRAWN)
def test_the_configuration_reads_back_as_the_plan(seed: int) -> None:
    plan = drawn_plan(seed)
    files = render(plan, target="script", router="haproxy")
    backends = read_backends(config(files))
    assert backends is not None
    assert router_faults(files, plan) == ()
    starts = [start for start, _, _ in backends]
    planned = {bucket.start for bucket in routed_buckets(plan.routing)}
    assert set(starts) <= planned
    assert starts == sorted(starts)
    assert all(end == start for (_, end, _), (start, _, _) in pairwise(backends))


def test_sizes_cut_where_tokens_do() -> None:
    text = config(render(two_intervals(), target="script", options=ExportOptions(bytes_per_token=3.7)))
    envelope = int(re.search(r"setenv ENVELOPE_BYTES (\d+)", text)[1])  # type: ignore[index]
    assert f"use_backend interval-0 if {{ req.body_size lt {envelope + 7578} }}" in text  # 2048 x 3.7 = 7577.6
    for scale in (1.0, 2.3, 3.7, 4.0, 11.1):
        for tokens in (*range(1, 300), 8191, 163_839):
            assert prompt_tokens(body_bytes(tokens, scale, 139), scale, 139) == tokens


@pytest.mark.parametrize("cut", [2048, 16_384, 250_000])
def test_buffers_hold_the_longest_body_whose_interval_its_size_decides(cut: int) -> None:
    """`req.body_size` of a body in chunks is what has arrived, at most a buffer less tune.maxrewrite (1024 bytes) and
    the headers: it must reach the cut, or long prompts go to the short interval. A stream has two buffers,
    one each way, and 500 bodies are read at a time (the manual: tune.bufsize, option http-buffer-request)."""
    plan = two_intervals(cut)
    text = config(render(plan, target="script"))
    buffer = int(re.search(r"tune.bufsize (\d+)", text)[1])  # type: ignore[index]
    decided = int(re.search(r"body_size lt (\d+)", text)[1])  # type: ignore[index]
    assert decided >= 4 * cut
    assert buffer - 1024 - 2048 >= decided
    documents = yaml.safe_load_all(render(plan, target="kubernetes")["router.yaml"])
    (router,) = (d for d in documents if d["kind"] == "Deployment")
    (container,) = (c for c in router["spec"]["template"]["spec"]["containers"] if "haproxy" in c["image"])
    memory = container["resources"]["limits"]["memory"]
    assert int(memory.removesuffix("Mi")) * 2**20 >= 2 * 500 * buffer + 256 * 2**20


def test_weights_are_the_shares_of_single_servers() -> None:
    assert server_weights([(0.75, 2), (0.25, 2)]) == (256, 85)
    assert server_weights([(0.5, 1), (0.25, 2), (0.25, 1)]) == (256, 64, 128)
    assert server_weights([(1.0, 3)]) == (256,)
    text = config(files_of_two("script"))
    assert re.findall(r"server (two-\w-\d) \S+ weight (\d+)", text) == [
        ("two-a-0", "256"),
        ("two-a-1", "256"),
        ("two-b-0", "256"),
        ("two-b-1", "256"),
        ("two-c-0", "85"),
        ("two-c-1", "85"),
    ]


EDITS: dict[str, tuple[Callable[[str], str], str]] = {
    "swapped ranges": (
        lambda text: text.replace("use_backend interval-0", "use_backend interval-1").replace(
            "default_backend interval-1", "default_backend interval-0"
        ),
        "must send",
    ),
    "another cut": (lambda text: re.sub(r"body_size lt \d+", "body_size lt 5000", text), "must send"),
    "a rule of somebody's": (lambda text: text.replace("req.body_size lt", "req.hdr_cnt(x) lt"), "must send"),
    "a server of the other interval": (lambda text: text.replace("two-a-1:8000", "two-b-0:8000"), "must send"),
    "a dropped server": (lambda text: re.sub(r".* two-b-1:8000 .*\n", "", text), "must name two-b-1:8000 of b once"),
    "a server twice": (lambda text: text.replace(" two-b-1:8000", " two-b-0:8000"), "must name two-b-0:8000 of b once"),
    "nobody's server": (lambda text: text.replace(" two-b-1:8000", " two-z-1:8000"), "must name"),
    "a wrong weight": (lambda text: text.replace("weight 85", "weight 190", 1), "must have weight 85"),
    "a lower limit": (lambda text: re.sub(r"body_size gt \d+", "body_size gt 9000", text), "must send"),
    "another scale": (lambda text: text.replace("BYTES_PER_TOKEN 4.0", "BYTES_PER_TOKEN 2.0"), "must send"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_of_the_configuration_are_found(edit: str) -> None:
    plan = two_intervals()
    files = files_of_two("script")
    change, expected = EDITS[edit]
    edited = {**files, "haproxy.cfg": change(files["haproxy.cfg"])}
    assert edited != files
    assert any(expected in str(fault) for fault in router_faults(edited, plan)), router_faults(edited, plan)


def test_comments_and_spaces_are_nobodys_fault() -> None:
    plan = two_intervals()
    files = render(plan, target="script")
    text = (
        files["haproxy.cfg"]
        .replace("    balance", "\n  # changed by hand\n\tbalance")
        .replace("retries 3", "retries 5")
    )
    assert router_faults({**files, "haproxy.cfg": text}, plan) == ()


def test_pods_are_restricted_and_survive_a_drain() -> None:
    documents = list(
        yaml.safe_load_all(render(single_node_plan(), target="kubernetes", router="haproxy")["router.yaml"])
    )
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    assert [d["metadata"]["name"] for d in deployments] == ["single-nodes-router", "single-nodes-router-0-split"]
    for deployment in deployments:
        spec = deployment["spec"]["template"]["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            context = container["securityContext"]
            assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (True, False)
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "nvidia.com/gpu" not in container["resources"]["limits"]
        assert deployment["spec"]["replicas"] == 2
    assert sum(d["kind"] == "PodDisruptionBudget" for d in documents) == 2
    assert not any(d["kind"] in ("Role", "ServiceAccount") for d in documents)  # HAProxy finds pods by name


def told(plan: Plan) -> RouterBehaviour:
    """What HAProxy does of a plan for vLLM."""
    return ROUTERS["haproxy"].behaviour(plan, Surroundings())


def test_what_it_does_is_told() -> None:
    assert (told(two_intervals()).mixed[0].rule, told(two_intervals()).measure) == (Rule.IN_TURN, LengthMeasure.BYTES)
    assert told(aggregated_plan()).measure is LengthMeasure.TOKENS  # one interval: nothing is measured
    assert any("plan's shares" in note for note in told(beside_plan()).notes)


@pytest.mark.parametrize("scale", [0.5, 0.0, -4.0, 65.0, float("nan"), float("inf")])
def test_bytes_a_token_are_bounded(scale: float) -> None:
    with pytest.raises(InputError, match=r"bytes_per_token: must lie in 1\.\.64"):
        render(two_intervals(), options=ExportOptions(bytes_per_token=scale))


@pytest.mark.parametrize("name", ["$(reboot)", "a\nbackend evil", "`x`", "#", '"; exit', "ünïcode", "a'b"])
def test_hostile_names_stay_comments_or_are_refused(name: str, tmp_path: Path) -> None:
    plan = two_intervals()
    plan = replace(plan, scenario=replace(plan.scenario, name=name))
    for target in ("script", "kubernetes"):
        try:
            files = render(plan, target=target)
        except InputError:
            continue
        assert router_faults(files, plan) == ()
        rows = [line for line in config(files).splitlines() if not line.startswith("#")]
        assert "backend evil" not in rows
        assert not any(part in row for row in rows for part in ("$(", "`", ";", "'"))
        for file, text in files.items():
            if file.endswith(".sh"):
                (tmp_path / file).write_text(text)
                done = subprocess.run(["bash", "-n", tmp_path / file], capture_output=True, check=False)
                assert done.returncode == 0


def test_a_name_that_an_island_has_is_refused() -> None:
    plan = plan_of(
        (island("router", "H20", Phase.MIXED, ParallelConfig(tp=8, dp=1)),),
        name="two",
        routing=tuple(route("router", phase, 0, 1.0) for phase in PHASES),
    )
    with pytest.raises(InputError, match="Router's program 'two-router'"):
        render(plan)
