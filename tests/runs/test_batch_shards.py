"""A batch in parts: each job is of one part, parts do not hinder each other, and together they are the batch."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.plan.batches.locks import alone_in, require_free
from planner.report.plan import page
from planner.runs.batches.batches import BatchRequest, read_batch, run_batch
from planner.runs.batches.jobs import Job
from planner.runs.batches.listing import Shard, read_shard
from planner.runs.batches.local import SerialExecutor

SMALL = "model: deepseek-v3\nworkload: normal-500-2000\ninventory: {H200: 16}\nranges: {width: 4096}\n"
CONTENTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@pytest.fixture(autouse=True)
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "figures_of", lambda _plan: ())


@given(st.lists(CONTENTS, max_size=20), st.integers(1, 20))
def test_each_job_is_of_one_part(contents: list[str], count: int) -> None:
    jobs = [Job(scenario=None, folder=Path(str(place)), content=content) for place, content in enumerate(contents)]
    parts = [Shard(index=index, count=count).of(jobs) for index in range(count)]
    assert sorted((job.folder for part in parts for job in part), key=str) == sorted((j.folder for j in jobs), key=str)
    for part in parts:
        assert all(job.content not in {other.content for p in parts if p is not part for other in p} for job in part)


@pytest.mark.parametrize("text", ["", "1", "1/", "4/4", "-1/4", "0/0", "1/2/3", "a/b", "0/1000000", " 0/1"])
def test_words_that_are_no_part(text: str) -> None:
    with pytest.raises(InputError, match="must be I/N"):
        read_shard(text)
    assert read_shard("3/16") == Shard(index=3, count=16)


def test_parts_make_the_batch(tmp_path: Path) -> None:
    source = tmp_path / "jobs"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / f"{name}.yaml").write_text(f"name: {name}\n{SMALL}")
    request = BatchRequest(source=source, folder=tmp_path / "batch", executor="serial")
    sizes = []
    for index in (1, 0):
        part = BatchRequest(
            source=source, folder=tmp_path / "batch", executor="serial", shard=Shard(index=index, count=2)
        )
        result = run_batch(part, SerialExecutor())
        assert {job.state.value for job in result.batch.jobs} <= {"planned"}
        sizes.append(len(result.effort.runs))
        assert len(run_batch(part, SerialExecutor()).effort.runs) == 0  # it goes on with what is there
    assert sum(sizes) == 3
    gathered = run_batch(request, SerialExecutor(), resume=True)
    assert (len(gathered.effort.runs), [job.state.value for job in gathered.batch.jobs]) == (0, ["planned"] * 3)
    assert read_batch(tmp_path / "batch") == gathered.batch


def test_parts_keep_out_the_same_part_and_batches_without_parts(tmp_path: Path) -> None:
    with alone_in(tmp_path, "0-of-2"), alone_in(tmp_path, "1-of-2"):
        for shard in ("0-of-2", ""):
            with pytest.raises(InputError, match="another batch is at work"), alone_in(tmp_path, shard):
                pytest.fail("let in")
        require_free(tmp_path, "1-of-2")
        with pytest.raises(InputError, match="another batch is at work"):
            require_free(tmp_path)
    with alone_in(tmp_path), pytest.raises(InputError, match="another batch is at work"), alone_in(tmp_path, "0-of-2"):
        pytest.fail("let in")


def test_a_part_does_not_begin_in_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a.yaml").write_text(f"name: a\n{SMALL}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/letter.txt").write_text("dear")
    request = BatchRequest(source=tmp_path / "source", folder=tmp_path / "out", shard=Shard(index=0, count=1))
    with pytest.raises(InputError, match="must be a new folder"):
        run_batch(request, SerialExecutor())
