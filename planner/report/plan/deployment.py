"""What to deploy: drawn from prompts to answers, and as a table of what each engine is started with."""

from collections.abc import Mapping, Sequence

from planner.domain import Band, Phase, Plan, halves_of
from planner.report.buckets.view import whiteboard
from planner.report.kit.drawing import NARROW, box, ribbon, svg, words
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import band_in_percent, counted, money, percent, rate, span
from planner.report.kit.tables import Column, counts, entries, fields, table_of
from planner.report.kit.tree import DataTable, Drawing, Section, paragraphs, section
from planner.report.plan.cards import Card, Lane, cards, lanes

_WIDTH, _CARD, _ROW, _HEAD = 980.0, 262.0, 74.0, 46.0
_PREFILL_X, _DECODE_X = 0.0, 520.0
"""Where the lanes of prefill and of decode begin."""
_BUCKET = 132.0
_GAP = 10.0
_TITLES = {
    Phase.PREFILL: "Prefill: reads prompts",
    Phase.DECODE: "Decode: writes answers",
    Phase.MIXED: "Prefill and decode on the same GPUs",
}


def deployment_section(plan: Plan) -> Section:
    """The drawing, the table, and how the manifests call things."""
    return section("deployment", "What to deploy", _drawing(plan), settings_table(plan), *paragraphs(_words(plan)))


def _words(plan: Plan) -> str:
    engine = str(plan.scenario.engine)
    text = f"Engine: {escaped(engine)}. " if engine else ""
    return (
        f"{text}A server is one copy of the model. Nodes are {_nodes_words(plan)}. Names are those of the manifests "
        "(`manifests/` of the run folder); `planner export` writes them for other targets."
    )


def _nodes_words(plan: Plan) -> str:
    if plan.placement is not None:
        return "those that the placement chose"
    return "the fewest that hold the servers, as the plan is not placed on a cluster"


def settings_table(plan: Plan) -> DataTable:
    """One row for servers that are started alike."""
    rows = cards(plan)
    unstaged = all(value in (1, None) for card in rows for name, value in card.settings if name == "PP")
    settings = [name for name, _ in rows[0].settings if not (name == "PP" and unstaged)] if rows else []
    bands = {(e.gpu, e.phase): e.band for e in plan.provenance.estimates}
    band: Column[Card] = Column("P10–P90", lambda card: _band(bands, card), band_in_percent)
    columns: tuple[Column[Card], ...] = (
        *fields("Name=name", "Phase=phase", *(["Prompts (tokens)=prompts"] if plan.form.row.pooled else [])),
        *fields("GPU type=gpu"),
        *counts("Servers=servers"),
        Column("GPUs each", lambda card: card.sizes[0] if len(set(card.sizes)) == 1 else span(card.sizes), str),
        *counts("GPUs=gpus", "Nodes=nodes"),
        Column("Takes", lambda card: card.share, percent),
        Column("Busy", lambda card: card.utilisation, percent),
        Column("Requests/s", lambda card: card.rate_rps, rate),
        *([band] if any(bands.values()) else []),
        Column("USD/hour", lambda card: card.usd_per_hour, money),
        *entries(lambda card: [pair for pair in card.settings if pair[0] in settings], rows),
    )
    banded = " P10–P90: of its rate, by measurements." if any(bands.values()) else ""
    caption = f"One row for each kind of server, which takes that share of {_whose(plan)}.{banded}"
    return table_of(columns, rows).block(caption, "islands.csv of the run folder")


def _band(bands: Mapping[tuple[str, Phase], Band | None], card: Card) -> Band | None:
    """How far off a server's rate may be; of one that does both phases, in a plan of before, the wider half's."""
    bands_there = [band for phase in (card.phase, *halves_of(card.phase)) if (band := bands.get((card.gpu, phase)))]
    return max(bands_there, key=lambda band: band.high - band.low, default=None)


def _whose(plan: Plan) -> str:
    return "its bucket's requests" if plan.form.row.pooled else "all requests"


def _drawing(plan: Plan) -> Drawing:
    columns = lanes(plan)
    says = f"{counted(sum(card.servers for lane in columns for card in lane.cards), 'server')} in "
    says += counted(len(plan.islands) - sum(island.phase is None for island in plan.islands), plan.form.row.part)
    says += "; the thicker a band, the more of the requests go there"
    return Drawing(
        name="what-to-deploy",
        title="From prompts to answers",
        says=f"{says}.",
        svg=_pictures(plan, columns, says),
        text=whiteboard(plan) if plan.form.row.pooled else "",
        table=DataTable(
            columns=("Phase", "Prompts (tokens)", "Of all requests (%)", "Servers", "Of the bucket (%)"),
            rows=tuple(
                (lane.phase.value, lane.label or "all", 100 * lane.probability, card.title, 100 * card.share)
                for lane in columns
                for card in lane.cards
            ),
        ),
    )


def _pictures(plan: Plan, columns: Sequence[Lane], label: str) -> str:
    """Phases below each other; where prefill and decode are split, on wide screens beside each other too."""
    split = [lane for lane in columns if lane.phase is not Phase.MIXED]
    both = [lane for lane in columns if lane.phase is Phase.MIXED]
    shapes, bottom = [], 0.0
    for phase in Phase:
        more, bottom = _column([lane for lane in columns if lane.phase is phase], _PREFILL_X, bottom)
        shapes += more
    if not split:
        return svg(NARROW, bottom, shapes, label=label)
    beside, low = _halves(plan, split)
    if both:
        more, low = _column(both, _PREFILL_X, low + 20.0)
        beside += more
    return svg(_WIDTH, low, beside, label=label, screens="wide") + svg(
        NARROW, bottom, shapes, label=label, screens="narrow"
    )


def _halves(plan: Plan, split: list[Lane]) -> tuple[list[str], float]:
    """Prefill at the left, decode at the right, between them what is handed over."""
    first, low = _column([lane for lane in split if lane.phase is Phase.PREFILL], _PREFILL_X, 0.0)
    second, high = _column([lane for lane in split if lane.phase is Phase.DECODE], _DECODE_X, 0.0)
    x, end, y = _PREFILL_X + _BUCKET + _CARD + 14.0, _DECODE_X - 14.0, _HEAD + (_ROW - _GAP) / 2
    above, below = _handover(plan)
    arrow = [
        ribbon(x, y, end, y, width=2, colour="--muted"),
        f'<path d="M{end:g} {y - 5:g} l9 5 l-9 5 z" fill="var(--muted)"/>',
        words((x + end) / 2, y - 8, above, size=12, colour="--muted", anchor="middle"),
        words((x + end) / 2, y + 18, below, size=12, colour="--muted", anchor="middle"),
    ]
    return [*first, *arrow, *second], max(low, high)


def _handover(plan: Plan) -> tuple[str, str]:
    transfer = plan.outlook.transfer
    return "KV caches", "" if transfer is None else f"{transfer.gb_s:.3g} GB/s"


def _column(members: list[Lane], x: float, y: float) -> tuple[list[str], float]:
    """The lanes of one phase, one below the other; their shapes, and where they end."""
    if not members:
        return [], y
    shapes = [words(x, y + 16, _TITLES[members[0].phase], size=14.5, bold=True)]
    y += _HEAD
    for lane in members:
        more, y = _lane(lane, x, y)
        shapes += more
    return shapes, y


def _lane(lane: Lane, x: float, y: float) -> tuple[list[str], float]:
    height = len(lane.cards) * _ROW - _GAP
    shapes = [*_bucket(lane, x, y, height)]
    for place, card in enumerate(lane.cards):
        top = y + place * _ROW
        start, end = (y + height * (place + 0.5) / len(lane.cards)), top + (_ROW - _GAP) / 2
        shapes.append(ribbon(x + _BUCKET - 34, start, x + _BUCKET, end, width=1.5 + 10 * card.share, colour="--line"))
        shapes += _card(card, x + _BUCKET, top)
    return shapes, y + height + 2 * _GAP


def _bucket(lane: Lane, x: float, y: float, height: float) -> list[str]:
    """The box of a bucket's prompts, as high as what serves them."""
    middle, width = y + height / 2, _BUCKET - 34
    return [
        box(x, y, width, height, fill="--paper"),
        words(x + width / 2, middle - 6, lane.label or "all prompts", size=12.5, anchor="middle", room=width - 6),
        words(x + width / 2, middle + 10, "tokens" if lane.label else "", size=11, colour="--muted", anchor="middle"),
        words(x + width / 2, middle + 26, percent(lane.probability), size=11, colour="--muted", anchor="middle"),
    ]


def _card(card: Card, x: float, y: float) -> list[str]:
    nodes, height = counted(card.nodes, "node"), _ROW - _GAP
    facts = f"{counted(card.gpus, 'GPU')}, {nodes}, {card.degrees}"
    busy = min(1.0, card.utilisation)
    return [
        box(x, y, _CARD, height),
        box(x, y, 7, height, fill=f"--{card.phase.value}", line=f"--{card.phase.value}", radius=2),
        words(x + 16, y + 19, card.title, size=13.5, bold=True, room=_CARD - 20),
        words(x + 16, y + 36, facts, size=12, room=_CARD - 20),
        words(x + 16, y + 54, f"takes {percent(card.share)}, busy {percent(busy)}", size=12, colour="--muted"),
        box(x + _CARD - 84, y + 46, 72, 8, fill="--paper", line="--muted", radius=2),
        box(x + _CARD - 84, y + 46, 72 * busy, 8, fill="--muted", line="--muted", radius=2),
    ]
