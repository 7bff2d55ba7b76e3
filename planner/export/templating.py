"""Text of others is a template in `templates/` (Jinja2), and what stands there in `{{ }}` is quoted or refused.

A template is of objects (`*.yaml`), of a script (`*.sh`) or of a configuration (`*.cfg`). Names and labels come from
users, so that no value is written as it is: one becomes JSON, which is YAML whatever it holds, one a word of bash, and
one of HAProxy's words has to be plain. A value that a template asks for and nobody gives is an error.
"""

import json
import re
import shlex
from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from planner.errors import InputError
from planner.export.objects.documents import yaml_documents
from planner.export.objects.names import one_line

_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9$\"{}:._/-]*")


class _Written(str):
    """Text that is quoted already."""

    __slots__ = ()


def objects_of(template: str, **values: Any) -> list[dict[str, Any]]:
    """The objects of `templates/TEMPLATE.yaml`, in its order; a value may be any that JSON has."""
    text = _environment(_as_yaml).get_template(f"{template}.yaml").render(values)
    return [document for document in yaml_documents(text) if isinstance(document, dict)]


def object_of(template: str, **values: Any) -> dict[str, Any]:
    """The only object of `templates/TEMPLATE.yaml`."""
    (document,) = objects_of(template, **values)
    return document


def script_of(template: str, **values: Any) -> str:
    """The text of `templates/TEMPLATE.sh`; a value is one word, `comment` and `words` are filters.

    Raises:
        InputError: a value that is not one line of printable characters.
    """
    return _environment(shell_word).get_template(f"{template}.sh").render(values)


def configuration_of(template: str, **values: Any) -> str:
    """The text of `templates/TEMPLATE.cfg`, whose values are plain words.

    Raises:
        InputError: a value that is none.
    """
    return _environment(_plain_word).get_template(f"{template}.cfg").render(values)


@cache
def _environment(quoted: Callable[[Any], str]) -> Environment:
    """Templates whose values are written by `quoted`, unless a filter has."""
    environment = Environment(
        loader=PackageLoader("planner.export"),
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, _Written) else quoted(value),
        comment_start_string="##{",  # Jinja2's own stands in `${#array[@]}`
        comment_end_string="}##",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # no page: `finalize` quotes every value
    )
    environment.filters["comment"] = lambda text: _Written(one_line(text))
    environment.filters["words"] = lambda words: _Written(" ".join(map(shell_word, words)))
    return environment


def _as_yaml(value: Any) -> str:
    """JSON is YAML but for characters that YAML takes for the end of a line, or for none."""
    text = json.dumps(value, ensure_ascii=False, default=dict)
    return _BEYOND_ASCII.sub(lambda match: f"\\U{ord(match[0]):08x}", text)


def shell_word(value: object) -> str:
    """One word of bash, which expands nothing but the variables that stand between two `\\0`, in double quotes.

    Raises:
        InputError: it is not one line of printable characters.
    """
    parts = re.split(r"\0([a-z_]+)\0", str(value))
    for text in parts[::2]:
        if not all(character.isprintable() for character in text):
            raise InputError(
                f"Script word {text!r}: must be one line of printable characters.",
                hint="Rename the island, model, plan or label that it comes from.",
            )
    quoted = [f'"${part}"' if index % 2 else shlex.quote(part) if part else "" for index, part in enumerate(parts)]
    return "".join(quoted) or "''"


def _plain_word(value: object) -> str:
    text = str(value)
    if not _PLAIN_WORD.fullmatch(text):
        raise InputError(
            f"Configuration word {text!r}: must be letters, digits and :._/-.",
            hint="Rename the island, model, plan or label that it comes from.",
        )
    return text
