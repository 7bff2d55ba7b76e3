"""What a plan that stands costs in a window, by tariff.

| symbol | meaning | unit |
|---|---|---|
| g, N_g, p_g, W_g | GPU type: GPUs of the inventory, price, highest draw | 1, USD/hour, kW |
| n_kg, c_k | GPUs of plan k, its capacity | 1, requests/s |
| d_t, h | rate of window t, length of a window | requests/s, hours |
| R_g, delta | GPUs reserved all the time, their discount | 1, 1 |
| e, iota, sigma | power; idle share of the draw; spot's share of the price | USD/kWh, 1, 1 |
| f_g | what a GPU in no server brings | USD/hour |

hourly      h sum_g p_g n_kg
reserved    h sum_g p_g ((1 - delta) R_g + max(0, n_kg - R_g))
owned       h sum_g e W_g n_kg (iota + (1 - iota) min(1, d_t / c_k)) - h sum_g f_g (N_g - n_kg)
            f_g = max(sigma p_g - e W_g, - iota e W_g): given to spot, drawing all it can, or idle, what is better

Of owned GPUs only what depends on them is counted; they are bought whatever stands.

A GPU that loads or drains beside the plan that stands costs p_g an hour where it is rented (as if none that are
reserved were idle), and f_g + e W_g where it is owned: it is not given to spot, and may draw all it can.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.domain import InventoryItem, Scenario
from planner.domain.schedules import RateSeries, ScheduleLevel, Tariff, TariffKind

Floats = NDArray[np.float64]
HOUR_S = 3600.0
KW = 1e-3


def window_usd(
    scenario: Scenario,
    series: RateSeries,
    levels: Sequence[ScheduleLevel],
    tariff: Tariff,
    reserved: Mapping[str, int] | None = None,
) -> Floats:
    """USD of every plan in every window (T x K); `reserved`: GPUs by type that are paid all the time."""
    hours = series.window_s / HOUR_S
    if tariff.kind is TariffKind.OWNED:
        return hours * _owned_usd_per_hour(scenario, series, levels, tariff)
    per_hour = np.zeros(len(levels))
    for item in scenario.inventory.items:
        always = (reserved or {}).get(item.gpu.name, 0)
        beyond = np.maximum(0, gpus_of(levels, item.gpu.name) - always)
        per_hour += item.price_usd_per_gpu_hour * ((1 - tariff.reserved_discount) * always + beyond)
    return np.broadcast_to(hours * per_hour, (len(series.windows), len(levels)))


def gpus_of(levels: Sequence[ScheduleLevel], gpu: str) -> Floats:
    """GPUs of one type in every plan's servers."""
    return np.array([dict(level.gpus).get(gpu, 0) for level in levels], dtype=float)


def _owned_usd_per_hour(
    scenario: Scenario, series: RateSeries, levels: Sequence[ScheduleLevel], tariff: Tariff
) -> Floats:
    capacity = np.array([level.plan.throughput_rps for level in levels])
    busy = np.minimum(1.0, np.array(series.rates_rps)[:, None] / capacity[None, :])
    usd = np.zeros(busy.shape)
    for item in scenario.inventory.items:
        serving = gpus_of(levels, item.gpu.name)
        usd += power_usd_per_hour(item, tariff) * serving * (tariff.idle_share + (1 - tariff.idle_share) * busy)
        usd -= spare_usd_per_hour(item, tariff) * (item.count - serving)
    return usd


def power_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """Power of one GPU at its highest draw."""
    return item.gpu.max_w * KW * tariff.usd_per_kwh


def spare_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU in no server brings, less its power; negative where it is idle."""
    power = power_usd_per_hour(item, tariff)
    return max(tariff.spot_share * item.price_usd_per_gpu_hour - power, -tariff.idle_share * power)


def changing_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU costs that loads or drains beside the plan that stands, rather than being in no server."""
    if tariff.kind is TariffKind.OWNED:
        return spare_usd_per_hour(item, tariff) + power_usd_per_hour(item, tariff)
    return item.price_usd_per_gpu_hour


def serving_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU in a server that has no work costs more than one in no server."""
    return spare_usd_per_hour(item, tariff) + tariff.idle_share * power_usd_per_hour(item, tariff)
