"""Names without regard to case and separators: `h100`, `DeepSeek V3` and `deepseek_v3` mean what is shipped."""

import re
from collections.abc import Collection, Iterable

from planner.errors import InputError
from planner.files.sections import Section, nearest_hint

_SEPARATORS = re.compile(r"[\s._\-/]+")


def folded(name: str) -> str:
    """The name in small letters, without blanks, points, hyphens and underscores."""
    return _SEPARATORS.sub("", name.casefold())


def same_names(name: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are written like `name` but for case and separators; itself alone where it is there."""
    names = list(names)
    if name in names:
        return [name]
    wanted = folded(name)
    return [candidate for candidate in names if folded(candidate) == wanted] if wanted else []


def canonical(name: str, names: Collection[str]) -> str:
    """The one of `names` that is meant; `name` itself where none is. InputError where it may be any of several."""
    meant = same_names(name, names)
    if len(meant) > 1:
        raise InputError(f"{name!r} may be {' or '.join(meant)}.", hint="Write it as one of them.")
    return meant[0] if meant else name


def canonical_keys(section: Section, names: Collection[str], *, rule: str, what: str) -> dict[str, str]:
    """Key as it is written -> the one of `names` that is meant, in the section's order. InputError where a key is none
    of them, may be several, or two keys are the same (`rule`: what is then said, with {key}; `what`: what the
    names are)."""
    meant: dict[str, str] = {}
    for key in section:
        candidates = same_names(key, names)
        if not candidates:
            raise section.refusal(key, rule.format(key=key), hint=nearest_hint(key, tuple(names), what=what))
        if len(candidates) > 1:
            raise section.refusal(key, f"may be {' or '.join(candidates)}", hint="Write it as one of them.")
        if candidates[0] in meant.values():
            raise section.refusal(key, f"is {candidates[0]} once more", hint="Give each type once.")
        meant[key] = candidates[0]
    return meant
