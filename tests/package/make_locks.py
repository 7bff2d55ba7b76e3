"""Writes the lock files anew: `python tests/package/make_locks.py`. Each package in its one version, with the hashes of
every wheel that CPython 3.11 to 3.13 on Linux may take, as the index of this machine's pip lists them.

planner/files/locks/dependencies.txt    what the planner and its extras need, in the versions of constraints.txt
planner/files/locks/torch-cpu.txt       torch's CPU build, which other indexes have; of the files that pip finds here
planner/export/routers/vllm_router_image/requirements.txt    what is in the image of vllm-router

Wheels alone: a source distribution runs its own code when it is installed. It asks pip itself whence packages come, and
so uses what pip keeps to itself: it was written for pip 23.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import url2pathname

from locking import DEPENDENCIES_LOCK, ROOT, ROUTER_LOCK, TORCH, TORCH_LOCK, pinned, user_closure
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pip._internal.commands import create_command
from pip._internal.index.collector import parse_links
from pip._internal.models.link import Link

PYTHONS = ("cp311", "cp312", "cp313")
MACHINES = ("x86_64", "aarch64")
_HEAD = "# Made by tests/package/make_locks.py; {}\n"


class Index:
    """What pip finds: its index, and the folders and indexes that it is told to look at besides."""

    def __init__(self) -> None:
        command = create_command("download")
        options, _ = command.parse_args(["any"])
        session = command._build_session(options)
        finder = command._build_package_finder(options, session, None, ignore_requires_python=True)
        self._collector = finder._link_collector

    def links(self, name: str) -> Iterator[Link]:
        """Every file of a package."""
        sources = self._collector.collect_sources(name, lambda link: [link])
        for source in filter(None, (*sources.index_urls, *sources.find_links)):
            yield from source.file_links()
            for page in source.page_candidates():
                response = self._collector.fetch_response(page)
                yield from parse_links(response) if response else ()

    def hashes(self, name: str, version: str) -> list[str]:
        """SHA-256 of every fitting wheel, sorted."""
        found = {
            digest
            for link in self.links(name)
            if link.is_wheel and fits(link.filename, name, version) and (digest := sha256(link))
        }
        return sorted(found)


def fits(filename: str, name: str, version: str) -> bool:
    """Whether it is a wheel of that version for Linux and one of our Pythons."""
    try:
        project, its_version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:  # old releases are called all sorts of things
        return False
    return (project, str(its_version)) == (canonicalize_name(name), version) and any(
        (tag.interpreter in (*PYTHONS, "py3") or (tag.abi == "abi3" and tag.interpreter.startswith("cp3")))
        and (tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith(MACHINES)))
        and not tag.abi.endswith("t")  # of Pythons without the lock
        for tag in tags
    )


def sha256(link: Link) -> str:
    """As the index says it, or of the file itself where it lies in a folder."""
    if link.hash_name == "sha256":
        return str(link.hash)
    return hashlib.sha256(Path(url2pathname(link.path)).read_bytes()).hexdigest() if link.scheme == "file" else ""


def lock_text(head: str, versions: Mapping[str, str], index: Index) -> str:
    """The lock of packages, as `pip install --require-hashes` takes it."""
    rows = []
    for name, version in sorted(versions.items()):
        hashes = index.hashes(name, version)
        if not hashes:
            sys.exit(f"{name}=={version}: no wheel on any index that pip looks at.")
        rows.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in hashes)]))
    return _HEAD.format(head) + "\n".join(rows) + "\n"


def main() -> None:
    """Write all of them."""
    index, pins = Index(), pinned(ROOT / "constraints.txt")
    dependencies = {name: pins[name] for name in user_closure() - {TORCH}}
    texts = {
        DEPENDENCIES_LOCK: lock_text("torch is in torch-cpu.txt.", dependencies, index),
        TORCH_LOCK: lock_text("for the index of torch's CPU builds.", {TORCH: f"{pins[TORCH]}+cpu"}, index),
        ROUTER_LOCK: lock_text("what the image holds.", router_versions(), index),
    }
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def router_versions() -> dict[str, str]:
    """vllm-router and what it imports, in the versions that the tests run it with."""
    pins = pinned(ROOT / "tests/export/tools/pins/routers.txt")
    return {name: version for name, version in pins.items() if name != "sglang-router"}


if __name__ == "__main__":
    main()
