"""Policies that pack nodes by what is left on them: DotProd, BestFit, GpuPacking, GpuClustering.

| symbol | meaning | unit |
|---|---|---|
| c, r_i | free CPUs, what is left of GPU i; R = sum of r_i | milli-CPU, milli-GPU |
| C, g, k | what a class asks for: CPUs, of each GPU, GPUs | milli-CPU, milli-GPU, 1 |

DotProd        100 (1 - (c C / 128000^2 + R g k / 8000^2) / 2)
BestFit        100 (1 - (c - C) / 256000 - (R - g k) / 16000)
GpuClustering  25 (8000 - R) / 8000 + 75 on nodes of pods of this kind only, + 50 where others are there, too, + 25 on
               nodes without pods with GPUs; 0 for pods without GPUs
GpuPacking     GPUs that are in use before idle ones, idle ones before idle nodes (bands 50..100, 33..49, 0..33)
Integers in the reference semantics; in the exact one the same without rounding (GpuPacking's bands stay apart).
Source: facts on fragmentation and power, section 7.
"""

from dataclasses import dataclass

import numpy as np

from planner.domain import WHOLE_GPU, Semantics, TracePod
from planner.placement.node_states import Integers, NodeState, PodClasses, Reals, best_fit

NORM_CPU, NORM_GPU = 128_000, 8_000


@dataclass(frozen=True)
class _Packing:
    """What the four share: they take the fullest GPU that fits."""

    pods: PodClasses
    semantics: Semantics

    stretched = False
    level = 0

    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:
        """The fullest GPU that fits a part of one; whole GPUs: the first idle ones."""
        return best_fit(state.gpu_left, pod)

    def _rounded(self, scores: Reals) -> Reals:
        return np.trunc(scores) if self.semantics is Semantics.REFERENCE else scores


class DotProd(_Packing):
    """The smallest dot product of what is free with what is asked for."""

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        idle = sum(state.gpu_left)
        product = state.cpu_left * self.pods.cpu / NORM_CPU**2 + idle * self.pods.total_gpu / NORM_GPU**2
        return self._rounded(100 * (1 - product / 2))


class BestFit(_Packing):
    """The least left of CPUs and GPUs."""

    stretched = True

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        cpu = (state.cpu_left - self.pods.cpu) / NORM_CPU
        gpu = (sum(state.gpu_left) - self.pods.total_gpu) / NORM_GPU
        return self._rounded(100 * (1 - (0.5 * cpu + 0.5 * gpu)))  # in this order: 17 is truncated to 16, as there


class GpuClustering(_Packing):
    """Pods that ask for the same number of GPUs lie together."""

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        hosted = state.hosted
        base = 25 * (NORM_GPU - sum(state.gpu_left)) / NORM_GPU
        if self.semantics is Semantics.REFERENCE:
            base = base // 1
        if not hosted:
            scores = np.full(len(self.pods), base + 25)
        else:
            same = np.isin(self.pods.kinds, list(hosted))
            scores = base + same * (75.0 if len(hosted) == 1 else 50.0)
        scores[self.pods.gpus == 0] = 0
        return scores


class GpuPacking(_Packing):
    """GPUs in use first, then idle GPUs of working nodes, then idle nodes."""

    def scores(self, state: NodeState) -> Reals:
        """For every class of pods."""
        pods, free = self.pods, sorted(state.gpu_left)
        if not free or free[0] == WHOLE_GPU:
            scores = np.full(len(pods), float(max(33 - len(free), len(free))))
        else:
            scores = self._on_working_node(np.array(free, dtype=np.int64))
        scores[pods.gpus == 0] = 0
        return scores

    def _on_working_node(self, free: Integers) -> Reals:
        pods = self.pods
        first = free.searchsorted(pods.gpu_milli)
        last = np.minimum(first + pods.gpus, len(free))
        idle = np.maximum(last - free.searchsorted(WHOLE_GPU), 0)
        tenths = free * 100 // WHOLE_GPU if self.semantics is Semantics.REFERENCE else free * 100 / WHOLE_GPU
        sums = np.concatenate([[0], np.cumsum(tenths)])
        free_tenths = (sums[last] - sums[first]) / 10
        if self.semantics is Semantics.REFERENCE:
            free_tenths = np.floor(free_tenths)
        scores: Reals = np.where(idle > 0, np.maximum(50.0 - idle, 33), np.maximum(100.0 - free_tenths, 50))
        return scores
