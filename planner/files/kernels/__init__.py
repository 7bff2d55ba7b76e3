"""Times of kernels that others measured: compact tables of a GPU type and engine each, and how they are made."""

from planner.files.kernels.stored import KernelFile, KernelGrid, file_name, kernels_there, packed, read_kernels

__all__ = ["KernelFile", "KernelGrid", "file_name", "kernels_there", "packed", "read_kernels"]
