"""YAML read by libyaml where it is there: ten times faster than the loader in Python, and the same."""

from collections.abc import Iterator
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_document(text: str) -> Any:
    """The only document of a text."""
    return yaml.load(text, Loader=LOADER)


def load_documents(text: str) -> Iterator[Any]:
    """All documents of a text."""
    return yaml.load_all(text, Loader=LOADER)
