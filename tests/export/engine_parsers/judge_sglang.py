"""SGLang's own word on command lines: `sglang.launch_server`, up to `ServerArgs.check_server_args`, and whether the
shared expert can be split as its model's code splits it (`sglang_shared_expert`).

Run as a program with the folder of SGLang's packages; see `judging` for what comes in and goes out. What needs a GPU is
stood in for: compiled kernels, triton, and what torch says of the GPU, which is the case's. What happens after that
(other layers, ranks that meet) is not judged.
"""

import argparse
import os
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import judging
import sglang_shared_expert
from stand_ins import stand_in

_KERNELS = ("sgl_kernel", "flashinfer", "triton", "deep_ep", "deep_gemm", "tvm_ffi")
_STOOD_IN = (*_KERNELS, "torchvision", "xgrammar", "nixl", "aiter")
_FIRST = ("transformers.models.auto.image_processing_auto", "transformers.models.auto.auto_factory", "openai")
_CAPABILITIES = {"gfx942": "9.4", "gfx950": "9.5"}  # as HIP has them


def _tell(gpu: dict[str, Any]) -> None:
    """Makes torch tell of the case's GPUs, AMD's where they have an `architecture`."""
    import torch

    architecture = gpu["architecture"]
    told = _CAPABILITIES.get(architecture) or str(gpu["compute_capability"])
    major, _, minor = told.partition(".")
    capability, memory = (int(major), int(minor or 0)), int(gpu["memory_bytes"])
    properties = SimpleNamespace(
        name=gpu["name"],
        major=capability[0],
        minor=capability[1],
        total_memory=memory,
        multi_processor_count=132,
        gcnArchName=architecture,
    )
    torch.version.cuda, torch.version.hip = (None, "7.2.0") if architecture else ("13.0", None)
    answers = {
        "is_available": True,
        "device_count": int(gpu["count"]),
        "current_device": 0,
        "get_device_capability": capability,
        "get_device_name": gpu["name"],
        "get_device_properties": properties,
        "mem_get_info": (memory, memory),
        "init": None,
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)


def prepare() -> None:
    """Imports what asks for no GPU, the libraries that take longest among it."""
    torch = import_module("torch")
    import_module("torch.utils.flop_counter")  # first: it would take the stand-in of triton for the real one
    torch.compile = lambda function=None, **_: function or (lambda decorated: decorated)  # it would want triton, too
    torch.library.register_fake = lambda *_, **__: lambda decorated: decorated  # of kernels that are not there
    stand_in(_STOOD_IN)
    runtime = import_module("triton").runtime  # Dynamo's version asks it for what follows
    runtime.driver.active.get_current_target.return_value.backend = "cuda"
    runtime.jit.JITFunction = MagicMock
    judging.import_first(_FIRST)


def load(architecture: str = "") -> Any:
    """Imports SGLang with what stands in for GPUs, AMD's of an architecture or NVIDIA's; its module `server_args`."""
    nothing = {"name": "none", "compute_capability": "9.0", "memory_bytes": 0, "count": 1}
    _tell({**nothing, "architecture": architecture})
    return import_module("sglang.srt.server_args")


def put_gpus(gpu: dict[str, Any]) -> None:
    """From now on SGLang finds these GPUs in its pod."""
    _tell(gpu)
    judging.forget("sglang")
    wrapper = import_module("sglang.srt.layers.deep_gemm_wrapper")
    wrapper.ENABLE_JIT_DEEPGEMM = wrapper.configurer._compute_enable_deep_gemm()  # it asks once, at import
    common = import_module("sglang.srt.utils.common")
    for vendor in ("nvgpu", "amdgpu"):  # they would ask nvidia-smi or rocm-smi
        setattr(common, f"get_{vendor}_memory_capacity", lambda: gpu["memory_bytes"] / 2**20)


def check(server: Any) -> None:
    """Has SGLang work out what its arguments say, and check that, as its launch does."""
    server.resolve_once()
    server.check_server_args()


def make_judge(architecture: str) -> judging.Judge:
    """The judge of an architecture, once SGLang is imported."""
    module = load(architecture)

    def judge(words: list[str], case: judging.Case) -> None:
        put_gpus(case["gpu"])
        parser = argparse.ArgumentParser(prog="sglang serve", exit_on_error=False)
        module.ServerArgs.add_cli_args(parser)
        parser.error = judging.refuse  # type: ignore[method-assign]  # else the reason would go to standard error
        server = module.ServerArgs.from_cli_args(parser.parse_args(words))
        check(server)
        sglang_shared_expert.build(server)

    return judge


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    judging.answer(prepare, make_judge)
