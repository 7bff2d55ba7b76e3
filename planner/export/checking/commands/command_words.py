"""What a pod starts, whatever the target writes it into: all its words, the weights it loads, its variables."""

from collections.abc import Iterator, Mapping
from typing import Any

from planner.export.checking.commands.engine_rules import EngineRules
from planner.export.engines.arguments import flag_pairs
from planner.export.found import FoundPod

DYNAMO_MODULES = "dynamo."


def started_words(pod: FoundPod) -> tuple[str, ...]:
    """Program and arguments of the pod's engine."""
    words = tuple(pod.arguments or ())
    command = tuple(map(str, pod.spec["containers"][0].get("command", ())))
    return words if words[: len(command)] == command else (*command, *words)


def named_models(pod: FoundPod, rules: EngineRules) -> tuple[str, ...]:
    """Every name of weights that the words give, by place and by flag; empty where something else names them."""
    words, behind = started_words(pod), len(rules.positional)
    plain = tuple(word.rpartition("/")[2] for word in words)  # a program may be named with its path
    by_place = [
        words[at + behind]
        for at in range(len(words) - behind)
        if behind and plain[at : at + behind] == rules.positional and not words[at + behind].startswith("-")
    ]
    return (*by_place, *(value for name, value in flag_pairs(words) if name in rules.model))


def is_dynamo(pod: FoundPod) -> bool:
    """Whether Dynamo's own module starts the engine, and so gives it what it needs to know of its pod."""
    return any(word.startswith(DYNAMO_MODULES) for word in pod.spec["containers"][0].get("command", ()))


def variables(pod: FoundPod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and row of each variable of the engine's container; words as `env NAME=VALUE program` count as well."""
    for row in pod.spec["containers"][0].get("env", ()):
        yield row["name"], row
    words = started_words(pod)
    for word in words[1:] if words[:1] == ("env",) else ():
        name, equals, value = word.partition("=")
        if not equals:
            return
        yield name, {"name": name, "value": value}
