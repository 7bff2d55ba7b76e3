"""TensorRT-LLM's contract on command lines of pods: flags by a parser of the kind that it has (click), options by name
and type, degrees as tensorrt_llm/mapping.py has them. Its packages, of gigabytes, lie on no index that tests can reach.

Run as a program; see `judging` for what comes in and goes out. The words are those of the whole pod: its shell runs
them, with a `trtllm-serve` that tells what it was called with.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import judging
import yaml

_CONTRACT = json.loads((Path(__file__).parent / "trtllm_contract.json").read_text(encoding="utf-8"))
_TYPES: Mapping[str, tuple[type, ...]] = {
    **{"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "list": (list,), "null": (type(None),)}
}
_STUB = "#!/bin/sh\nprintf '%s\\0' \"$@\"\n"


def command(name: str) -> click.Command:
    """The command of that name: a model first where it serves one."""
    parameters: list[click.Parameter] = [click.Argument(["model"])] if name == "serve" else []
    for flags, kind in _CONTRACT[name].items():
        types = {"int": click.INT, "float": click.FLOAT, "str": click.STRING}
        shape: Any = click.Choice(kind) if isinstance(kind, list) else types.get(kind)
        parameters.append(click.Option(flags.split(), type=shape, is_flag=kind == "flag"))
    return click.Command(name, params=parameters)


def parsed(words: list[str]) -> dict[str, Any]:
    """What `trtllm-serve` makes of the words behind it; its parser's error where it makes nothing of them."""
    name, *others = words
    if name not in ("serve", "disaggregated"):
        raise click.UsageError(f"No such command {name!r}.")
    return command(name).make_context(name, others).params


def check_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for an option that there is not, or a value that it does not take."""
    for path, value in _leaves(options):
        kind = _CONTRACT["options"].get(path)
        if kind is None:
            raise ValueError(f"{path}: Extra inputs are not permitted")
        if isinstance(kind, list):
            if value not in kind:
                raise ValueError(f"{path}: must be one of {kind}, got {value!r}")
        elif not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise ValueError(f"{path}: must be {kind}, got {value!r}")


def _leaves(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def check_degrees(gpus: int, tensor: int, pipeline: int, experts: int | None, slots: int | None) -> None:
    """Raises ValueError where ranks and GPUs do not match, or experts do not come out even."""
    if tensor * pipeline != gpus:
        raise ValueError(f"world size must be the {gpus} GPUs that there are, got {tensor} x {pipeline}")
    if experts and tensor % experts:
        raise ValueError(f"moe_tp_size * moe_ep_size must be tp_size {tensor}, got moe_ep_size {experts}")
    if slots and slots % (experts or 1):
        raise ValueError(f"num_slots {slots} must be divisible by ep_size {experts}")


def check(values: Mapping[str, Any], options: Mapping[str, Any], gpus: int) -> None:
    """All of it, of one server."""
    check_options(options)
    slots = options.get("moe_config", {}).get("load_balancer", {}).get("num_slots")
    degrees = (values["tensor_parallel_size"] or 1, values["pipeline_parallel_size"] or 1)
    check_degrees(gpus, *degrees, values["moe_expert_parallel_size"], slots)
    longest = options.get("cuda_graph_config") or {}
    if longest.get("max_batch_size", 0) > values["max_batch_size"]:
        raise ValueError("graphs of larger batches than max_batch_size are never run")


def make_judge(_architecture: str) -> judging.Judge:
    """The judge: the words run in a shell, in a folder of their own."""

    def judge(words: list[str], case: judging.Case) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stub = Path(folder, "trtllm-serve")
            stub.write_text(_STUB, encoding="utf-8")
            stub.chmod(0o755)
            variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": folder}
            ran = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise ValueError(f"status {ran.returncode}: {ran.stderr}")
            values = parsed(ran.stdout.split("\0")[:-1])
            options = yaml.safe_load(Path(values["config"]).read_text(encoding="utf-8")) if values["config"] else {}
        check(values, options or {}, case["gpu"]["count"])

    return judge


if __name__ == "__main__":
    judging.answer(lambda: None, make_judge)
