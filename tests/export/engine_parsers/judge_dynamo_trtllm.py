"""The word of Dynamo's TensorRT-LLM workers on command lines: `python3 -m dynamo.trtllm`, up to the engine's arguments;
what becomes of its options is held against the contract of `judge_trtllm`.

Run as a program with the folder of the packages; see `judging` for what comes in and goes out. TensorRT-LLM itself is
stood in for, as Dynamo asks it for defaults alone, and so is Dynamo's compiled runtime.
"""

import json
import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from unittest.mock import patch

import judge_trtllm
import judging
from judge_dynamo_vllm import RUNTIME
from stand_ins import stand_in


def make_judge(_architecture: str) -> judging.Judge:
    """The judge, once Dynamo's part is imported."""
    stand_in((*RUNTIME, "tensorrt_llm", "torch"))
    args = import_module("dynamo.trtllm.args")

    def judge(words: list[str], case: judging.Case) -> None:
        with patch.object(ArgumentParser, "error", lambda _, message: judging.refuse(message)):
            config = args.parse_args(words)
        options = json.loads(config.override_engine_args) if config.override_engine_args else {}
        values = {
            **{name: getattr(config, name) for name in ("tensor_parallel_size", "pipeline_parallel_size")},
            "moe_expert_parallel_size": config.expert_parallel_size,
            "max_batch_size": int(config.max_batch_size),
        }
        nodes = int(case["environment"].get("NODES", 1))
        judge_trtllm.check(values, options, case["gpu"]["count"] * nodes)

    return judge


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    judging.answer(lambda: None, make_judge)
