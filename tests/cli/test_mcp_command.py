"""`planner mcp`, asked by the SDK's own client over the pipes of a real process: answers, refusals, what is written.

One session asks everything; each test looks at a part of it. What a command prints with `--json` is the truth: the
command line that an answer names is run again, here, and must print that answer.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import Command
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from planner.cli.assistants.calls import Workplace
from planner.cli.assistants.commands import TOOLS
from planner.cli.assistants.server import Assistance
from planner.cli.docs.markdown_pages import guide_text
from planner.errors import InputError, PlannerError
from planner.plans.provenance import planner_version

pytestmark = pytest.mark.usefixtures("all_draws")  # as the server has, a process of its own

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"model": "gpt-oss-20b", "workload": "normal-500-2000"}
OFFER = "gpus:\n  H100: {usd_per_hour: 3, count: 2}\n"
SCENARIO = """\
name: small
model: gpt-oss-20b
workload: normal-500-2000
inventory: {H100: 2}
prices_usd_per_gpu_hour: {H100: 2.5}
slo: {ttft_ms: 4000, tpot_ms: 60}
"""
LEVELS = {"ttft": "4s", "tpot": "60ms"}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "max": ("max", {"inventory": "H100=1", "run": "first", **SMALL, **LEVELS}),
    "cheapest": ("cheapest", {"rps": 2, "offer": "offer.yaml", **SMALL}),
    "buy": ("buy", {"usd": 7, "offer": "offer.yaml", **SMALL}),
    "plan": ("plan", {"scenario": "small.yaml", "set": ["slo.tpot_ms=50"], "seed": 3.0, "run": "taken", "force": True}),
    "explain": ("explain", {"run": "first"}),
    "compare": ("compare", {"runs": ["first", "taken"], "sort": "price"}),
    "replay": ("replay", {"run": "first", "requests": 300, "seeds": "2"}),
    "model show": ("model_show", {"model": "gpt-oss-20b"}),
}
WRITING = ("max", "cheapest", "buy", "plan")
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "unknown GPU": ("max", {"inventory": "H101=1", **SMALL}, "InputError", "There is no GPU type 'H101'"),
    "infeasible": ("max", {"inventory": "H100=1", **SMALL, "model": "deepseek-v3"}, "InfeasibleError", "do not fit"),
    "path above": ("replay", {"run": "../outside"}, "InputError", "run: must lie below the server's folder"),
    "path of the root's neighbour": ("plan", {"scenario": "../outside.yaml"}, "InputError", "must lie below"),
    "absolute path": ("model_show", {"model": "/etc/hostname"}, "InputError", "model: must lie below"),
    "link that leads out": ("plan", {"scenario": "link.yaml"}, "InputError", "must lie below"),
    "path in a setting": ("plan", {"scenario": "small.yaml", "set": ["workload=../w.yaml"]}, "InputError", "set: must"),
    "path in quotes": ("plan", {"scenario": "small.yaml", "set": ["workload='{out}'"]}, "InputError", "lies outside"),
    "run above": ("max", {"inventory": "H100=1", "run": "../x", **SMALL}, "InputError", "run: must be a plain name"),
    "run below": ("max", {"inventory": "H100=1", "run": "a/b", **SMALL}, "InputError", "run: must be a plain name"),
    "run that is hidden": ("max", {"inventory": "H100=1", "run": ".x", **SMALL}, "InputError", "must be a plain name"),
    "run of two lines": ("max", {"inventory": "H100=1", "run": "x\n", **SMALL}, "InputError", "must be a plain name"),
    "two lines": ("explain", {"run": "first\n"}, "InputError", "run: must be a text of one line"),
    "wrong type": ("cheapest", {"rps": "two", **SMALL}, "InputError", "rps: must be a number, got 'two'"),
    "yes for a number": ("cheapest", {"rps": True, **SMALL}, "InputError", "rps: must be a number, got True"),
    "above a bound": ("max", {"inventory": "H100=1", "survive": 101, **SMALL}, "InputError", "at most 100, got 101"),
    "no such order": ("compare", {"runs": ["first"], "sort": "luck"}, "InputError", "sort: must be one of rate,"),
    "an option": ("replay", {"run": "--help"}, "InputError", "--help"),
    "unknown argument": ("explain", {"run": "first", "out": "x"}, "InputError", "'out' must be one of its arguments"),
    "missing argument": ("buy", dict(SMALL), "InputError", "usd must be given"),
    "unknown tool": ("sweep", {}, "InputError", "must be one of cheapest, buy, max"),
    "run that exists": ("plan", {"scenario": "small.yaml", "run": "taken"}, "InputError", "already holds a result"),
}


@dataclass
class Session:
    """All that one session brought, and the folder around the server's, `root` in it."""

    around: Path
    tools: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    trees: dict[str, dict[str, bytes]] = field(default_factory=dict)
    seconds_to_end: float = 0.0
    at_work_when_cancelled: int = 0

    @property
    def root(self) -> Path:
        """The server's folder."""
        return self.around / "root"

    def tree(self) -> dict[str, bytes]:
        """Every file around the server and in it, folders with a slash."""
        paths = (path for path in self.around.rglob("*") if path.name != "log")
        return {
            f"{path.relative_to(self.around)}{'/' * path.is_dir()}": b"" if path.is_dir() else path.read_bytes()
            for path in paths
        }

    def calls_at_work(self) -> int:
        """Processes of calls, by their command lines."""
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes())
            except OSError:  # it has ended meanwhile
                continue
        return sum(b"assistants.confined" in line and os.fsencode(self.root) in line for line in lines)

    async def ask(self, client: ClientSession, label: str, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool, and keep its answer."""
        result = await client.call_tool(
            tool, json.loads(json.dumps(arguments).replace("{out}", f"{self.around}/w.yaml"))
        )
        self.answers[label] = {"is_error": result.is_error, **result.structured_content}
        self.texts[label] = result.content[0].text


async def held(session: Session) -> None:
    """The session, from the first greeting to the end of the process."""
    environment = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(session.around / "home"),
        "TMPDIR": str(session.around / "tmp"),
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    }
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "planner", "mcp", "--root", str(session.root), "--seconds", "300"],
        env=environment,
        cwd=session.around,
    )
    with (session.around / "log").open("w") as log:
        async with stdio_client(server, errlog=log) as streams, ClientSession(*streams) as client:
            await client.initialize()
            session.tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            await session.ask(client, "buy", *ASKED["buy"])  # by itself: libraries put aside what later calls find
            async with anyio.create_task_group() as both:
                both.start_soon(session.ask, client, "max", *ASKED["max"])
                both.start_soon(session.ask, client, "cheapest", *ASKED["cheapest"])
            shutil.copytree(session.root / "buy-1", session.root / "taken")
            for label in ("plan", "explain", "compare", "replay", "model show"):
                await session.ask(client, label, *ASKED[label])
            session.trees["answered"] = session.tree()
            for label, (tool, arguments, *_) in REFUSED.items():
                await session.ask(client, label, tool, arguments)
            await cancelled(session, client)
            session.trees["refused"] = session.tree()
    session.trees["ended"] = session.tree()


async def cancelled(session: Session, client: ClientSession) -> None:
    """A call of minutes, given up once it is at work."""
    assert session.calls_at_work() == 0
    async with anyio.create_task_group() as group:
        group.start_soon(
            client.call_tool, "replay", {"run": "first", "requests": 1_000_000, "seeds": "99", "trace": "lengths"}
        )
        while session.calls_at_work() == 0:
            await anyio.sleep(0.05)
        await anyio.sleep(1.5)
        session.at_work_when_cancelled = session.calls_at_work()
        group.cancel_scope.cancel()
    began = time.monotonic()
    while session.calls_at_work() and time.monotonic() - began < 60:
        await anyio.sleep(0.05)
    session.seconds_to_end = time.monotonic() - began


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One session with a server, all questions asked."""
    around = tmp_path_factory.mktemp("around")
    for name in ("root", "home", "tmp"):
        (around / name).mkdir()
    found = Session(around=around)
    fill(found.root)
    (around / "outside.yaml").write_text(SCENARIO)
    (around / "w.yaml").write_text((ROOT / "workloads/normal-500-2000.yaml").read_text())
    (found.root / "numpy.py").write_text("raise SystemExit('a file of the folder is no module')")
    (found.root / "link.yaml").symlink_to(around / "outside.yaml")
    anyio.run(held, found)
    return found


def fill(folder: Path) -> None:
    """The files that questions name."""
    (folder / "offer.yaml").write_text(OFFER)
    (folder / "small.yaml").write_text(SCENARIO)


def numbers(value: Any, way: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document by its way through it, written apart from the server's."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, dict):
        for key, below in value.items():
            yield from numbers(below, f"{way}.{key}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            yield from numbers(below, f"{way}[]")
    else:
        yield way, value


def test_every_question_is_a_tool_with_its_own_schema(session: Session) -> None:
    assert {*session.tools} == {"cheapest", "buy", "max", "plan", "explain", "compare", "replay", "model_show"}
    schema = session.tools["cheapest"].input_schema
    assert schema["required"] == ["rps", "model", "workload"]
    assert schema["properties"]["rps"]["type"] == "number"
    assert schema["properties"]["survive"] | {"description": ""} == {
        **{"type": "integer", "minimum": 0, "maximum": 100, "default": 0},
        "description": "",
    }
    assert schema["additionalProperties"] is False
    assert session.tools["compare"].input_schema["properties"]["sort"]["enum"][:2] == ["rate", "promise"]
    assert [name for name, tool in session.tools.items() if not tool.annotations.read_only_hint] == [
        *("cheapest", "buy", "max", "plan"),
    ]


def test_answers_are_what_the_named_command_line_prints(session: Session, planner: Command) -> None:
    """In a folder of the same files, where the earlier ones have written what the later ones look at."""
    fill(Path.cwd())
    for label, (tool, arguments) in ASKED.items():
        answer = session.answers[label]
        assert not answer["is_error"], session.texts[label]
        question = answer["provenance"]["question"]
        assert question["arguments"] == arguments
        program, *words = shlex.split(question["command"])
        assert (program, words[0]) == ("planner", tool.split("_")[0])
        assert planner(*words).json == answer["answer"], label
        assert question["command"] in session.texts[label]


@pytest.mark.parametrize("label", ASKED)
def test_every_number_has_a_unit_and_what_it_rests_on(session: Session, label: str) -> None:
    answer = session.answers[label]
    assert {*answer["figures"]} == {way for way, _ in numbers(answer["answer"])}
    parts = {*answer["provenance"], *(part for run in answer["provenance"].get("runs", ()) for part in run)}
    for way, figure in answer["figures"].items():
        assert figure["unit"], way
        assert figure["rests_on"], way
        assert {*figure["rests_on"]} <= parts, way
        if "band" in figure:
            assert {figure["band"]["low"], figure["band"]["high"]} <= {*answer["figures"]}, way


def test_units_and_bases_are_those_of_the_figures(session: Session) -> None:
    figures = {label: session.answers[label]["figures"] for label in ASKED}
    assert {
        way: figures["cheapest"][way]["unit"] for way in ("amount", "bound", "gap", "capacity_rps", "gpus.H100")
    } == {
        **{"amount": "requests/s", "bound": "USD/hour", "gap": "share"},
        **{"capacity_rps": "requests/s", "gpus.H100": "GPUs"},
    }
    assert (figures["buy"]["amount"]["unit"], figures["buy"]["bound"]["unit"]) == ("USD/hour", "requests/s")
    assert figures["max"]["latency[].bound_ms"] == {"unit": "ms", "rests_on": ["question"]}
    assert figures["max"]["price_usd_per_hour"]["rests_on"] == ["prices", "question"]
    assert "replay" in figures["replay"]["ttft_ms.p99"]["rests_on"]
    assert "replay" not in figures["replay"]["promise_rps"]["rests_on"]
    assert figures["replay"]["ttft_ms.p99"]["band"]["low"] == "ttft_ms_ci.p99[]"
    assert figures["replay"]["warm_up_s"]["unit"] == "s"
    assert figures["model show"]["weights_gb"] == {"unit": "GB", "rests_on": ["model"]}


def test_a_headline_has_the_value_and_its_band(session: Session) -> None:
    for label, figure in (("max", "capacity_rps"), ("plan", "throughput_rps")):
        answer = session.answers[label]["answer"]
        row = next(row for row in session.answers[label]["headline"] if row["figure"] == figure)
        assert (row["value"], row["low"], row["high"]) == (answer[figure], answer["low_rps"], answer["high_rps"])
        assert f"{figure}: {answer[figure]:.6g} requests/s ({answer['low_rps']:.6g} to" in session.texts[label]
    rows = {row["figure"]: row for row in session.answers["compare"]["headline"]}
    plans = session.answers["compare"]["answer"]["plans"]
    for place, plan in enumerate(plans):
        assert rows[f"plans[{place}].figures.rate_rps"]["value"] == plan["figures"]["rate_rps"]
        assert rows[f"plans[{place}].figures.rate_rps"]["low"] == plan["figures"]["band"]["low_rps"]


def test_provenance_is_that_of_the_run_folder(session: Session) -> None:
    for label in (*WRITING, "explain", "compare", "replay"):
        provenance = session.answers[label]["provenance"]
        assert provenance["planner"] == planner_version()
        for run in provenance["runs"]:
            plan = json.loads(session.trees["answered"][f"root/{run['run']}/plan.json"])
            assert [[row["name"], row["sha256"]] for row in run["inputs"]] == plan["provenance"]["inputs_sha256"]
            assert run["estimates"] == plan["provenance"]["estimates"] != []
            assert run["solver"]["seed"] == plan["provenance"]["seed"]
            assert run["prices"] == plan["scenario"]["prices_usd_per_gpu_hour"]
    names = {
        label: [run["run"] for run in session.answers[label]["provenance"]["runs"]] for label in ("max", "compare")
    }
    assert names == {"max": ["first"], "compare": ["first", "taken"]}
    assert session.answers["plan"]["provenance"]["runs"][0]["solver"]["seed"] == 3
    assert session.answers["replay"]["provenance"]["replay"]["seeds"] == [0, 1]
    assert session.answers["model show"]["provenance"]["model"]["files"][0]["name"] == "gpt-oss-20b.json"


@pytest.mark.parametrize("label", REFUSED)
def test_what_cannot_be_is_refused_with_what_to_do(session: Session, label: str) -> None:
    _, _, kind, words = REFUSED[label]
    answer = session.answers[label]
    assert answer["is_error"]
    assert answer["error"]["kind"] == kind
    assert words in answer["error"]["message"]
    assert answer["error"]["hint"]
    assert answer["error"]["message"].partition("\n")[0] in session.texts[label]
    assert "Traceback" not in session.texts[label]


def test_what_is_written_lies_in_run_folders_alone(session: Session) -> None:
    written = {*session.trees["answered"]} - {"root/", "home/", "tmp/", "w.yaml", "outside.yaml"}
    own = {f"root/{name}" for name in ("offer.yaml", "small.yaml", "link.yaml", "numpy.py")}
    assert {"/".join(name.split("/")[:2]) for name in written - own if not name.startswith("tmp/")} == {
        f"root/{run}" for run in ("first", "cheapest-1", "buy-1", "taken")
    }
    scratch = {name for name in written if name.startswith("tmp/")}
    assert all(name.startswith("tmp/planner-mcp-") for name in scratch)
    assert any("/fontlist" in name for name in scratch)  # what libraries put aside
    ended = {name for name in session.trees["ended"] if name.startswith(("tmp/", "home/"))}
    assert ended == {"tmp/", "home/"}


def test_refusals_and_a_cancelled_call_leave_nothing(session: Session) -> None:
    before, after = (
        {name: content for name, content in session.trees[when].items() if not name.startswith("tmp/")}
        for when in ("answered", "refused")
    )
    assert before == after
    assert session.at_work_when_cancelled == 1
    assert session.seconds_to_end < 60


def test_a_run_is_replaced_where_that_is_asked_for(session: Session) -> None:
    """`taken` was a copy of `buy-1`."""
    names = {run: json.loads(session.trees["answered"][f"root/{run}/plan.json"])["name"] for run in ("buy-1", "taken")}
    assert names == {"buy-1": "buy-7usd", "taken": "small"}


LONG = ["replay", "--requests=1000000", "--seeds=99", "--trace=lengths", "--json", "--", "first"]


def test_a_call_that_takes_too_long_is_ended(session: Session, tmp_path: Path) -> None:
    place = Workplace(root=session.root, scratch=tmp_path, seconds=2)
    with pytest.raises(PlannerError, match=r"replay: must end within 2 s, and was ended") as left:
        anyio.run(place.printed, LONG)
    assert "--seconds" in left.value.hint
    assert session.calls_at_work() == 0


def test_a_call_ends_when_its_server_is_gone(session: Session, tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "planner.cli.assistants.confined", session.root, tmp_path, *LONG]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=session.root) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.stdin.close()
        assert process.wait(60) != 0  # by a signal, or 143 where it has got as far as its own way to end
        assert process.stdout.read() == b""


def test_runs_that_are_about_to_be_written_have_names_of_their_own(tmp_path: Path) -> None:
    place = Workplace(root=tmp_path, scratch=tmp_path, seconds=1)
    assistance = Assistance(place=place, slots=anyio.CapacityLimiter(1))
    (tmp_path / "max-2").mkdir()
    assert [assistance.run_name(TOOLS["max"], {}) for _ in range(3)] == ["max-1", "max-3", "max-4"]
    with pytest.raises(InputError, match="max-1 is being written by another call"):
        assistance.run_name(TOOLS["max"], {"run": "max-1"})


GREETING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
}


def test_a_server_that_waits_ends_on_a_signal(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "planner", "mcp", "--root", tmp_path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write(json.dumps(GREETING) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "planner"
        process.terminate()
        assert process.wait(20) == 143


def test_the_guide_names_every_tool_and_starts_the_program(session: Session) -> None:
    text = guide_text("assistants")
    assert {*re.findall(r"^\| `(\w+)` \|.*\|.*\|$", text, re.MULTILINE)} == {*session.tools}
    entry = json.loads(re.search(r"```text\n(.*?)```", text, re.DOTALL)[1])["mcpServers"]["planner"]
    assert (entry["command"], entry["args"][:2]) == ("planner", ["mcp", "--root"])
    assert {*re.findall(r"^\| `(\w+)` \|[^|]*\|$", text, re.MULTILINE)} <= {*session.answers["max"]}


def test_without_the_package_it_says_what_to_install(planner: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name == "mcp" or name.startswith(("mcp.", "planner.cli.assistants.server")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    answer = planner("mcp", "--root", ".")
    assert answer.status == 1
    assert 'pip install "llm-fleet-planner[mcp]"' in answer.err


def test_a_root_that_is_none_is_refused(planner: Command) -> None:
    answer = planner("mcp", "--root", "nowhere")
    assert answer.status == 2
    assert "--root: must be a folder, got nowhere." in answer.err
