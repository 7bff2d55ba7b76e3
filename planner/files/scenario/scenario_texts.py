"""A scenario's document as the text of a file: a line a key, long mappings broken, comments beside."""

from collections.abc import Mapping

import yaml

_WIDTH = 118
_LARGE = 1e15


def scenario_text(document: Mapping[str, object], head: str = "", notes: Mapping[str, str] | None = None) -> str:
    """YAML that reads back as `document`. `head`: comment lines above; `notes`: a comment after a key's line."""
    comments = "".join(f"# {line}\n" for line in head.splitlines())
    rows = (_row(key, value, (notes or {}).get(key, "")) for key, value in document.items())
    return comments + "".join(rows)


def _row(key: str, value: object, note: str) -> str:
    value = _plain(value)
    flow = yaml.safe_dump({key: value}, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    line = flow.strip().removeprefix("{").removesuffix("}")
    if len(line) > _WIDTH:
        line = yaml.safe_dump({key: value}, default_flow_style=None, sort_keys=False, width=_WIDTH, allow_unicode=True)
    comment = f"  # {note}" if note else ""
    return f"{line.rstrip()}{comment}\n" if "\n" not in line.rstrip() else f"# {note}\n{line}" if note else line


def _plain(value: object) -> object:
    """Whole numbers without a point, at any depth."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _LARGE else value
