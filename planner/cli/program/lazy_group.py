"""The group of all commands, each read when it is called: help and completion read none."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from planner.cli.program.every_command import short_errors
from planner.cli.program.listing import PANELS, short_help
from planner.guests import guest_commands

LAST_PANEL = "More"


class LazyCommands(Mapping[str, Any]):
    """Commands by name, in the order of the panels, those of guests last; one is read when it is asked for, and once.

    Who is a guest is asked where all are listed or a name is none of the planner's own: looking takes a while.
    """

    def __init__(self, names: tuple[str, ...], load: Callable[[str], Any]) -> None:
        listed = [name for helps in PANELS.values() for name in helps if name in names]
        self._names = (*listed, *(name for name in names if name not in listed))
        self._load = load
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._names, *guest_commands()))

    def __len__(self) -> int:
        return len(self._names) + len(guest_commands())

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in guest_commands()


class LazyGroup(TyperGroup):
    """A group whose help and completion say what the listing says; running a command reads it."""

    source: ClassVar[Callable[[], LazyCommands]]
    """Its commands, set by the program."""

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = None
        super().__init__(**attributes)
        self.commands = type(self).source()  # type: ignore[assignment]  # read only

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """As the library's, errors shortened."""
        with short_errors():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        """As the library's, errors shortened."""
        with short_errors():
            return super().invoke(ctx)

    def list_commands(self, _context: Any) -> list[str]:
        """Their names, in order."""
        return list(self.commands)

    def get_command(self, _context: Any, name: str) -> Any:
        """The name with its short help: enough for a list of commands."""
        if name not in self.commands:
            return None
        listed = short_help(name)
        if listed is None:
            command = self.commands[name]
            listed = LAST_PANEL, (command.help or "").partition("\n\n")[0]
        return TyperCommand(name, help=listed[1], short_help=listed[1], rich_help_panel=listed[0])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command itself, to be run or to complete its options."""
        name, listed, remaining_args = super().resolve_command(ctx, args)
        return name, None if listed is None or name is None else self.commands[name], remaining_args
