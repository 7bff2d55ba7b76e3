"""A search as a section of plan.json, and its records as the lines of a journal; and the way back.

What is not there is not told: a search without goals, failures or measured times has no keys for them.
"""

from planner.domain import Judged, SearchRecord, Trial
from planner.files.records import Document, load_record, record_document


def search_document(record: SearchRecord) -> Document:
    """The section `search` of plan.json."""
    first = {"best_trial": record.best_trial, "best_by_iteration_rps": list(record.best_by_iteration())}
    return first | record_document(record)


def judged_document(judged: Judged) -> Document:
    """A trial with what judging it took."""
    return {**record_document(judged.trial), "cpu_s": judged.cpu_s}


def read_judged(row: Document) -> Judged:
    """The trial and its price of that mapping."""
    return Judged(trial=load_record(Trial, row), cpu_s=row["cpu_s"])
