"""`trtllm-serve disaggregated`: the program that makes pairs of TensorRT-LLM's servers. It asks a context server for
the prompt, and a generation server with what that answers, which tells where the cache lies: so HAProxy chooses both
behind it, and it knows one address a phase.

`node_id` keeps the numbers of requests of several such programs apart (of 256, else by the host's address), so that one
runs for each interval, which Kubernetes starts anew.

Sources: NVIDIA/TensorRT-LLM, tensorrt_llm/llmapi/disagg_utils.py (DisaggServerConfig; addresses without a scheme) and
commands/serve.py (disaggregated); docs/source/features/disagg-serving.md.
"""

import json
from collections.abc import Sequence

from planner.errors import ExportError
from planner.export.options import chosen_image
from planner.export.routers.gateways import Gateway, program_name
from planner.export.routers.intervals_served import answer_timeout_s
from planner.export.seams import CONFIG_FOLDER, Deployment, Endpoint, RouterProcess

_FIRST_PORT = 8100
_SERVERS = {"prefill": "context_servers", "decode": "generation_servers"}
_STARTUP_S = 86400  # it ends where servers are not there by then
_NODES = 256


def orchestrator_process(deployment: Deployment, _: Sequence[Endpoint], gateway: Gateway, /) -> RouterProcess:
    """The program of an interval.

    Raises:
        ExportError: nobody chooses servers behind it.
    """
    if not gateway.reached:
        raise ExportError(
            f"Router haproxy, prompts of {gateway.interval.title}: TensorRT-LLM's pairs are made of servers that "
            "HAProxy chooses, which it does not for prefix-aware routing and tables of many ranges.",
            hint="Plan with another routing.policy and `form: buckets`, or export for target dynamo.",
        )
    port, timeout = _FIRST_PORT + gateway.number, answer_timeout_s(deployment.plan)
    config = {
        "hostname": "0.0.0.0",  # noqa: S104  # the pod's own address, which the Service reaches
        "port": port,
        "node_id": gateway.number % _NODES,
        **{
            _SERVERS[role]: {"num_instances": 1, "urls": [url.removeprefix("http://")]}
            for role, url in gateway.reached.items()
        },
    }
    name = program_name(deployment, gateway.suffix)
    file = f"{name}.pairs"
    image = deployment.engine.images["NVIDIA"]
    return RouterProcess(
        name=name,
        image=chosen_image(deployment.options, "NVIDIA", image) or image,
        command=(
            *("trtllm-serve", "disaggregated", "-c", f"{CONFIG_FOLDER}/{file}"),
            *("-t", str(_STARTUP_S), "-r", str(timeout), "-l", "warning"),
        ),
        config=((file, f"# {file}\n{json.dumps(config, indent=2)}\n"),),  # YAML, which JSON is
        port=port,
        health_path="/health",
        cpus=2,
        memory_mib=8192,
        grace_s=timeout,
        notes=(
            f"Prompts of {gateway.interval.title}: pairs of {', '.join(gateway.interval.prefill)} and "
            f"{', '.join(gateway.interval.decode)}.",
            "It has no GPU, but loads CUDA's libraries with the engine's image: a node without a driver may refuse it.",
        ),
    )
