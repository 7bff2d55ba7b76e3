"""Options that several commands share stand in a record, a field each, and a command takes the record:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Output:
        out: Annotated[Path | None, typer.Option(help="Folder.")] = None

    @with_records
    def command(rps: float, output: Output) -> None: ...

gives `planner … --rps --out`. Options stand where the record stands in the command's own list.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, get_type_hints

Typed = ParamSpec("Typed")


def with_records(command: Callable[Typed, None]) -> Callable[..., None]:
    """The command as the library that reads command lines can read it: every field of its records by itself."""
    parameters = list(signature(command).parameters.values())
    records: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def flat(**typed: Any) -> None:
        for name, record in records.items():
            typed[name] = record(**{option.name: typed.pop(option.name) for option in fields(record)})
        command(**typed)  # type: ignore[call-arg]  # by name: what was read is what was listed

    options = [option for parameter in parameters for option in _options(parameter)]
    shown: Any = flat
    shown.__signature__ = Signature(options)
    shown.__annotations__ = {option.name: option.annotation for option in options}
    return flat


def _options(parameter: Parameter) -> Iterator[Parameter]:
    if not is_dataclass(parameter.annotation):
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(parameter.annotation, include_extras=True)
    for option in fields(parameter.annotation):
        yield Parameter(option.name, Parameter.KEYWORD_ONLY, default=_default(option), annotation=hints[option.name])


def _default(option: Field[Any]) -> Any:
    return Parameter.empty if option.default is MISSING else option.default
