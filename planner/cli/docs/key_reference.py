"""Every key of every document that a user writes, as a table for each document."""

from planner.files.reference import DOCUMENTS, KeyRow, key_rows
from planner.report.kit.markdown import escaped, table

_HEAD = """\
# Keys

Every key of every file that you write, what it may hold and what it is without it. Unknown keys are refused.

`[]` stands for each item of a list, a word in capitals for a name of yours. A key is required where its section is
there and it says so; – means that it may be left out and that there is no value in its stead.
"""
_HEADER = ("Key", "Value", "Default", "Meaning")


def keys_text() -> str:
    """The page: a section for each document."""
    return "\n".join([_HEAD, *(_section(document, title) for document, title in DOCUMENTS.items())])


def _section(document: str, title: str) -> str:
    return f"## {title}\n\n{table(_HEADER, [_cells(row) for row in key_rows(document)], 'llll')}\n"


def _cells(row: KeyRow) -> tuple[str, str, str, str]:
    return f"`{row.path}`", escaped(row.kind), _default(row), row.meaning.replace("|", "\\|")


def _default(row: KeyRow) -> str:
    if row.required:
        return "required"
    if row.default is None or row.default == "":
        return "–"
    if isinstance(row.default, bool):
        return f"`{str(row.default).lower()}`"
    return f"`{row.default:.12g}`" if isinstance(row.default, float) else f"`{row.default}`"
