"""KOIL as its paper and the authors' program state it: separate buffers per class, every kernel value computed when it is needed."""

from dataclasses import dataclass, field

import numpy as np
from reference import Floats, ParkMiller


@dataclass
class SupportVector:
    x: Floats
    coefficient: float


@dataclass
class Koil:
    sigma: float
    budget: int
    neighbours: int
    eta: float
    C: float
    fifo: bool
    compensate: bool
    draws: ParkMiller
    buffers: dict[float, list[SupportVector]] = field(init=False)  # oldest first
    places: dict[float, list[SupportVector]] = field(init=False)  # in the order of their places, for random picks
    seen: dict[float, int] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = {-1.0: [], 1.0: []}
        self.places = {-1.0: [], 1.0: []}
        self.seen = {-1.0: 0, 1.0: 0}

    def k(self, a: Floats, b: Floats) -> float:
        return float(np.exp(-np.sum((a - b) ** 2) / (2 * self.sigma**2)))

    def f(self, x: Floats) -> float:
        return sum(sv.coefficient * self.k(sv.x, x) for buffer in self.buffers.values() for sv in buffer)

    def misranked(self, x: Floats, y: float) -> list[SupportVector]:
        wrong = [sv for sv in self.places[-y] if 1 - y * (self.f(x) - self.f(sv.x)) > 0]
        return sorted(wrong, key=lambda sv: -self.k(sv.x, x))[: self.neighbours]

    def event(self, x: Floats, y: float) -> float:
        score = self.f(x)
        if np.isnan(y):
            return score
        chosen = self.misranked(x, y)
        for buffer in self.buffers.values():
            for sv in buffer:
                sv.coefficient *= 1 - self.eta
        for sv in chosen:
            sv.coefficient -= self.eta * self.C * y
        self.seen[y] += 1
        if chosen:
            self.keep(SupportVector(x, self.eta * self.C * y * len(chosen)), y)
        elif not self.buffers[y] or not self.buffers[-y]:
            self.keep(SupportVector(x, self.eta * self.C * y), y)
        return score

    def keep(self, new: SupportVector, y: float) -> None:
        buffer, places = self.buffers[y], self.places[y]
        if len(buffer) < self.budget:
            buffer.append(new)
            places.append(new)
            return
        dropped = new
        if self.fifo or self.draws.uniform() < self.budget / self.seen[y]:
            dropped = buffer[0] if self.fifo else places[self.draws.pick(self.budget)]
            place = next(i for i, sv in enumerate(places) if sv is dropped)
            places[place] = new
            self.buffers[y] = [sv for sv in buffer if sv is not dropped] + [new]
        if self.compensate:
            nearest = max(places, key=lambda sv: self.k(sv.x, dropped.x))
            nearest.coefficient += dropped.coefficient
