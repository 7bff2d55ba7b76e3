"""`planner engines`: the engine versions at hand, and what one accepts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import EngineProfile
    from planner.domain.engine import ExchangeRules

_Rows = Iterator[tuple[str, str]]


def command(
    name: Annotated[str, typer.Argument(help="One engine: what it accepts, and the sources of its rules.")] = "",
    version: Annotated[
        str,
        typer.Argument(help="Of its versions the one. [default: that manifests are written for]", show_default=False),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the engine versions that a plan may be made for (`engine:` of a scenario), or tell what one accepts."""
    from dataclasses import asdict

    from planner import files

    chosen = [files.load_engine(name, version)] if name else list(files.engine_profiles())
    if json:
        screen.show_json([asdict(profile) for profile in chosen])
    elif name:
        screen.show_table(str(chosen[0]), ("subject", "rule"), list(_rules(chosen[0])))
        for source in chosen[0].sources:
            screen.show_prose(f"Source: {source}")
    else:
        columns = ("engine", "version", "prefill budgets", "greatest batch", "images")
        screen.show_table("Engines", columns, [_row(profile) for profile in chosen])


def _row(profile: "EngineProfile") -> tuple[object, ...]:
    budgets = ", ".join(map(str, profile.prefill_budgets))
    return profile.name, profile.version, budgets, profile.greatest_batch, ", ".join(key for key, _ in profile.images)


def _rules(profile: "EngineProfile") -> _Rows:
    """Rows of subject and rule, in the order in which they decide."""
    yield from (("image", f"{key}: {image}") for key, image in profile.images)
    yield "models", f"{len(profile.architectures)} architectures, which --json lists"
    yield from _layer_rules(profile)
    yield from _exchange_rules(profile)
    yield from _server_rules(profile)
    for rule in profile.precisions:
        gpus = ", ".join(rule.families) or f"compute capability {rule.from_capability:.1f} and above"
        whole = "" if rule.blocks else ", not with scales by block"
        yield "weights", f"{rule.format} on {rule.vendor}, {gpus}: {rule.arithmetic.replace('_', ' ')}{whole}"
    for method in profile.methods:
        yield "weights", f"none of quant_method {', '.join(method.without)} on {method.vendor}"
    for pair in profile.transfer:
        agreed = f"; across generations one {pair.agree}" if pair.agree else ""
        yield "KV transfer", f"{' and '.join(pair.vendors)}: {', '.join(pair.backends) or 'nothing known'}{agreed}"


def _layer_rules(profile: "EngineProfile") -> _Rows:
    layers = profile.layers
    unsplit_words = {
        "never": "",
        "exchanged": ", whole with an all-to-all backend",
        "several_groups": ", whole in several groups",
    }
    yield "layers", "heads and vocabulary are shared out over an attention group"
    yield "layers", f"dense layers are shared out over a {layers.dense}"
    yield "layers", f"the shared expert is shared out over a {layers.shared}{unsplit_words[layers.shared_whole]}"
    if layers.shared_split_always:
        yield "layers", f"{', '.join(layers.shared_split_always)}: never whole"
    yield "experts", f"ranks hold equal numbers{'' if layers.experts_even else ' where they are balanced by load'}"
    if layers.at_most_experts:
        yield "experts", "a stage has no more GPUs than a layer has experts"
    if layers.single_group:
        yield "attention groups", f"none for {', '.join(layers.single_group)}"
    if layers.groups_of_one:
        yield "attention groups", "one GPU each, where there are several"


def _exchange_rules(profile: "EngineProfile") -> _Rows:
    if profile.exchange.vendors:
        yield from _deepep_rules(profile.exchange)
    else:
        yield "DeepEP", "not counted on: the engine chooses its exchange by itself"
    overlap = profile.overlap
    if not overlap.possible:
        yield "two micro-batches", "not possible"
        return
    needs = " with DeepEP" * overlap.needs_deepep
    groups = " between attention groups" * overlap.across_groups_only
    yield "two micro-batches", f"one choice a server,{needs}{groups}".rstrip(",")


def _deepep_rules(exchange: "ExchangeRules") -> _Rows:
    built = ", ".join(map(str, exchange.capabilities))
    yield "DeepEP", f"{', '.join(exchange.vendors)}, compute capability {built}"
    yield (
        "DeepEP",
        f"at most {exchange.node_gpus} ranks, or whole nodes of so many; in prefill {exchange.most_nodes} nodes",
    )
    yield "DeepEP", f"in decode at most {exchange.low_latency_tokens} tokens a GPU and step"
    if exchange.without:
        yield "DeepEP", f"not for {', '.join(exchange.without)}"
    if exchange.quantizations:
        yield "DeepEP", f"weights of quant_method {', '.join(exchange.quantizations)}"


def _server_rules(profile: "EngineProfile") -> _Rows:
    stages, drafts = profile.stages, profile.drafts
    decode = "as many as in prefill" if stages.decode_alike else "any"
    yield "stages", f"KV caches from several stages: {'yes' if stages.prefill else 'no'}"
    yield "stages", f"KV caches to several stages: {decode if stages.decode else 'no'}"
    yield (
        "drafts",
        f"{drafts.method}, at most {drafts.most} a step{'' if drafts.with_stages else ', in one stage only'}",
    )
    yield "prefill", f"budgets of {', '.join(map(str, profile.prefill_budgets))} tokens a rank and step"
    yield (
        "batch",
        f"at most {profile.greatest_batch} sequences of an attention group" if profile.greatest_batch else "any",
    )
    yield "states", f"room for {profile.kept_states} of a sequence, where layers keep one"
    if profile.vendors:
        yield "GPUs", f"of {', '.join(profile.vendors)} alone"
    if not profile.spans_hosts:
        yield "servers", "of one host, or of several where the target starts their ranks (deploy.target dynamo)"
    if profile.latent_fp8_cache_from:
        yield "KV cache", f"FP8 of latent attention from compute capability {profile.latent_fp8_cache_from:.1f}"
