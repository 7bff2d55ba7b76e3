"""An engine's command line as anybody may have written it: which engine, and what it is started with.

What the planner writes is read strictly (`read_server`); here flags come short or long, with `=` or without, with
underscores, in a shell's words, or not at all. A flag is known by a row of its engine's table: as a field that is read,
as one that leaves speed and memory alone, or as one that changes them and is not priced; of any other flag the name is
told, never its value, which may be a secret.

Sources: vLLM's vllm/engine/arg_utils.py, SGLang's python/sglang/srt/server_args.py and TensorRT-LLM's
tensorrt_llm/commands/serve.py (names, short forms, defaults).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from planner.domain import ENGINE_MEMORY_SHARE, ParallelConfig, Phase
from planner.domain.advice import EngineStart
from planner.export.objects.documents import whole_number

_SCALES = MappingProxyType({"k": 1000, "m": 10**6, "K": 1024, "M": 1024**2})
_ROLES = MappingProxyType({"kv_producer": Phase.PREFILL, "kv_consumer": Phase.DECODE})
_MODES = MappingProxyType({"prefill": Phase.PREFILL, "decode": Phase.DECODE})
_LITTLE = ENGINE_MEMORY_SHARE - 0.1
"""Of a GPU's memory. SGLang's share is without the buffers of a step, some hundredths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an engine is started. `programs`: words that start it, one after another; `images`: names that its images
    end with. `fields`: field -> flags without hyphens, in every form. `harmless`: flags that leave speed and memory
    alone; `unpriced`: those that change them, and what by. `shared`: whether attention groups share the degree `tp`,
    the budget and the sequences out. `gives_model`: the word behind the program is the model. `others`: words there
    that start something else."""

    engine: str
    programs: tuple[tuple[str, ...], ...]
    images: tuple[str, ...]
    fields: Mapping[str, tuple[str, ...]]
    harmless: tuple[str, ...]
    unpriced: Mapping[str, str]
    shared: bool = False
    gives_model: bool = False
    others: tuple[str, ...] = ()


_COMMON_HARMLESS = (
    *("host", "port", "api-key", "trust-remote-code", "tokenizer.*", "download-dir", "load-format", "revision"),
    *("chat-template.*", "tool-call-parser", "reasoning-parser", "log-.*", "seed", "hf-.*", "model-loader-.*"),
    *("uvicorn-.*", "root-path", "ssl-.*", "allow.*", "skip-tokenizer-init", "enable-metrics", "nccl.*", "dist-.*"),
)
VLLM_WORDS = Dialect(
    engine="vllm",
    programs=(
        ("vllm", "serve"),
        ("-m", "vllm.entrypoints.openai.api_server"),
        ("-m", "vllm.entrypoints.api_server"),
        ("-m", "vllm.entrypoints.cli.main", "serve"),
    ),
    images=("vllm-openai", "vllm-openai-rocm", "vllm", "llm-d-cuda", "llm-d"),
    fields={
        "model": ("model",),
        "served": ("served-model-name",),
        "tp": ("tensor-parallel-size", "tp"),
        "pp": ("pipeline-parallel-size", "pp"),
        "dp": ("data-parallel-size", "dp"),
        "nodes": ("nnodes", "n"),
        "context": ("max-model-len",),
        "sequences": ("max-num-seqs",),
        "budget": ("max-num-batched-tokens",),
        "memory": ("gpu-memory-utilization",),
        "quantization": ("quantization", "q"),
        "cache": ("kv-cache-dtype",),
        "unchunked": ("no-enable-chunked-prefill",),
        "transfer": ("kv-transfer-config",),
        "overlap": ("enable-dbo",),
    },
    harmless=(
        *(*_COMMON_HARMLESS, "enable-auto-tool-choice", "disable-log-.*", "enable-log-.*", "enable-chunked-prefill"),
        *("dtype", "generation-config", "override-generation-config", "master-.*", "node-rank", "headless", "r"),
        *("enable-expert-parallel", "ep", "data-parallel-size-local", "dpl"),
        *("data-parallel-(address|rpc-port|start-rank|rank|.*lb|backend|supervisor-port)", "dpa", "dpp", "dpr"),
        *("distributed-executor-backend", "api-server-count", "config-format", "limit-mm-per-prompt", "task"),
        *(
            "enable-prefix-caching",
            "no-enable-prefix-caching",
            "shutdown-timeout",
            "disable-frontend-multiprocessing",
            "enable-prompt-tokens-details",
            "kv-events-config",
            "served-.*",
        ),
    ),
    unpriced={
        "enforce-eager": "steps are started by the CPU one kernel at a time",
        "cpu-offload-gb": "weights lie in host memory",
        "speculative-config": "tokens are drafted",
        "speculative-model": "tokens are drafted",
        "num-speculative-tokens": "tokens are drafted",
        "enable-lora": "adapters are added to every step",
        "swap-space": "caches go to host memory",
        "kv-offloading-size": "caches go to host memory",
        "block-size": "caches are kept in other blocks",
        "attention-backend": "attention runs by other kernels",
        "compilation-config": "graphs are compiled otherwise",
        "all2all-backend": "experts exchange tokens otherwise",
        "enable-eplb": "experts are balanced by load",
        "scheduling-policy": "requests do not come first in, first out",
        "async-scheduling": "steps are scheduled ahead",
        "disable-sliding-window": "windows are not kept",
        "language-model-only": "images are left out",
        "max-num-partial-prefills": "several prompts are taken in by parts",
        "config": "flags stand in a file that cannot be read from here",
    },
    gives_model=True,
)
SGLANG_WORDS = Dialect(
    engine="sglang",
    programs=(("-m", "sglang.launch_server"), ("sglang", "serve"), ("-m", "sglang.cli.main", "serve")),
    images=("sglang", "sglang-rocm"),
    fields={
        "model": ("model-path", "model"),
        "served": ("served-model-name",),
        "tp": ("tp-size", "tensor-parallel-size", "tp"),
        "pp": ("pp-size", "pipeline-parallel-size", "pp"),
        "dp": ("dp-size", "data-parallel-size", "dp"),
        "groups": ("enable-dp-attention",),
        "nodes": ("nnodes",),
        "context": ("context-length",),
        "sequences": ("max-running-requests",),
        "budget": ("chunked-prefill-size",),
        "memory": ("mem-fraction-static",),
        "quantization": ("quantization",),
        "cache": ("kv-cache-dtype",),
        "mode": ("disaggregation-mode",),
        "overlap": ("enable-two-batch-overlap",),
    },
    harmless=(
        *(*_COMMON_HARMLESS, "is-embedding", "show-time-cost", "decode-log-interval", "warmups", "skip-server-warmup"),
        *("dtype", "node-rank", "disaggregation-(bootstrap-port|ib-device|transfer-backend)", "enable-cache-report"),
        *(
            "disable-radix-cache",
            "ep-size",
            "expert-parallel-size",
            "ep",
            "watchdog-timeout",
            "random-seed",
            "kv-events-config",
            "hicache-.*",
            "served-.*",
            "max-prefill-tokens",
            "prefill-max-requests",
        ),
        *("moe-dense-tp-size", "enable-dp-lm-head", "load-balance-method", "enable-mixed-chunk", "file-storage-path"),
    ),
    unpriced={
        "disable-cuda-graph": "steps are started by the CPU one kernel at a time",
        "cpu-offload-gb": "weights lie in host memory",
        "speculative-algorithm": "tokens are drafted",
        "lora-paths": "adapters are added to every step",
        "enable-lora": "adapters are added to every step",
        "enable-hierarchical-cache": "caches go to host memory",
        "page-size": "caches are kept in other blocks",
        "attention-backend": "attention runs by other kernels",
        "enable-torch-compile": "kernels are compiled otherwise",
        "moe-a2a-backend": "experts exchange tokens otherwise",
        "enable-eplb": "experts are balanced by load",
        "schedule-policy": "requests do not come first in, first out",
        "schedule-conservativeness": "fewer or more requests are let in",
        "disable-overlap-schedule": "steps are not scheduled ahead",
        "max-total-tokens": "the cache is cut short",
        "config": "flags stand in a file that cannot be read from here",
    },
    shared=True,
)
TRTLLM_WORDS = Dialect(
    engine="trtllm",
    programs=(("trtllm-serve", "serve"), ("trtllm-serve",)),
    images=(),  # "release" alone is anybody's
    fields={
        "tp": ("tensor-parallel-size", "tp-size"),
        "pp": ("pipeline-parallel-size", "pp-size"),
        "each": ("enable-attention-dp",),
        "context": ("max-seq-len",),
        "sequences": ("max-batch-size",),
        "budget": ("max-num-tokens",),
        "cache": ("kv-cache-dtype",),
    },
    harmless=(
        *(*_COMMON_HARMLESS, "tool-parser", "backend", "moe-expert-parallel-size", "ep-size", "gpus-per-node"),
        *("num-postprocess-workers", "otlp-traces-endpoint", "server-role", "enable-chunked-prefill", "served-.*"),
        *("free-gpu-memory-fraction", "kv-cache-free-gpu-memory-fraction", "no-telemetry", "telemetry"),
    ),
    unpriced={
        "config": "options stand in a file that cannot be read from here",
        "extra-llm-api-options": "options stand in a file that cannot be read from here",
        "context-parallel-size": "prompts are shared out over GPUs",
        "cp-size": "prompts are shared out over GPUs",
        "max-beam-width": "answers are searched for",
    },
    gives_model=True,
    others=("disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc"),
)
DIALECTS = (VLLM_WORDS, SGLANG_WORDS, TRTLLM_WORDS)


def dialect_of(words: Sequence[str]) -> tuple[Dialect, tuple[str, ...]] | None:
    """The engine that a simple command starts, and the words behind its program; None where it starts none."""
    bare = [word.rpartition("/")[2] if k == 0 or not word.startswith("-") else word for k, word in enumerate(words)]
    for dialect in DIALECTS:
        for program in dialect.programs:
            for start in range(len(bare) - len(program) + 1):
                behind = start + len(program)
                if tuple(bare[start:behind]) == program and not {*bare[behind : behind + 1]} & {*dialect.others}:
                    return dialect, tuple(words[start + len(program) :])
    return None


def dialect_of_image(image: str) -> Dialect | None:
    """The engine whose image this is, by the last part of its name."""
    name = image_name(image)
    return next((dialect for dialect in DIALECTS if name in dialect.images), None)


def image_name(image: str) -> str:
    """`vllm-openai` of `docker.io/vllm/vllm-openai:v0.18.0@sha256:...`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def image_version(image: str) -> str:
    """`0.18.0` of a tag as `v0.18.0-cu129` or `rocm7.0_vllm_0.18.0_20260101`; empty where the tag tells no version."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    match = re.match(r"(?:.+_(?:vllm|sglang)_)?v?(\d+\.\d+(?:\.\d+)?(?:\.post\d+)?)(?![\w.]*rc)", tag)
    return match[1] if match else ""


def engine_start(dialect: Dialect, words: Sequence[str]) -> EngineStart:
    """What the words behind the program say. Nothing is refused: what cannot be read is told in `gaps`."""
    return _Reader(dialect, words).start()


@dataclass(slots=True)
class _Reader:
    """One command line: its flags by field, and what is told of it."""

    dialect: Dialect
    words: Sequence[str]
    values: dict[str, list[str]] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def start(self) -> EngineStart:
        """All of it."""
        strange = self._sorted()
        if strange:
            self.notes.append(f"flags that the planner does not know: {', '.join(strange)}")
        groups = self._count("dp", 1)
        apart = self.dialect.shared and groups > 1 and "groups" not in self.values
        start = EngineStart(
            engine=self.dialect.engine,
            model=self._model(),
            served_as=tuple(self.values.get("served", ())),
            parallel=self._parallel(groups, apart=apart),
            copies=groups if apart else 1,
            nodes=self._count("nodes", 1),
            phase=self._phase(),
            context=self._tokens("context"),
            sequences=self._of_group("sequences", 1 if apart else groups),
            tokens_per_step=self._of_group("budget", 1 if apart else groups),
            quantization=self._text("quantization"),
            cache_format="" if self._text("cache") == "auto" else self._text("cache"),
            overlapped="overlap" in self.values,
        )
        if "unchunked" in self.values:
            self.notes.append("prompts are not taken in by chunks, as they are priced")
        if (share := self._share("memory")) < _LITTLE:
            flag = self.dialect.fields["memory"][0]
            self.notes.append(f"--{flag} {share:g} leaves caches less memory than is priced")
        return replace(start, gaps=tuple(self.gaps), notes=tuple(self.notes))

    def _sorted(self) -> list[str]:
        """Flags into `values` by field; gives those that no row knows."""
        fields = {flag: name for name, flags in self.dialect.fields.items() for flag in flags}
        strange = []
        for flag, values in flags_of(self.words):
            if flag in fields:
                self.values[fields[flag]] = values
            elif flag in self.dialect.unpriced:
                self.notes.append(f"--{flag} is not priced: {self.dialect.unpriced[flag]}")
            elif flag and not any(re.fullmatch(pattern, flag) for pattern in self.dialect.harmless):
                strange.append(f"--{flag}")
        return list(dict.fromkeys(strange))

    def _model(self) -> str:
        positional = next((values for flag, values in flags_of(self.words) if not flag), [])
        model = self._text("model") or (positional[0] if positional and self.dialect.gives_model else "")
        if not model:
            self.gaps.append("its command line must name a model, names none")
        elif "$" in model:
            self.gaps.append(f"the model must stand in its command line or environment, got {model!r}")
            return ""
        return re.sub(r"//[^/@]*@", "//", model)  # a password in an address is nobody's business

    def _parallel(self, groups: int, *, apart: bool) -> ParallelConfig:
        tp, pp = self._count("tp", 1), self._count("pp", 1)
        if "each" in self.values:
            return ParallelConfig(tp=1, dp=tp, pp=pp)
        inside = 1 if apart else groups
        if self.dialect.shared and inside > 1:
            if tp % inside:
                self.gaps.append(f"attention groups must share out the {tp} GPUs of a stage evenly, there are {inside}")
                return ParallelConfig(tp=tp, dp=1, pp=pp)
            return ParallelConfig(tp=tp // inside, dp=inside, pp=pp)
        return ParallelConfig(tp=tp, dp=inside, pp=pp)

    def _phase(self) -> Phase:
        if mode := self._text("mode"):
            return _MODES.get(mode, Phase.MIXED)
        if transfer := self._text("transfer"):
            try:
                document = json.loads(transfer)
            except ValueError:
                document = None
            if not isinstance(document, dict):
                self.gaps.append("--kv-transfer-config must be JSON to tell the server's role")
                return Phase.MIXED
            return _ROLES.get(str(document.get("kv_role", "")), Phase.MIXED)
        return Phase.MIXED

    def _text(self, name: str) -> str:
        values = self.values.get(name, [])
        return values[0] if values else ""

    def _count(self, name: str, default: int) -> int:
        if name not in self.values:
            return default
        count = whole_number(self._text(name))
        if not 0 < count <= LARGEST:
            self.gaps.append(f"--{self.dialect.fields[name][0]} must be a number above 0, got {self._shown(name)}")
            return default
        return count

    def _tokens(self, name: str) -> int | None:
        """A count that may be written with a letter, as 32k; None where the engine chooses it."""
        text = self._text(name)
        if name not in self.values or text.lower() in ("auto", "-1"):
            return None
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([kKmM]?)", text)
        tokens = int(float(match[1]) * _SCALES.get(match[2], 1)) if match else 0
        if not 0 < tokens <= LARGEST:
            self.notes.append(f"--{self.dialect.fields[name][0]} must be a number above 0, got {self._shown(name)}")
            return None
        return tokens

    def _of_group(self, name: str, groups: int) -> int | None:
        """What is given for all attention groups, of one."""
        count = self._tokens(name)
        return count if count is None or not self.dialect.shared else max(1, count // groups)

    def _share(self, name: str) -> float:
        """1 of what is no share, and where the engine chooses it."""
        try:
            share = float(self._text(name))
        except ValueError:
            return 1.0
        return share if 0 < share <= 1 else 1.0

    def _shown(self, name: str) -> str:
        return repr(self._text(name)[:40])


LARGEST = 1_000_000_000
"""Of any count."""


def flags_of(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Every flag with its values, without hyphens and with hyphens for underscores; words before the first flag and
    behind `--flag=value` are values of no flag (an empty name)."""
    flag, values = "", list[str]()
    for word in words:
        match = re.match(r"--?([A-Za-z][\w.-]*)(=)?", word)
        if match is None:
            values.append(word)
            continue
        if flag or values:
            yield flag, values
        name = match[1].replace("_", "-") if word.startswith("--") else match[1]
        flag, values = name, [word[match.end() :]] if match[2] else []
        if match[2]:
            yield flag, values
            flag, values = "", []
    if flag or values:
        yield flag, values
