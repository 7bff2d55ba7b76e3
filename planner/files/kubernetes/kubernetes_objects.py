"""Kubernetes objects in files: YAML (one or several documents) or JSON, single objects or lists of them."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.documents import parse_json, parse_large_yaml, read_text
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.sections import Section

_DOCUMENT_MARK = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_LIST = "List"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?")
_MOST_QUANTITY = Decimal(2) ** 63  # Kubernetes' own bound
_SCALES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G"), start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("T", "P", "E"), start=4)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesObject:
    """An object: its kind, name and namespace, and its document, whose errors name the object."""

    kind: str
    name: str
    namespace: str
    body: Section


def read_objects(
    path: Path, kinds: tuple[str, ...], passed: Counter[str] | None = None
) -> tuple[KubernetesObject, ...]:
    """The objects of a file, lists unpacked; InputError where one is named twice, or of none of the `kinds`: those are
    passed over where `passed` is given, which counts them by kind.
    """
    text = read_text(path, most_bytes=MOST_OF_A_LIST)
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        documents = [parse_json(text, file=str(path))]
    else:
        documents = [parse_large_yaml(part, file=str(path), most_bytes=MOST_OF_A_LIST) for part in _yaml_parts(text)]
    objects = objects_of(documents, kinds, passed)
    if not objects:
        raise InputError(
            f"{path}: must hold at least one object of kind {' or '.join(kinds)}; it holds none.",
            hint="Write it with `kubectl get ... -o yaml`.",
        )
    return without_twins(objects)


def objects_of(
    documents: Iterable[Section], kinds: tuple[str, ...], passed: Counter[str] | None = None
) -> list[KubernetesObject]:
    """The objects of documents, lists unpacked; none where all lists are empty. InputError for one of none of the
    `kinds`, as in `read_objects`."""
    return [item for document in documents for item in _unpacked(document, kinds, passed)]


def _yaml_parts(text: str) -> list[str]:
    """Documents that say something, each moved down to its own line so that errors name the right one."""
    starts = [0, *(mark.end() for mark in _DOCUMENT_MARK.finditer(text))]
    ends = [*(mark.start() for mark in _DOCUMENT_MARK.finditer(text)), len(text)]
    parts = ["\n" * text.count("\n", 0, start) + text[start:end] for start, end in zip(starts, ends, strict=True)]
    return [part for part in parts if any(line.split("#")[0].strip() for line in part.splitlines())] or [text]


def _unpacked(
    document: Section, kinds: tuple[str, ...], passed: Counter[str] | None, kind: str = ""
) -> list[KubernetesObject]:
    kind = document.text("kind", default=kind or None)
    if kind == _LIST or (kind.endswith(_LIST) and kind.removesuffix(_LIST) in kinds):
        inner = kind.removesuffix(_LIST)
        return [item for part in document.sections("items") for item in _unpacked(part, kinds, passed, inner)]
    if kind not in kinds and passed is not None:
        members = len(document.sections("items")) if kind.endswith(_LIST) and document.holds_list("items") else 1
        passed[kind.removesuffix(_LIST)] += members
        return []
    if kind not in kinds:
        raise document.fault("kind", f"{' or '.join(kinds)}", hint="Give the file to the option of its kind.")
    metadata = document.section("metadata")
    name = metadata.text("name")
    if not _NAME.fullmatch(name):
        raise metadata.fault("name", "a Kubernetes name: small letters, digits, '-' and '.', at most 253")
    namespace = metadata.text("namespace", default="")
    document.file = f"{document.file}: {kind} {f'{namespace}/' if namespace else ''}{name}"
    document.path = ""
    return [KubernetesObject(kind=kind, name=name, namespace=namespace, body=document)]


def without_twins(objects: Iterable[KubernetesObject]) -> tuple[KubernetesObject, ...]:
    """Each object once; InputError where two of one name differ."""
    by_key: dict[tuple[str, str, str], KubernetesObject] = {}
    for item in objects:
        other = by_key.setdefault((item.kind, item.namespace, item.name), item)
        if other is not item and other.body.plain() != item.body.plain():
            where = "twice, and the two differ" if other.body.file == item.body.file else f"in {other.body.file}, too"
            raise InputError(
                f"{item.body.file}: must be given once; it is given {where}.",
                hint="Take all lists at the same time, or remove one of the two.",
            )
    return tuple(by_key.values())


def below(section: Section, *keys: str) -> Section:
    """The mapping under a chain of keys; an empty one where a key is missing or null."""
    for key in keys:
        if section.is_empty(key):
            return Section({}, file=section.file, path=section.key_path(key))
        section = section.section(key)
    return section


def items_below(section: Section, key: str) -> tuple[Section, ...]:
    """The list of mappings under `key`; empty where it is missing or null."""
    return () if section.is_empty(key) else section.sections(key)


def string_map(section: Section) -> tuple[tuple[str, str], ...]:
    """Labels or annotations, in order of key."""
    return tuple((key, section.text(key)) for key in sorted(section))


def quantity(section: Section, key: str) -> float:
    """A Kubernetes quantity (`500m`, `64Gi`, `2`), in its base unit: cores or bytes or pieces; at least 0."""
    rule = "a quantity of at least 0, such as 500m, 8 or 64Gi"
    if section.holds_number(key):
        return section.number(key, low=0, high=float(_MOST_QUANTITY))
    match = _NUMBER.fullmatch(section.text(key)) if not section.is_empty(key) else None
    if match is None:
        raise section.fault(key, rule)
    value, suffix, exponent = match.groups()
    scaled = Decimal(value) * _SCALES[suffix or ""] * Decimal(10) ** int(exponent or 0)
    if not 0 <= scaled <= _MOST_QUANTITY:
        raise section.fault(key, rule)
    return float(scaled)


def count(section: Section, key: str) -> int:
    """A quantity of pieces, 0 where it is missing."""
    if section.is_empty(key):
        return 0
    value = quantity(section, key)
    if value != int(value):
        raise section.fault(key, "a whole number of pieces")
    return int(value)
