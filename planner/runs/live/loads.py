"""The load of a plan that runs, as its engines count it: a feed of a watch."""

from collections.abc import Iterator, Mapping, Sequence

from planner import export, files
from planner.domain import Scenario
from planner.domain.serving.observed import Traffic, TrafficSeries
from planner.domain.watching import Feed, FeedKind, FeedValue
from planner.errors import InputError
from planner.runs.batches.jobs import ENGINE
from planner.runs.live.prometheus import Prometheus

APART_S = 60.0
"""Between two clocks, or a sample and its question: four scrapes of the export's own PodMonitor."""


class PrometheusLoad:
    """Requests/s of one plan over a window, from the engines' own counters. Once a plan's series were read, those of
    others that come beside them are passed over."""

    def __init__(self, prometheus: Prometheus, window: str = "5m", plan: str = "") -> None:
        """`plan`: the name that it was exported under (empty: the scenario's, where no other plan is there)."""
        self.prometheus, self.window, self.plan = prometheus, window, plan
        self._label = ""

    @property
    def name(self) -> str:
        """Not the address, which a forwarded port changes."""
        return f"prometheus {self.plan}".strip()

    def read(self, scenario: Scenario, now_s: float) -> Feed:
        """The load now. Raises InputError as `Prometheus.answers`, where none of the engines' series is there, and, the
        first time, where there are several plans and none was named."""
        engine = scenario.engine.name or ENGINE
        queries = export.traffic_queries(engine, self.window, quantities=export.LOAD_QUANTITIES)
        series = files.read_traffic(self.prometheus.answers(queries))
        label = self._label or self._chosen(scenario, sorted({row.plan for row in series}), engine)
        rows = [row for row in series if row.plan == label]
        loads = [row.value for row in rows if row.quantity is Traffic.ARRIVALS]
        if not loads:
            raise self._nothing(f"of plan {label} over {self.window}", engine)
        self._label = label
        value = FeedValue(kind=FeedKind.LOAD, name="", value=sum(loads), where=f"{self.prometheus.url}: plan {label}")
        return Feed(file=self.name, values=(value,), notes=tuple(self._clock_notes(rows, now_s, label)))

    def _chosen(self, scenario: Scenario, plans: Sequence[str], engine: str) -> str:
        """The plan's label among those that there are."""
        labels = [plan for plan in plans if plan]
        if not labels:
            raise self._nothing("with the label of a plan", engine)
        name = self.plan or scenario.deploy.name or scenario.name
        chosen = next((plan for plan in labels if plan in (name, export.slug(name), export.plan_slug(name, ()))), "")
        if chosen and (self.plan or len(labels) == 1):
            return chosen
        listed = ", ".join(labels)
        raise InputError(
            f"--prometheus {self.prometheus.url}: must have series of {name} alone, has those of {listed}."
            if chosen
            else f"--prometheus {self.prometheus.url}: must have series of plan {name}, has those of {listed}.",
            hint="Name the plan as it was exported, with --name.",
        )

    def _nothing(self, what: str, engine: str) -> InputError:
        metric = export.traffic_metrics(engine).requests
        return InputError(
            f"--prometheus {self.prometheus.url}: must have {metric} {what}, has none.",
            hint="Let it scrape the engines with the labels of their pods, as monitoring.yaml of "
            "`planner export --monitoring` does, and wait for two scrapes.",
        )

    def _clock_notes(self, rows: Sequence[TrafficSeries], now_s: float, label: str) -> Iterator[str]:
        """In the same words as long as it lasts."""
        times: Mapping[Traffic, float] = {row.quantity: row.end_s for row in rows}
        question_s = times[Traffic.ARRIVALS]
        yield from clock_notes(self.prometheus.url, question_s, now_s)
        newest_s = max((row.value for row in rows if row.quantity is Traffic.NEWEST), default=None)
        if newest_s is None or question_s - newest_s > APART_S:
            yield (
                f"{self.prometheus.url}: the newest sample of plan {label} is more than a minute old: its load is of "
                "before."
            )
        elif newest_s - question_s > APART_S:
            yield f"{self.prometheus.url}: samples of plan {label} are more than a minute ahead of its clock."


def clock_notes(where: str, clock_s: float, now_s: float) -> Iterator[str]:
    """Whether a server's clock and this machine's are apart; in the same words as long as it lasts."""
    if abs(clock_s - now_s) > APART_S:
        way = "ahead of" if clock_s > now_s else "behind"
        yield (
            f"{where}: its clock is more than a minute {way} this machine's, which dates the observations: set both."
        )
