"""How the thesis is read: what its text leaves open, by name, with its words; and its published figures.

`literal` takes the text at its word and keeps our constants where it gives none. `published` is the reading whose
figures lie nearest to the published ones (`calibration.py`; `results/calibration.csv` has every reading that was run).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.studies.serving.arrivals import ArrivalLaw
from planner.studies.serving.records import Absence, Reading, ServingSettings, VictimOrder
from planner.studies.serving.warsaw import TOTALS

STEADY_PER_MINUTE = 1700.0
"""Requests of a minute without a spike ("at around 1700 per minute", section 6.3)."""

MINUTES = 30
SPIKE_MINUTES = (9, 24, 25)
"""The notebook's histogram of misses is highest there, the first minute and a half left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A figure that readings are held against. `policy`, `figure`: as a study's means have it; `words`: of tables."""

    policy: str
    figure: str
    value: float
    words: str
    place: str

    @property
    def name(self) -> str:
        """Its column in a table of readings."""
        return f"{self.policy}.{self.figure}"


NOTEBOOK_LOADS = "figure 6.15 (notebook utilization)"
"""Figure 6.15 charts them; the thesis' text has none of these numbers, its notebook has."""

PUBLISHED = tuple(
    PublishedFigure(policy=policy, figure=figure, value=value, words=words, place=place)
    for policy, figure, value, words, place in (
        ("baseline", "load_s", 1931.51, "Baseline's loading, s", NOTEBOOK_LOADS),
        ("clockwork", "load_s", 1061.24, "Clockwork's loading, s", NOTEBOOK_LOADS),
        ("rr-deadline", "load_s", 857.81, "Round Robin's loading, s", NOTEBOOK_LOADS),
        ("rr-deadline", "misses_per_100", 2.94, "Round Robin's misses per 100 requests", "notebook plot_metrics"),
        ("rr", "completion_max_s", 200.0, "Plain Round Robin's longest completion, s", "section 6.4"),
        ("rr-quantum", "completion_max_s", 60.0, "the same with quantum logic, s", "section 6.4"),
    )
)
"""utilization.ipynb calls 857.81 s "Round Robin" and lists the improved ones by other names. It is taken for the full
one's all the same: section 6.8 says of figure 6.15 that the modified one loads for little time, section 6.3 that the
plain one loads frequently."""

CALIBRATED = tuple(dict.fromkeys(row.policy for row in PUBLISHED))
"""Policies that a calibration runs. The other two and every ordering but those of PUBLISHED are held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A constant that the text leaves open: from `low` to `high`, by equal ratios where `by_ratio`, with its words."""

    name: str
    low: float
    high: float
    by_ratio: bool
    words: str


SCOPES = tuple(
    Scope(name=name, low=low, high=high, by_ratio=by_ratio, words=words)
    for name, low, high, by_ratio, words in (
        ("dispatch_s", 0.1, 0.25, False, '5.1: "simulate the real-world network communication"'),
        (
            "late_start_s",
            0.0,
            46.0,
            False,
            '5.2: "generates a task queue on launch and then only processes them later"',
        ),
        ("idle_s", 0.1, 10.0, True, '4.2.2: "or was idle for long enough"'),
        ("horizon_s", 0.01, 0.5, True, '4.2.4: "how much of it can be served given the current state"'),
        ("quantum_s", 1.0, 60.0, True, '6.3: "the assigned quanta are relatively short"'),
        ("quantum_loads", 0.5, 20.0, True, '4.2.3: "the bigger ones [...] we assign them longer quanta"'),
        ("shortest_quantum_s", 0.1, 5.0, True, '4.2.3: "compared to the smaller ones"'),
        ("busy_share", 0.02, 0.5, True, '4.2.3: "how well it made use of its quanta"'),
    )
)
"""`dispatch_s` stays below the median completion in the notebook, 0.27 s, `late_start_s` below its longest, 46 s: the
simulator counts arrivals from before it has written all requests down, and more than half of the misses in the
notebook's run arrived in its first minute and a half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the text leaves open between a few readings.

    `absence`: "When the request's model is not loaded onto any machine" (4.2.1). `victims`: "removes the currently
    loaded DNN" (4.2.1), of two. `spikes`: so many minutes with "a spike in the number of incoming requests" (6.3);
    they hold what the totals leave above the steady rate.
    `quanta_first`: "unload the model, regardless of the number of inferences completed" (6.3). `bounded`: whether our
    bound of a stay holds, which no rule of the thesis has.
    """

    absence: Absence = Absence.EACH
    victims: VictimOrder = VictimOrder.LRU
    spikes: int = 3
    quanta_first: bool = True
    bounded: bool = True


NEVER_S = 1e9


def law_of(choices: Choices) -> ArrivalLaw:
    """Arrivals whose minutes without a spike have the steady rate, and whose totals are the published ones."""
    extra = sum(TOTALS.values()) - MINUTES * STEADY_PER_MINUTE
    return ArrivalLaw(
        totals=TOTALS,
        minutes=MINUTES,
        spike_minutes=SPIKE_MINUTES[: choices.spikes],
        spike_factor=1 + extra / choices.spikes / STEADY_PER_MINUTE,
    )


def settings_of(choices: Choices, constants: Mapping[str, float]) -> ServingSettings:
    """The schedulers' constants."""
    settings = replace(
        ServingSettings(),
        absence=choices.absence,
        victims=choices.victims,
        quanta_first=choices.quanta_first,
        **constants,
    )
    return settings if choices.bounded else replace(settings, overdue_s=NEVER_S, most_residence_s=NEVER_S)


NEAREST = Choices(spikes=2)
NEAREST_CONSTANTS: Mapping[str, float] = MappingProxyType(
    {
        "dispatch_s": 0.241,
        "late_start_s": 40.2,
        "idle_s": 0.237,
        "horizon_s": 0.0128,
        "quantum_s": 1.67,
        "quantum_loads": 6.32,
        "shortest_quantum_s": 3.92,
        "busy_share": 0.5,
    }
)
"""The nearest row of results/calibration.csv."""


def settings_as_read(reading: Reading) -> ServingSettings:
    """The schedulers' constants under a reading."""
    return ServingSettings() if reading is Reading.LITERAL else settings_of(NEAREST, NEAREST_CONSTANTS)


def law_as_read(reading: Reading) -> ArrivalLaw:
    """The thesis' arrivals under a reading."""
    return ArrivalLaw(totals=TOTALS) if reading is Reading.LITERAL else law_of(NEAREST)
