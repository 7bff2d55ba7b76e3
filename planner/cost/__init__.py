"""What a phase costs on an island: times, memory, rates. Door: `tabulate`; the others look inside."""

from planner.cost.decode import DecodeTime
from planner.cost.prefill import PrefillTime
from planner.cost.table import smallest_island, tabulate
from planner.cost.times import decode_time, max_batch_size, prefill_time

__all__ = [
    "DecodeTime",
    "PrefillTime",
    "decode_time",
    "max_batch_size",
    "prefill_time",
    "smallest_island",
    "tabulate",
]
