"""The server: tools listed and called over standard input and output, several calls at once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as protocol
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from planner.cli import screen
from planner.cli.app import internal_error
from planner.cli.assistants.calls import Printed, Workplace
from planner.cli.assistants.commands import TOOLS, Arguments, Tool, command_line
from planner.cli.assistants.figures import figures_of, headline_of
from planner.cli.assistants.incoming import IncomingLines
from planner.cli.assistants.sources import provenance_of
from planner.errors import InfeasibleError, InputError, PlannerError
from planner.plans.provenance import planner_version

INSTRUCTIONS = (
    "Capacity planning for serving large language models on GPU fleets. Every number of `answer` has a row in "
    "`figures`: its unit, its band, and what it `rests_on`, which are parts of `provenance`; quote a figure with its "
    "unit and its band. Rates and times are estimates of a cost model, and `estimates` says from which measurements. "
    "cheapest, buy, max and plan write a run folder; explain, compare and replay take its name. Files are looked for "
    "in the server's folder alone. A shipped name will do for a model, a workload and a scenario (`quickstart`)."
)
_ANSWER = {
    "type": "object",
    "properties": {
        "tool": {"type": "string"},
        "run": {"type": "string", "description": "The run folder that was written."},
        "headline": {"type": "array", "description": "Numbers by themselves: value, unit, low and high of the band."},
        "answer": {"type": "object", "description": "What the command prints with --json."},
        "figures": {"type": "object", "description": "Way through `answer` -> unit, band, rests_on."},
        "provenance": {"type": "object", "description": "What numbers rest on, by the names of rests_on."},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["tool", "headline", "answer", "figures", "provenance", "warnings"],
}
MOST_LINES = 12
_FIRST = ("rate_rps", "promise_rps", "capacity_rps", "goodput_rps", "price_usd_per_hour", "gap")
"""Of an answer with more figures."""


@dataclass(slots=True)
class Assistance:
    """Tools at work in one folder; `slots`: how many calls at once; `names`: of runs that calls are about to write."""

    place: Workplace
    slots: anyio.CapacityLimiter
    names: set[str] = field(default_factory=set)

    async def listed(self, _context: ServerRequestContext[Any], _: Any) -> protocol.ListToolsResult:
        """Every tool with the schema of its arguments."""
        return protocol.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def called(
        self, _context: ServerRequestContext[Any], call: protocol.CallToolRequestParams
    ) -> protocol.CallToolResult:
        """The answer of a tool; an error of the planner's is an answer, too."""
        try:
            answer = await self._answer(call.name, call.arguments or {})
        except PlannerError as error:
            return _refused(error)
        except Exception as error:  # noqa: BLE001  (the last resort: a defect of ours, told in one line)
            return _refused(internal_error(error))
        text = protocol.TextContent(type="text", text=_text(answer))
        return protocol.CallToolResult(content=[text], structured_content=answer)

    async def _answer(self, name: str, arguments: Arguments) -> dict[str, Any]:
        if name not in TOOLS:
            raise InputError(f"tool: must be one of {', '.join(TOOLS)}, got {name!r:.80}.", hint="List the tools.")
        tool = TOOLS[name]
        tool.check(arguments, self.place.root)
        run = self.run_name(tool, arguments) if tool.writes else ""
        words = tool.words(arguments, run)
        try:
            async with self.slots:
                screen.show_note(command_line(words))
                printed = await self.place.printed(words)
        finally:
            self.names.discard(run)
        return await anyio.to_thread.run_sync(self._with_sources, tool, arguments, run, words, printed)

    def _with_sources(
        self, tool: Tool, arguments: Arguments, run: str, words: Sequence[str], printed: Printed
    ) -> dict[str, Any]:
        """The answer, what its numbers are, and what they rest on."""
        figures, command = figures_of(printed.answer, tool.name), command_line(words)
        runs = tool.run_names(arguments, run)
        return {
            "tool": tool.name,
            **({"run": run} if run else {}),
            "headline": headline_of(printed.answer, figures),
            "answer": printed.answer,
            "figures": figures,
            "provenance": provenance_of(tool.name, arguments, command, printed.answer, self.place.root, runs),
            "warnings": list(printed.warnings),
        }

    def run_name(self, tool: Tool, arguments: Arguments) -> str:
        """The name that was asked for, or the first of the tool's that is free; no other call's while this one writes.

        Raises InputError for a name that another call is at."""
        name = arguments.get("run")
        if name is None:
            numbers = (f"{tool.name}-{number}" for number in range(1, 1_000_000))
            name = next(
                name for name in numbers if name not in self.names and not os.path.lexists(self.place.root / name)
            )
        elif name in self.names:
            raise InputError(f"{tool.name}: run: {name} is being written by another call.", hint="Give another name.")
        self.names.add(name)
        return str(name)


def serve(place: Workplace) -> None:
    """Answer on standard input and output until input ends."""
    anyio.run(_serve, place)


async def _serve(place: Workplace) -> None:
    assistance = Assistance(place=place, slots=anyio.CapacityLimiter(max(2, os.cpu_count() or 1)))
    server: Server[Any] = Server(
        "planner",
        version=planner_version(),
        instructions=INSTRUCTIONS,
        on_list_tools=assistance.listed,
        on_call_tool=assistance.called,
    )
    # its own reader would wait for a further line before it let the process end
    lines: Any = IncomingLines(0)
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _described(tool: Tool) -> protocol.Tool:
    hints = protocol.ToolAnnotations(
        read_only_hint=not tool.writes,
        destructive_hint=tool.writes,
        idempotent_hint=not tool.writes,
        open_world_hint=False,
    )
    return protocol.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema(),
        output_schema=_ANSWER,
        annotations=hints,
    )


def _refused(error: PlannerError) -> protocol.CallToolResult:
    kind = next((kind.__name__ for kind in (InputError, InfeasibleError) if isinstance(error, kind)), "PlannerError")
    document = {"error": {"kind": kind, "message": error.message, "hint": error.hint}}
    return protocol.CallToolResult(
        content=[protocol.TextContent(type="text", text=str(error))], structured_content=document, is_error=True
    )


def _text(answer: Mapping[str, Any]) -> str:
    """A few lines: what was found, how firm it is, and how to get it again."""
    rows, provenance = answer["headline"], answer["provenance"]
    if len(rows) > MOST_LINES:
        rows = [row for row in rows if row["figure"].rpartition(".")[2] in _FIRST] or rows
    notes = [answer["answer"].get("summary"), *answer["answer"].get("notes", []), *answer["warnings"]]
    estimates = [row for run in provenance.get("runs", ()) for row in run["estimates"]]
    firm = dict.fromkeys(f"Rates of {row['gpu']} {row['phase']}: {row['origin']}, {row['source']}" for row in estimates)
    return "\n".join([
        f"{answer['tool']} (planner {provenance['planner']})",
        *map(_line, rows),
        *filter(None, notes),
        *firm,
        *([f"Run folder: {answer['run']}"] if "run" in answer else []),
        f"The same again: {provenance['question']['command']}",
    ])  # fmt: skip


def _line(row: Mapping[str, Any]) -> str:
    band = f" ({row['low']:.6g} to {row['high']:.6g})" if "low" in row else ""
    return f"{row['figure']}: {row['value']:.6g} {row['unit'] or ''}{band}"
