"""GPU types and their prices from gpu_specs/: every figure with its unit and source."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.domain import GpuSpec, Price, Source
from planner.errors import FaultyKeyError, InputError
from planner.files.disk.documents import read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.disk.names import canonical, files_by_stem, shipped_folder
from planner.files.disk.opening import is_folder, is_there
from planner.files.records import fields_of, read_record
from planner.files.sections import Section, nearest_hint
from planner.units import GB, MIB

_HINT = "See `kubectl get nodes --show-labels`."
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def read_labels(section: Section) -> tuple[tuple[str, str], ...]:
    """Label keys and values of a mapping, in order of key; at least one."""
    if not len(section):
        above, _, key = section.path.rpartition(".")
        raise FaultyKeyError(
            f"{section.file}: {section.path} must have at least one label; it is empty.",
            section_path=above,
            key=key,
            by_itself=True,
            hint="Give the label by which the nodes are found, or leave the key out for the default.",
        )
    for key in section:
        *prefix, word = key.split("/", 1)
        if not _WORD.fullmatch(word) or not all(_PREFIX.fullmatch(part) for part in prefix):
            raise section.fault(
                key, "under a valid label key: [prefix/]name, the name at most 63 characters", hint=_HINT
            )
        if not _WORD.fullmatch(section.text(key)):
            raise section.fault(key, "a label value: at most 63 letters, digits, '-', '_' or '.'", hint=_HINT)
    return tuple((key, section.text(key)) for key in sorted(section))


PRICES_FILE = "prices.yaml"
_FIGURES = (
    "sms",
    "sms_for_communication",
    "fp16_tflops",
    "fp8_tflops",
    "fp4_tflops",
    "memory_gb",
    "memory_mib",
    "memory_gb_s",
    "reference_memory_gb_s",
    "nvlink_gb_s",
    "nic_gb_s",
    "gpus_per_nvlink_domain",
    "gpus_per_host",
    "idle_w",
    "max_w",
)
# GB are marketing's: 10^9 bytes on the one device, 2^30 on the other (7 % more), less what ECC takes
_MEMORY_TOLERANCE = 0.1
_LINKS = ("host_link_gb_s", "host_memory_gb_s")  # a file may leave them out
_NO_DRIVER_FIGURE = (
    "not given: memory_gb counts, at 10^9 bytes a GB, which understates most devices by 7 %; "
    "add memory_mib, the total that nvidia-smi or rocm-smi shows"
)
# where a file does not tell: that of all GPUs of a family, or the lowest, for which no kernel is missing on the others
_CAPABILITIES = {"ampere": 8.0, "ada": 8.9, "hopper": 9.0, "h20": 9.0, "blackwell_workstation": 12.0}
_FAMILIES = (
    "ampere",
    "ada",
    "hopper",
    "h20",
    "blackwell",
    "blackwell_workstation",
    "rubin",
    "cdna3",
    "cdna4",
    "other",
)


def load_gpu_specs(extra: Path | None = None) -> dict[str, GpuSpec]:
    """Every GPU type by name, with its price where one is known.

    `extra` is a folder of more spec files; a file there stands in for a shipped one of the same name, and its
    prices.yaml for shipped prices.
    """
    prices = load_prices(extra)
    return {name: replace(_read_spec(path), price=prices.get(name)) for name, path in gpu_spec_files(extra).items()}


def load_gpu_spec(name: str, extra: Path | None = None) -> GpuSpec:
    """One GPU type, whatever the case and the separators of its name; InputError lists the nearest names and all."""
    path = gpu_spec_file(name, extra)
    return replace(_read_spec(path), price=load_prices(extra).get(path.stem))


def gpu_spec_files(extra: Path | None = None) -> dict[str, Path]:
    """Spec files by GPU name."""
    files = files_by_stem(shipped_folder("gpu_specs"), ".yaml")
    if extra is not None:
        if not is_folder(extra):
            raise InputError(f"{extra}: is not a folder of GPU specs.", hint="Give a folder of NAME.yaml files.")
        files |= files_by_stem(extra, ".yaml")
    files.pop(PRICES_FILE.removesuffix(".yaml"), None)
    return files


def gpu_spec_file(name: str, extra: Path | None = None) -> Path:
    """The spec file of one GPU type."""
    files = gpu_spec_files(extra)
    meant = canonical(name, files)
    if meant not in files:
        raise InputError(f"There is no GPU type {name!r}.", hint=nearest_hint(name, files, noun="GPU types"))
    return files[meant]


def prices_files(extra: Path | None = None) -> tuple[Path, ...]:
    """The price lists, the later over the earlier."""
    extra_file = extra / PRICES_FILE if extra is not None else None
    shipped = shipped_folder("gpu_specs") / PRICES_FILE
    return (shipped, extra_file) if extra_file is not None and is_there(extra_file) else (shipped,)


def load_prices(extra: Path | None = None) -> dict[str, Price]:
    """Rent per GPU and hour (USD) by GPU name, each with date and source."""
    prices: dict[str, Price] = {}
    for path in prices_files(extra):
        prices |= read_all(read_yaml(path), _prices_of)
    return prices


def _prices_of(document: Section) -> dict[str, Price]:
    return {gpu: price_from_section(document.section(gpu)) for gpu in document}


def price_from_section(entry: Section) -> Price:
    """The price of one GPU type."""
    return read_record(Price, entry)


class _Figures:
    """Reads `{value, unit, source}` entries and keeps their sources."""

    def __init__(self, document: Section) -> None:
        self._document = document
        self.sources: list[Source] = []

    def _entry(self, key: str, unit: str) -> Section:
        entry = self._document.section(key)
        entry.allow_only("value", "unit", "source")
        if entry.text("unit") != unit:
            raise entry.fault("unit", unit, hint="Convert the value.")
        self.sources.append(Source(figure=key, unit=unit, source=entry.text("source")))
        return entry

    def read(self, key: str) -> Any:
        """The figure, in the unit and the bounds of its field."""
        field = next(field for field in fields_of(GpuSpec) if field.key == key)
        return field.kind.read(self._entry(key, field.note.unit), "value")


def _read_spec(path: Path) -> GpuSpec:
    return read_all(read_yaml(path), lambda document: gpu_spec_from_section(document, path.stem))


def gpu_spec_from_section(document: Section, name: str) -> GpuSpec:
    """The GPU type that a document describes, which has to be called `name`."""
    document.allow_only("name", "vendor", "family", "node_selector", "compute_capability", *_LINKS, *_FIGURES)
    if document.name("name") != name:
        raise document.fault("name", f"the file's name, {name}", hint="Rename the file or the GPU.")
    spec = _spec(document, _Figures(document))
    if spec.sms_for_communication >= spec.sms:
        raise document.section("sms_for_communication").fault("value", f"less than sms ({spec.sms})")
    if spec.idle_w > spec.max_w:
        raise document.section("idle_w").fault("value", f"at most max_w ({spec.max_w:g})")
    return spec


def _spec(document: Section, figures: _Figures) -> GpuSpec:
    by_name: dict[str, Any] = {
        key: _memory_mib(document, figures) if key == "memory_mib" else figures.read(key) for key in _FIGURES
    }
    by_name |= {key: figures.read(key) for key in _LINKS if key in document}
    return GpuSpec(
        name=document.name("name"),
        vendor=document.text("vendor"),
        **by_name,
        family=document.one_of("family", _FAMILIES),
        compute_capability=_compute_capability(document, figures),
        node_selector=read_labels(document.section("node_selector")),
        sources=tuple(figures.sources),
    )


def _memory_mib(document: Section, figures: _Figures) -> float:
    """What the driver shows; 0 where the file does not tell, which the figure's source then says."""
    if "memory_mib" not in document:
        figures.sources.append(Source(figure="memory_mib", unit="MiB", source=_NO_DRIVER_FIGURE))
        return 0.0
    shown: float = figures.read("memory_mib")
    nominal_gb = document.section("memory_gb").number("value")
    low, high = (round(nominal_gb * GB / MIB * share) for share in (1 - _MEMORY_TOLERANCE, 1 + _MEMORY_TOLERANCE))
    if not low <= shown <= high:
        raise document.section("memory_mib").fault(
            "value",
            f"within {_MEMORY_TOLERANCE * 100:.0f} % of memory_gb ({nominal_gb:g} GB), {low} to {high}",
            hint="Give the total that nvidia-smi or rocm-smi shows, in MiB.",
        )
    return shown


def _compute_capability(document: Section, figures: _Figures) -> float:
    """CUDA's, as major.minor; where the file does not tell, that of the family, 0.0 where it has several."""
    if "compute_capability" in document:
        return float(figures.read("compute_capability"))
    is_nvidia = document.text("vendor").upper() == "NVIDIA"
    return _CAPABILITIES.get(document.text("family"), 0.0) if is_nvidia else 0.0
