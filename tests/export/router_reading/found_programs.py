"""Routers' programs as finished manifests hold them: Deployments with their ConfigMaps, or scripts beside files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.export.found import Manifest
from planner.export.objects.router_objects import CONFIG_KIND, PAIRS_KIND, ROUTER_LABEL, SCRIPT_KIND, is_program


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProgram:
    """A program: its name, the router that it is part of, all words that it starts with, its files' texts by name."""

    name: str
    router: str
    words: tuple[str, ...]
    config: Mapping[str, str] = field(default_factory=dict)

    def values(self, flag: str) -> tuple[tuple[str, ...], ...]:
        """The words behind each occurrence of a flag, up to the next flag; `--flag=value` counts as well."""
        rows: list[tuple[str, ...]] = []
        for at, word in enumerate(self.words):
            if word.startswith(f"{flag}="):
                rows.append((word.partition("=")[2],))
            elif word == flag:
                behind = self.words[at + 1 :]
                end = next((n for n, other in enumerate(behind) if other.startswith("--")), len(behind))
                rows.append(behind[:end])
        return tuple(rows)


def found_programs(manifests: Sequence[Manifest], router: str) -> dict[str, FoundProgram]:
    """The programs of `router`, by name."""
    every = (program for manifest in manifests if (program := _program(manifest, manifests)))
    return {program.name: program for program in every if program.router == router}


def _program(manifest: Manifest, manifests: Sequence[Manifest]) -> FoundProgram | None:
    if manifest.kind == SCRIPT_KIND:
        files = {other.name: other.body["text"] for other in manifests if other.kind in (CONFIG_KIND, PAIRS_KIND)}
        words = tuple(manifest.body["command"])
        return FoundProgram(name=manifest.name, router=manifest.body["router"], words=words, config=files)
    if not is_program(manifest):
        return None
    spec = manifest.body["spec"]["template"]["spec"]
    container = spec["containers"][0]
    return FoundProgram(
        name=manifest.name,
        router=manifest.labels.get(ROUTER_LABEL, ""),
        words=(*container.get("command", ()), *container.get("args", ())),
        config=dict(_mounted(spec, manifests)),
    )


def _mounted(spec: Mapping[str, Any], manifests: Sequence[Manifest]) -> Iterator[tuple[str, str]]:
    names = {volume["configMap"]["name"] for volume in spec.get("volumes", ()) if "configMap" in volume}
    for manifest in manifests:
        if manifest.kind == "ConfigMap" and manifest.name in names:
            yield from manifest.body["data"].items()
