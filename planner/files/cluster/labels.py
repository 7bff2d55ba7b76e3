"""Kubernetes node labels: they end up in manifests, so what Kubernetes would refuse is refused here."""

import re

from planner.errors import FaultyKeyError
from planner.files.sections import Section

_HINT = "See `kubectl get nodes --show-labels`."
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def read_labels(section: Section) -> tuple[tuple[str, str], ...]:
    """Label keys and values of a mapping, in order of key; at least one."""
    if not len(section):
        above, _, key = section.path.rpartition(".")
        raise FaultyKeyError(
            f"{section.file}: {section.path} must have at least one label; it is empty.",
            section_path=above,
            key=key,
            by_itself=True,
            hint="Give the label by which the nodes are found, or leave the key out for the default.",
        )
    for key in section:
        *prefix, word = key.split("/", 1)
        if not _WORD.fullmatch(word) or not all(_PREFIX.fullmatch(part) for part in prefix):
            raise section.fault(
                key, "under a valid label key: [prefix/]name, the name at most 63 characters", hint=_HINT
            )
        if not _WORD.fullmatch(section.text(key)):
            raise section.fault(key, "a label value: at most 63 letters, digits, '-', '_' or '.'", hint=_HINT)
    return tuple((key, section.text(key)) for key in sorted(section))
