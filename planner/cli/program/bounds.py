"""What holds of every word of a command line: whole numbers have a bound, and errors repeat little of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from planner.errors import MOST_OF_INPUT, InputError, shortened

MOST_WHOLE = 10**15
"""Of an option that has no bound of its own, as of a key in a file."""


def with_bounds(command: Any) -> None:
    """Give the whole numbers of the command, or of those of a group, a bound where they have none."""
    for below in getattr(command, "commands", {}).values():
        with_bounds(below)
    for parameter in command.params:
        described = getattr(parameter, "type_descriptor", None)
        if described is not None and described.annotation is int and parameter.max is None:
            parameter.callback = _bounded(parameter.opts[0], parameter.callback)


def _bounded(name: str, then: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > MOST_WHOLE:
            raise InputError(
                f"{name}: must be a whole number of at most {MOST_WHOLE:.0e} either way, got {value!s:.40}.",
                hint="Give a number of ordinary size.",
            )
        return value if then is None else then(context, parameter, value)

    return check


@contextmanager
def short_errors() -> Iterator[None]:
    """What the library says of words that it cannot read, shortened."""
    try:
        yield
    except Exception as error:
        message, option = getattr(error, "message", None), str(getattr(error, "option_name", ""))
        if isinstance(message, str):
            # an option that nobody knows stands there without quotes, blanks and all
            message = message.replace(option, option[:MOST_OF_INPUT]) if option else message
            error.message = shortened(message)  # type: ignore[attr-defined]  # the library's own errors
        raise
