"""Hand edits by kind: our check refuses every wrong one, as the judges of other people do who can know, and both take
the harmless ones. The engines' own parsers are asked in test_engine_parsers.py."""

from collections import Counter

import pytest
from hand_edits import HARMLESS_EDITS, OPERATING_EDITS, PARSERS, ROUTER_EDITS, WRONG_EDITS, HandEdit
from tools import table
from tools.judges import JUDGES, TOOLS
from tools.locations import require

from planner.export import compare

EDITS = (*WRONG_EDITS, *HARMLESS_EDITS, *OPERATING_EDITS, *ROUTER_EDITS)
_QUICK = ("kubernetes", "crds", "cel")  # of those whom nobody names; others start a program for each


def exported(edit: HandEdit) -> table.Export:
    """The export that an edit is made in."""
    return table.export_of(*edit.export)


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
