"""What a user may choose about manifests, beyond what the plan already fixes."""

from planner.export.options.checks import (
    LEAST_SHARED_GIB,
    ExportOptions,
    check_heeded,
    check_options,
    image_is_pinned,
)

__all__ = ["LEAST_SHARED_GIB", "ExportOptions", "check_heeded", "check_options", "image_is_pinned"]
