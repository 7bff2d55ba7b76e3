"""HAProxy's configuration read back: intervals of tokens, and the servers of each. Reads what is written here, with
comments, spaces and the order of settings as anybody likes; a rule that is none of ours makes it unreadable."""

import math
import re
import shlex
from collections.abc import Sequence

from planner.export.routers.haproxy import REFUSED_FROM

_SECTIONS = frozenset({"global", "defaults", "frontend", "backend", "resolvers", "listen", "cache", "peers"})
_RULE = re.compile(r"if { req\.body_size (lt|gt) ([0-9]{1,18}) }")
_CLIENTS = "requests"
_MOST_COPIES = 100_000
_FUZZ = 1e-9


Backends = tuple[tuple[int, int, tuple[tuple[str, int | None], ...]], ...]
"""First length (tokens) and end of each, and (host:port, weight) of its servers, copies of a template each."""


def prompt_tokens(size: int, bytes_per_token: float, envelope: int) -> int:
    """The longest prompt that fits a body: floor((size - envelope) / bytes a token)."""
    return max(0, math.floor((size - envelope) / bytes_per_token + _FUZZ))


def read_backends(text: str) -> Backends | None:
    """The backends by length; None where the text cannot be read so."""
    try:
        sections = _sections(text)
        settings = {row[1]: row[2] for row in sections["global"][0] if row[0] == "setenv"}
        scale, envelope = float(settings["BYTES_PER_TOKEN"]), int(settings["ENVELOPE_BYTES"])
        if not (math.isfinite(scale) and scale >= 1):
            return None
        (frontend,) = (rows for rows in sections["frontend"] if rows[0][1] == _CLIENTS)
        backends = {rows[0][1]: rows[1:] for rows in sections["backend"]}
        spans = _spans(frontend[1:], scale, envelope)
        return tuple((start, end, _servers(backends[name])) for name, start, end in spans)
    except (KeyError, ValueError, IndexError, OverflowError):
        return None


def read_doors(text: str) -> dict[int, tuple[tuple[str, int | None], ...]]:
    """Port -> the servers behind it, of the frontends that take no client's requests; nothing where the text cannot be
    read so."""
    try:
        sections = _sections(text)
        backends = {rows[0][1]: rows[1:] for rows in sections["backend"]}
        doors: dict[int, tuple[tuple[str, int | None], ...]] = {}
        for rows in sections["frontend"]:
            if rows[0][1] != _CLIENTS:
                (address,) = (row[1] for row in rows if row[0] == "bind")
                (name,) = (row[1] for row in rows if row[0] == "default_backend")
                doors[int(address.rpartition(":")[2])] = _servers(backends[name])
    except (KeyError, ValueError, IndexError):
        return {}
    return doors


def _sections(text: str) -> dict[str, list[list[list[str]]]]:
    """Kind of section -> its lines as words, each time that there is one; the first line of named ones is its head."""
    sections: dict[str, list[list[list[str]]]] = {}
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] in _SECTIONS:
            sections.setdefault(words[0], []).append([words] if words[1:] else [])
            current = sections[words[0]][-1]
        else:
            current.append(words)
    return sections


def _spans(rows: Sequence[Sequence[str]], scale: float, envelope: int) -> list[tuple[str, int, int]]:
    """Backend, first length and end, in the order of the rules: the first that holds is taken."""
    spans: list[tuple[str, int, int]] = []
    start, end = 0, None
    for row in rows:
        if row[0] == "http-request" and row[1] == "deny":
            size = _size(row[row.index("if") :], "gt")
            end = prompt_tokens(size // REFUSED_FROM, scale, envelope)
        elif row[0] == "use_backend":
            limit = prompt_tokens(_size(row[2:], "lt"), scale, envelope)
            spans.append((row[1], start, max(start, limit)))
            start = max(start, limit)
    default = next(row[1] for row in rows if row[0] == "default_backend")
    if end is None:
        raise ValueError("nothing is refused")
    return [*spans, (default, start, max(start, end))]


def _size(words: Sequence[str], comparison: str) -> int:
    match = _RULE.fullmatch(" ".join(words))
    if match is None or match[1] != comparison:
        raise ValueError("another rule")
    return int(match[2])


def _servers(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, int | None], ...]:
    servers: list[tuple[str, int | None]] = []
    for row in rows:
        if row[0] not in ("server", "server-template"):
            continue
        template = row[0] == "server-template"
        copies = int(row[2].rpartition("-")[2]) if template else 1
        if not 0 <= copies <= _MOST_COPIES:
            raise ValueError("a number of copies")
        weight = int(row[row.index("weight") + 1]) if "weight" in row else 1
        servers += [(row[2 + template].replace(".${NAMESPACE}.svc.cluster.local", ""), weight)] * copies
    return tuple(servers)
