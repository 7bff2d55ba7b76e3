"""Images of programs that no registry has: what `docker build` makes them of, folders beside the manifests."""

from collections.abc import Iterator, Mapping
from importlib import resources

from planner.export.checking.structure import read_manifests
from planner.export.found import Manifest
from planner.export.objects.programs.fields import SCRIPT_KIND, is_program
from planner.export.routers.programs.gateways import GATEWAYS

DOCKERFILE, PACKAGES = "Dockerfile", "requirements.txt"


def image_files(files: Mapping[str, str]) -> dict[str, str]:
    """Path -> text of the folders that images of `files` (name -> text, manifests or scripts) are built from, whatever
    they are called: steps, and packages with their hashes. The first line of a Dockerfile says how. None where an image
    is published, or a digest says that it is built already."""
    written: dict[str, str] = {}
    for manifest, _ in read_manifests(files).sound:
        for image, words in _started(manifest):
            for program in GATEWAYS.values():
                if program.recipe and words[: len(program.program)] == program.program and "@" not in image:
                    written |= _folder(program.key.lower(), image, program.recipe)
    return written


def _started(manifest: Manifest) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The image of a router's program and the words that start it."""
    if manifest.kind == SCRIPT_KIND:
        yield manifest.body["image"], tuple(manifest.body["command"])
    elif is_program(manifest):
        for container in manifest.body["spec"]["template"]["spec"]["containers"]:
            yield container["image"], (*container.get("command", ()), *container.get("args", ()))


def _folder(name: str, image: str, recipe: str) -> dict[str, str]:
    source = resources.files(__package__).joinpath(recipe)
    texts = {file: source.joinpath(file).read_text(encoding="utf-8") for file in (DOCKERFILE, PACKAGES)}
    texts[DOCKERFILE] = f"# docker build --tag {image} {name}\n{texts[DOCKERFILE]}"
    return {f"{name}/{file}": text for file, text in texts.items()}
