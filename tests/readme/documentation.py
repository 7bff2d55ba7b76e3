"""The README and the guides in the order in which they are read, and their code blocks."""

import re
from pathlib import Path

from planner.cli.docs.markdown_pages import guide_names, guide_text

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {"README": README, **{name: guide_text(name) for name in guide_names()}}
TEXT = "\n".join(TEXTS.values())
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(match[1], match[2]) for match in FENCE.finditer(TEXT)]


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return [body for kind, body in BLOCKS if kind == language]
