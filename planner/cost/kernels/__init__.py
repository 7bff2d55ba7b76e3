"""Times that others measured of a step's kernels: by GPU type and engine, looked up as arrays, with their basis."""

from planner.cost.kernels.grid import Basis, KernelTime, no_answer
from planner.cost.kernels.products import Rows, products_time
from planner.cost.kernels.tables import KernelTables, kernel_tables, tables_of

__all__ = [
    "Basis",
    "KernelTables",
    "KernelTime",
    "Rows",
    "kernel_tables",
    "no_answer",
    "products_time",
    "tables_of",
]
