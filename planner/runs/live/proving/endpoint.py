"""Whether an address is an engine's or a router's, before it is loaded: it lists the model that the plan is for."""

from collections.abc import Sequence
from http import HTTPStatus

from planner import export
from planner.domain import Plan
from planner.errors import InputError
from planner.files.disk.documents import parse_json
from planner.files.disk.opening import MOST_OF_A_DOCUMENT
from planner.files.sections import Section
from planner.runs.live.addresses import HttpServer
from planner.runs.live.proving.settings import SECRET, ProofSettings

MODELS = "/v1/models"
_PATIENCE_S = 10.0
_SHOWN = 80
_HINT = "Give the address at which the router takes requests: planner export writes it, a forwarded port reaches it."


def served_model(settings: ProofSettings, plan: Plan) -> str:
    """The name by which requests ask for the plan's model there.

    Raises InputError where nothing answers, what answers is no engine, or it does not serve the model.
    """
    served = _served(settings)
    names = [settings.model] if settings.model else _names(plan)
    for name in names:
        if name in served:
            return name
    raise InputError(
        f"--url {settings.url}: must serve the model {names[0]}, serves {', '.join(served)[:_SHOWN] or 'none'}.",
        hint="Name it as the engines do, with --model-name, or give the address of this plan's router.",
    )


def _names(plan: Plan) -> list[str]:
    """What engines may call the plan's model, as it is exported."""
    names: list[str] = [*plan.scenario.deploy.served_names]
    for target in export.TARGETS.values():
        try:
            names.append(target.model_name(plan.scenario.model))
        except InputError:  # its weights lie nowhere that this target knows
            continue
    return list(dict.fromkeys((*names, plan.scenario.model.name)))


def _served(settings: ProofSettings) -> Sequence[str]:
    """Ids of the models that it lists."""
    server = HttpServer(option="--url", url=settings.url, secret=SECRET, word=settings.key, hint=_HINT)
    status, text = server.get(
        f"{settings.base_url}{MODELS}", patience_s=_PATIENCE_S, most_bytes=MOST_OF_A_DOCUMENT, directly=True
    )  # directly, as the load goes
    if status != HTTPStatus.OK:
        raise InputError(
            f"{server.label}: must answer {MODELS} as an engine or a router does, got HTTP {status}.", hint=_HINT
        )
    try:
        document: Section = parse_json(text, file=settings.url)
        return [row.text("id") for row in document.sections("data")]
    except InputError:
        shown = " ".join(text.split())[:_SHOWN]
        raise InputError(
            f"{server.label}: must list its models at {MODELS} as an engine does, got {shown!r}.", hint=_HINT
        ) from None
