"""Names that Kubernetes accepts, made from names that people write."""

import re
from collections.abc import Iterable
from hashlib import sha256

from planner.errors import InputError

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_HUB_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_LOCAL_MODEL = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+")

ROUTING = "routing"
MAX_DNS_LABEL = 63
_MAX_DNS_SUBDOMAIN = 253
# A worker's StatefulSet is called <name>-<group>; Kubernetes appends an 11-character revision and the result
# has to stay a label value of 63. Six characters are left for the group's number.
MAX_WORKLOAD_NAME = 45
DIGEST = 6


def is_dns_label(name: str, longest: int = MAX_DNS_LABEL) -> bool:
    """Whether `name` can be the name of any object, Services included (RFC 1035: starts with a letter)."""
    return len(name) <= longest and _DNS_LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether `name` can be the name of a node (RFC 1123: labels between dots)."""
    return len(name) <= _MAX_DNS_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(name) is not None


def slug(text: str) -> str:
    """`text` in lower case, every run of other characters than a-z and 0-9 replaced by one hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def plan_slug(name: str, suffixes: Iterable[str]) -> str:
    """The DNS label that stands for a plan in object names, short enough for the longest of `suffixes` behind it.

    A label that has to be cut ends in a digest of the whole name, so that two long names stay different; one that
    starts with a digit gets a letter in front. Raises InputError where nothing is left of the name.
    """
    label = slug(name)
    if not label:
        raise InputError(f"Plan name {name!r}: must hold a letter or a digit.", hint="Set deploy.name.")
    label = label if label[0].isalpha() else f"plan-{label}"
    room = MAX_WORKLOAD_NAME - 1 - max((len(slug(suffix)) for suffix in suffixes), default=0)
    if len(label) <= room:
        return label
    return f"{label[: room - DIGEST - 1].rstrip('-')}-{sha256(name.encode()).hexdigest()[:DIGEST]}"


def island_slugs(ids: Iterable[str]) -> dict[str, str]:
    """Island id -> slug, each used once.

    Raises:
        InputError: two ids give the same slug, or one gives none.
    """
    owners: dict[str, str] = {}
    for island in ids:
        label = slug(island)
        if not label:
            raise InputError(f"Island id {island!r}: must hold a letter or a digit.", hint="Rename the island.")
        if label in owners:
            raise InputError(
                f"Island ids {owners[label]!r} and {island!r}: must differ in letters or digits, both become "
                f"{label!r}.",
                hint="Rename one of them.",
            )
        owners[label] = island
    return {island: label for label, island in owners.items()}


def workload_name(plan: str, island: str) -> str:
    """The object name of one island, `<plan>-<island>`, both slugs.

    Raises:
        InputError: longer than what leaves room for the names that controllers derive from it.
    """
    name = f"{plan}-{island}"
    if len(name) > MAX_WORKLOAD_NAME:
        raise InputError(
            f"Object name {name!r}: must have at most {MAX_WORKLOAD_NAME} characters, got {len(name)}.",
            hint="Set a shorter deploy.name.",
        )
    return name


def pods_service(service: str, rank: int = 0) -> str:
    """The host that stands for every pod behind `service`, for routers that tell pods apart by address. Each `rank` of
    a pod has one of its own: HAProxy takes an address once a name."""
    return f"{service}-pods-{rank}" if rank else f"{service}-pods"


def plan_labels(name: str) -> dict[str, str]:
    """Labels of what belongs to the plan called `name` and to no island."""
    return {"app.kubernetes.io/part-of": name, "app.kubernetes.io/managed-by": "planner"}


def label_value(text: str) -> str:
    """`text` as a label's value: itself where allowed, else its slug."""
    return text if is_label_value(text) else slug(text)[:MAX_DNS_LABEL]


def is_label_value(text: str) -> bool:
    """Whether `text` can be the value of a label."""
    return len(text) <= MAX_DNS_LABEL and _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Whether `text` can be the key of a label, with or without a prefix."""
    return _LABEL_KEY.fullmatch(text) is not None


def check_node_selector(gpu: str, selector: tuple[tuple[str, str], ...]) -> None:
    """Refuse a node selector that no node can match.

    Raises:
        InputError: a key or value breaks the grammar of Kubernetes labels.
    """
    for key, value in selector:
        if not is_label_key(key):
            raise InputError(
                f"GPU {gpu}, node_selector: {key!r} must be a Kubernetes label key.",
                hint="Mend the label in the scenario's node_selectors or the GPU's spec.",
            )
        if not is_label_value(value):
            raise InputError(
                f"GPU {gpu}, node_selector[{key}]: must be a Kubernetes label value, got {value!r}.",
                hint="Mend the label in the scenario's node_selectors or the GPU's spec.",
            )


def weights_location(model: str, uri: str) -> str:
    """What an engine takes as its model: `org/name` of a Hugging Face repository, or an absolute path.

    Raises:
        InputError: any other form. Engine arguments expand `$(...)`, so nothing unusual may pass.
    """
    location = uri.removeprefix("hf://")
    if not location:
        raise InputError(
            f"Model {model}: uri must be given for manifests: where engines load the weights from; it is missing.",
            hint="In the scenario write `model: {config: ..., uri: hf://ORG/NAME}`, or an absolute path as uri.",
        )
    if _HUB_MODEL.fullmatch(location) or (location == uri and _LOCAL_MODEL.fullmatch(location)):
        return location
    raise InputError(
        f"Model {model}, uri: must be hf://organisation/name or an absolute path, got {uri!r}.",
        hint="Give the model such a uri.",
    )


def one_line(text: str) -> str:
    """`text` fit for a YAML comment: one line, printable characters only."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
