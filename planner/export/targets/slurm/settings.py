"""What a user says of a Slurm cluster, `deploy.sbatch`: names of the site, by which no plan can go.

A key is OPTION, or OPTION.GPU where nodes of different GPUs need different words. Values become words of `#SBATCH`
lines, which no shell reads, and of the job's script; what could be more than one word of either is refused.

Sources: sbatch(1) of Slurm 26.11 (partition, account, qos, reservation, constraint, time, gpus-per-node); Pyxis 0.20
(--container-image, --container-mounts); Enroot's import (REGISTRY#IMAGE); Apptainer 1.3 (exec, docker://).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from planner.domain import GpuSpec
from planner.errors import InputError
from planner.export.options import ExportOptions

NO_CONTAINER, PYXIS, APPTAINER = "none", "pyxis", "apptainer"
ANY_TYPE = "any"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}"
_PATH = r"/[A-Za-z0-9_.@/-]{1,255}"
_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "partition": rf"{_NAME}(,{_NAME}){{0,15}}",
        "account": _NAME,
        "qos": _NAME,
        "reservation": rf"{_NAME}(,{_NAME}){{0,15}}",
        "constraint": r"[A-Za-z0-9_\[(][A-Za-z0-9_.&|,*()\[\]-]{0,255}",
        "time": r"(\d{1,4}-)?\d{1,6}(:\d{2}){0,2}|UNLIMITED",
        "gres": _NAME,
        "container": f"{NO_CONTAINER}|{PYXIS}|{APPTAINER}",
        "image": r"[A-Za-z0-9/][A-Za-z0-9_.:/@#+-]{0,511}",
        "mounts": rf"{_PATH}(:{_PATH})?(:r[ow])?(,{_PATH}(:{_PATH})?(:r[ow])?){{0,31}}",
    }
)
_BY_GPU = ("partition", "constraint", "gres", "image")
"""Options that a component of a job can have for itself; Slurm hands the others on to the components behind."""
OF_THE_JOB = ("account", "qos", "reservation", "time")
OF_A_COMPONENT = ("partition", "constraint")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteWords:
    """The words by key, as they were given."""

    words: Mapping[str, str]

    def of(self, option: str, gpu: str = "") -> str:
        """For nodes with that GPU, else for all; empty where nothing is said."""
        return self.words.get(f"{option}.{gpu}") or self.words.get(option, "")

    def gres(self, gpu: GpuSpec, count: int) -> str:
        """GPUs of a node as Slurm counts them. Sites name types freely; most take the GPU's name in lower case, which
        Slurm's own detection takes as a part of the product's name."""
        name = self.of("gres", gpu.name) or gpu.name.lower()
        return str(count) if name == ANY_TYPE else f"{name}:{count}"

    def image(self, gpu: str, image: str) -> str:
        """What the container of a copy is made from; `image`: the engine's own, as registries know it."""
        return self.of("image", gpu) or self.pulled(image)

    def pulled(self, image: str) -> str:
        """The same of an image as registries know it, in the words of what makes containers of it."""
        container = self.of("container")
        if container in ("", NO_CONTAINER):
            return image
        if container == APPTAINER:
            return f"docker://{image}"
        registry, slash, name = image.partition("/")
        hosted = slash and ("." in registry or ":" in registry or registry == "localhost")
        return f"{registry}#{name}" if hosted else image


def site_words(options: ExportOptions, gpus: Collection[str]) -> SiteWords:
    """The words of the options; `gpus`: the plan's types.

    Raises:
        InputError: an option that there is none of or that cannot differ by GPU, a GPU that the plan has none of, or
            a value that cannot stand in a job's script.
    """
    for key, value in options.sbatch:
        option, dot, gpu = key.partition(".")
        if option not in _FORMS:
            raise InputError(
                f"deploy.sbatch: must have keys of {', '.join(_FORMS)}, got {key!r}.",
                hint=f"Write OPTION, or OPTION.GPU for {', '.join(_BY_GPU)}; others belong on sbatch's command line.",
            )
        if dot and (option not in _BY_GPU or gpu not in gpus):
            raise InputError(
                f"deploy.sbatch, {key}: must be {option}"
                + (f" or {option}.GPU of {', '.join(sorted(gpus))}." if option in _BY_GPU else " for all GPUs alike."),
                hint=f"Say {option} once for all, or by the names of `planner gpus` that the plan has.",
            )
        if not re.fullmatch(_FORMS[option], value):
            raise InputError(
                f"deploy.sbatch, {key}: must be a word that sbatch takes, as {_EXAMPLES[option]}, got {value!r}.",
                hint="Nothing else can stand in a job's script.",
            )
    return SiteWords(words=dict(options.sbatch))


_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "partition": "gpu",
        "account": "team",
        "qos": "high",
        "reservation": "serving",
        "constraint": "h200&ib",
        "time": "7-00:00:00",
        "gres": f"h200, or {ANY_TYPE} where nodes have one type",
        "container": f"{PYXIS}, {APPTAINER} or {NO_CONTAINER}",
        "image": "/images/vllm.sqsh",
        "mounts": "/models:/models:ro",
    }
)
