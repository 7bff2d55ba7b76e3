"""Command lines of every target, put to the parsers of the engines' versions that they are for, Dynamo's workers among
them; and what our tables of flags say beside what the parsers say.

Without the packages of `make engine-parsers` the tests are skipped, as in `test_engine_parsers`, whose processes these
tests go on to ask.
"""

import pytest
from engine_parsers.installing import DYNAMOS, EXPORTED, missing
from engine_parsers.lines import model_config
from engine_parsers.verdicts import Case, Gpus
from tools import table

from planner.export import ENGINES, TARGETS

VERSIONS = (*EXPORTED, *DYNAMOS)
H20 = Gpus(name="H20", compute_capability="9.0", memory_bytes=102_625_181_696, count=8)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_command_line_of_every_target_is_taken_by_its_engine(version: str) -> None:
    if reason := missing(version):
        pytest.skip(reason)
    answers = table.parsed(version)
    refused = [line for answer in answers.values() for line in answer.refused]
    assert not refused, "\n".join(refused)
    engine = next(name for name in ENGINES if name in version)
    serving = {name for name, row in TARGETS.items() if engine in row.engines and any(k.workloads for k in row.kinds)}
    assert answers.keys() == ({"dynamo"} if version in DYNAMOS else serving - {"dynamo"})


DYNAMO_WORDS = {
    "dynamo.vllm": (
        (("--tensor-parallel-size", "8"), ""),
        (("--no-such-flag",), "unrecognized arguments"),
        (("--max-num-seqs", "many"), "invalid int value"),
        (("--all2all-backend", "deepest"), "invalid choice"),
        (("--tensor-parallel-size", "7"), "divisible by tensor parallel size (7)"),
        (("--disaggregation-mode", "prefill"), "--kv-transfer-config"),
        (("--disaggregation-mode", "both"), "invalid choice"),
    ),
    "dynamo.sglang": (
        (("--tp-size", "8"), ""),
        (("--no-such-flag",), "unrecognized arguments"),
        (("--max-running-requests", "many"), "invalid int value"),
        (("--moe-a2a-backend", "deepest"), "invalid choice"),
        (("--tp-size", "8", "--dp-size", "3", "--enable-dp-attention"), "tp_size % self.dp_size"),
    ),
}


def case(*words: str) -> Case:
    """Words on a pod of eight H20, for DeepSeek-V3."""
    return Case(arguments=words, environment={}, config=model_config("deepseek-v3"), gpu=H20)
