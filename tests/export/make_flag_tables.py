"""Makes the tables of flags in planner/export/flags from the engines' own parsers; needs neither GPU nor network.

Once per table, in a folder of its own (torch, transformers and the like, as the engine wants them, have to be
importable; what is compiled for GPUs is stood in for, what else is missing the error names):

    pip download --no-deps vllm==0.18.0 && unzip vllm-*.whl -d engine
    python tests/export/make_flag_tables.py vllm 0.18.0 engine > planner/export/flags/vllm.json
    pip download --no-deps sglang==0.5.18 && unzip sglang-*.whl -d engine
    python tests/export/make_flag_tables.py sglang 0.5.18 engine > planner/export/flags/sglang.json
    pip download --no-deps ai-dynamo==1.3.1 vllm==0.23.0 sglang==0.5.14 (each pair of dynamo and an engine in a folder)
    python tests/export/make_flag_tables.py dynamo.vllm 1.3.1 engine > planner/export/flags/dynamo.vllm.json
    python tests/export/make_flag_tables.py dynamo.sglang 1.3.1 engine > planner/export/flags/dynamo.sglang.json

A row is [names, values, type, choices, words]: `values` as argparse counts them (0, 1, ? + *); `type`: text, whole,
size (a whole number, maybe with a suffix as 1k), number, json, object (JSON, too); `words` are texts that a type takes
beside it. Types are learnt by trying them. `dialect`: flexible (vLLM: underscores for hyphens, --name.key, -O1) or
plain; `exact`: names that cannot be cut short.
"""

import argparse
import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

# what is compiled for GPUs, or does not install without them
_STOOD_IN = (
    *(f"vllm.{name}" for name in ("_C", "_moe_C", "_C_stable_libtorch", "vllm_flash_attn", "cumem_allocator")),
    *("sgl_kernel", "torchvision", "xgrammar", "tvm_ffi", "flashinfer", "nixl"),
)
_SOURCES = {
    "vllm": "vllm-project/vllm, vllm/entrypoints/openai/cli_args.py (make_arg_parser) and cli/serve.py",
    "sglang": "sgl-project/sglang, python/sglang/srt/server_args.py (ServerArgs.add_cli_args)",
    "dynamo.vllm": "ai-dynamo/dynamo, components/src/dynamo/vllm/args.py, over vLLM 0.23.0's AsyncEngineArgs",
    "dynamo.sglang": "ai-dynamo/dynamo, components/src/dynamo/sglang/args.py, over SGLang 0.5.14's ServerArgs",
}
_WORDS = ("", "auto", "None", "none", "null")


class _StandIns:
    """Finds what is not there, last of all finders, and makes a mock of it."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if not any(name == one or name.startswith(f"{one}.") for one in _STOOD_IN):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = MagicMock(name=spec.name)
        module.__name__, module.__path__, module.__spec__, module.__version__ = spec.name, [], spec, "9.9.9"
        if spec.name == "xgrammar":  # a field of this type is validated by pydantic
            from pydantic import create_model

            module.StructuralTag = create_model("StructuralTag")
        return module

    def exec_module(self, module: ModuleType) -> None: ...


def parsers(program: str) -> tuple[argparse.ArgumentParser, ...]:
    """The parsers that take the words of `program`, the first one first."""
    if "vllm" in program:
        import vllm.platforms
        from vllm.platforms.cuda import NonNvmlCudaPlatform

        vllm.platforms._current_platform = NonNvmlCudaPlatform()
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
    sys.path.insert(0, folder)
    sys.meta_path.append(_StandIns())  # type: ignore[arg-type]
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
    print(json.dumps(head)[:-1] + ', "flags": [\n' + lines + "\n]}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:4])
