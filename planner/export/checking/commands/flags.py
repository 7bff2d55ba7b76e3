"""The engine's flags beside degrees and batch: what the plan's rates rest on, limits that hold, and no words that would
tell an engine otherwise."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.domain.engine.cache_readers import own_reader
from planner.errors import ExportError
from planner.export.checking.commands.engine_rules import RULES, EngineRules
from planner.export.checking.commands.known_flags import unknown_flag_faults
from planner.export.checking.expectation import Expectation, Owned
from planner.export.engines.arguments import disguised, doubled, flag_pairs, read_count, read_flags
from planner.export.engines.dialects import ENGINES
from planner.export.engines.seam import Rendezvous
from planner.export.found import Fault
from planner.export.islands import ServingIsland
from planner.export.objects.pods import ENGINE_LABEL

_NOBODY = Rendezvous(leader_address="127.0.0.1", pod_index="0")
_LOOPBACK = ("127.", "localhost", "::1", "[::1]")
_Breaches = Iterator[tuple[str, str]]


def flag_faults(owned: Owned, expected: Expectation) -> Iterator[Fault]:
    """What is wrong with the flags of a workload's pods."""
    engine = owned.workload.labels.get(ENGINE_LABEL, "")
    if engine not in RULES:
        return
    rules, manifest = RULES[engine], owned.workload.manifest
    island = expected.serving.get(owned.island.id)
    try:
        planned = None if island is None else read_flags(ENGINES[engine].launch(island, _NOBODY).leader.arguments)
    except ExportError as error:
        where = f"{owned.workload.labels_path}.{ENGINE_LABEL}"
        yield manifest.fault(where, "must be an engine that can run the island", error)
        return
    for pod in (pod for copy in owned.workload.copies for pod in copy):
        if pod.arguments is None:
            continue
        line = _Line(arguments=pod.arguments, rules=rules, context_flag=ENGINES[engine].context_flag)
        sources = (
            unknown_flag_faults(pod, ENGINES[engine]),
            line.faults(owned),
            line.planned_faults(planned, expected, defaults_of(engine, island)),
            ENGINES[engine].check_model(pod.arguments, island) if island else (),
        )
        for rule, came in _each_flag_once(sources):
            yield manifest.fault(pod.arguments_path, rule, came)


def defaults_of(engine: str, island: ServingIsland | None) -> dict[str, str]:
    """What the island's engine takes of flags on which sides of an exchange agree, where it is told nothing."""
    reader = "" if island is None else own_reader(engine, island.model, island.gpu)
    return dict.fromkeys(RULES[engine].exchanged, reader) if reader else {}


def _each_flag_once(sources: Sequence[Iterable[tuple[str, str]]]) -> _Breaches:
    """All that the sources report, except flags that an earlier one has reported."""
    reported: set[str] = set()
    for source in sources:
        rows = [row for row in source if row[0].split()[0] not in reported]
        reported |= {rule.split()[0] for rule, _ in rows}
        yield from rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    arguments: tuple[str, ...]
    rules: EngineRules
    context_flag: str

    @property
    def values(self) -> Mapping[str, str]:
        return read_flags(self.arguments)

    def faults(self, owned: Owned) -> _Breaches:
        """What is wrong whatever the plan."""
        yield from self._disguises()
        yield from self._memory_range()
        yield from self._host()
        for flag, other in self.rules.budgets:
            if flag in self.values and read_count(self.values, flag, 0) < read_count(self.values, other, 0):
                yield f"--{flag} must be at least --{other}, {self.values[other]}", self.values[flag]
        if "moe-a2a-backend" in self.values and "ep-size" not in self.values:
            stage = owned.island.parallel.stage_devices
            yield f"--ep-size must be {stage}, as the experts of {owned.island.id} are spread over its GPUs", "none"

    def _disguises(self) -> _Breaches:
        """Engines take the last of two flags, the negation of a switch, and what a file says."""
        yield from disguised(self.arguments, self.rules.once, ())
        yield from doubled(self.arguments, self.rules.once)
        for name, value in flag_pairs(self.arguments):
            if name in self.rules.refused:
                yield f"--{name} must be left out: {self.rules.refused[name]}", value or "no value"
            positive = name.removeprefix("no-")
            if name != positive and positive in self.rules.switches:
                yield f"--{name} must be left out: it takes --{positive} back", f"--{name}"
            if name in self.rules.switches and value:
                yield f"--{name} must be given without a value", value

    def _memory_range(self) -> _Breaches:
        came = self.values.get(self.rules.memory)
        if came is None:
            yield f"--{self.rules.memory} must be there: the batch needs the memory that the plan counts on", "none"
        elif not 0.0 < _fraction(came) < 1.0:
            yield f"--{self.rules.memory} must lie above 0 and below 1, as the GPU's memory is never all free", came

    def _host(self) -> _Breaches:
        came = self.values.get("host")
        if came is None and self.rules.local_by_default:
            yield "--host must be there: without it the engine answers its own pod alone", "none"
        elif came is not None and came.startswith(_LOOPBACK):
            yield "--host must be an address that others reach, as 0.0.0.0", came

    def planned_faults(
        self, planned: Mapping[str, str] | None, expected: Expectation, defaults: Mapping[str, str]
    ) -> _Breaches:
        """What the planner writes for the island otherwise; `defaults`: flags that say what the engine does anyway."""
        if planned is None:
            return
        for flag in sorted(self.rules.planned):
            if not _same_value(planned.get(flag), self.values.get(flag)):
                yield (
                    f"--{flag} must be {_value_text(planned.get(flag))} as the plan needs",
                    _value_text(self.values.get(flag)),
                )
        for flag in sorted(self.rules.needed & planned.keys() - self.values.keys()):
            if defaults.get(flag) == planned[flag]:  # an engine that ran before another generation joined
                continue
            example = f", such as {planned[flag]}" * bool(planned[flag])
            yield f"--{flag} must be there as the plan needs{example}", "none"
        for flag in sorted(self.rules.at_least & planned.keys()):
            if read_count(self.values, flag, 0) < int(planned[flag]):
                yield (
                    f"--{flag} must be at least {planned[flag]}, a step of the plan",
                    _value_text(self.values.get(flag)),
                )
        memory = self.values.get(self.rules.memory)
        if memory is not None and _fraction(memory) < float(planned[self.rules.memory]):
            yield f"--{self.rules.memory} must be at least {planned[self.rules.memory]}, as in the plan", memory
        context = self.context_flag
        if expected.most_tokens and read_count(self.values, context, 0) > expected.most_tokens:
            yield f"--{context} must be at most the model's {expected.most_tokens} tokens", self.values[context]


def _fraction(text: str) -> float:
    """The number, or one that no share of a memory is."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def _same_value(planned: str | None, other: str | None) -> bool:
    if planned == other:
        return True
    if planned is None or other is None:
        return False
    try:
        return bool(json.loads(planned) == json.loads(other))  # a number or an object in another notation
    except (ValueError, RecursionError):
        return False


def _value_text(value: str | None) -> str:
    return "left out" if value is None else value or "there"
