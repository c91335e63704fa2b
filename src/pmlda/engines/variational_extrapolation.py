"""Variational inference: where several sweeps in a row seem to lead. Interchangeable; states are vectors here.

Squarem (Varadhan and Roland 2008) suits steps of topics in closed form, after which words follow at once. Momentum
(Nesterov 1983, begun again as O'Donoghue and Candès 2015 do) suits topics that creep along a ridge, and takes words
along: without that they lag behind, the bound seems to fall, and extrapolations are undone.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from pmlda.types import FloatArray

# Momentum is n / (n + PATIENCE) after n sweeps.
PATIENCE = 3.0


class Extrapolation(ABC):
    """points : where the last sweeps have led; reach : how bold the next extrapolation is, 0 before the first sweep."""

    takes_words: ClassVar[bool]
    """Whether vectors include the words."""
    first_reach: ClassVar[float]

    def __init__(self, points: tuple[FloatArray, ...], reach: float) -> None:
        self.points, self.reach = points, reach or self.first_reach

    @abstractmethod
    def note(self, point: FloatArray) -> None:
        """Remember where a sweep has led."""

    @abstractmethod
    def propose(self) -> FloatArray | None:
        """Where to go on from, or None: from where the last sweep has led."""

    @abstractmethod
    def judge(self, kept: bool) -> None:
        """Learn whether the bound rose there."""


class Squarem(Extrapolation):
    """From three states in a row: θ₀ − 2ρ(θ₁ − θ₀) + ρ²(θ₂ − 2θ₁ + θ₀) with ρ = −|Δ| / |Δ²|, no longer than reach."""

    takes_words: ClassVar[bool] = False
    first_reach: ClassVar[float] = 4.0

    def note(self, point: FloatArray) -> None:
        self.points = (*self.points, point)

    def propose(self) -> FloatArray | None:
        if len(self.points) < 3:
            return None
        first, second, third = self.points
        self.points = (third,)
        step, bend = second - first, third - 2.0 * second + first
        curvature = float(np.linalg.norm(bend))
        if curvature == 0.0:
            return None
        length = float(np.clip(np.linalg.norm(step) / curvature, 1.0, self.reach))
        if length == 1.0:
            return None
        return np.asarray(first + 2.0 * length * step + length**2 * bend)

    def judge(self, kept: bool) -> None:
        self.reach = max(2.0, self.reach * (2.0 if kept else 0.5))
        if kept:
            self.points = ()


class Momentum(Extrapolation):
    """θ₁ + β(θ₁ − θ₀), where β grows from sweep to sweep towards 1, and begins again where the bound would fall."""

    takes_words: ClassVar[bool] = True
    first_reach: ClassVar[float] = 0.0

    def note(self, point: FloatArray) -> None:
        self.points = (*self.points[-1:], point)
        self.reach += 1.0

    def propose(self) -> FloatArray | None:
        if len(self.points) < 2:
            return None
        before, now = self.points
        return np.asarray(now + self.reach / (self.reach + PATIENCE) * (now - before))

    def judge(self, kept: bool) -> None:
        if not kept:
            self.points, self.reach = (), 0.0
