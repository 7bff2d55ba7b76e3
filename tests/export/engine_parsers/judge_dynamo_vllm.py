"""The word of Dynamo's vLLM workers on command lines: `python3 -m dynamo.vllm`, up to the engine's configuration.

Run as a program with the folder of the packages; see `judging` for what comes in and goes out, and `judge_vllm` for
what stands in for GPUs. Dynamo's compiled runtime is stood in for, too: no word of a command line is read by it.
"""

import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from unittest.mock import patch

import judge_vllm
import judging
from stand_ins import stand_in

RUNTIME = (
    *(f"dynamo.{name}" for name in ("_core", "runtime", "llm", "nixl_connect", "prometheus_names")),
    "uvloop",
    "llguidance",
)


def make_judge(_architecture: str) -> judging.Judge:
    """The judge, once vLLM and Dynamo's part for it are imported."""
    platform = judge_vllm.make_platform()
    stand_in(RUNTIME)
    args = import_module("dynamo.vllm.args")

    def judge(words: list[str], case: judging.Case) -> None:
        judging.forget("vllm")
        judge_vllm.count_gpus(platform, case["gpu"])
        with (
            judge_vllm.classes_asked(),
            patch.object(ArgumentParser, "error", lambda _, message: judging.refuse(message)),
        ):
            config = args.parse_args(words)
            config.engine_args.create_engine_config(headless=getattr(config, "headless", False))

    return judge


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    judging.answer(judge_vllm.prepare, make_judge)
