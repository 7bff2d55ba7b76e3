"""Run folders: there whole or not at all, and never anybody else's."""

import os
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import claim_folder, claim_run_folder, write_folder, write_run
from planner.files.disk.folders import RUN_ENTRIES

RUN = {"plan.json": b"{}", "summary.md": b"new", "figures/a.png": b"png"}


def _tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _refused(folder: Path, *words: str, force: bool = False) -> None:
    """Both the claim and the writing refuse, and everything around stays as it was."""
    around = folder.parent if folder.parent.exists() else folder.parents[1]
    before = sorted(around.rglob("*"))
    for write in (False, True):
        with pytest.raises(InputError) as caught:
            write_run(folder, RUN, force=force) if write else claim_run_folder(folder, force=force)
        assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
        assert caught.value.hint
    assert sorted(around.rglob("*")) == before


def test_a_run_is_written_with_its_parents(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "deep" / "one", RUN)
    assert _tree(tmp_path) == {f"runs/deep/one/{name}": content for name, content in RUN.items()}


def test_a_claim_leaves_nothing(tmp_path: Path) -> None:
    claim_run_folder(tmp_path / "runs" / "deep" / "one")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    write_run(tmp_path / "one", RUN)
    assert _tree(tmp_path / "one") == RUN


def test_a_run_is_replaced_only_by_force(tmp_path: Path) -> None:
    run = tmp_path / "one"
    write_run(run, {"plan.json": b"old", "manifests/old.yaml": b"old"})
    _refused(run, str(run), "already holds a result", "plan.json", "--force")
    claim_run_folder(run, force=True)
    assert _tree(run)["plan.json"] == b"old"
    write_run(run, RUN, force=True)
    assert _tree(run) == RUN
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("held", [["notes.txt"], ["plan.json", "thesis.tex"], ["plan.json", "figures", ".git"]])
def test_foreign_files_are_safe(tmp_path: Path, held: list[str], force: bool) -> None:
    run = tmp_path / "one"
    run.mkdir()
    for name in held:
        (run / name).write_text("precious")
    strange = next(name for name in held if name not in RUN_ENTRIES)
    _refused(run, str(run), "must be new, empty or an earlier result", strange, force=force)
    assert all((run / name).read_text() == "precious" for name in held)


def test_what_a_run_holds_is_known(run_files: dict[str, bytes]) -> None:
    assert {name.partition("/")[0] for name in run_files} == RUN_ENTRIES


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("mine")
    _refused(tmp_path / "one", "must be a folder, is a file", force=True)


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_no_run_below_a_file(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    _refused(tmp_path / "file" / below / "one", "cannot be written", "part of its path is a file")


@pytest.mark.parametrize(
    ("name", "words"), [("a" * 300, "too long"), ("a\0b", "NUL"), ("b/" + "a" * 300 + "/c", "long")]
)
def test_no_run_of_an_impossible_name(tmp_path: Path, name: str, words: str) -> None:
    _refused(tmp_path / name, "cannot be written", words)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that nobody can write to")
def test_no_run_where_nobody_can_write() -> None:
    for place in (Path("/proc/planner-run"), Path("/proc/deep/planner-run")):
        with pytest.raises(InputError, match="cannot be written") as caught:
            write_run(place, RUN)
        assert caught.value.hint


@pytest.mark.parametrize("place", [".", "..", "../here", ""])
def test_the_current_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="current folder"):
        write_run(Path(place), RUN, force=True)
    assert Path.cwd() == tmp_path / "here"
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..", "", ".", "a\0b", "figures/../../x"])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    for write in (write_run, write_folder):
        with pytest.raises(InputError, match="must stay below its folder"):
            write(tmp_path / "runs" / "one", {"plan.json": b"{}", name: b"out"})
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    write_run(tmp_path / "disk" / "one", RUN)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "one")
    write_run(tmp_path / "link", {"plan.json": b"2"}, force=True)
    assert (tmp_path / "link").is_symlink()
    assert _tree(tmp_path / "disk") == {"one/plan.json": b"2"}


def test_a_name_of_wildcards_is_a_name(tmp_path: Path) -> None:
    (tmp_path / ".ab.partial-1").mkdir()
    write_run(tmp_path / "a[b]*", RUN)
    write_run(tmp_path / "a[b]*", RUN, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ab.partial-1", "a[b]*"]


def test_permissions_are_ordinary(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_run(tmp_path / "one", RUN)
    finally:
        os.umask(before)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "one" / "plan.json").stat().st_mode & 0o777 == 0o644


def test_what_a_result_may_hold_is_replaced_by_one_that_does_not_hold_it(tmp_path: Path) -> None:
    full, bare = {"summary.md": b"s", "figures/x.png": b"x"}, {"summary.md": b"t"}
    write_folder(tmp_path / "one", full)
    with pytest.raises(InputError, match="holds figures"):
        write_folder(tmp_path / "one", bare, force=True)
    claim_folder(tmp_path / "one", full, force=True)
    write_folder(tmp_path / "one", bare, force=True, kinds=full)
    assert _tree(tmp_path / "one") == bare
    (tmp_path / "one" / "own").mkdir()
    with pytest.raises(InputError, match="holds own"):
        write_folder(tmp_path / "one", bare, force=True, kinds=full)


def test_other_folders_are_replaced_by_their_kind_only(tmp_path: Path) -> None:
    manifests, report = {"a.yaml": b"a", "b.yaml": b"b"}, {"summary.md": b"s", "figures/x.png": b"x"}
    for name, content in (("manifests", manifests), ("report", report)):
        write_folder(tmp_path / name, content)
        with pytest.raises(InputError, match="already holds"):
            write_folder(tmp_path / name, content)
        write_folder(tmp_path / name, content, force=True)
        assert _tree(tmp_path / name) == content
    (tmp_path / "report" / "own").mkdir()
    for folder, content in (("report", report), ("manifests", report), ("report", manifests)):
        with pytest.raises(InputError, match="left alone even with --force"):
            write_folder(tmp_path / folder, content, force=True)
