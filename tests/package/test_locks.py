"""The lock files: every package that a user's installation brings in, in the tested version, each with its hashes."""

import re
from pathlib import Path

import pytest
from building import ROOT
from fresh_install import LOCKED
from locking import DEPENDENCIES_LOCK, ROUTER_LOCK, TORCH, TORCH_LOCK, pinned, read_lock, user_closure
from packaging.version import Version

CONSTRAINTS = ROOT / "constraints.txt"
ROUTER_PINS = ROOT / "tests/export/tools/pins/routers.txt"


def test_the_lock_is_what_a_user_needs_in_the_versions_that_are_tested() -> None:
    """Names as the installed packages ask for them, of every extra but of tests; versions of constraints.txt."""
    locked, needed, pins = read_lock(DEPENDENCIES_LOCK), user_closure(), pinned(CONSTRAINTS)
    assert {"distributed", "cryptography", "pyarrow", "ipywidgets", "plotly", "numpy"} < needed
    assert set(locked) == needed - {TORCH}
    assert {name: entry.version for name, entry in locked.items()} == {name: pins[name] for name in locked}


def test_the_guide_installs_as_make_package_does() -> None:
    """Which runs these words."""
    text = " ".join((ROOT / "planner/cli/docs/guides/planning.md").read_text(encoding="utf-8").split())
    assert f"`pip install {' '.join(LOCKED)} {DEPENDENCIES_LOCK.relative_to(ROOT)}`" in text


def test_torch_is_locked_apart_as_the_build_for_cpus() -> None:
    locked = read_lock(TORCH_LOCK)
    assert set(locked) == {TORCH}
    version = Version(locked[TORCH].version)
    assert (version.public, version.local) == (pinned(CONSTRAINTS)[TORCH], "cpu")


def test_the_image_of_the_router_holds_what_the_tests_run() -> None:
    pins = pinned(ROUTER_PINS)
    locked = {name: entry.version for name, entry in read_lock(ROUTER_LOCK).items()}
    assert locked == {name: version for name, version in pins.items() if name != "sglang-router"}
    assert "vllm-router" in locked


@pytest.mark.parametrize("lock", [DEPENDENCIES_LOCK, TORCH_LOCK, ROUTER_LOCK], ids=lambda path: path.name)
def test_every_entry_has_hashes_of_its_own(lock: Path) -> None:
    """Sorted, none twice in a file: a hash belongs to one file of one package."""
    hashes = [digest for entry in read_lock(lock).values() for digest in entry.hashes]
    assert len(hashes) == len(set(hashes))
    assert all(list(entry.hashes) == sorted(entry.hashes) for entry in read_lock(lock).values())
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)


@pytest.mark.parametrize(
    "line",
    [
        "numpy==2.4.6\n",
        "numpy==2.4.6 \\\n    --hash=md5:0123456789abcdef0123456789abcdef\n",
        "numpy>=2 \\\n    --hash=sha256:" + "0" * 64 + "\n",
        "--index-url=elsewhere\n",
        "-e .\n",
    ],
)
def test_what_pip_would_not_hold_to_a_hash_is_no_entry(line: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(DEPENDENCIES_LOCK.read_text() + line)
    with pytest.raises(AssertionError):
        read_lock(lock)
