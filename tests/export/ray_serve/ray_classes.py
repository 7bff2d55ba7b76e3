"""Ray's own classes asked about configurations; run by a Python that has Ray, which is too large for every machine:

    python3 -m venv build/ray && build/ray/bin/pip install "ray[serve]==2.60.0" pyarrow httpx   # 660 MB
    build/ray/bin/python tests/export/ray_serve/ray_classes.py FILE...      # each has to be accepted
    build/ray/bin/python tests/export/ray_serve/ray_classes.py --schemas    # writes ray-2.60.0.json anew

vLLM need not be there: the modules that answer requests import its protocol, and are stood in for.
"""

import json
import sys
import types
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).with_name("ray-2.60.0.json")
_KEPT = {"ServeDeploySchema": ("proxy_location", "http_options", "applications")}
_DROPPED = ("title", "description", "default", "examples", "deprecated")


class _Names(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def classes() -> dict[str, Any]:
    """The classes by name."""
    protocol = "ray.llm._internal.serve.core.configs.openai_api_models"
    sys.modules[protocol] = _Names(protocol)
    from ray.llm._internal.common.placement import PlacementGroupConfig
    from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
    from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
    from ray.llm._internal.serve.serving_patterns.data_parallel.builder import DPOpenAiServingArgs
    from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs
    from ray.serve.schema import ServeDeploySchema

    return {
        "ServeDeploySchema": ServeDeploySchema,
        "LLMConfig": LLMConfig,
        "PlacementGroupConfig": PlacementGroupConfig,
        "build_openai_app": LLMServingArgs,
        "build_dp_openai_app": DPOpenAiServingArgs,
        "build_pd_openai_app": PDServingArgs,
    }


def bare(schema: Any) -> Any:
    """Without what people read."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    rows = {key: bare(value) for key, value in schema.items() if key not in _DROPPED or isinstance(value, dict)}
    return {key: value for key, value in rows.items() if value != {} or key in ("properties", "items")}


def write_schemas() -> None:
    """What the tests hold exports to where Ray is not installed."""
    from ray.util.accelerators import accelerators

    schemas: dict[str, Any] = {"source": "ray 2.60.0 (Apache-2.0), model_json_schema() of its classes, without texts"}
    for name, kind in classes().items():
        schema = bare(kind.model_json_schema())
        if kept := _KEPT.get(name):
            schema["properties"] = {key: schema["properties"][key] for key in kept}
            schema["additionalProperties"] = False
            used = json.dumps(schema["properties"])
            for _ in range(4):
                schema["$defs"] = {key: row for key, row in schema["$defs"].items() if f'/{key}"' in used}
                used = json.dumps(schema)
        schemas[name] = schema
    schemas["accelerators"] = sorted(value for key, value in vars(accelerators).items() if key.isupper())
    SCHEMAS.write_text(json.dumps(schemas, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")


def main(paths: list[str]) -> None:
    """Raises what Ray raises of a file that it does not take."""
    import yaml

    kinds = classes()
    for path in paths:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        kinds["ServeDeploySchema"].model_validate(document)
        for application in document["applications"]:
            builder = application["import_path"].rpartition(":")[2]
            arguments = kinds[builder].model_validate(application["args"])
            for config in vars(arguments).values():
                for row in config if isinstance(config, list) else [config]:
                    if isinstance(row, kinds["LLMConfig"]):
                        kinds["PlacementGroupConfig"].model_validate(row.placement_group_config)
        sys.stdout.write(f"{path}: {len(document['applications'])} applications\n")


if __name__ == "__main__":
    write_schemas() if sys.argv[1:] == ["--schemas"] else main(sys.argv[1:])
