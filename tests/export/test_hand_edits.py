"""Hand edits by kind: our check refuses every wrong one, as the judges of other people do who can know, and both take
the harmless ones."""

from collections import Counter

import pytest
from engine_parsers.installing import missing
from engine_parsers.lines import Line, lines
from engine_parsers.verdicts import verdicts
from hand_edits import HARMLESS_EDITS, OPERATING_EDITS, PARSERS, ROUTER_EDITS, WRONG_EDITS, HandEdit
from tools import table
from tools.judges import JUDGES, TOOLS
from tools.locations import require

from planner.export import compare

EDITS = (*WRONG_EDITS, *HARMLESS_EDITS, *OPERATING_EDITS, *ROUTER_EDITS)
_QUICK = ("kubernetes", "crds", "cel")  # of those whom nobody names; others start a program for each


def exported(edit: HandEdit) -> table.Export:
    """The export that an edit is made in."""
    (export,) = (e for e in table.exports() if (e.target, e.engine, e.plan_name) == edit.export)
    return export


def words_of(edit: HandEdit) -> str:
    return f"{edit.export[0]}, {edit.export[1]}: {edit.kind}"


def test_there_are_enough_kinds_and_none_is_there_twice() -> None:
    wrong = {edit.kind for edit in EDITS if edit.rejected}
    assert len(wrong) >= 41
    assert max(Counter(words_of(edit) for edit in EDITS).values()) == 1
    assert {judge for edit in EDITS for judge in edit.judges} == {PARSERS, *JUDGES}


@pytest.mark.parametrize("edit", EDITS, ids=words_of)
def test_our_check_refuses_what_is_wrong_and_takes_the_rest(edit: HandEdit) -> None:
    files = dict(exported(edit).files)
    faults = compare(edit.apply(files), files).faults
    assert bool(faults) == edit.rejected, [str(fault) for fault in faults]
    assert not faults or any(fault.where.startswith(edit.file) for fault in faults)


@pytest.mark.parametrize("edit", EDITS, ids=words_of)
def test_judges_of_other_people_say_the_same(edit: HandEdit) -> None:
    names = [name for name in edit.judges if name != PARSERS] if edit.rejected else _QUICK
    require(*filter(None, (TOOLS.get(name, "") for name in names)))
    files = edit.apply(dict(exported(edit).files))
    for name in names:
        answer = JUDGES[name](files)
        assert bool(answer.refused) == edit.rejected, (name, answer)


def changed(edit: HandEdit) -> list[Line]:
    """The command lines that an edit changes."""
    export = exported(edit)
    before = {repr(line.case) for line in lines(export.files, export.plan, export.engine)}
    after = lines(edit.apply(dict(export.files)), export.plan, export.engine)
    return [line for line in after if repr(line.case) not in before]


@pytest.mark.parametrize("edit", [edit for edit in EDITS if PARSERS in edit.judges or not edit.rejected], ids=words_of)
def test_the_engines_own_parsers_say_the_same(edit: HandEdit) -> None:
    listed = changed(edit)
    assert listed or not edit.rejected
    for version in {line.version for line in listed}:
        if reason := missing(version):
            pytest.skip(reason)
        answers = verdicts(version, [line.case for line in listed if line.version == version])
        assert all(answer.accepted != edit.rejected for answer in answers), answers
