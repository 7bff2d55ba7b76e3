"""The journal of a search: what it was told it knows in the next process, and what it cannot trust it refuses."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import Evaluation, Layout, Plan, Scenario, SearchRecord, SearchSettings
from planner.errors import InputError
from planner.files import Journal, Undertaking, claim_run_folder, holds_search, write_run
from planner.proposing.search import optimize

VERSIONS = (("planner", "1"), ("torch", "2"))
JOURNAL = "search/journal.jsonl"
HARMLESS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def undertaking(plan: Plan) -> Undertaking:
    return Undertaking(scenario=plan.scenario, versions=VERSIONS, engine="sglang")


class Counting:
    """A judge that needs no solver: thirds, so that rates have no short decimal form."""

    def __init__(self) -> None:
        self.judged = 0

    def __call__(self, layouts: Sequence[Layout], /) -> Iterator[Evaluation]:
        for layout in layouts:
            self.judged += 1
            rate = sum(count * island.size**0.5 for island, count in layout.counts) / 3
            yield Evaluation(
                layout=layout, throughput_rps=rate, assignment=None, goals=(("rate", rate / 7),), cpu_s=0.1
            )


def _search(scenario: Scenario, journal: Journal, judge: Counting) -> SearchRecord:
    few: SearchSettings = replace(scenario.search, iterations=3, batch_size=4, timings=False)
    return optimize(scenario.inventory, few, judge, journal=journal).record


@pytest.fixture
def journal(undertaking: Undertaking, tmp_path: Path) -> tuple[bytes, SearchRecord]:
    """A whole journal, and the record of its search."""
    with closing(Journal.begin(tmp_path / "whole", undertaking)) as whole:
        record = _search(undertaking.scenario, whole, Counting())
    return (tmp_path / "whole" / JOURNAL).read_bytes(), record


def _placed(folder: Path, content: bytes) -> Path:
    (folder / "search").mkdir(parents=True, exist_ok=True)
    (folder / JOURNAL).write_bytes(content)
    return folder


@HARMLESS
@given(data=st.data())
def test_cut_at_any_byte_a_journal_leads_to_the_same_record(
    journal: tuple[bytes, SearchRecord], tmp_path: Path, data: st.DataObject
) -> None:
    whole, record = journal
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    folder = _placed(tmp_path / "cut", whole[:cut])
    judge = Counting()
    with closing(Journal.reopen(folder, VERSIONS)) as reopened:
        assert _search(reopened.undertaking.scenario, reopened, judge) == record
    assert (folder / JOURNAL).read_bytes().count(b"\n") == whole.count(b"\n")
    known = whole[:cut].count(b'\n{"judged"') - (b'\n{"judged"' in whole[:cut][whole[:cut].rfind(b"\n") :])
    best_again = record.best_trial < known
    assert judge.judged == 12 - known + best_again


def test_what_was_undertaken_is_known_again(undertaking: Undertaking, tmp_path: Path) -> None:
    Journal.begin(tmp_path / "one", undertaking).close()
    with closing(Journal.reopen(tmp_path / "one", VERSIONS)) as reopened:
        assert reopened.undertaking == undertaking
        assert reopened.empty
        assert reopened.proposed(0) is None
        assert reopened.judged(0) is None


@HARMLESS
@given(data=st.data())
def test_a_changed_byte_is_told_with_its_line(
    journal: tuple[bytes, SearchRecord], tmp_path: Path, data: st.DataObject
) -> None:
    whole, _ = journal
    place = data.draw(st.integers(0, whole.rindex(b"\n") - 1))
    changed = bytes([data.draw(st.sampled_from([b for b in b'x1"}{\x00\xff' if b != whole[place]]))])
    content = whole[:place] + changed + whole[place + 1 :]
    folder = _placed(tmp_path / "changed", content)
    number = whole[:place].count(b"\n") + 1
    with pytest.raises(InputError) as caught:
        Journal.reopen(folder, VERSIONS)
    assert caught.value.message.startswith(f"{folder / JOURNAL}: line {number}: ")
    assert "--force" in caught.value.hint
    assert (folder / JOURNAL).read_bytes() == content


@pytest.mark.parametrize("line", [1, 2, 3, 6])
def test_a_missing_line_is_told(journal: tuple[bytes, SearchRecord], tmp_path: Path, line: int) -> None:
    lines = journal[0].splitlines(keepends=True)
    folder = _placed(tmp_path / "gap", b"".join(lines[: line - 1] + lines[line:]))
    with pytest.raises(InputError, match=rf"journal.jsonl: line {line}: "):
        Journal.reopen(folder, VERSIONS)


def test_a_header_that_is_not_whole_is_told(journal: tuple[bytes, SearchRecord], tmp_path: Path) -> None:
    for content in (b"", journal[0][:100]):
        with pytest.raises(InputError, match="line 1: is not whole"):
            Journal.reopen(_placed(tmp_path / "torn", content), VERSIONS)


def test_a_search_is_one_planners(undertaking: Undertaking, tmp_path: Path) -> None:
    run = tmp_path / "one"
    with closing(Journal.begin(run, undertaking)):
        for attempt in (
            lambda: Journal.reopen(run, VERSIONS),
            lambda: Journal.begin(run, undertaking),
            lambda: Journal.begin(run, undertaking, force=True),
            lambda: claim_run_folder(run, force=True),
            lambda: write_run(run, {"plan.json": b"{}"}, force=True),
        ):
            with pytest.raises(InputError, match="another planner is at work"):
                attempt()
    Journal.reopen(run, VERSIONS).close()


def test_an_unfinished_search_is_replaced_only_by_force(undertaking: Undertaking, tmp_path: Path) -> None:
    run = tmp_path / "one"
    Journal.begin(run, undertaking).close()
    for attempt in (lambda: Journal.begin(run, undertaking), lambda: claim_run_folder(run)):
        with pytest.raises(InputError, match="holds an unfinished search") as caught:
            attempt()
        assert f"planner plan --resume {run}" in caught.value.hint
        assert "--force" in caught.value.hint
    Journal.begin(run, undertaking, force=True).close()
    assert sorted(path.name for path in (run / "search").iterdir()) == ["journal.jsonl"]


def test_what_is_discarded_was_never_there(undertaking: Undertaking, tmp_path: Path) -> None:
    with closing(Journal.begin(tmp_path / "deep" / "one", undertaking)) as journal:
        journal.keep_experiment(b"new")
        journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_run_stays_whole_until_another_takes_its_place(undertaking: Undertaking, tmp_path: Path) -> None:
    run, old = tmp_path / "one", {"plan.json": b"old", "search/experiment.json": b"old"}
    write_run(run, old)
    with closing(Journal.begin(run, undertaking, force=True)) as journal:
        journal.keep_experiment(b"new")
        journal.discard()
    assert {p.relative_to(run).as_posix(): p.read_bytes() for p in run.rglob("*") if p.is_file()} == old
    with closing(Journal.begin(run, undertaking, force=True)) as journal:
        journal.keep_experiment(b"new")
        assert set(journal.remains(interrupted=True)) == {"search/experiment.json", JOURNAL}
        write_run(run, {"plan.json": b"new", **journal.remains(interrupted=False)}, searched=True)
    assert {p.relative_to(run).as_posix(): p.read_bytes() for p in run.rglob("*") if p.is_file()} == dict.fromkeys(
        old, b"new"
    )
    assert not holds_search(run)


def test_foreign_files_are_safe_from_a_search(undertaking: Undertaking, tmp_path: Path) -> None:
    (tmp_path / "one" / "search").mkdir(parents=True)
    (tmp_path / "one" / "search" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"holds search/thesis\.tex"):
        Journal.begin(tmp_path / "one", undertaking, force=True)


def test_other_versions_are_told(undertaking: Undertaking, tmp_path: Path) -> None:
    Journal.begin(tmp_path / "one", undertaking).close()
    with pytest.raises(InputError, match=r"torch 2 \(here 3\), scipy not installed \(here 1\)") as caught:
        Journal.reopen(tmp_path / "one", (("planner", "1"), ("torch", "3"), ("scipy", "1")))
    assert "--force" in caught.value.hint
    assert "planner 1" not in caught.value.message


def test_other_facts_are_told(undertaking: Undertaking, tmp_path: Path) -> None:
    first, *others = undertaking.scenario.inputs
    changed = (first, *(replace(one, sha256="0" * 64) if one.name.startswith("H20.") else one for one in others))
    Journal.begin(
        tmp_path / "one", replace(undertaking, scenario=replace(undertaking.scenario, inputs=changed))
    ).close()
    with pytest.raises(InputError, match=r"H20.*is not the file that its search was begun with"):
        Journal.reopen(tmp_path / "one", VERSIONS)
