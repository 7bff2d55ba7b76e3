"""Times of kernels that others measured: compact tables of a GPU type and engine each, and how they are made."""

from planner.files.kernels.stored import (
    SCHEMA,
    KernelFile,
    KernelGrid,
    read_kernels,
    shipped_kernels,
    write_kernels,
)

__all__ = ["SCHEMA", "KernelFile", "KernelGrid", "read_kernels", "shipped_kernels", "write_kernels"]
