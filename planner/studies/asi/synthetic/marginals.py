"""What a made-up trace is drawn to: the figures that the ASI paper prints, and what it leaves open, chosen by us.

| what | paper | here |
|---|---|---|
| GPUs, servers | 155,410 and 37,707 (table 1) | a fiftieth, of 8 GPUs and of 1: FLEET |
| GPU types | twelve, counts in a picture (figure 4) | counts: ours |
| job types | online above 50 % (figure 2) | JOB_SHARES; all but that: ours |
| guaranteed | online, training, dev predominantly, offline rarely (figure 2); 68 of 93 % (figure 9) | HP_SHARES |
| model types | GenAI 71 % of training, 98 % of offline; rec 63 % of online, classical 70 % (figure 3) | MODELS |
| models by GPU | A10, L20 mostly classical, H800 GenAI (figure 3) | LEANING |
| GPUs a job | median 2, mean 11.0; GenAI 4, 11.0 (figure 8) | SIZES |
| run times | median 5 h; P90 of guaranteed ones 24 h; dev longest, offline shortest (figure 7) | HOURS |
| SMs, GPU memory | online GenAI 5 and 94 %, classical 6 and 20 % (5.2) | USE; others: ours, in the paper's order |
| lent | up to 10,000 GPU-hours an hour around midnight (figure 16) | LENDING, of online ones |
| parts of GPUs | negligible (figure 10) | PARTS of 1-GPU pods of classical models |
| CPU-only jobs | have more cores than GPU jobs on 80 % of nodes (5.2) | CPU_DOMINANT |

What is put in is no test of anything. Priorities by GPU type, run times by model type, idle GPUs by cause, jobs within
and across switches, what is used of lent GPUs and traffic by mix of jobs are not put in: they follow.
"""

from dataclasses import dataclass

ALLOCATED = 0.93
WAITING = 1.35
"""Spot jobs that come over those that ALLOCATED leaves room for, so that some always wait."""

FIRST_DAY, RISE_DAY, RISE = 117, 120, 2.5
"""The week around day 120, when guaranteed jobs begin to ask for 2.5 times as many XPU-A (figure 6, 5.1)."""

RISING = "XPU-A"
WARM_UP_DAYS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """Servers of a GPU type. `servers`: of 3,108 GPUs; `memory_gib`: of a GPU."""

    gpu: str
    gpus: int
    cpus: int
    servers: int
    memory_gib: float


def _eight(gpu: str, servers: int, memory_gib: float, cpus: int = 192) -> ServerKind:
    return ServerKind(gpu=gpu, gpus=8, cpus=cpus, servers=servers, memory_gib=memory_gib)


FLEET = (
    ServerKind(gpu="A10", gpus=1, cpus=128, servers=360, memory_gib=24),
    ServerKind(gpu="A30", gpus=1, cpus=128, servers=60, memory_gib=24),
    _eight("L20", 52, 48),
    _eight("H20", 96, 96),
    _eight("H800", 32, 80),
    _eight("A100", 20, 80, 128),
    _eight("A800", 20, 80, 128),
    _eight("XPU-A", 64, 192),
    _eight("XPU-B", 20, 96),
    _eight("XPU-C", 16, 64),
    _eight("XPU-D", 10, 64),
    _eight("XPU-E", 6, 64),
)
JOB_SHARES = {"online_inference": 0.57, "training": 0.21, "offline_inference": 0.18, "dev": 0.04}
HP_SHARES = {"online_inference": 0.92, "training": 0.82, "offline_inference": 0.10, "dev": 0.99}
MODELS = {
    "online_inference": {"rec": 0.63, "genai": 0.30, "cv": 0.05, "embedding": 0.02},
    "training": {"genai": 0.71, "rec": 0.19, "cv": 0.06, "embedding": 0.04},
    "offline_inference": {"genai": 0.98, "rec": 0.01, "cv": 0.01},
    "dev": {"dev": 1.0},
}
CLASSICAL = ("rec", "cv", "embedding")
LEANING = {"A10": 0.02, "A30": 0.02, "L20": 0.05, "H800": 50.0}
"""How much likelier GenAI is than a classical model on a GPU type, before both are fitted to their totals; others 2."""

OTHER_LEANING = 2.0
Weights = tuple[tuple[int, float], ...]
SIZES: dict[bool, tuple[Weights, Weights]] = {
    True: (((1, 0.40), (2, 0.17), (4, 0.18), (8, 0.25)), ((1, 0.70), (2, 0.07), (4, 0.04), (16, 0.19))),
    False: (((1, 0.80), (2, 0.14), (4, 0.04), (8, 0.02)), ((1, 0.66), (2, 0.12), (4, 0.06), (8, 0.03), (64, 0.13))),
}
"""GPUs a pod, and pods a job, of GenAI (True) and of all else."""

HOURS = {"online_inference": (7.0, 0.95), "training": (6.0, 1.05), "offline_inference": (2.5, 1.0), "dev": (16.0, 0.8)}
"""Median, and sigma of the logarithm."""

SWING = {"online_inference": 0.9, "training": 0.9, "offline_inference": 0.0, "dev": 0.5}
"""Of the rate at which guaranteed jobs come, around its mean, highest at 15:00 (figure 5: more by day)."""

LENDING = 0.09
"""Share of the guaranteed online jobs that lend at night, so that 6.4 % of all GPUs are lent at midnight."""

CPUS_PER_GPU: dict[int, Weights] = {
    8: ((4, 0.15), (8, 0.40), (12, 0.25), (16, 0.15), (22, 0.05)),
    1: ((8, 0.45), (16, 0.25), (24, 0.20), (64, 0.10)),
}
PARTS = 0.02
CPU_DOMINANT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Medians over pods, shares of what was asked for. `gib_s`: traffic of a GPU."""

    sms: float
    gpu_memory: float
    cpus: float
    memory: float
    gib_s: float


USE = {
    ("training", True): Use(sms=0.55, gpu_memory=0.85, cpus=0.5, memory=0.6, gib_s=0.4),
    ("training", False): Use(sms=0.45, gpu_memory=0.5, cpus=0.6, memory=0.6, gib_s=0.1),
    ("online_inference", True): Use(sms=0.05, gpu_memory=0.94, cpus=0.15, memory=0.35, gib_s=0.03),
    ("online_inference", False): Use(sms=0.06, gpu_memory=0.20, cpus=0.25, memory=0.35, gib_s=0.03),
    ("offline_inference", True): Use(sms=0.40, gpu_memory=0.90, cpus=0.10, memory=0.35, gib_s=0.05),
    ("offline_inference", False): Use(sms=0.30, gpu_memory=0.50, cpus=0.15, memory=0.35, gib_s=0.05),
    ("dev", False): Use(sms=0.01, gpu_memory=0.05, cpus=0.03, memory=0.1, gib_s=0.005),
}
SPREAD = 0.6
"""Sigma of the logarithm of a pod's use and of its traffic."""
