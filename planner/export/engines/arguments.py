"""Command-line flags as `--name=value`, written and read back."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from planner.errors import InputError
from planner.export.objects.documents import whole_number

FlagValue = str | int | float | None


def flags(*pairs: tuple[str, FlagValue]) -> tuple[str, ...]:
    """One argument a pair; a value of None gives a bare flag."""
    return tuple(f"--{name}" if value is None else f"--{name}={value}" for name, value in pairs)


def read_flags(arguments: Sequence[str]) -> dict[str, str]:
    """Flag name -> value (empty for a bare flag) of every argument that starts with two hyphens. A flag that is given
    several times has its last value, as for engines."""
    return dict(_flags_of(tuple(arguments)))


@lru_cache(maxsize=1_024)
def _flags_of(arguments: tuple[str, ...]) -> dict[str, str]:
    """Many checks look at the same arguments, one after the other."""
    return dict(flag_pairs(arguments))


def flag_pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and value of every flag in turn, `--name=value` or `--name value`."""
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--"):
            yield name, value if equals else following if _is_value(following) else ""


def _is_value(word: str) -> bool:
    """Whether a word behind a flag is its value: no flag of its own, but it may be a number below 0."""
    return not word.startswith("-") or word[1:2].isdecimal()


def disguised(arguments: Sequence[str], names: Collection[str], short: Collection[str]) -> Iterator[tuple[str, str]]:
    """Flags in another form than `read_flags` reads, in which an engine would take one of `names`: with underscores,
    cut short, or `short` (as `-tp`). Gives what must hold and what came."""
    hyphened = {name.replace("_", "-"): name for name in names}
    for argument in arguments:
        flag = argument.partition("=")[0]
        name = flag[2:].replace("_", "-")
        if not flag.startswith("--"):
            wrong = flag in short
        elif name in hyphened:
            wrong = flag != f"--{hyphened[name]}"
        else:
            wrong = bool(name) and (flag in short or any(full.startswith(name) for full in hyphened))
        if wrong:
            yield "degrees and limits must be given by the flags that the planner writes, in full", argument


def doubled(arguments: Sequence[str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Flags of `names` that are given more than once: engines take the last, operators the first. Gives what must hold
    and what came."""
    values_of: dict[str, list[str]] = {}
    for name, value in flag_pairs(arguments):
        if name in names:
            values_of.setdefault(name, []).append(value)
    for name, values in values_of.items():
        if len(values) > 1:
            yield f"--{name} must be given once", " and ".join(value or "no value" for value in values)


def read_count(values: Mapping[str, str], name: str, default: int) -> int:
    """The flag `name` as a count; 0, which no shape matches, where it is not a number."""
    return whole_number(values.get(name, default))


def require_plain(arguments: Sequence[str], names: Collection[str], short: Collection[str], engine: str) -> None:
    """Raises InputError where a flag of `names` is given twice, or in another form than `read_flags` reads."""
    for faults in (disguised(arguments, names, short), doubled(arguments, names)):
        for rule, received in faults:
            raise _unreadable(engine, rule, received)


def require_counts(values: Mapping[str, str], defaults: Mapping[str, int | None], engine: str) -> dict[str, int]:
    """The flags of `defaults` as numbers above 0; a default of None: the flag must be there."""
    counts: dict[str, int] = {}
    for name, default in defaults.items():
        count = whole_number(values[name]) if name in values else default
        if not count or count < 0:
            raise _unreadable(engine, f"--{name} must be a whole number above 0", values.get(name, "none"))
        counts[name] = count
    return counts


def _unreadable(engine: str, rule: str, received: str) -> InputError:
    return InputError(
        f"Command line of {engine}: {rule}, got {received or 'no value'}.",
        hint="Give degrees, budget and batch by the long flags that `planner export` writes.",
    )
