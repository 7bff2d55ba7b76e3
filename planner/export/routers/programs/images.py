"""Images of programs that no registry has: what `docker build` makes them of, a folder beside the manifests."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

from planner.export.found import Kind
from planner.export.objects.names import one_line

DOCKERFILE, PACKAGES = "Dockerfile", "requirements.txt"


def image_files(folder: str, image: str, recipe: str) -> dict[str, str]:
    """The files of `folder`, which make `image` by the `recipe`, a folder of this package: its steps, and the packages
    with their hashes. The first line says how."""
    source = resources.files(__package__).joinpath(recipe)
    texts = {name: source.joinpath(name).read_text(encoding="utf-8") for name in (DOCKERFILE, PACKAGES)}
    texts[DOCKERFILE] = f"# docker build --tag {one_line(image)} {folder}\n{texts[DOCKERFILE]}"
    return {f"{folder}/{name}": text for name, text in texts.items()}


def _as_it_is(text: str) -> Iterator[dict[str, Any]]:
    yield {"metadata": {"name": DOCKERFILE}, "text": text}


IMAGE_KINDS = tuple(
    Kind(kind=f"router image's {file}", schema="router_configuration.json", files=file, parse=_as_it_is)
    for file in (DOCKERFILE, PACKAGES)
)
