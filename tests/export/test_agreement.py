"""Of files that have to say the same the one that was changed is named, whichever it is, and not the others."""

import re

import pytest
from seeded_mistakes import CASES

from planner.errors import InputError
from planner.export import find_faults
from planner.export.checking.commands.agreement import agreement
from planner.export.reading import read_plan

FILES = {
    "lws": ("01-h200-0.yaml", "02-h20-0.yaml", "03-h20-1.yaml"),
    "lws, sglang": ("01-h200-0.yaml", "02-h20-0.yaml", "03-h20-1.yaml"),
    "kubernetes": ("01-h200-0.yaml", "02-h20-0.yaml", "03-h20-1.yaml"),
    "script": ("01-h200-0.sh", "02-h20-0.sh", "03-h20-1.sh"),
    "kserve": ("01.yaml", "02.yaml"),
    "llm-d": ("01.values.yaml", "02.values.yaml"),
}
ROWS = [(case, file) for case, names in FILES.items() for file in names if file in CASES[case].files()]
_TAG = re.compile(r"(:v0\.(?:18|5|6)\.)[0-9]+")


@pytest.mark.parametrize(("case", "file"), ROWS)
def test_a_changed_image_is_told_of_its_own_file(case: str, file: str) -> None:
    files = CASES[case].files()
    edited = {**files, file: _TAG.sub(r"\g<1>99", files[file])}
    assert edited != files
    faults = find_faults(edited)
    alone = len([name for name in files if _TAG.search(files[name])]) == 1
    assert alone or faults
    assert {fault.where.partition(",")[0] for fault in faults} <= {file}
    if faults:
        with pytest.raises(InputError, match=re.escape(file)):
            read_plan(edited)


@pytest.mark.parametrize("file", FILES["lws, sglang"])
@pytest.mark.parametrize(("old", "new"), [("planner/model: deepseek", "planner/model: other"), ("=nixl", "=mooncake")])
def test_so_is_another_model_or_transfer(file: str, old: str, new: str) -> None:
    files = CASES["lws, sglang"].files()
    edited = {**files, file: files[file].replace(old, new)}
    assert edited != files
    assert {fault.where.partition(",")[0] for fault in find_faults(edited)} == {file}


def test_of_equals_the_planners_own_goes_first() -> None:
    assert agreement([("a", "1"), ("b", "2")]).value == "1"
    assert agreement([("a", "1"), ("b", "2")], "2").value == "2"
    assert agreement([("a", "1"), ("b", "2")], "3").value == "1"
    assert agreement([("a", "1"), ("b", "2"), ("c", "2")], "1") == agreement([("b", "2")])
    assert agreement([("a", "1"), ("a", "1"), ("b", "2"), ("c", "2")]).value == "2"
