"""Feeds of the current state: a YAML file that somebody's script rewrites.

    load_rps: 120
    prices_usd_per_gpu_hour: {H200: 3.1, H20: 0.9}
    inventory: {H200: 64, H20: 128}
    lost: {H20: 8}
    lost_nodes: [node-3]

What it does not name stays as it was; but where `lost` or `lost_nodes` stands, all others of that kind serve.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

from planner.domain.watching import Feed, FeedKind, FeedValue, Refusal
from planner.errors import InputError
from planner.files.disk.opening import read_text
from planner.files.disk.strict_yaml import parse_yaml
from planner.files.sections import Section
from planner.files.tables.feeds.feed_tables import MOST_GPUS, MOST_VALUE, type_of

_MAPPINGS = (
    ("prices_usd_per_gpu_hour", FeedKind.PRICE),
    ("inventory", FeedKind.INVENTORY),
    ("lost", FeedKind.LOST),
)
_KEYS = ("load_rps", *(key for key, _ in _MAPPINGS), "lost_nodes")


def read_state(path: Path, gpus: Collection[str], *, live: bool = False) -> Feed:
    """The values of a state; `live`: it must end with a line break, as a number that is cut short is another number.
    Raises InputError where it is no mapping of these keys."""
    text = read_text(path)
    if live and not text.endswith("\n"):
        raise InputError(f"{path}: must end with a line break, it may be half-written.", hint="End its last line.")
    document = parse_yaml(text, file=str(path))
    document.allow_only(*_KEYS)
    if not len(document):
        raise InputError(f"{path}: must name a state, it is empty.", hint=f"Give one of {', '.join(_KEYS)}.")
    values, refused = list[FeedValue](), list[Refusal]()
    for read in _readings(document, gpus):
        try:
            values.append(read())
        except InputError as error:
            refused.append(Refusal(text=f"{error.message} The value before stands."))
    return Feed(file=path.name, values=tuple(values), refused=tuple(refused))


class _Reading:
    """A value that is still to be read: each may be refused by itself."""

    def __init__(self, section: Section, key: str, kind: FeedKind, name: str) -> None:
        self.section, self.key, self.kind, self.name = section, key, kind, name

    def __call__(self) -> FeedValue:
        if self.kind in (FeedKind.INVENTORY, FeedKind.LOST):
            value = float(self.section.integer(self.key, low=0, high=MOST_GPUS))
        elif self.kind is FeedKind.PRICE:
            value = self.section.number(self.key, above=0, high=MOST_VALUE)
        else:
            value = self.section.number(self.key, low=0, high=MOST_VALUE)
        where = f"{self.section.file}: {self.section.key_path(self.key)}"
        return FeedValue(kind=self.kind, name=self.name, value=value, where=where)


def _readings(document: Section, gpus: Collection[str]) -> Iterator[Callable[[], FeedValue]]:
    """One a value; what the document says by naming something needs no reading."""
    if "load_rps" in document:
        yield _Reading(document, "load_rps", FeedKind.LOAD, "")
    for key, kind in _MAPPINGS:
        section = document.section(key, optional=True)
        if key in document and kind is FeedKind.LOST:
            yield partial(FeedValue, kind=kind, name="", value=0.0, where=f"{document.file}: {key}")
        for gpu in section:
            yield _Reading(section, gpu, kind, type_of(gpu, gpus))
    if "lost_nodes" in document:
        lost = partial(FeedValue, kind=FeedKind.LOST_NODE, where=f"{document.file}: lost_nodes")
        yield partial(lost, name="", value=0.0)
        for node in document.entries("lost_nodes"):
            yield partial(lost, name=str(node), value=1.0)
