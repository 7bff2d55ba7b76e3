"""What the engines' images cannot do without, by GPU and version; the reasons are in `objects.security.exemptions`."""

from planner.export.islands import ServingIsland
from planner.export.objects.security.exemptions import AMD_DEVICES, SGLANG_IMAGE, VLLM_BEFORE_USERS, Exemption

_WITH_USER = (0, 26)  # the first release whose documents name the image's user


def vllm_exemptions(island: ServingIsland, /) -> tuple[Exemption, ...]:
    """Of vllm/vllm-openai and its sister for AMD."""
    if _on_amd(island):
        return (AMD_DEVICES,)
    numbers = [int(part) for part in island.profile("vllm").version.split(".") if part.isdecimal()]
    return (VLLM_BEFORE_USERS,) if numbers and tuple(numbers) < _WITH_USER else ()


def sglang_exemptions(island: ServingIsland, /) -> tuple[Exemption, ...]:
    """Of lmsysorg/sglang."""
    return (AMD_DEVICES, SGLANG_IMAGE) if _on_amd(island) else (SGLANG_IMAGE,)


def _on_amd(island: ServingIsland) -> bool:
    return island.gpu.vendor.upper() == "AMD"
