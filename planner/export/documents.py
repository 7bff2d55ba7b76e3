"""YAML text: comments on top, documents below, every value quoted by the dumper."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from planner.export.names import one_line

_ONE_LINE = 1_000_000  # never fold: a wrapped argument is hard to read and to compare


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice, instead of an anchor and an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML fixes the signature
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_PlainDumper.add_representer(str, _text)


def yaml_text(comments: Iterable[str], documents: Iterable[Mapping[str, Any]]) -> str:
    """The text of one file. Comments may hold any characters; what a comment cannot carry is dropped."""
    head = "".join(f"# {one_line(comment)}\n" for comment in comments)
    body = yaml.dump_all(
        [dict(document) for document in documents],
        Dumper=_PlainDumper,
        sort_keys=False,
        allow_unicode=True,
        width=_ONE_LINE,
        explicit_start=True,
    )
    return head + str(body)
