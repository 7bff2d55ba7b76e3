"""The key `speculation` of a scenario's `cost:`: `auto`, `none`, or a section with what drafts and how many tokens."""

from planner.domain import CostSettings, ModelSpec, Scenario
from planner.domain.serving.speculation import MOST_DRAFTED, DraftMethod, DraftModel, Speculation
from planner.errors import InputError
from planner.files.records import read_record, record_document
from planner.files.sections import Section

_KEY = "speculation"
_AUTO = "auto"
_RULE = "auto, none, or a section with method and tokens"


def read_speculation(section: Section) -> Speculation | None:
    """What drafts; None where nothing is asked. `section` is `cost`. InputError on what contradicts itself."""
    if section.is_empty(_KEY):
        return None
    if section.holds_section(_KEY):
        return _drafting(section.section(_KEY))
    if not section.holds_text(_KEY) or section.text(_KEY) not in (_AUTO, "none"):
        raise section.fault(_KEY, _RULE)
    return Speculation() if section.text(_KEY) == _AUTO else None


def speculation_document(settings: CostSettings) -> dict[str, object]:
    """What `read_speculation` reads back, under its key; nothing where nothing is asked."""
    drafting = settings.speculation
    if drafting is None:
        return {}
    tokens = _AUTO if drafting.tokens is None else drafting.tokens
    return {_KEY: record_document(drafting, tokens=tokens)}


def _drafting(section: Section) -> Speculation:
    drafting = read_record(Speculation, section, tokens=_tokens, acceptance=_acceptance, draft=_draft)
    if drafting.method is DraftMethod.EAGLE and drafting.draft is None:
        raise section.fault("draft", "given where method is eagle", hint="Name the draft: draft: ORGANISATION/MODEL.")
    if drafting.method is DraftMethod.MTP and drafting.draft is not None:
        raise section.fault("draft", "left out where method is mtp, whose layers are the model's own")
    return drafting


def _tokens(section: Section) -> int | None:
    if section.is_empty("tokens") or (section.holds_text("tokens") and section.text("tokens") == _AUTO):
        return None
    return section.integer("tokens", low=0, high=MOST_DRAFTED)


def _acceptance(section: Section) -> tuple[float, ...]:
    key, rule = "acceptance", f"1 to {MOST_DRAFTED} numbers, each more than 0 and at most 1, one a position"
    if section.is_empty(key):
        return ()
    if section.holds_number(key):
        return (section.number(key, above=0, high=1),)
    rates = section.entries(key) if section.holds_list(key) else (None,)
    if not 1 <= len(rates) <= MOST_DRAFTED or not all(_is_chance(rate) for rate in rates):
        raise section.fault(key, rule)
    return tuple(float(rate) for rate in rates if isinstance(rate, int | float))


def _is_chance(rate: object) -> bool:
    return isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate <= 1


def _draft(section: Section) -> DraftModel | None:
    if section.is_empty("draft"):
        return None
    if section.holds_text("draft"):
        return DraftModel(uri=section.printable("draft"))
    return read_record(DraftModel, section.section("draft"), uri=lambda inner: inner.printable("uri"))


def require_drafted(section: Section, settings: CostSettings, model: ModelSpec) -> None:
    """InputError where the model has nothing to draft with, or both spellings are used; `section` is `cost`."""
    drafting, plain = settings.drafting, CostSettings()
    if settings.speculation is not None:
        for key in ("mtp_tokens", "mtp_acceptance"):
            if getattr(settings, key) != getattr(plain, key):
                raise section.fault(key, f"left out where {section.key_path(_KEY)} is given", hint="Say it there.")
    if drafting.method is DraftMethod.MTP and drafting.tokens != 0 and not model.mtp_layers:
        key = "mtp_tokens" if settings.speculation is None else _KEY
        wanted, came = ("0", drafting.tokens) if settings.speculation is None else ("none or eagle", "mtp")
        raise section.refusal(
            key,
            f"must be {wanted} where model.mtp_layers is 0, as in {model.name}, got {came}",
            hint="Choose a model with layers for multi-token prediction, a draft of its own (method: eagle), or leave "
            "the key out.",
            by_itself=False,
        )


def require_choice(file: str, scenario: Scenario) -> None:
    """InputError where pools are to choose how much they draft, and the plan has none."""
    if scenario.cost.drafting.tokens is None and not scenario.bucketed:
        raise InputError(
            f"{file}: cost.speculation must say its tokens where a plan has no pools behind buckets, got auto.",
            hint="Give tokens, or leave out routing.form and what rules buckets out.",
        )
