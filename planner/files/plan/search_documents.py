"""A search as a section of plan.json, and its records as the lines of a journal; and the way back.

What is not there is not told: a search without goals, failures or measured times has no keys for them.
"""

from typing import Any

from planner.domain import IslandClass, Judged, Layout, Proposal, Proposed, Round, SearchRecord, Trial

Document = dict[str, Any]


def search_document(record: SearchRecord) -> Document:
    """The section `search` of plan.json."""
    return {
        "best_trial": record.best_trial,
        "best_by_iteration_rps": list(record.best_by_iteration()),
        **({"interrupted": True} if record.interrupted else {}),
        **({"frontier": list(record.frontier)} if record.frontier else {}),
        **({"rounds": [_round(one) for one in record.rounds]} if record.rounds else {}),
        "trials": [trial_document(trial) for trial in record.trials],
    }


def read_search(row: Document) -> SearchRecord:
    """The search of that section; plans of before rounds were told have none."""
    return SearchRecord(
        trials=tuple(read_trial(one) for one in row["trials"]),
        best_trial=row["best_trial"],
        rounds=tuple(_read_round(one) for one in row.get("rounds", ())),
        interrupted=row.get("interrupted", False),
        frontier=tuple(row.get("frontier", ())),
    )


def trial_document(trial: Trial) -> Document:
    """One trial."""
    return {
        "index": trial.index,
        "iteration": trial.iteration,
        "parameters": dict(trial.parameters),
        "layout": _layout(trial.layout),
        "throughput_rps": trial.throughput_rps,
        "generator": trial.generator,
        "error": trial.error,
        **({"failed": True} if trial.failed else {}),
        **({"goals": dict(trial.goals)} if trial.goals else {}),
    }


def read_trial(row: Document) -> Trial:
    """The trial of that mapping."""
    return Trial(
        index=row["index"],
        iteration=row["iteration"],
        parameters=_read_parameters(row["parameters"]),
        layout=_read_layout(row["layout"]),
        throughput_rps=row["throughput_rps"],
        generator=row["generator"],
        error=row["error"],
        failed=row.get("failed", False),
        goals=tuple(row.get("goals", {}).items()),
    )


def judged_document(judged: Judged) -> Document:
    """A trial with what judging it took."""
    return {**trial_document(judged.trial), "cpu_s": judged.cpu_s}


def read_judged(row: Document) -> Judged:
    """The trial and its price of that mapping."""
    return Judged(trial=read_trial(row), cpu_s=row["cpu_s"])


def proposed_document(proposed: Proposed) -> Document:
    """The layouts of a round."""
    return {
        "iteration": proposed.iteration,
        "generation_cpu_s": proposed.generation_cpu_s,
        "note": proposed.note,
        "proposals": [
            {"parameters": dict(one.parameters), "layout": _layout(one.layout), "generator": one.generator}
            for one in proposed.proposals
        ],
    }


def read_proposed(row: Document) -> Proposed:
    """The round of that mapping."""
    return Proposed(
        iteration=row["iteration"],
        generation_cpu_s=row["generation_cpu_s"],
        note=row["note"],
        proposals=tuple(
            Proposal(
                parameters=_read_parameters(one["parameters"]),
                layout=_read_layout(one["layout"]),
                generator=one["generator"],
            )
            for one in row["proposals"]
        ),
    )


def _round(one: Round) -> Document:
    measured = {
        "generation_cpu_s": one.generation_cpu_s,
        "evaluation_cpu_s": one.evaluation_cpu_s,
        "hypervolume": one.hypervolume,
    }
    return {
        "iteration": one.iteration,
        "evaluations": one.evaluations,
        "best_rps": one.best_rps,
        **{key: value for key, value in measured.items() if value is not None},
        **({"note": one.note} if one.note else {}),
    }


def _read_round(row: Document) -> Round:
    return Round(
        iteration=row["iteration"],
        evaluations=row["evaluations"],
        best_rps=row["best_rps"],
        generation_cpu_s=row.get("generation_cpu_s"),
        evaluation_cpu_s=row.get("evaluation_cpu_s"),
        hypervolume=row.get("hypervolume"),
        note=row.get("note", ""),
    )


def _layout(layout: Layout) -> list[list[object]]:
    return [[island.gpu, island.size, count] for island, count in layout.counts]


def _read_layout(rows: list[list[Any]]) -> Layout:
    return Layout(counts=tuple((IslandClass(gpu=gpu, size=size), count) for gpu, size, count in rows))


def _read_parameters(row: Document) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(row.items()))
