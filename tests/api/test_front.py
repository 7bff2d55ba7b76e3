"""What a notebook sees of the front: names, help, short cards, bars, frames in and out, errors."""

import contextlib
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import planner
from planner.api import cards, progress
from planner.api.tables import counts_of
from planner.cli import main

QUESTION: dict[str, Any] = {
    "inventory": {"H200": 32, "H20": 32},
    "workload": "normal-500-2000",
    "ranges": {"width": 2048},
    "serving": "split",
    "name": "front",
}
MOST_CHARACTERS = 20_000


@pytest.fixture(scope="module")
def plan() -> planner.PlannedDeployment:
    return planner.plan(**QUESTION)


@pytest.fixture(scope="module")
def cluster() -> planner.ClusterAtHand:
    return planner.cluster(synthetic=600, load=0.6, seed=1, gpus=("H200", "H20"))


@pytest.fixture(scope="module")
def shell() -> InteractiveShell:
    return InteractiveShell.instance()


def test_completion_shows_what_users_need(shell: InteractiveShell) -> None:
    shell.user_ns["planner"] = planner
    with contextlib.suppress(AttributeError):
        shell.Completer.use_jedi = False
    _, names = shell.complete("planner.")
    shown = {name.removeprefix("planner.").removeprefix(".") for name in names}
    wanted = {
        "plan",
        "cheapest",
        "buy",
        "max",
        "frontier",
        "compare",
        "sweep",
        "batch",
        "explain",
        "load",
        "workload",
    }
    assert wanted | {"cluster", "replay", "export", "gpus", "models"} <= shown
    assert not shown & {"placement", "placing", "api", "pipeline", "domain", "doors", "runs", "cli", "import_module"}


@pytest.mark.parametrize("name", [name for name in dir(planner) if name.islower() and name[0] != "_"])
def test_every_function_says_what_it_does_and_shows_how(name: str) -> None:
    function = getattr(planner, name)
    assert callable(function)
    text = function.__doc__ or ""
    assert len(text.splitlines()[0]) <= 120
    assert "planner." in text or name in {"buy", "max", "cheapest", "compare", "explain", "sweep"}, name


def test_packages_that_are_functions_are_both(plan: planner.PlannedDeployment, tmp_path: Path) -> None:
    assert planner.workload("azure-conv-2023").record.name == "azure-conv-2023"
    assert planner.replay.simulate is not planner.replay
    folder = plan.save(tmp_path / "run")
    replayed = planner.replay(folder, "lengths", "0.5x", requests=200, seeds=1)
    assert replayed.record == plan.replay("lengths", "0.5x", requests=200, seeds=1).record
    assert planner.export(folder, tmp_path / "a", target="lws").name == "a"
    plan.export(tmp_path / "b", target="lws")
    first, other = ({p.name: p.read_bytes() for p in (tmp_path / name).glob("*.yaml")} for name in "ab")
    assert first == other


def _bytes_of(run: Path) -> dict[str, bytes]:
    """The text files of a run folder, CPU seconds aside, which are measured."""
    texts = {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*.*") if path.suffix != ".png"}
    return {name: re.sub(rb'("[a-z]*_?cpu_s": |,)[0-9.e-]+', b"", text) for name, text in texts.items()}


def test_the_front_and_the_command_line_give_the_same_bytes(
    plan: planner.PlannedDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = tmp_path / "front.json"
    scenario.write_text(json.dumps({"model": "deepseek-v3", **QUESTION}))
    monkeypatch.setattr(sys, "argv", ["planner", "plan", str(scenario), "--out", str(tmp_path / "cli"), "--quiet"])
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    planner.plan_scenario(scenario).save(tmp_path / "api")
    written = {name: _bytes_of(tmp_path / name) for name in ("cli", "api")}
    assert written["cli"] == written["api"]
    assert planner.load_plan(tmp_path / "cli").record.islands == plan.record.islands


def test_figures_of_a_plan_are_those_of_its_record(plan: planner.PlannedDeployment) -> None:
    certificate = plan.record.certificate
    assert (plan.gap, plan.bound_rps) == (certificate.objective_gap, certificate.bound_rps)
    assert plan.bound_rps is not None
    assert plan.bound_rps >= plan.throughput_rps
    document = json.loads(json.dumps(planner.files.plan_document(plan.record)))
    assert plan.cost.usd_per_hour == 32 * 4 + 32 * 1
    assert plan.cost.usd_per_million_tokens == document["price_usd_per_million_tokens"]
    specs = planner.gpus().set_index("gpu")["max_w"]
    assert plan.cost.watts == 32 * (specs["H200"] + specs["H20"])
    assert plan.shadow_prices.to_dict() == {worth.gpu: worth.dual_rps for worth in plan.record.sensitivity.gpus}
    assert set(plan.figures) >= {"throughput", "mix"}
    assert plan.scenario is plan.record.scenario


def test_a_page_is_written_once(plan: planner.PlannedDeployment, tmp_path: Path) -> None:
    path = plan.save_page(tmp_path / "plan.html")
    assert path.read_text() == plan.page()
    assert path.stat().st_size < 4_000_000
    with pytest.raises(planner.InputError, match=r"plan\.html"):
        plan.save_page(path)


class _Tags(HTMLParser):
    """Tags that are open at the end, and every tag that came."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  (the parser calls it so)
        self.names.add(tag)
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.depth -= 1


def _is_short(html: str) -> bool:
    tags = _Tags()
    tags.feed(html)
    safe_tags = {"div", "strong", "table", "thead", "tbody", "tr", "td", "th", "code"}
    return len(html) < MOST_CHARACTERS and tags.depth == 0 and tags.names <= safe_tags


def test_cards_of_all_that_is_at_hand_are_short(
    plan: planner.PlannedDeployment, cluster: planner.ClusterAtHand, shell: InteractiveShell
) -> None:
    shown = [
        plan,
        cluster,
        cluster.diagnose(),
        plan.replay("lengths", "0.5x", requests=200, seeds=1),
        plan.compare(plan),
        planner.explain(plan),
        planner.workload("azure-conv-2023"),
    ]
    for thing in shown:
        data, _ = shell.display_formatter.format(thing)
        assert _is_short(data["text/html"]), thing
        assert all(len(text) < MOST_CHARACTERS for text in data.values())
        assert "color:" not in data["text/html"].replace("border", "")


def test_a_placed_plan_of_many_islands_has_a_short_card() -> None:
    """247,000 characters of it were shown once."""
    cluster = planner.cluster(synthetic=500, load=0.5, seed=3, gpus=("H200", "H20"))
    placed = planner.plan(
        inventory=cluster.idle_gpus,
        workload="normal-500-2000",
        routing={"form": "table"},
        search={"method": "random", "iterations": 1, "batch_size": 1, "min_island_size": 8},
        ranges={"width": 4096},
    ).place(cluster)
    assert len(placed.islands) > 20
    assert len(placed.placement.to_html()) > 2 * MOST_CHARACTERS
    assert _is_short(placed._repr_html_())
    assert len(placed.sites) == len(placed.record.placement.sites)


def test_cards_escape_and_end() -> None:
    hostile = "<script>alert(1)</script>&'\"" * 200
    rows = [{hostile: hostile, **{f"{k}": hostile for k in range(30)}}] * 5000
    html = cards.card(hostile, hostile, facts={hostile: hostile}, rows=rows, rows_at=hostile)
    assert _is_short(html)
    assert "<script" not in html
    assert "5000" in html


@pytest.mark.parametrize(
    "table",
    [
        pd.Series({"H200": 32, "H20": 32}),
        pd.DataFrame({"gpu": ["H200", "H20"], "count": [32, 32]}),
        pd.DataFrame({"count": [32, 32]}, index=["H200", "H20"]),
        pd.DataFrame({"count": [32.0, 32.0], "type": ["H200", "H20"]}),
    ],
    ids=["series", "frame", "index", "floats"],
)
def test_inventories_of_frames(table: Any) -> None:
    assert counts_of(table, "inventory") == {"H200": 32, "H20": 32}
    assert {type(count) for count in counts_of(table, "inventory").values()} == {int}  # type: ignore[attr-defined]


def test_a_plan_of_frames_is_that_of_mappings(plan: planner.PlannedDeployment) -> None:
    prices = pd.Series({"H200": 4.0, "H20": 1.0})
    frames = planner.plan(
        **{**QUESTION, "inventory": pd.Series(QUESTION["inventory"]), "prices_usd_per_gpu_hour": prices}
    )
    assert frames.record.islands == plan.record.islands
    assert frames.cost == plan.cost


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"a": [1], "b": [2]}), "column of GPU types"),
        (pd.DataFrame({"gpu": ["H20", "H20"], "count": [1, 2]}), "'H20' twice"),
        (pd.DataFrame({"gpu": ["H20"], "count": [1.5]}), "whole number"),
        (pd.DataFrame({"gpu": ["H20"], "count": [float("nan")]}), "inventory"),
        (pd.DataFrame(), "inventory"),
    ],
)
def test_bad_frames(table: pd.DataFrame, words: str) -> None:
    with pytest.raises(planner.InputError, match=words):
        planner.plan(**{**QUESTION, "inventory": table})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (planner.cluster, "one of files, kubernetes=CONTEXT and synthetic=NODES, got none"),
        (lambda: planner.cluster("a.yaml", synthetic=3), "got 2"),
        (lambda: planner.cluster("gone.yaml"), "gone.yaml"),
        (lambda: planner.cluster(synthetic=0), "nodes must be within"),
        (planner.frontier, "got neither"),
        (lambda: planner.replay(3), "must be a plan or the path"),
        (lambda: planner.plan(**QUESTION, progress="loud"), "progress: must be"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Any, words: str) -> None:
    with pytest.raises(planner.InputError, match=words) as caught:
        call()
    assert caught.value.hint


def test_errors_in_notebooks_are_two_lines(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("import planner\nplanner.plan(inventory={'H2OO': 8}, workload='azure-code-2023')")
    text = capsys.readouterr().out + capsys.readouterr().err
    assert "Error: planner.plan(...): inventory.H2OO is not a known GPU type" in text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) <= 3


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "wanted", "shows"), [(_Terminal, None, True), (_Terminal, False, False), (io.StringIO, None, False)]
)
def test_bars_show_where_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], wanted: bool | None, shows: bool
) -> None:
    heard = stream()
    monkeypatch.setattr(sys, "stderr", heard)
    monkeypatch.setattr(progress, "in_notebook", lambda: False)
    with progress.search_bar("front", wanted) as hear:
        hear(4, 8, 12.5)
        hear(8, 8, 13.5)
    assert ("layouts" in heard.getvalue() and "13.5 requests/s" in heard.getvalue()) is shows


def test_bars_in_a_kernel_are_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr("tqdm.notebook.display", shown.append)
    with progress.share_bar("front", None) as hear:
        hear(0.5)
        hear(1.0)
    assert shown


def test_scripts_in_pipes_say_nothing() -> None:
    code = (
        "import planner\nplanner.plan(inventory={'H200': 16, 'H20': 16}, workload='normal-500-2000', routing={'form': "
        "'table'}, search={'method': 'random', 'iterations': 2, 'batch_size': 2, 'min_island_size': 8}, "
        "ranges={'width': 8192})"
    )
    script = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert (script.stdout, script.stderr) == ("", "")
