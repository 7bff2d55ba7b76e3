"""Many models on a pool: machine types, models with their times, requests, and what a scheduler may do.

Seconds count from the beginning of the simulation. Source of the terms: Blinowski, Mrozicki, Potrzebowski, Wąsowski,
*Measuring and improving resource utilization in a Kubernetes cluster serving AI inference tasks*, Warsaw 2024.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Action(StrEnum):
    """What a scheduler has machines do; `unload` takes no time, it is part of the load that replaces a model."""

    LOAD = "load"
    UNLOAD = "unload"
    INFER = "infer"
    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"


class MachineStatus(StrEnum):
    """`starting`: scaled up, not ready yet. `invalid`: no model has times on its type. `crashed`: out until repaired.

    `sleeping`: in reserve. `terminating`: scaled down, not yet asleep. `terminated`: lost for good.
    """

    STARTING = "starting"
    READY = "ready"
    INVALID = "invalid"
    CRASHED = "crashed"
    SLEEPING = "sleeping"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class InferenceKind(StrEnum):
    """How a model answers (section 3.2 of the thesis): pass by pass or token by token, alone or in batches.

    `static-batch`: all of a batch end with its longest answer; `continuous-batch`: requests join and leave at any step.
    """

    SINGLE = "single"
    BATCHED = "batched"
    AUTOREGRESSIVE = "autoregressive"
    STATIC_BATCH = "static-batch"
    CONTINUOUS_BATCH = "continuous-batch"

    @property
    def by_token(self) -> bool:
        """Whether the time depends on the tokens of a request."""
        return self not in (InferenceKind.SINGLE, InferenceKind.BATCHED)

    @property
    def in_batches(self) -> bool:
        """Whether several requests share a machine's time."""
        return self not in (InferenceKind.SINGLE, InferenceKind.AUTOREGRESSIVE)

    @property
    def joins(self) -> bool:
        """Whether requests join a batch that runs."""
        return self is InferenceKind.CONTINUOUS_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Seconds over a count (a batch, tokens), straight between `points` and beyond the last two; flat before them."""

    points: tuple[tuple[float, float], ...]

    def at(self, count: float) -> float:
        """Seconds for `count`."""
        points = self.points
        if count <= points[0][0] or len(points) == 1:
            return points[0][1]
        place = min(max(bisect_left(points, (count, -math.inf)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[place - 1], points[place]
        return y0 + (y1 - y0) * (count - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTimes:
    """A model on a machine type. `step`: seconds of a pass, or of one token's step, over the requests in it.

    `prompt`: seconds over the tokens of a prompt (models that answer token by token). `most_batch`: requests at once.
    `memory_mb`: what the model takes of the machine; None: its size.
    """

    step: Curve
    prompt: Curve | None = None
    most_batch: int = 1
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model by the machine types that can run it. `size_mb` is what a load moves, MB of 10^6 bytes.

    `sla_s`: seconds that an answer may take; None: drawn, plus twice the request's time alone on the fastest machine.
    """

    name: str
    size_mb: float
    kind: InferenceKind
    times: Mapping[str, InferenceTimes]
    sla_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """Machines alike. `slots`: models on one at once; `load_mbit_s`: rate at which models are loaded.

    `reserve`: as many more sleep until scaled up. `memory_mb` None: no bound but the slots. `gpus` of type `gpu` are
    what LLMs are priced on; "": none.
    """

    name: str
    machines: int
    slots: int = 2
    memory_mb: float | None = None
    load_mbit_s: float = 4096.0
    reserve: int = 0
    gpu: str = ""
    gpus: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """One request; `model`: its place in the list of models. Tokens count for models that answer token by token."""

    arrival_s: float
    model: int
    prompt_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A machine that crashes: what it held is lost, what it ran queues again. `end_s` None: it never comes back."""

    machine: int
    start_s: float
    end_s: float | None = None


class VictimOrder(StrEnum):
    """Whom Baseline's loads replace first: least recently used, longest loaded, or the largest model."""

    LRU = "lru"
    OLDEST = "oldest"
    LARGEST = "largest"


class Reading(StrEnum):
    """How the thesis is read: at its word (`literal`), or so that its published figures come out (`published`)."""

    LITERAL = "literal"
    PUBLISHED = "published"


class Absence(StrEnum):
    """For whom Baseline loads: requests whose model is on no machine (`nowhere`), or on no idle one (`no-idle`).

    `each`: as `no-idle`, but a load that is under way is one request's: the next one has another.
    """

    NOWHERE = "nowhere"
    NO_IDLE = "no-idle"
    EACH = "each"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Constants of the schedulers. Those with a dagger are nowhere published; the defaults are ours, with the reason.

    `starved_share` of the SLA in a queue makes a request starved (the thesis: 60 %).
    `idle_s` †: Baseline reloads a machine that has not inferred since its last load after so long.
    `victims` †: Baseline's order of unloading; `absence` †: for whom it loads.
    `dispatch_s` †: what an inference takes of a machine beside its own time; the thesis ran in real time, on a network.
    `quanta_first` †: a quantum that no inference renews ends a stay though requests wait.
    `late_start_s` †: requests that arrive before it reach the scheduler then, all at once.
    `quantum_s` †: of Round Robin; 50 s is about what the published total load time implies (857.81 s on 40 places).
    `quantum_loads` †: the quantum per model is so many of its load times, within `shortest_` and `longest_quantum_s` †.
    `busy_share` †: a model that inferred for less of its stay has its quantum times `shorter` †, else times `longer` †.
    `horizon_s` †: Clockwork's capacity of a machine; 0.1 s in its paper, whose loads take milliseconds; with loads of
    seconds that reloads without end. `period_s` †: it plans one load so often.
    `overdue_s` †: a model on no machine whose first request waited so long may take the place of one that has been on
    a machine for `most_residence_s` † and `residence_loads` † of its load times, whatever the policy's own rule. No
    published rule bounds a stay, and busy models starve others for ever.
    """

    starved_share: float = 0.6
    idle_s: float = 1.0
    victims: VictimOrder = VictimOrder.LRU
    absence: Absence = Absence.NOWHERE
    dispatch_s: float = 0.0
    late_start_s: float = 0.0
    quanta_first: bool = False
    quantum_s: float = 50.0
    quantum_loads: float = 10.0
    shortest_quantum_s: float = 1.0
    longest_quantum_s: float = 60.0
    busy_share: float = 0.1
    longer: float = 1.25
    shorter: float = 0.8
    horizon_s: float = 0.5
    period_s: float = 0.1
    overdue_s: float = 5.0
    most_residence_s: float = 30.0
    residence_loads: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """When machines in reserve come and go; all of it ours: the thesis leaves scaling out of its tests.

    Every `period_s` one machine is woken where a request is starved, and one that did nothing for `idle_s` is put to
    sleep. `start_s` from waking until ready, `stop_s` until asleep.
    """

    period_s: float = 1.0
    idle_s: float = 60.0
    start_s: float = 30.0
    stop_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPool:
    """What serves: machine types, the models, and what befalls machines, which are numbered type by type."""

    types: tuple[MachineType, ...]
    models: tuple[ServedModel, ...]
    outages: tuple[Outage, ...] = ()
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
