"""What the parts of a plan are called: pools behind buckets, or islands behind ranges of length."""

from planner.domain import Plan


def part(plan: Plan) -> str:
    """What serves: an island of a plan of buckets is a pool of equal servers."""
    return "island" if plan.buckets is None else "pool"


def stretch(plan: Plan) -> str:
    """What requests are told apart by."""
    return "range" if plan.buckets is None else "bucket"
