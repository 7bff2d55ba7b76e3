"""Command-line flags as `--name=value`, written and read back."""

from collections.abc import Sequence

FlagValue = str | int | float | None


def flags(*pairs: tuple[str, FlagValue]) -> tuple[str, ...]:
    """One argument a pair; a value of None gives a bare flag."""
    return tuple(f"--{name}" if value is None else f"--{name}={value}" for name, value in pairs)


def read_flags(arguments: Sequence[str]) -> dict[str, str]:
    """Flag name -> value (empty for a bare flag) of every argument that starts with two hyphens."""
    pairs = (argument[2:].partition("=") for argument in arguments if argument.startswith("--"))
    return {name: value for name, _, value in pairs}


def read_count(values: dict[str, str], name: str, default: int) -> int:
    """The flag `name` as a count; 0, which no shape matches, where it is not a number."""
    text = values.get(name, str(default))
    return int(text) if text.isdecimal() else 0
