"""The Warsaw study's figures: models, machines, the vLLM table of its LLM branch, totals of its trace.

Load seconds = MB * 8 / 4096. Times and sizes: the data files of github.com/technical-tigers/tiger-simulator (MIT);
totals: recovered from the violation counts and fractions of its notebook. Stable Diffusion v2 has no time there and is
never simulated; VGG16 and VGG-16 are two models.
"""

from planner.studies.serving.records import Curve, InferenceKind, InferenceTimes, MachineType, ServedModel

MACHINE = "c5.18xlarge"
MACHINES, LLM_MACHINES = 20, 30

# name, MB, seconds of an inference, requests in 30 minutes
DNNS = (
    ("MobileNet-V1", 16.9, 0.0117, 2793),
    ("SqueezeNet", 0.5, 0.00931, 11249),
    ("VGG-19", 549.0, 0.05927, 5228),
    ("DenseNet-169", 55.0, 0.07458, 191),
    ("Whisper", 1500.0, 0.50674, 1686),
    ("Resnet18", 135.0, 0.02196, 15608),
    ("VGG16", 528.0, 0.0388, 14112),
    ("VGG-16", 528.0, 0.05672, 1717),
    ("Inception-ResNet-v2", 215.0, 0.04525, 2247),
)
TOTALS = {name: requests for name, _, _, requests in DNNS}

VLLM_MS_PER_TOKEN = (*((1, 13.9), (2, 8.29), (4, 4.4), (8, 2.44), (16, 1.48), (32, 1.04), (64, 0.814), (128, 0.762)),)
"""Of a batch, milliseconds a token: llama-7B, 512 tokens, A100 of 40 GB; the thesis uses the first alone."""

LLM_MB = 56_000.0
LLM_SIZES = (0.5, 1.0, 1.5)
LLM_TASKS = ("code", "conv")


def dnn_models() -> tuple[ServedModel, ...]:
    """The nine models of the main study."""
    return tuple(
        ServedModel(name=name, size_mb=size_mb, kind=InferenceKind.SINGLE, times={MACHINE: _single(seconds)})
        for name, size_mb, seconds, _ in DNNS
    )


def _single(seconds: float) -> InferenceTimes:
    return InferenceTimes(step=Curve(points=((1, seconds),)))


def llm_models(kind: InferenceKind = InferenceKind.AUTOREGRESSIVE) -> tuple[ServedModel, ...]:
    """The LLM branch: output tokens * 13.9 ms * size, prompts free; kinds with batches take the whole vLLM table."""
    table = VLLM_MS_PER_TOKEN if kind.in_batches else VLLM_MS_PER_TOKEN[:1]
    return tuple(
        ServedModel(
            name=f"{size:g}-llama_7B-{task}",
            size_mb=size * LLM_MB,
            kind=kind,
            times={
                MACHINE: InferenceTimes(
                    step=Curve(points=tuple((batch, size * batch * ms / 1000) for batch, ms in table)),
                    prompt=Curve(points=((1, 0.0),)),
                    most_batch=table[-1][0],
                )
            },
        )
        for size in LLM_SIZES
        for task in LLM_TASKS
    )


def machines(count: int) -> tuple[MachineType, ...]:
    """The study's pool: machines alike, two models on each at most."""
    return (MachineType(name=MACHINE, machines=count),)
