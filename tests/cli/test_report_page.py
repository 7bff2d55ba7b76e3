"""`planner report` writes a page: where, when it replaces another, and what it refuses."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Command

from planner import files
from planner.files.plan.digests import sealed_text
from planner.report.kit.quantities import rate
from planner.runs import pages


@pytest.fixture
def copied(run: Path, here: Path) -> Path:
    """A run folder of the test's own."""
    shutil.copytree(run, here / "mine")
    return Path("mine")


def test_the_page_lies_in_the_run_and_is_replaced_by_one_of_the_same_plan(planner: Command, copied: Path) -> None:
    answer = planner("report", copied)
    page = copied / "report.html"
    assert (answer.status, answer.err) == (0, "Page: mine/report.html\n")
    assert answer.out.strip() == (copied / "summary.md").read_text().strip()
    first = page.read_bytes()
    assert b"<!doctype html>" in first[:100]
    assert planner("report", copied).status == 0
    assert page.read_bytes() == first
    assert planner("report", copied / "plan.json").err == "Page: mine/report.html\n"
    assert [path.name for path in copied.glob(".*")] == []


def test_anything_else_is_replaced_by_force_alone(planner: Command, copied: Path) -> None:
    page = copied / "report.html"
    planner("report", copied)
    foreign = (b"notes", page.read_bytes().replace(b'content="plan ', b'content="plan 0', 1))
    for content in foreign:
        page.write_bytes(content)
        answer = planner("report", copied)
        assert (answer.status, answer.out) == (2, "")
        assert "mine/report.html: exists already" in answer.err
        assert "--force" in answer.err
        assert page.read_bytes() == content
    assert planner("report", copied, "--no-page").status == 0
    assert page.read_bytes() == content
    assert planner("report", copied, "--force").status == 0
    assert b"planner-source" in page.read_bytes()


def test_a_folder_that_cannot_be_written_names_the_way_out(
    planner: Command, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / "report.html").mkdir()
    answer = planner("report", copied)
    assert answer.status == 2
    assert "--out FOLDER" in answer.err
    (copied / "report.html").rmdir()
    opened = os.open

    def read_only(path: object, flags: int, *rest: int, **others: int) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *rest, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", read_only)
    answer = planner("report", copied)
    assert answer.status == 2
    assert "mine/report.html: cannot be written: Permission denied. Give --out FOLDER" in answer.err
    assert not (copied / "report.html").exists()
    assert planner("report", copied, "--no-page").status == 0


def test_out_takes_page_summary_and_figures_and_leaves_the_run_alone(
    planner: Command, copied: Path, painted: None
) -> None:
    before = sorted(path.name for path in copied.iterdir())
    assert planner("report", copied, "--out", "sent").status == 0
    assert {"report.html", "summary.md", "figures"} == {path.name for path in Path("sent").iterdir()}
    assert planner("report", copied, "--out", "sent").status == 2
    assert planner("report", copied, "--out", "sent", "--force", "--no-page").status == 0
    assert not Path("sent/report.html").exists()
    assert json.loads(planner("report", copied, "--json").out)["scenario"]
    assert sorted(path.name for path in copied.iterdir()) == before


def test_a_run_with_a_page_is_replaced_as_any_run(planner: Command, tiny: Path, copied: Path) -> None:
    planner("report", copied)
    assert planner("plan", tiny, "--quiet", "--out", copied).status == 2
    assert planner("plan", tiny, "--quiet", "--out", copied, "--force").status == 0
    assert not (copied / "report.html").exists()


def test_plans_of_other_names_have_pages_of_their_names(planner: Command, copied: Path) -> None:
    shutil.copy(copied / "plan.json", "one.json")
    assert planner("report", "one.json").err == "Page: one.html\n"
    assert Path("one.html").is_file()


def replay_document(plan, **changes) -> dict:
    buckets = [{"start": p.start, "end": p.end, "ttft_ms": {"p50": 11.5, "p99": 12.5}, "tpot_ms": None}
               for p in plan.buckets.pools]  # fmt: skip
    return {
        "plan": plan.scenario.name,
        "capacity_rps": plan.throughput_rps,
        "rate_rps": 7.0,
        "holds": True,
        "router": "least_work",
        "summary": "All is well.",
        "buckets": buckets,
    } | changes


def test_a_replay_is_shown_where_it_is_one_of_this_plan(planner: Command, copied: Path) -> None:
    plan = files.load_run(copied)
    Path("replayed").mkdir()
    path = Path("replayed/replay.json")
    path.write_bytes(sealed_text(replay_document(plan)))
    assert planner("report", copied, "--replay", "replayed").status == 0
    assert "All is well." in (copied / "report.html").read_text()
    shutil.copytree("replayed", copied / "replay")
    assert planner("report", copied).status == 0
    assert "All is well." in (copied / "report.html").read_text()
    path.write_bytes(sealed_text(replay_document(plan, capacity_rps=plan.throughput_rps * 1.01)))
    answer = planner("report", copied, "--replay", path)
    assert answer.status == 2
    assert "must be a replay of this plan (tiny," in answer.err
    shutil.copy(path, copied / "replay")
    assert planner("report", copied).status == 0  # of another plan, and nobody asked for it
    assert "All is well." not in (copied / "report.html").read_text()
    forged = sealed_text(replay_document(plan)).replace(b"All is well.", b"All is great.")
    unsealed = json.dumps(replay_document(plan)).encode()
    wrong = sealed_text(replay_document(plan, holds=3))
    for broken, word in (
        (b"{", "replay.json"),
        (wrong, "holds"),
        (forged, "summary: must be as it was written"),
        (unsealed, "digests must be there, is missing"),
    ):
        path.write_bytes(broken)
        answer = planner("report", copied, "--replay", "replayed")
        assert answer.status == 2
        assert word in answer.err
    assert planner("report", copied, "--replay", "nowhere").status == 2


def test_since_tells_what_changed(planner: Command, copied: Path, planned_as_table: Path) -> None:
    assert planner("report", copied, "--since", planned_as_table).status == 0
    text = (copied / "report.html").read_text()
    assert f"Changed since {planned_as_table.name}" in text
    old, new = files.load_run(planned_as_table), files.load_run(copied)
    row = re.search(r"<td[^>]*>requests/s</td>(.*?)</tr>", text)
    change = f"{100 * (new.throughput_rps / old.throughput_rps - 1):+.1f} %"
    assert re.findall(r">([^<]+)</td>", row[1]) == [rate(old.throughput_rps), rate(new.throughput_rps), change]
    assert planner("report", copied, "--since", copied).status == 0
    assert "Nothing changes" in (copied / "report.html").read_text()
    assert planner("report", copied, "--since", "nowhere").status == 2


def test_equal_plans_have_equal_pages_and_marks(copied: Path) -> None:
    plan = files.load_run(copied)
    assert pages.plan_html(plan) == pages.plan_html(files.load_run(copied))
    assert pages.source_of(plan) != pages.source_of(replace(plan, throughput_rps=plan.throughput_rps * 1.001))
