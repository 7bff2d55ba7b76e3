"""The mapping that describes a model: a section in which null means as much as a missing key.

Hugging Face writes `"head_dim": null` where the architecture's own rule is to decide.
"""

import re

from planner.files.sections import MOST_TOKENS, Section

_LARGEST = 10**7
"""Of a size, a head count, experts, a vocabulary: a hundred times the largest there is."""

_MOST_LAYERS = 10_000
_MOST = {
    "num_hidden_layers": _MOST_LAYERS,
    "layers": _MOST_LAYERS,
    "num_nextn_predict_layers": _MOST_LAYERS,
    "mtp_layers": _MOST_LAYERS,
    "max_position_embeddings": MOST_TOKENS,
    "max_context": MOST_TOKENS,
}
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'\\$`{}]+")


class ModelSection(Section):
    """A section with the lists, flags and nullable numbers of model descriptions."""

    @classmethod
    def of(cls, section: Section) -> "ModelSection":
        """The same mapping at the same place."""
        return cls(section._values, file=section.file, path=section.path)

    def integer(self, key: str, *, default: int | None = None, low: int | None = None, high: int | None = None) -> int:
        """A whole number in low..high; sizes of models stay below what products of several of them overflow at."""
        return super().integer(key, default=default, low=low, high=_MOST.get(key, _LARGEST) if high is None else high)

    def inner(self, key: str) -> "ModelSection":
        """The mapping under `key`; an empty one where it is missing or null."""
        if self.is_empty(key):
            return ModelSection({}, file=self.file, path=self.key_path(key))
        return ModelSection.of(self.section(key))

    def whole(self, key: str, default: int, *, low: int = 0, high: int | None = None) -> int:
        """A whole number in low..high; `default` where the key is missing or null."""
        return default if self.is_empty(key) else self.integer(key, low=low, high=high)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false; `default` (None: must be there) where the key is missing or null."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise self.fault(key, "true or false")
        return value

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers in low..high."""
        value = self._values.get(key)
        rule = f"a list of whole numbers of at least {low} and at most {high}"
        if not isinstance(value, list | tuple):
            raise self.fault(key, rule)
        if not all(type(item) is int and low <= item <= high for item in value):
            raise self.fault(key, rule)
        return tuple(value)

    def mappings(self, key: str) -> tuple["ModelSection", ...]:
        """The mappings that a mapping of mappings holds."""
        outer = self.section(key)
        return tuple(ModelSection.of(outer.section(name)) for name in outer)

    def uri(self, key: str) -> str:
        """Where an engine loads the weights from; it ends up in commands, so no blanks or quotes."""
        uri = self.text(key)
        if not _URI.fullmatch(uri):
            raise self.fault(key, "a URI without blanks or quotes", hint="Such as hf://ORG/NAME or pvc://CLAIM/PATH.")
        return uri
