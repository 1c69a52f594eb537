"""The random generator of learners that draw while they learn: its whole state is one integer per model, so it is part of a checkpoint."""

from streamlearn.features.compiled import Array, lean

MODULUS = 2147483647  # 2^31 - 1


def initial_state(seed: int) -> int:
    """A valid start, 1 .. MODULUS - 1, for any seed; different seeds below 2^31 - 2 give different starts."""
    return 1 + (seed * 48271 + 12344) % (MODULUS - 1)


@lean
def uniform(state: Array, slot: int) -> float:
    """Advance state[slot] (int64) and return a draw in (0, 1): the minimal standard generator of Park and Miller (1988)."""
    state[slot] = 16807 * state[slot] % MODULUS
    return float(state[slot] / MODULUS)


@lean
def pick(state: Array, slot: int, count: int) -> int:
    """An index below count."""
    return int(count * uniform(state, slot))
