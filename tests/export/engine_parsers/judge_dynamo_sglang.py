"""The word of Dynamo's SGLang workers on command lines: `python3 -m dynamo.sglang`, up to the server's arguments.

Run as a program with the folder of the packages; see `judging` for what comes in and goes out, and `judge_sglang` for
what stands in for GPUs. Dynamo's compiled runtime is stood in for, and nothing is fetched. The layer with the shared
expert is not built: `sglang_shared_expert` knows the ways of later versions.
"""

import asyncio
import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from unittest.mock import MagicMock, patch

import judge_sglang
import judging
from judge_dynamo_vllm import RUNTIME
from stand_ins import stand_in


def make_judge(_architecture: str) -> judging.Judge:
    """The judge, once SGLang and Dynamo's part for it are imported."""
    judge_sglang.load()
    stand_in(RUNTIME)
    sys.modules["sglang.srt.entrypoints.engine"] = MagicMock()  # what runs: no word of a command line is read by it
    args = import_module("dynamo.sglang.args")
    args.should_fetch_model = lambda *_: False  # the folder is there

    def judge(words: list[str], case: judging.Case) -> None:
        judge_sglang.put_gpus(case["gpu"])
        with patch.object(ArgumentParser, "error", lambda _, message: judging.refuse(message)):
            judge_sglang.check(asyncio.run(args.parse_args(words)).server_args)

    return judge


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    judging.answer(judge_sglang.prepare, make_judge)
