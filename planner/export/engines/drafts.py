"""Multi-token prediction: both phases need the draft layers, prefill to hand over their cache, decode to draft.

Sources: vLLM's docs/features/speculative_decoding/mtp.md and issue 49355 (broken with pipeline stages); SGLang's
docs/advanced_features/speculative_decoding and python/sglang/srt/server_args.py, check_server_args.
"""

from planner.domain import EngineProfile
from planner.errors import ExportError
from planner.export.islands import ServingIsland


def draft_tokens(island: ServingIsland, profile: EngineProfile) -> int:
    """Tokens to draft a step, 0: none.

    Raises:
        ExportError: pipeline stages, where the engine does not draft with them, or more tokens than it drafts.
    """
    if island.draft_tokens and island.parallel.pp > 1 and not profile.drafts.with_stages:
        raise ExportError(
            f"Island {island.id}, parallel.pp: must be 1 where tokens are drafted (cost.mtp_tokens is "
            f"{island.draft_tokens}), got {island.parallel.pp}.",
            hint="Plan with cost.mtp_tokens 0 or cost.max_pipeline_stages 1.",
        )
    if island.draft_tokens > profile.drafts.most:
        raise ExportError(
            f"Island {island.id}, cost.mtp_tokens: must be at most {profile.drafts.most} for {profile}, got "
            f"{island.draft_tokens}.",
            hint="Plan with fewer, or for another engine.",
        )
    return island.draft_tokens
