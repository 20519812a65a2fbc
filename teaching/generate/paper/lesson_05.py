"""Questions for paper on lesson 05."""

import math

from teaching.generate.paper.question import Question, number, question, row


@question
def q05_encoding(r):
    t = r.choice([1, 2, 3])
    pe = [math.sin(t), math.cos(t), math.sin(t / 100), math.cos(t / 100)]
    return Question(
        "A code on paper",
        f"d<sub>model</sub> = 4. (a) The two rates? (b) PE(0)? (c) PE({t}), "
        f"in radians, to three decimals; sin {t} = {number(pe[0])}, cos {t} = "
        f"{number(pe[1])}, and for small x, sin x ≈ x. (d) The length of PE(t), for any t?",
        "(a) 1 and 1/10000^(2/4) = 0.01. (b) [0, 1, 0, 1]. "
        f"(c) {row(pe)}. (d) sin² + cos² = 1 in each pair: √2.",
        ((1, "rates"), (1, "PE(0)"), (2, "PE(t)"), (1, "length")),
        {"t": t},
        {"pe": pe},
    )


@question
def q05_offset(r):
    a, step, c = r.randint(2, 9), r.randint(2, 9), r.randint(20, 90)
    d = r.choice([32, 64, 128, 512])
    return Question(
        "Offsets",
        f"(a) PE({a}) · PE({a + step}) = PE({c}) · PE(p). Which p above "
        f"{c}? Which p below? (b) PE(t) · PE(t) for d<sub>model</sub> = "
        f"{d}? (c) Is the *score* of a head, after W<sub>Q</sub> "
        "and W<sub>K</sub>, a function of the offset alone?",
        "(a) The product depends on the offset only, and is even in it: "
        f"{c + step} and {c - step}. (b) {d // 2}. (c) No, not for arbitrary "
        "matrices, and the words come in as well; rotary makes it so.",
        ((2, "both p"), (1, "d/2"), (2, "no, with a reason")),
        {"a": a, "step": step, "c": c, "d": d},
        {"above": c + step, "below": c - step, "norm": d // 2},
    )


@question
def q05_bag(r):
    t, v = r.randint(3, 9), r.choice([2, 3, 6])
    return Question(
        "A mask is a position",
        f"No positions. `<bos>` has the value {v}, all other words 0; all "
        f"scores are equal; causal mask. (a) What does the output at place {t} "
        "hold, counted from 0? (b) And without the mask, in a text "
        f"of {t + 3} tokens? (c) What follows for encoder and decoder?",
        f"(a) {v}/{t + 1}, the mean of {t + 1} values. (b) {v}/{t + 3} at every "
        "place. (c) A decoder can tell places apart without a code, an encoder "
        "cannot.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"t": t, "v": v},
        {"masked": v / (t + 1), "free": v / (t + 3)},
    )


@question
def q05_rotate(r):
    x, y = r.sample([-3, -2, -1, 1, 2, 3], 2)
    quarter = [(x, y), (-y, x), (-x, -y), (y, -x)]
    k = r.choice([1, 2, 3])
    return Question(
        "Turn instead of adding",
        f"One pair of features, [{number(x)}, {number(y)}], whose hand turns "
        "by a quarter (90°, anticlockwise, (a, b) → (−b, a)) in each step. "
        f"(a) The pair at position {k}? (b) A key with the same features stands "
        f"at position {k + 4}. What is the score q·k there, and why is it "
        "that of position 0 with itself? (c) Are values turned?",
        f"(a) {row(quarter[k % 4])}. (b) Four quarters are a full turn, so the "
        f"offset turns nothing: {x * x + y * y}. (c) No: where decides who is "
        "looked at, what is read stays the word.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"pair": (x, y), "k": k},
        {"turned": quarter[k % 4], "score": x * x + y * y},
    )
