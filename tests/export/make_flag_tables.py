"""Makes the tables of flags in planner/export/flags from the engines' own parsers; needs neither GPU nor network.

The packages are those of the judges (`engine_parsers`, whose stand-ins take the place of what is compiled for GPUs):

    make engine-parsers
    cd build/engine-parsers
    python ../../tests/export/make_flag_tables.py vllm 0.18.0 vllm-0.18.0 > ../../planner/export/flags/vllm.json
    python ../../tests/export/make_flag_tables.py sglang 0.5.18 sglang-0.5.18 > ../../planner/export/flags/sglang.json
    python ../../tests/export/make_flag_tables.py dynamo.vllm 1.3.1 dynamo.vllm-1.3.1 > ...
    python ../../tests/export/make_flag_tables.py dynamo.sglang 1.3.1 dynamo.sglang-1.3.1 > ...

A row is [names, values, type, choices, words]: `values` as argparse counts them (0, 1, ? + *); `type`: text, whole,
size (a whole number, maybe with a suffix as 1k), number, json, object (JSON, too); `words` are texts that a type takes
beside it. Types are learnt by trying them. `dialect`: flexible (vLLM: underscores for hyphens, --name.key, -O1) or
plain; `exact`: names that cannot be cut short.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_SOURCES = {
    "vllm": "vllm-project/vllm, vllm/entrypoints/openai/cli_args.py (make_arg_parser) and cli/serve.py",
    "sglang": "sgl-project/sglang, python/sglang/srt/server_args.py (ServerArgs.add_cli_args)",
    "dynamo.vllm": "ai-dynamo/dynamo, components/src/dynamo/vllm/args.py, over vLLM 0.23.0's AsyncEngineArgs",
    "dynamo.sglang": "ai-dynamo/dynamo, components/src/dynamo/sglang/args.py, over SGLang 0.5.14's ServerArgs",
}
_WORDS = ("", "auto", "None", "none", "null")


def parsers(program: str) -> tuple[argparse.ArgumentParser, ...]:
    """The parsers that take the words of `program`, the first one first."""
    import judge_sglang
    import judge_vllm
    from judge_dynamo_vllm import RUNTIME
    from stand_ins import stand_in

    if "vllm" in program:
        judge_vllm.make_platform()
    else:
        judge_sglang.load()
    stand_in(RUNTIME if program.startswith("dynamo.") else ())
    return {"vllm": _vllm, "sglang": _sglang, "dynamo.vllm": _dynamo_vllm, "dynamo.sglang": _dynamo_sglang}[program]()


def _vllm() -> tuple[argparse.ArgumentParser, ...]:
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    parser.add_argument("--grpc", action="store_true")  # as the command `serve` does
    return (parser,)


def _sglang() -> tuple[argparse.ArgumentParser, ...]:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return (parser,)


def _dynamo(group: Any) -> argparse.ArgumentParser:
    from dynamo.common.configuration.groups.runtime_args import DynamoRuntimeArgGroup

    parser = argparse.ArgumentParser(allow_abbrev=False)
    DynamoRuntimeArgGroup().add_arguments(parser)
    group.add_arguments(parser)
    return parser


def _dynamo_vllm() -> tuple[argparse.ArgumentParser, ...]:
    from dynamo.vllm.backend_args import DynamoVllmArgGroup
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    engine = FlexibleArgumentParser(add_help=False)
    AsyncEngineArgs.add_cli_args(engine, async_args_only=False)
    return _dynamo(DynamoVllmArgGroup()), engine


def _dynamo_sglang() -> tuple[argparse.ArgumentParser, ...]:
    from dynamo.sglang.backend_args import DynamoSGLangArgGroup

    return _dynamo(DynamoSGLangArgGroup()), *_sglang()


def rows(parser: argparse.ArgumentParser) -> Iterator[list[object]]:
    """One row a flag, in the parser's order."""
    for action in parser._actions:
        names = list(action.option_strings)
        if not names or action.dest == "help" or getattr(action, "error_message", None):
            continue  # the last: what SGLang refuses with a word on what came in its place
        kind, words = _kind(action)
        yield [names, "1" if action.nargs is None else str(action.nargs), kind, _choices(action), words]


def _choices(action: argparse.Action) -> list[str]:
    return sorted(map(str, action.choices or ()))


def _kind(action: argparse.Action) -> tuple[str, list[str]]:
    if action.nargs == 0 or action.type in (None, str):
        return "text", []
    assert callable(action.type)
    read: Callable[[str], Any] = action.type
    if _takes(read, "no such value"):
        return "text", []
    words = [word for word in _WORDS if _takes(read, word)]
    if _takes(read, "{}"):
        return ("json" if _takes(read, "7") else "object"), words
    kinds = {"number": "1.5", "size": "1k", "whole": "7"}
    return next((kind for kind, example in kinds.items() if _takes(read, example)), "text"), words


def _takes(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except (ValueError, TypeError, argparse.ArgumentTypeError, KeyError, SyntaxError):
        return False
    return True


def main(program: str, version: str, folder: str) -> None:
    """Prints the table of `program`, whose packages lie in `folder`."""
    sys.path[:0] = [folder, str(Path(__file__).resolve().parent / "engine_parsers")]
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR"}
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)  # whatever an engine prints
        output.write(table(program, version))


def table(program: str, version: str) -> str:
    """The table as it lies in planner/export/flags."""
    found = parsers(program)
    exact = {name for parser in found for row in rows(parser) for name in row[0] if not parser.allow_abbrev}
    flags = {min(row[0]): row for parser in reversed(found) for row in rows(parser)}
    head: dict[str, object] = {
        "program": program,
        "version": version,
        "source": _SOURCES[program],
        "licence": "Apache-2.0",
    }
    head["dialect"] = "flexible" if "vllm" in program else "plain"
    head["exact"] = sorted(exact)
    lines = ",\n".join(json.dumps(row) for _, row in sorted(flags.items()))
    return json.dumps(head)[:-1] + ', "flags": [\n' + lines + "\n]}\n"


if __name__ == "__main__":
    main(*sys.argv[1:4])
