"""What a text on precision says of bytes per element: `FP8`, `NVFP4 experts, BF16 KV`, `FP8, FP8 MLA, MTP 1`.

Format      bytes    source
FP8         1        scales one per 128x128 block or channel, below 0.1 %
NVFP4, FP4  0.5625   4 bits and an 8-bit scale per 16 elements
MXFP4       0.53125  4 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)
BF16, FP16  2

A format alone is that of all weights; with a word behind it that of one part: experts, weights, KV, or attention and
MLA, which name the precision that attention runs and caches in. Where nothing is said of the cache it is FP8, with
16-bit weights 16-bit; dense weights beside experts in FP4 are FP8, as DeepSeek-R1's are served.
"""

import re
from dataclasses import dataclass

from planner.errors import InputError

_FP8, _HALF = 1.0, 2.0
_FORMATS = {"FP8": _FP8, "NVFP4": 0.5625, "FP4": 0.5625, "MXFP4": 0.53125, "BF16": _HALF, "FP16": _HALF}
_PARTS = {"experts": "experts", "weights": "weights", "kv": "kv", "attention": "kv", "mla": "kv"}
_MOST_DRAFTED = 16  # tokens of multi-token prediction: engines draft one to five
PRECISION_RULE = (
    f"formats ({', '.join(_FORMATS)}) separated by commas, each of all weights or of a part ({', '.join(_PARTS)}), "
    "and `MTP n` where n tokens are drafted"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes per element of dense weights, experts and cached elements; tokens drafted a step.

    `doubt`: what is not understood; the figures then mean nothing.
    """

    weight_bytes: float
    expert_bytes: float
    kv_bytes: float
    mtp_tokens: int = 0
    doubt: str = ""


def parse_precision(text: str) -> Precision:
    """What the text says. InputError says what is understood; the caller adds where the text stands."""
    bytes_of: dict[str, float] = {}
    drafted = 0
    for part in text.split(","):
        if draft := re.fullmatch(r"\s*MTP\s+(\d{1,2})\s*", part, re.IGNORECASE):
            drafted = int(draft[1])
            continue
        kind, size = _sized(part, text)
        if kind in bytes_of:
            raise _not_understood(text)
        bytes_of[kind] = size
    if drafted > _MOST_DRAFTED or not bytes_of.keys() & {"all", "weights", "experts"}:
        raise _not_understood(text)
    return _precision(bytes_of, drafted)


def _sized(part: str, text: str) -> tuple[str, float]:
    """What is stated, `all` or one part, and its bytes."""
    words = part.split()
    if not 1 <= len(words) <= 2 or words[0].upper() not in _FORMATS:
        raise _not_understood(text)
    if len(words) == 2 and words[1].lower() not in _PARTS:
        raise _not_understood(text)
    return _PARTS[words[1].lower()] if len(words) == 2 else "all", _FORMATS[words[0].upper()]


def _precision(bytes_of: dict[str, float], drafted: int) -> Precision:
    weights = bytes_of.get("weights", bytes_of.get("all"))
    experts = bytes_of.get("experts", weights)
    if weights is None:
        weights = max(_FP8, bytes_of["experts"])
    assert experts is not None
    kv = bytes_of.get("kv", _HALF if weights == _HALF else _FP8)
    return Precision(weight_bytes=weights, expert_bytes=experts, kv_bytes=kv, mtp_tokens=drafted)


def _not_understood(text: str) -> InputError:
    return InputError(
        f"must be {PRECISION_RULE}, got {text!r:.80}.", hint="Write for example `FP8` or `NVFP4 experts, BF16 KV`."
    )
