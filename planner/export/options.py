"""What a user may choose about manifests, beyond what the plan already fixes: read from short texts, and refused where
no manifest can carry it."""

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

from planner.domain import SWITCH_LEVELS, DeploySettings, PlacementSettings
from planner.domain.serving.deploy import AUTOSCALERS, COUNTS, ENDPOINTS, HOUR_NAMES, HPA, LOAD_SOURCES, NONE
from planner.errors import ExportError, InputError
from planner.export.objects.documents import amount
from planner.export.objects.names import is_dns_label, is_dns_subdomain, is_label_key

WEIGHTS = ("job", "node", "hub")
TOKEN = "HF_TOKEN"  # noqa: S105  # the name of a variable
API_KEY = "API_KEY"
_MOST_DEVICES = 1024
_MOST_PAGES = 1_000_000
_PAGES = {"2Mi": 2 * 2**20, "1Gi": 2**30}
_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")
_DEVICES = re.compile(r"[\^=]{0,2}[A-Za-z0-9_.-]+(:[0-9]+)?(,[A-Za-z0-9_.-]+(:[0-9]+)?){0,63}")
_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_LOAD_RANGE = (0.01, 1000.0)


def secret_of(options: DeploySettings) -> tuple[str, str] | None:
    """Name and key of the Secret with the token; None where none is named.

    Raises:
        InputError: no Secret can have the name, or the key.
    """
    return _secret("hf_secret", options.hf_secret, f"hf-token:{TOKEN}")


def api_key_of(options: DeploySettings) -> tuple[str, str] | None:
    """Name and key of the Secret with the key that engines ask for; as above."""
    return _secret("api_key_secret", options.api_key_secret, f"engine-key:{API_KEY}")


def _secret(option: str, text: str, example: str) -> tuple[str, str] | None:
    if not text:
        return None
    name, colon, key = text.partition(":")
    key = key if colon else example.partition(":")[2]
    if not is_dns_subdomain(name) or not _KEY.fullmatch(key):
        raise InputError(
            f"deploy.{option}: must be NAME or NAME:KEY of a Secret, got {text!r}.",
            hint=f"For example {example}; make it by `kubectl create secret generic`.",
        )
    return name, key


def rdma_of(options: DeploySettings) -> tuple[str, int] | None:
    """The resource of RDMA devices, and how many a pod gets (0: one for each GPU); None where none is asked for.

    Raises:
        InputError: it is no extended resource with a count.
    """
    if not options.rdma:
        return None
    name, equals, count = options.rdma.partition("=")
    sound = "/" in name and is_label_key(name) and (not equals or _COUNT.fullmatch(count))
    if not sound or int(count or 0) > _MOST_DEVICES:
        raise InputError(
            f"deploy.rdma: must be RESOURCE or RESOURCE=COUNT, an extended resource and 1 to {_MOST_DEVICES}, "
            f"got {options.rdma!r}.",
            hint="For example rdma/ib, or rdma/ib=1 where one device serves all GPUs of a pod.",
        )
    if name in dict(options.pod_resources):
        raise InputError(f"deploy.rdma: must not repeat {name} of pod_resources.", hint="Leave one of them out.")
    return name, int(count or 0)


def hugepages_of(options: DeploySettings) -> tuple[str, str] | None:
    """The size of huge pages and a pod's amount of them; None where none are asked for.

    Raises:
        InputError: it is no size that processors have, or no multiple of it.
    """
    if not options.hugepages:
        return None
    size, _, total = options.hugepages.partition("=")
    pieces = (amount(total) or Fraction(0)) / _PAGES.get(size, 1)
    if size not in _PAGES or pieces.denominator != 1 or not 1 <= pieces <= _MOST_PAGES:
        raise InputError(
            f"deploy.hugepages: must be SIZE=AMOUNT, a page size ({', '.join(_PAGES)}) and a multiple of it, "
            f"got {options.hugepages!r}.",
            hint="For example 2Mi=4Gi.",
        )
    return size, total


def check_operating(options: DeploySettings) -> None:
    """Refuse what no manifest can carry.

    Raises:
        InputError: weights that nobody can fetch so, a bandwidth beyond any storage, or a name that Kubernetes or NCCL
            would refuse.
    """
    secret_of(options)
    api_key_of(options)
    rdma_of(options)
    hugepages_of(options)
    _check_weights(options)
    low, high = _LOAD_RANGE
    if not low <= options.load_gb_per_s <= high:
        raise InputError(
            f"deploy.load_gb_per_s: must be {low:g} to {high:g} GB/s, got {options.load_gb_per_s}.",
            hint="Give what a pod reads from its storage, as `fio` measures it.",
        )
    if options.kv_store and not _STORE.fullmatch(options.kv_store):
        raise InputError(
            f"deploy.kv_store: must be one of {', '.join(STORES)}, then ://HOST:PORT, got {options.kv_store!r:.80}.",
            hint="For example lm://store:65432, without user and password.",
        )
    for key in ("nccl_ib_hca", "socket_interface"):
        text = getattr(options, key)
        if text and not _DEVICES.fullmatch(text):
            raise InputError(f"deploy.{key}: must be names of devices, got {text!r}.", hint="For example mlx5 or eth0.")


def _check_weights(options: DeploySettings) -> None:
    if options.weights not in ("", *WEIGHTS):
        raise InputError(
            f"deploy.weights: must be one of {', '.join(WEIGHTS)}, got {options.weights!r}.",
            hint="A job fetches once into the model volume, a node once for its pods, from the hub every pod.",
        )
    if options.weights == "job" and not options.model_volume:
        raise InputError(
            "deploy.weights: must not be job without a model_volume, which the job fills, got none.",
            hint="Name a claim with --model-volume, or take --weights node or hub.",
        )
    if options.weights == "node" and options.model_volume:
        raise InputError(
            f"deploy.weights: must not be node beside a model_volume, got {options.model_volume!r}.",
            hint="Leave one of them out: a node keeps the weights in a folder of its own.",
        )


_MOST_PRIORITY = 1_000_000_000  # above are Kubernetes' own
LEAST_SHARED_GIB = 1
"""The shared memory that an engine needs at least."""
_CEILINGS = {"cpus_per_gpu": 1024, "memory_gib_per_gpu": 65_536, "shared_memory_gib": 65_536}
"""For a GPU: a host of 8 would have 8192 cores and 512 TiB, ten times the largest there are."""

_MOST_PIECES = 1_000_000
_BYTES_PER_TOKEN = (1.0, 64.0)

STORES = ("lm", "redis", "mooncakestore", "mooncake")
"""Schemes of stores of KV caches: those that LMCache knows, and SGLang's."""
_STORE = re.compile(rf"(?:{'|'.join(STORES)})://[A-Za-z0-9][A-Za-z0-9.-]{{0,252}}:[1-9][0-9]{{0,4}}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?")
_SERVED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE = re.compile(
    r"(?=.{1,512}$)(?P<path>[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9][a-z0-9._-]*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)


ExportOptions = DeploySettings
"""Choices that shape the manifests and leave the plan as it is."""


def image_is_pinned(image: str) -> bool:
    """Whether `image` names one version: a digest, or a tag that is not a moving one."""
    match = _IMAGE.fullmatch(image)
    return match is not None and bool(match["digest"] or match["tag"] not in (None, "latest", "nightly"))


def chosen_image(options: ExportOptions, key: str, default: str | None) -> str | None:
    """The image that the options have in the place of `default` (of a vendor, or a router's program), by its digest
    where they have that, too."""
    image = {name.upper(): image for name, image in options.images}.get(key.upper()) or default
    return None if image is None else pinned(options, image)


def pinned(options: ExportOptions, image: str) -> str:
    """The image by its digest, where the options have it."""
    digest = dict(options.image_digests).get(image)
    return f"{image}@{digest}" if digest and "@" not in image else image


def check_pinned(options: ExportOptions, images: Iterable[str]) -> None:
    """Refuse an export by digest that leaves some of its `images` to their tags.

    Raises:
        InputError: naming all of them.
    """
    missing = sorted({image for image in images if "@" not in image}) if options.image_digests else []
    if missing:
        raise InputError(
            f"deploy.image_digests: must have the digest of every image, got none of {', '.join(missing)}.",
            hint="Add `IMAGE: sha256:...` for each; `docker buildx imagetools inspect IMAGE` shows it.",
        )


def check_options(options: ExportOptions, settings: PlacementSettings) -> None:
    """Refuse options that no manifest can carry; `settings` are the plan's.

    Raises:
        InputError: a size below 1 or beyond any host, shared memory above a one-GPU pod's memory, an image that is not
            pinned, or a name or label that Kubernetes would refuse.
    """
    _check_sizes(options, settings)
    _check_images(options)
    _check_names(options)
    _check_topology(options)
    check_operating(options)
    _check_choices(options)
    if options.priority_class and settings.priority > _MOST_PRIORITY:
        raise InputError(
            f"placement.priority: must be at most {_MOST_PRIORITY} for a PriorityClass, got {settings.priority}.",
            hint="Lower placement.priority, or leave the PriorityClass out.",
        )


def check_heeded(options: ExportOptions, target: str, unheeded: Sequence[str]) -> None:
    """Refuse options that `target` would silently drop.

    Raises:
        ExportError: one of `unheeded` is given.
    """
    dropped = [name for name in unheeded if getattr(options, name) != getattr(ExportOptions(), name)]
    if dropped:
        raise ExportError(
            f"Target {target}: nothing in its files can carry {', '.join(dropped)}.",
            hint="Leave those options out, or choose another target; `kubectl apply -n` takes a namespace.",
        )


def _check_sizes(options: ExportOptions, settings: PlacementSettings) -> None:
    for key in ("cpus_per_gpu", "memory_gib_per_gpu", "shared_memory_gib"):
        value = getattr(options, key)
        if value is not None and not 1 <= value <= _CEILINGS[key]:
            raise InputError(
                f"deploy.{key}: must be at least 1 and at most {_CEILINGS[key]}, got {value}.",
                hint="Give what a host has, divided by its GPUs.",
            )
    low, high = _BYTES_PER_TOKEN
    if not low <= options.bytes_per_token <= high:
        raise InputError(
            f"deploy.bytes_per_token: must lie in {low:g}..{high:g}, got {options.bytes_per_token}.",
            hint="Divide the bytes of some of your prompts by their tokens; English has about 4.",
        )
    memory = options.memory_gib(settings)
    if options.shared_memory_gib > memory:
        raise InputError(
            f"deploy.shared_memory_gib: counts towards a pod's memory and must be at most "
            f"memory_gib_per_gpu ({memory}), got {options.shared_memory_gib}.",
            hint="Give more memory a GPU, or less shared memory.",
        )
    for name, count in options.pod_resources:
        if "/" not in name or not is_label_key(name) or not 1 <= count <= _MOST_PIECES:
            raise InputError(
                f"deploy.pod_resources: must be extended resources and counts of 1 to {_MOST_PIECES}, got "
                f"{name}={count}.",
                hint="For example rdma/ib=8.",
            )


def _check_names(options: ExportOptions) -> None:
    for key in ("priority_class", "queue", "model_volume"):
        name = getattr(options, key)
        if name and not is_dns_label(name):
            raise InputError(f"deploy.{key}: must be a DNS label, got {name!r}.", hint="Use a-z, 0-9 and '-'.")
    for name in options.client_namespaces:
        if not is_dns_label(name) or options.client_namespaces.count(name) > 1:
            raise InputError(
                f"deploy.client_namespaces: must be namespaces, each once, got {name!r}.", hint="For example gateway."
            )
    for name in options.served_names:
        if not _SERVED.fullmatch(name) or options.served_names.count(name) > 1:
            raise InputError(
                f"deploy.served_names: must be letters, digits and . _ / -, 128 at most, each name once, got {name!r}.",
                hint="For example chat.",
            )
    if not is_dns_label(options.namespace):
        raise InputError(
            f"deploy.namespace: must be a DNS label, got {options.namespace!r}.", hint="Use a-z, 0-9 and '-'."
        )
    if options.priority_class.startswith("system-"):
        raise InputError(
            f"deploy.priority_class: must not begin with system-, which is Kubernetes' own, got "
            f"{options.priority_class!r}.",
            hint="Choose another name.",
        )


def _check_topology(options: ExportOptions) -> None:
    levels = [level for level, _ in options.topology_labels]
    for level, label in options.topology_labels:
        if level not in SWITCH_LEVELS or levels.count(level) > 1:
            raise InputError(
                f"deploy.topology: must be of {', '.join(SWITCH_LEVELS)}, each once, got {level!r}.",
                hint="Name each level once, for example asw=example.com/rack.",
            )
        if not is_label_key(label):
            raise InputError(
                f"deploy.topology[{level}]: must be a node label's key, got {label!r}.",
                hint="Give a key as of `kubectl get nodes --show-labels`.",
            )


def _check_choices(options: ExportOptions) -> None:
    if options.ranks not in ENDPOINTS:
        raise InputError(
            f"deploy.ranks: must be one of {', '.join(ENDPOINTS)}, got {options.ranks!r}.",
            hint="Choose one of them.",
        )
    if options.autoscaling not in AUTOSCALERS:
        raise InputError(
            f"deploy.autoscaling: must be one of {', '.join(AUTOSCALERS)}, got {options.autoscaling!r}.",
            hint="Choose one of them.",
        )
    _check_scaling(options)
    if options.router_counts not in COUNTS:
        raise InputError(
            f"deploy.router_counts: must be one of {', '.join(COUNTS)}, got {options.router_counts!r}.",
            hint="Choose one of them.",
        )
    if not _ADDRESS.fullmatch(options.prometheus):
        raise InputError(
            f"deploy.prometheus: must be an address such as http://prometheus.monitoring.svc:9090, got "
            f"{options.prometheus!r}.",
            hint="Give scheme, host and port, without user and password.",
        )


_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,2}")
_OF_SCALERS = ("load_source", "hours_rps", "spare_rps", "time_zone")


def _check_scaling(options: ExportOptions) -> None:
    idle = [key for key in _OF_SCALERS if getattr(options, key) != getattr(ExportOptions(), key)]
    if options.autoscaling == NONE:
        if idle:
            raise InputError(
                f"deploy.{idle[0]}: goes with autoscalers, got deploy.autoscaling {NONE}.",
                hint="Add --autoscaling keda, or leave it out.",
            )
        return
    if not options.monitoring:
        raise InputError(
            f"deploy.autoscaling: {options.autoscaling} follows metrics that deploy.monitoring has scraped, got none.",
            hint="Add --monitoring.",
        )
    if options.load_source not in LOAD_SOURCES:
        raise InputError(
            f"deploy.load_source: must be one of {', '.join(LOAD_SOURCES)}, got {options.load_source!r}.",
            hint="Choose one of them.",
        )
    if options.hours_rps and options.autoscaling == HPA:
        raise InputError(
            "deploy.hours_rps: must be followed by a clock, which KEDA has, got deploy.autoscaling hpa.",
            hint="Take --autoscaling keda.",
        )
    others = [name for name, _ in options.hours_rps if name not in HOUR_NAMES]
    if others:
        raise InputError(
            f"deploy.hours_rps: must be of {HOUR_NAMES[0]} to {HOUR_NAMES[-1]}, got {others[0]!r:.20}.",
            hint="For example {h08: 300, h20: 120}.",
        )
    if not _ZONE.fullmatch(options.time_zone):
        raise InputError(
            f"deploy.time_zone: must be a name of the IANA time zones, got {options.time_zone!r:.60}.",
            hint="For example Europe/Berlin.",
        )


def _check_images(options: ExportOptions) -> None:
    for vendor, image in options.images:
        if not image_is_pinned(image):
            raise InputError(
                f"deploy.images[{vendor}]: must name a fixed tag or a sha256 digest, got {image!r}.",
                hint="Write it as registry/name:version.",
            )
    for image, digest in options.image_digests:
        name = _IMAGE.fullmatch(image)
        if name is None or name["digest"] or not _DIGEST.fullmatch(digest):
            raise InputError(
                f"deploy.image_digests[{image}]: must be an image's name and tag, and sha256: with 64 "
                f"hexadecimal digits, got {digest!r}.",
                hint="For example vllm/vllm-openai:v0.33.0: sha256:...",
            )
