"""Markdown as HTML, and the words of the field that a page explains in a fold at its end and on the heads of tables.

HTML in Markdown is shown as text; pictures are not fetched, as a page reaches nothing outside itself.
"""

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415  # only who makes a page pays for it

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def prose_html(markdown: str) -> str:
    """Paragraphs, lists, tables, code, links."""
    return (
        str(_reader().render(markdown))
        .replace("<table>", '<div class="box"><table>')
        .replace("</table>", "</table></div>")
    )


def line_html(markdown: str) -> str:
    """The same of one line, without a paragraph around it."""
    return str(_reader().renderInline(markdown))


def text_html(text: str) -> str:
    """Plain text; letters that cannot be shown go."""
    return escape("".join(c for c in text if c.isprintable() or c in "\n\t"))


WORDS: Mapping[str, str] = MappingProxyType(
    {
        "GPU type": "A model of GPU. A fleet may mix several; each island or server has GPUs of one type.",
        "prefill": "Reading the prompt, all its tokens at once; bound by arithmetic. It decides the TTFT.",
        "decode": "Writing the answer, token by token; bound by memory bandwidth. It decides the TPOT.",
        "mixed": "Prefill and decode on the same GPUs (aggregated serving).",
        "pool": "Equal servers behind one bucket; a request goes to the one that the router chooses.",
        "server": "One copy of the model on so many GPUs of one type, run by one engine.",
        "bucket": "An interval of prompt lengths. The router sends a request to the pools of its bucket.",
        "island": "GPUs of one type that serve one phase together as one unit.",
        "range": "An interval of prompt lengths, finer than a bucket, that is served alike.",
        "layout": "How many islands or servers of which size and GPU type there are.",
        "TP": "Tensor parallelism: so many GPUs share every layer.",
        "DP": "Data parallelism: so many groups of GPUs each take other requests.",
        "PP": "Pipeline parallelism: so many groups of GPUs each hold a part of the layers.",
        "EP": "Expert parallelism: the experts of a model are spread over the GPUs.",
        "TTFT": "Time to first token: from a request's arrival to the first token of its answer.",
        "TPOT": "Time per output token, after the first.",
        "P50": "Half of the requests are faster.",
        "P99": "99 of 100 requests are faster.",
        "P10–P90": "A band of an estimate: in one case of ten the truth lies below, in one of ten above.",
        "KV cache": "What the model keeps of a request's tokens; prefill hands it to decode.",
        "capacity": "The highest rate that the plan serves, all limits at once.",
        "promise": "The rate that the plan stands for: a margin below its capacity.",
        "demand": "The rate that is asked for.",
        "bound": "A rate that no plan of these GPUs can pass. It is proved, not estimated.",
        "gap": "How far the plan is from that bound.",
        "utilisation": "Share of its time that a server works.",
        "batch": "Requests (decode) or prompts (prefill) that a step works on at once.",
        "overlap": "Two micro-batches take turns, so that communication hides behind arithmetic.",
        "NVLink domain": "GPUs with fast links among each other, usually those of one node.",
        "ASW": "Access switch: the first switch above the nodes.",
        "goodput": "The rate of requests that keep the service levels.",
        "headroom": "How much more a part could serve.",
        "shadow price": "What one unit more of something would add.",
        "victim": "A running pod that has to leave to make room.",
    }
)
"""Word -> what it means, in the order in which they are told."""


def explained(text: str) -> dict[str, str]:
    """Those words that occur in a text (singular or plural, whatever the case)."""
    lowered = text.lower()
    return {word: meaning for word, meaning in WORDS.items() if _occurs(word, text if word.isupper() else lowered)}


def tip(head: str) -> str:
    """What a table's head means, where it is one of the words; else empty."""
    return _MEANINGS.get(head.lower().strip(), "") or _MEANINGS.get(head.lower().strip().removesuffix("s"), "")


def _occurs(word: str, text: str) -> bool:
    sought = word if word.isupper() else word.lower()
    return re.search(rf"(?<![\w-]){re.escape(sought)}s?(?![\w])", text) is not None


_MEANINGS = {word.lower(): meaning for word, meaning in WORDS.items()}
