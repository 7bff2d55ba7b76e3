"""The requests of one run as plain lists, with what the stations ask of each again and again."""

from collections.abc import Sequence

from planner.domain.fleet import Row
from planner.domain.prefix import PromptBlocks
from planner.replay.curves import nearest_rows


class RequestTable:
    """Arrivals (ms, ascending), tokens of prompts and answers (at least 1), and each prompt's row of the curves."""

    __slots__ = ("answer", "arrival_ms", "blocks", "prompt", "row")

    def __init__(
        self,
        arrival_ms: Sequence[float],
        prompt: Sequence[int],
        answer: Sequence[int],
        lengths: Row,
        blocks: PromptBlocks | None = None,
    ) -> None:
        self.arrival_ms = list(arrival_ms)
        self.prompt = list(prompt)
        self.answer = list(answer)
        self.row = nearest_rows(lengths, self.prompt)
        self.blocks = blocks

    def __len__(self) -> int:
        return len(self.prompt)

    def blocks_of(self, request: int) -> Sequence[int]:
        """Ids of the blocks of a prompt."""
        assert self.blocks is not None, "asked for where prompts have blocks"
        start = self.blocks.ends[request - 1] if request else 0
        return self.blocks.ids[start : self.blocks.ends[request]]
