"""Edits of manifests for the checks of commands, rendezvous flags and ports: the cases that they are made in, and what
an edit is. The tables are in `rendezvous_mistakes`, `program_mistakes`, `port_mistakes`, `flag_mistakes` and
`sound_edits`.
"""

from dataclasses import dataclass

from contract_plans import placed_plan, single_node_plan
from dynamo_plans import two_pool_plan
from export_plans import example_plan, island, plan_of
from seeded_mistakes import Case

from planner.domain import ParallelConfig, Phase, Plan


def spanning_plan() -> Plan:
    """Prefill: a data-parallel rank a pod, in two copies of two pods; decode: a rank that two pods share."""
    islands = (
        island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=2, replicas=2), batch_size=2),
        island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=16, dp=1), batch_size=16),
    )
    return plan_of(islands, name="spanning")


def shared_plan() -> Plan:
    """Copies of half a host, each with ports of its own."""
    islands = (
        island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=4, dp=1, replicas=2), batch_size=2),
        island("H20-0", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=1, replicas=3), batch_size=16),
    )
    return plan_of(islands, name="shared")


COMMAND_CASES = {
    f"{target}, {engine}, {told}": Case(plan=plan, target=target, engine=engine)
    for target, engine, told, plan in (
        ("lws", "vllm", "ranks", example_plan),
        ("lws", "vllm", "spanning", spanning_plan),
        ("lws", "sglang", "ranks", example_plan),
        ("disaggregatedset", "vllm", "ranks", example_plan),
        ("disaggregatedset", "sglang", "ranks", example_plan),
        ("kubernetes", "vllm", "single", single_node_plan),
        ("kubernetes", "sglang", "single", single_node_plan),
        ("llm-d", "vllm", "ranks", placed_plan),
        ("llm-d", "sglang", "ranks", placed_plan),
        ("kserve", "vllm", "ranks", placed_plan),
        ("kserve", "vllm", "single", single_node_plan),
        ("script", "vllm", "ranks", example_plan),
        ("script", "vllm", "spanning", spanning_plan),
        ("script", "sglang", "ranks", example_plan),
        ("script", "vllm", "shared hosts", shared_plan),
        ("dynamo", "vllm", "pools", two_pool_plan),
        ("dynamo", "vllm", "single", single_node_plan),
        ("dynamo", "vllm", "spanning", spanning_plan),
        ("dynamo", "sglang", "single", single_node_plan),
        ("dynamo", "sglang", "ranks", example_plan),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """`old` becomes `new` in one file: `at` is all, first or last. `where`: what the fault says before its first colon;
    empty where the edit is sound."""

    name: str
    case: str
    file: str
    old: str
    new: str
    at: str
    where: str

    def apply(self, files: dict[str, str]) -> dict[str, str]:
        """The manifests with the edit made."""
        text = files[self.file]
        assert self.old in text, f"{self.old!r} is not in {self.file}"
        if self.at == "last":
            head, _, tail = text.rpartition(self.old)
            return {**files, self.file: f"{head}{self.new}{tail}"}
        return {**files, self.file: text.replace(self.old, self.new, 1 if self.at == "first" else -1)}


def edits_in(case: str, file: str, thing: str, *rows: tuple[str, str, str, str, str]) -> tuple[Edit, ...]:
    """Edits of one object: name, which of the places (all, first, last), what becomes what, and the fault's field."""
    return tuple(
        Edit(name=name, case=case, file=file, at=at, old=old, new=new, where=f"{file}, {thing}, {field}")
        for name, at, old, new, field in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundEdit:
    """An edit that leaves everything right: rows of a file (`*`: every file), what becomes what, each time."""

    name: str
    case: str
    rows: tuple[tuple[str, str, str], ...]

    def apply(self, files: dict[str, str]) -> dict[str, str]:
        """The manifests with the edit made."""
        edited = dict(files)
        for pattern, old, new in self.rows:
            names = [name for name in edited if pattern in ("*", name) and old in edited[name]]
            assert names, f"{old!r} is not in {pattern}"
            edited |= {name: edited[name].replace(old, new) for name in names}
        return edited


GROUP = "spec.leaderWorkerTemplate"
LEADER = f"{GROUP}.leaderTemplate.spec.containers.0"
WORKER = f"{GROUP}.workerTemplate.spec.containers.0"
