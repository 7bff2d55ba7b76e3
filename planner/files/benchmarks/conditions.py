"""Under which conditions a benchmark ran: its file's words joined with the caller's; nothing is guessed.

Format      bytes    source
FP8         1        scales one per 128x128 block or channel, below 0.1 %
NVFP4, FP4  0.5625   4 bits and an 8-bit scale per 16 elements
MXFP4       0.53125  4 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)
BF16, FP16  2

A format alone is that of all weights; with a word behind it that of one part: experts, weights, KV, or attention and
MLA, which name the precision that attention runs and caches in. Where nothing is said of the cache it is FP8, with
16-bit weights 16-bit; dense weights beside experts in FP4 are FP8, as DeepSeek-R1's are served.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache

from planner.domain import BenchmarkRun, Pool, Precision
from planner.errors import InputError
from planner.files.disk.names import hub_ids
from planner.files.models.gpu_specs import load_gpu_specs

_FP8, _HALF = 1.0, 2.0
_FORMATS = {"FP8": _FP8, "NVFP4": 0.5625, "FP4": 0.5625, "MXFP4": 0.53125, "BF16": _HALF, "FP16": _HALF}
_PARTS = {"experts": "experts", "weights": "weights", "kv": "kv", "attention": "kv", "mla": "kv"}
_MOST_DRAFTED = 16  # tokens of multi-token prediction: engines draft one to five
PRECISION_RULE = (
    f"formats ({', '.join(_FORMATS)}) separated by commas, each of all weights or of a part ({', '.join(_PARTS)}), "
    "and `MTP n` where n tokens are drafted"
)


def parse_precision(text: str) -> Precision:
    """What the text says. InputError says what is understood; the caller adds where the text stands."""
    bytes_of: dict[str, float] = {}
    drafted = 0
    for part in text.split(","):
        if draft := re.fullmatch(r"\s*MTP\s+(\d{1,2})\s*", part, re.IGNORECASE):
            drafted = int(draft[1])
            continue
        kind, size = _sized(part, text)
        if kind in bytes_of:
            raise _not_understood(text)
        bytes_of[kind] = size
    if drafted > _MOST_DRAFTED or not bytes_of.keys() & {"all", "weights", "experts"}:
        raise _not_understood(text)
    return _precision(bytes_of, drafted, text)


def _sized(part: str, text: str) -> tuple[str, float]:
    """What is stated, `all` or one part, and its bytes."""
    words = part.split()
    if not 1 <= len(words) <= 2 or words[0].upper() not in _FORMATS:
        raise _not_understood(text)
    if len(words) == 2 and words[1].lower() not in _PARTS:
        raise _not_understood(text)
    return _PARTS[words[1].lower()] if len(words) == 2 else "all", _FORMATS[words[0].upper()]


def _precision(bytes_of: dict[str, float], drafted: int, text: str) -> Precision:
    weights = bytes_of.get("weights", bytes_of.get("all"))
    experts = bytes_of.get("experts", weights)
    if weights is None:
        weights = max(_FP8, bytes_of["experts"])
    assert experts is not None
    kv = bytes_of.get("kv", _HALF if weights == _HALF else _FP8)
    return Precision(weight_bytes=weights, expert_bytes=experts, kv_bytes=kv, mtp_tokens=drafted, text=text)


def _not_understood(text: str) -> InputError:
    return InputError(
        f"must be {PRECISION_RULE}, got {text!r:.80}.", hint="Write for example `FP8` or `NVFP4 experts, BF16 KV`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the caller says of a deployment; None where nothing is said. `--tp` and so on are the flags.

    One pool of equal workers that does both phases: `dp` attention groups of `tp` GPUs a worker, experts spread over
    `ep` of them (1 in a dense model), `gpus` of all workers. `precision` is a text that `precisions` reads. `engine`
    alone may stay open.
    """

    gpu: str | None = None
    model: str | None = None
    tp: int | None = None
    dp: int | None = None
    ep: int | None = None
    gpus: int | None = None
    precision: str | None = None
    engine: str | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "dp", "ep", "gpus"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name} must be a whole number of at least 1, got {value}.", hint="Correct it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a file says of its deployment; None where nothing is said. GPU and model as they are written there."""

    file: str
    gpu: str | None = None
    model: str | None = None
    prefill: Pool | None = None
    decode: Pool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All conditions of a run. GPU and model by our names where we know them, else as they are written."""

    gpu: str
    model: str
    prefill: Pool | None
    decode: Pool
    precision: Precision
    engine: str


_CONDITIONS = ("gpu", "model", "tp", "dp", "ep", "gpus", "precision")
_POOL_FLAGS = ("tp", "dp", "ep", "gpus")


def require_conditions(files: Iterable[Stated], conditions: Conditions) -> None:
    """InputError with all that neither the files nor the caller says, and the flags that would say it."""
    missing = {
        name: stated.file
        for stated in files
        for name in _CONDITIONS
        if getattr(conditions, name) is None and not _says(stated, name)
    }
    if not missing:
        return
    names = [name for name in _CONDITIONS if name in missing]
    raise InputError(
        f"{missing[names[0]]}: does not say under which conditions it was measured; missing: {', '.join(names)}.",
        hint=f"Give {', '.join(f'--{name}' for name in names)}. (--engine may be given, too.)",
    )


def _says(stated: Stated, name: str) -> bool:
    if name in _POOL_FLAGS:
        return stated.decode is not None
    return getattr(stated, name, None) is not None


def deployment_of(stated: Stated, conditions: Conditions) -> Deployment:
    """The conditions of a file's runs. InputError where the file and the caller contradict each other.

    Nothing may be missing: see `require_conditions`.
    """
    pool = stated.decode or _pool(conditions)
    assert conditions.precision is not None
    deployment = Deployment(
        gpu=_gpu(stated, conditions),
        model=_model(stated, conditions),
        prefill=stated.prefill,
        decode=pool,
        precision=_precision_of(conditions.precision),
        engine=conditions.engine or "",
    )
    _refuse_contradictions(stated.file, conditions, _degrees(stated.prefill, pool))
    return deployment


def refuse_contradicted_runs(runs: Iterable[BenchmarkRun], conditions: Conditions) -> None:
    """InputError where the caller says otherwise than a run of a table that tells its conditions."""
    precision = None if conditions.precision is None else _precision_of(conditions.precision)
    for run in runs:
        place = f"{run.file}: row {run.row}"
        stated_values = {"gpu": run.gpu, "model": run.model, "engine": run.engine or conditions.engine}
        _refuse_contradictions(place, conditions, stated_values | _degrees(run.prefill, run.decode))
        if precision not in (None, run.precision):
            raise _contradiction(place, "precision", run.precision.text, conditions.precision)


def _pool(conditions: Conditions) -> Pool:
    tp, dp, ep, gpus = (getattr(conditions, name) for name in _POOL_FLAGS)
    if gpus % (tp * dp):
        raise InputError(
            f"--gpus must be a multiple of --tp x --dp ({tp * dp}), got {gpus}.",
            hint="Give the GPUs of all workers; each has tp x dp.",
        )
    if (tp * dp) % ep:
        raise InputError(
            f"--ep must divide --tp x --dp ({tp * dp}), got {ep}.",
            hint="Give the GPUs over which a worker's experts are spread; 1 in a dense model.",
        )
    return Pool(tp=tp, dp=dp, ep=ep, workers=gpus // (tp * dp))


def _precision_of(text: str) -> Precision:
    try:
        return parse_precision(text)
    except InputError as error:
        raise InputError(f"--precision {error.message}", hint=error.hint) from None


def _degrees(prefill: Pool | None, decode: Pool) -> dict[str, object]:
    """What the flags would say of these pools; `gpus` are those of both."""
    gpus = decode.gpus + (prefill.gpus if prefill else 0)
    return {"tp": decode.tp, "dp": decode.dp, "ep": decode.ep, "gpus": gpus}


def _refuse_contradictions(place: str, conditions: Conditions, stated_values: Mapping[str, object]) -> None:
    for field in fields(conditions):
        condition = getattr(conditions, field.name)
        if condition is not None and field.name in stated_values and stated_values[field.name] != condition:
            raise _contradiction(place, field.name, stated_values[field.name], condition)


def _contradiction(place: str, name: str, in_file: object, typed: object) -> InputError:
    return InputError(
        f"{place}: {name} is {in_file!r:.80} there, --{name} must say the same, got {typed!r:.80}.",
        hint=f"Leave out --{name}, or give the file that was meant.",
    )


def _gpu(stated: Stated, conditions: Conditions) -> str:
    if stated.gpu is None:
        assert conditions.gpu is not None
        return conditions.gpu
    name = gpu_type_of(stated.gpu)
    if name and conditions.gpu not in (None, name):
        raise _contradiction(stated.file, "gpu", stated.gpu, conditions.gpu)
    return conditions.gpu or name or stated.gpu


def _model(stated: Stated, conditions: Conditions) -> str:
    """The model's name. A name with its owner (`zai-org/GLM-4.5`) says which model it is; one without may be any."""
    if stated.model is None:
        assert conditions.model is not None
        return conditions.model
    shipped_name = _model_names().get(plain_model_name(stated.model))
    if conditions.model is None:
        return shipped_name or stated.model
    same = plain_model_name(conditions.model) == plain_model_name(stated.model) or conditions.model == shipped_name
    if not same and (shipped_name or "/" in stated.model):
        raise _contradiction(stated.file, "model", stated.model, conditions.model)
    return conditions.model


_VARIANT = re.compile(r"-(?:fp8|fp4|nvfp4|mxfp4|bf16|fp16|instruct|chat|dynamic|block|hf|v2|\d{4})$")


def plain_model_name(name: str) -> str:
    """A model's name without owner, precision and date: `deepseek-r1` for `deepseek-ai/DeepSeek-R1-0528-FP4`."""
    plain = name.rstrip("/").rpartition("/")[2].lower().replace("_", "-").removeprefix("meta-")
    while shorter := _VARIANT.sub("", plain):
        if shorter == plain:
            break
        plain = shorter
    return plain


@cache
def _model_names() -> Mapping[str, str]:
    """Shipped models by their plain names, ours and those of their weights; of several the one with the shortest name,
    which says no precision."""
    longest_first = sorted(hub_ids().items(), key=lambda pair: len(pair[1]), reverse=True)
    names = {plain_model_name(hub_id): name for hub_id, name in longest_first}
    return names | {plain_model_name(name): name for _, name in longest_first}


_FORM_FACTORS = {"DGX", "HGX", "NVL72", "NVL144", "NVL576"}
_OTHER_BOARDS = {"PCIE", "NVL", "MIG", "WORKSTATION", "MAX"}  # of the same chip, with other figures


@cache
def gpu_type_of(product: str) -> str:
    """Our name of a GPU as drivers and cloud offers write it (`NVIDIA-H100-80GB-HBM3`); empty where there is none."""
    specs = load_gpu_specs()
    product_words = _words(product)
    exact = [
        name
        for name, spec in specs.items()
        if product_words in (_words(name), *(_words(label) for label in dict(spec.node_selector).values()))
    ]
    words = set(product_words)
    if exact or words & _OTHER_BOARDS:
        return exact[0] if exact else ""
    chips = {name: set(name.upper().split("-")) - _FORM_FACTORS for name in specs}
    near = [name for name, chip in chips.items() if chip <= words]
    return max(near, key=lambda name: len(chips[name]), default="")


def _words(product: str) -> list[str]:
    """A product's words in capitals, however they are joined."""
    return re.split(r"[^A-Z0-9]+", product.upper())
