"""`python -m benchmarks.lessons.distance`: how far back five kinds of layer learn to look.

The task of lesson 13, section 1, with its models: the answer lies `distance` places before the
question, behind a mark. Three seeds. First the mark always stands at one place, the control: each
kind has the rate, of two, that learns distance 8 in fewer steps. Then it moves over 9 places, so
the answer lies up to 8 places further back: two kinds, within what they see, three rates each. A
run ends when 95 % of the last 640 answers are right, or at the limit: then it was stopped, and
says nothing about more steps.
"""

from functools import cache, partial

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.resumed import measure_rows

DISTANCES, SEEDS, RATES, LIMIT = (4, 8, 16, 32, 64), (0, 1, 2), (1e-3, 3e-3), 300
MOVING = {16: ("attention", "convolution, dilated"), 32: ("attention", "convolution, dilated")}
MOVING_RATES, MOVING_LIMIT, PLACES = (1e-3, 3e-3, 1e-2), 1500, 9
lesson = cache(partial(lesson_code, "13", "MIXERS", "steps_to_learn"))


def plan(smoke: bool) -> list[dict]:
    """Return the settings: all with the mark at one place, then those where it moves."""
    if smoke:
        rows = [{"kind": kind, "distance": 4, "seed": 0, "limit": 2} for kind in lesson()["MIXERS"]]
        return [*rows, rows[0] | {"places": PLACES, "rate": 1e-3}]
    one_place = [
        {"kind": kind, "distance": distance, "seed": seed, "limit": LIMIT}
        for distance in DISTANCES
        for kind in lesson()["MIXERS"]
        for seed in SEEDS
    ]
    moving = {"limit": MOVING_LIMIT, "places": PLACES}
    return one_place + [
        {"kind": kind, "distance": distance, "seed": seed, "rate": rate} | moving
        for distance, kinds in MOVING.items()
        for kind in kinds
        for seed in SEEDS
        for rate in MOVING_RATES
    ]


@cache
def best_rate(kind: str, limit: int) -> float:
    """Return the rate with which this kind learns distance 8 in the fewest steps."""
    steps = {rate: lesson()["steps_to_learn"](kind, 8, 0, rate, limit) for rate in RATES}
    return min(steps, key=lambda rate: (steps[rate][0], -steps[rate][1]))


def run(
    kind: str, distance: int, seed: int, limit: int, places: int = 1, rate: float | None = None
) -> dict:
    """Train once; `learnt` says whether the answers were right before the limit."""
    rate = rate or best_rate(kind, limit)
    steps, right = lesson()["steps_to_learn"](kind, distance, seed, rate, limit, places)
    result = {"rate": rate, "steps": steps, "right": round(right, 3), "learnt": right >= 0.95}
    return result | {"places": places}


def main(arguments: list[str] | None = None) -> None:
    """Train everything that distance.json does not have yet."""
    measure_rows("distance", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
