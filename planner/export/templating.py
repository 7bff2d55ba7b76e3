"""Text of others is a template in `templates/` (Jinja2), and what stands there in `{{ }}` is quoted or refused.

A template is of objects (`*.yaml`), of a script (`*.sh`) or of a configuration (`*.cfg`). Names and labels come from
users, so that no value is written as it is: one of an object never becomes text at all, a mark stands for it until the
template is read; one of a script becomes a word of bash; one of HAProxy's has to be a plain word. A value that a
template asks for and nobody gives is an error.
"""

import json
import re
import shlex
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from planner.errors import InputError
from planner.export.objects.documents import StrictLoader
from planner.export.objects.names import one_line

_KEPT_VALUES, _MARK = "kept values", "!value"
_PLAIN_WORD = re.compile(r"[A-Za-z0-9$\"{}:._/-]*")


class _Written(str):
    """Text that is quoted already."""

    __slots__ = ()


def objects_of(template: str, **values: Any) -> list[dict[str, Any]]:
    """The objects of `templates/TEMPLATE.yaml`, in its order; a value may be any that JSON has."""
    kept_values: list[Any] = []
    text = _environment(_marked).get_template(f"{template}.yaml").render(values | {_KEPT_VALUES: kept_values})
    loader = _TemplateLoader(text)
    loader.kept = kept_values
    documents = []
    while loader.check_data():
        documents.append(loader.get_data())
    return [document for document in documents if document is not None]


def object_of(template: str, **values: Any) -> dict[str, Any]:
    """The only object of `templates/TEMPLATE.yaml`."""
    (document,) = objects_of(template, **values)
    return document


def script_of(template: str, **values: Any) -> str:
    """The text of `templates/TEMPLATE.sh`; a value is one word, `comment` and `words` are filters.

    Raises:
        InputError: a value that is not one line of printable characters.
    """
    return _environment(_script_word).get_template(f"{template}.sh").render(values)


def configuration_of(template: str, **values: Any) -> str:
    """The text of `templates/TEMPLATE.cfg`, whose values are plain words.

    Raises:
        InputError: a value that is none.
    """
    return _environment(_plain_word).get_template(f"{template}.cfg").render(values)


def file_of(name: str) -> str:
    """The text of `templates/NAME`, which has no values."""
    loader = _environment(_plain_word).loader
    assert loader is not None
    return loader.get_source(_environment(_plain_word), name)[0]


@cache
def _environment(quoted: Callable[..., str]) -> Environment:
    """Templates whose values are written by `quoted`; those that a filter has quoted stay."""
    environment = Environment(
        loader=PackageLoader("planner.export"),
        undefined=StrictUndefined,
        finalize=quoted,
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


@pass_context
def _marked(context: Context, value: Any) -> str:
    """What stands for a value in an object, which is copied in the types that JSON has."""
    kept_values = context[_KEPT_VALUES]
    kept_values.append(json.loads(json.dumps(value, default=dict)))
    return f"{_MARK} {len(kept_values) - 1}"


class _TemplateLoader(StrictLoader):
    """Puts the values in the place of their marks."""

    kept: list[Any]

    def construct_kept(self, node: yaml.ScalarNode) -> Any:
        """The value that a mark stands for."""
        return self.kept[int(node.value)]


_TemplateLoader.add_constructor(_MARK, _TemplateLoader.construct_kept)


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


def _script_word(value: object) -> str:
    return value if isinstance(value, _Written) else shell_word(value)


def _plain_word(value: object) -> str:
    text = str(value)
    if not isinstance(value, _Written) and not _PLAIN_WORD.fullmatch(text):
        raise InputError(
            f"Configuration word {text!r}: must be letters, digits and :._/-.",
            hint="Rename the island, model, plan or label that it comes from.",
        )
    return text
