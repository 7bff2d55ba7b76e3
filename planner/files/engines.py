"""Engine profiles by name and version, from the files in `engine_profiles`; and the `engine:` of a scenario."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from planner.domain import EngineProfile, ModelSpec
from planner.domain.engine import ExchangeRules
from planner.errors import InputError
from planner.files.disk.documents import read_yaml
from planner.files.disk.names import canonical, files_by_stem
from planner.files.records import read_record, record_keys
from planner.files.sections import Section, nearest_hint

_FOLDER = Path(__file__).parent / "engine_profiles"
_STANDARD: Mapping[str, str] = MappingProxyType({"vllm": "0.33.0", "sglang": "0.5.23", "trtllm": "1.2.1"})
"""Engine -> the version that manifests are written for where nobody names one; the first engine is the default."""
_MOST_TOKENS = 1_000_000
_LEAST_TOKENS = 256
_HIGHEST_CAPABILITY = 99


@cache
def engine_profiles() -> tuple[EngineProfile, ...]:
    """Every profile, by engine and file name."""
    return tuple(_read_file(path) for path in files_by_stem(_FOLDER, ".yaml").values())


def load_engine(name: str = "", version: str = "") -> EngineProfile:
    """The profile of a version of an engine; of the standard ones where none is named.

    Raises:
        InputError: there is no such engine, or no profile of that version; the text names those that there are.
    """
    engine = canonical(name, _STANDARD) if name else next(iter(_STANDARD))
    versions = {profile.version: profile for profile in engine_profiles() if profile.name == engine}
    if not versions:
        engines = sorted({profile.name for profile in engine_profiles()})
        raise InputError(f"There is no engine {engine!r}.", hint=nearest_hint(engine, engines, noun="engines"))
    chosen_version = version or _STANDARD.get(engine, next(iter(versions)))
    if chosen_version not in versions:
        raise InputError(
            f"There is no profile of {engine} {chosen_version!r}.",
            hint=nearest_hint(chosen_version, tuple(versions), noun="versions"),
        )
    return versions[chosen_version]


def read_engine(document: Section) -> EngineProfile:
    """The `engine` of a scenario: a name, or name and version; the standard one where the key is missing, and one that
    refuses nothing where it is null."""
    if "engine" not in document:
        return load_engine()
    if document.is_empty("engine"):
        return EngineProfile()
    if not document.holds_section("engine"):
        return _profile_at(document, "engine", document.text("engine"))
    section = document.section("engine")
    section.allow_only("name", "version")
    profile = _profile_at(section, "name", section.text("name"))
    version = section.text("version", default=profile.version)
    return _profile_at(section, "version", profile.name, version)


def require_loaded(document: Section, profile: EngineProfile, model: ModelSpec) -> EngineProfile:
    """The profile, which has code for the model; InputError, with the versions that do, where it has not."""
    if profile.loads(model.architecture):
        return profile
    others = ", ".join(str(other) for other in engine_profiles() if other.loads(model.architecture))
    rule = f"must be one that loads {model.architecture} ({model.name}), {profile} does not"
    hint = f"These do: {others}." if others else "No version with a profile does; `engine: null` plans without one."
    raise document.refusal("engine", rule, hint=hint, by_itself=False)


def _profile_at(section: Section, key: str, name: str, version: str = "") -> EngineProfile:
    try:
        return load_engine(name, version)
    except InputError as error:
        rule = f"a version of {name} with a profile" if version else "an engine with a profile"
        raise section.fault(key, rule, hint=error.hint or "") from None


def engine_document(profile: EngineProfile) -> dict[str, str] | None:
    """What `read_engine` reads back as the same profile."""
    return {"name": profile.name, "version": profile.version} if profile.name else None


def _read_file(path: Path) -> EngineProfile:
    section = read_yaml(path)
    profile = profile_from_section(section)
    stem = f"{profile.name}-{profile.version}"
    if stem != path.stem:
        raise section.fault("version", f"that of the file's name, {path.stem}", hint="Rename the file.")
    return profile


def profile_from_section(section: Section) -> EngineProfile:
    """The profile that a document describes, which has to give every key."""
    return read_record(
        EngineProfile, section, needed=record_keys(EngineProfile), exchange=_exchange, prefill_budgets=_budgets
    )


def _budgets(section: Section) -> tuple[int, ...]:
    return section.integers("prefill_budgets", low=_LEAST_TOKENS, high=_MOST_TOKENS)


def _exchange(section: Section) -> ExchangeRules:
    return read_record(ExchangeRules, section.section("exchange"), capabilities=_capabilities)


def _capabilities(section: Section) -> tuple[int, ...]:
    if "capabilities" not in section:
        return ExchangeRules().capabilities
    return section.integers("capabilities", low=1, high=_HIGHEST_CAPABILITY)
