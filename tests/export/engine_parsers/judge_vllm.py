"""vLLM's own word on command lines: `vllm serve`, up to the engine's configuration (`create_engine_config`).

Run as a program with the folder of vLLM's packages; see `judging` for what comes in and goes out. What needs a GPU is
stood in for: the compiled kernels and the platform (CUDA, or ROCm of an architecture; its GPU is the case's).
What happens after the configuration (loading layers, ranks that meet) is not judged.
"""

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import judging
from stand_ins import StandIn, stand_in

_COMPILED = ("_C", "_moe_C", "_C_stable_libtorch", "_flashmla_C", "_qutlass_C", "vllm_flash_attn", "cumem_allocator")
_OTHERS = ("flashinfer", "torchvision", "xgrammar", "tvm_ffi", "nixl", "humming", "uvloop", "llguidance")
_STOOD_IN = (*(f"vllm.{name}" for name in _COMPILED), *_OTHERS)
_FIRST = ("vllm", "transformers.models.auto.image_processing_auto", "transformers.models.auto.auto_factory", "openai")
_PARSERS = ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.common.cli_args")  # the latter in version 0.33


def _platform(architecture: str) -> Any:
    import torch
    import vllm.platforms

    found = _rocm(architecture) if architecture else _cuda()

    class OneGpu(found):  # type: ignore[misc]  # a base that is known when it runs
        """The GPU of the case at hand."""

        gpu: Any = None

        @classmethod
        def get_device_name(cls, *_: int, **__: int) -> str:
            return str(cls.gpu["name"])

        @classmethod
        def get_device_total_memory(cls, *_: int, **__: int) -> int:
            return int(cls.gpu["memory_bytes"])

        @classmethod
        def device_count(cls) -> int:
            return int(cls.gpu["count"])

    vllm.platforms._current_platform = OneGpu()
    import_module("vllm._custom_ops")  # first: it tells torch of those kernels that are there
    torch.ops._C = StandIn()  # asked for kernels, it has them all
    import_module("vllm.triton_utils").triton.Config = StandIn()  # version 0.33 looks at those of its Triton kernels
    return OneGpu


def _cuda() -> Any:
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Cuda(NonNvmlCudaPlatform):
        """NVIDIA's, of the case's compute capability."""

        @classmethod
        def get_device_capability(cls, *_: int, **__: int) -> DeviceCapability:
            major, _, minor = str(cls.gpu["compute_capability"]).partition(".")
            return DeviceCapability(major=int(major), minor=int(minor or 0))

    return Cuda


def _rocm(architecture: str) -> Any:
    """AMD's, which the engine asks for its architecture once, at import."""
    import torch

    torch.version.hip = "7.2.0"
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(gcnArchName=architecture)
    return import_module("vllm.platforms.rocm").RocmPlatform


def prepare() -> None:
    """Imports what asks for no GPU: vLLM's package, and the libraries that take longest."""
    stand_in(_STOOD_IN)
    judging.import_first(_FIRST)


def make_platform(architecture: str = "") -> Any:
    """Imports the rest of vLLM with what stands in for GPUs; the class whose `gpu` the case's GPUs are to be.
    `architecture`: of AMD's GPUs, as gfx942; NVIDIA's without."""
    return _platform(architecture)


def classes_asked() -> Any:
    """A context in which vLLM asks a model's class here what it would ask it in a process of its own."""
    registry = import_module("vllm.model_executor.models.registry")

    def inspect(model: Any, *_: object) -> Any:
        return registry._ModelInfo.from_model_cls(model.load_model_cls())

    return patch.object(registry._LazyRegisteredModel, "inspect_model_cls", inspect)


def make_judge(architecture: str) -> judging.Judge:
    """The judge of an architecture, once vLLM is imported."""
    platform = make_platform(architecture)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    serving = next(import_module(name) for name in _PARSERS if find_spec(name))

    def judge(words: list[str], case: judging.Case) -> None:
        judging.forget("vllm")
        count_gpus(platform, case["gpu"])
        parser = serving.make_arg_parser(FlexibleArgumentParser(exit_on_error=False))
        parser.error = judging.refuse  # type: ignore[method-assign]  # else the reason would go to standard error
        parsed = parser.parse_args(words)
        serving.validate_parsed_serve_args(parsed)
        if parsed.model_tag is not None:  # as the command `serve` does
            parsed.model = parsed.model_tag
        _check_servers(parsed)
        with classes_asked():
            for server in _servers(parsed):
                AsyncEngineArgs.from_cli_args(server).create_engine_config(headless=server.headless)

    return judge


def _servers(parsed: argparse.Namespace) -> list[argparse.Namespace]:
    """What each server of a pod is started with: the line itself, or what vLLM's supervisor makes of it for a rank."""
    if not getattr(parsed, "data_parallel_multi_port_external_lb", False):
        return [parsed]
    supervisor = import_module("vllm.entrypoints.launchers.dp_supervisor")
    ranks = range(parsed.data_parallel_size_local)
    return [supervisor._build_vllm_dp_server_args(parsed, rank) for rank in ranks]


def count_gpus(platform: Any, gpu: dict[str, Any]) -> None:
    """The pod's GPUs, which the configuration holds ranks against; before version 0.23 the count was in `utils`."""
    platform.gpu = gpu
    utils = import_module("vllm.utils.torch_utils")
    if hasattr(utils, "_cuda_device_count_stateless"):
        utils._cuda_device_count_stateless = lambda *_: gpu["count"]


def _check_servers(parsed: argparse.Namespace) -> None:
    """What vllm/entrypoints/cli/serve.py (ServeSubcommand.cmd) says between the parser and the configuration."""
    if parsed.headless and parsed.api_server_count:
        raise ValueError(f"--api-server-count={parsed.api_server_count} cannot be used with --headless")
    several = getattr(parsed, "data_parallel_multi_port_external_lb", False)
    hybrid = parsed.data_parallel_hybrid_lb or (parsed.data_parallel_start_rank is not None and not several)
    if (parsed.data_parallel_external_lb or parsed.data_parallel_rank is not None) and hybrid:
        raise ValueError("Cannot use both external and hybrid data parallel load balancing modes.")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    judging.answer(prepare, make_judge)
