"""`python -m benchmarks.lessons.l15_distance`: how far back five kinds of layer learn to look.

The task of the evidence of lesson 15, with its models: the answer lies `distance` places before the
question, behind a mark. Three seeds, four rates. First the mark always stands at one place,
the control. Then it moves over 9 places, so the answer lies up to 8 places further back: two
kinds, within what they see. A run ends when 95 % of the last 640 answers are right, or at the
limit: then it was stopped, and says nothing about more steps.
"""

from functools import cache, partial

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

DISTANCES, SEEDS, RATES, LIMIT = (4, 8, 16, 32, 64), (0, 1, 2), (1e-3, 3e-3, 1e-2, 3e-2), 300
MOVING = {16: ("attention", "convolution, dilated"), 32: ("attention", "convolution, dilated")}
MOVING_LIMIT, PLACES = 1500, 9
lesson = cache(partial(lesson_code, "15", "MIXERS", "steps_to_learn"))


def plan(smoke: bool) -> list[dict]:
    """Return the settings: all with the mark at one place, then those where it moves."""
    every = {distance: tuple(lesson()["MIXERS"]) for distance in DISTANCES}
    seeds, rates, limits = SEEDS, RATES, (LIMIT, MOVING_LIMIT)
    if smoke:
        every, seeds, rates, limits = {4: every[4]}, (0,), (1e-3,), (2, 2)
    moving = {4: every[4][:1]} if smoke else MOVING
    return [
        {"kind": kind, "distance": distance, "seed": seed, "rate": rate}
        | {"limit": limit, "places": places}
        for groups, limit, places in zip((every, moving), limits, (1, PLACES), strict=True)
        for distance, kinds in groups.items()
        for kind in kinds
        for seed in seeds
        for rate in rates
    ]


def run(kind: str, distance: int, seed: int, rate: float, limit: int, places: int) -> dict:
    """Train once; `learnt` says whether the answers were right before the limit."""
    steps, right = lesson()["steps_to_learn"](kind, distance, seed, rate, limit, places)
    return {"steps": steps, "right": round(right, 3), "learnt": right >= 0.95}


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l15_distance.json does not have yet."""
    measure_rows("l15_distance", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
