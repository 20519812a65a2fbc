"""Questions for paper on lesson 09."""

from teaching.generate.paper.question import Question, number, question, row


@question
def q09_tree(r):
    while True:
        first = r.choice([0.55, 0.6, 0.65])
        a = r.choice([0.4, 0.45, 0.55, 0.6])
        b = r.choice([0.8, 0.9, 0.95])
        greedy, other = first * max(a, 1 - a), (1 - first) * b
        if other > greedy + 0.01:
            break
    rest = 1 - first
    return Question(
        "Greedy and a beam",
        f"Every sentence has two words. The first is *the* ({first:g}) or *a* ({rest:g}). "
        f"After *the* comes *cat* ({a:g}) or *dog* ({1 - a:g}), after *a* comes "
        f"*bird* ({b:g}) or *fish* ({1 - b:g}). (a) Which sentence does greedy write, "
        "and with which probability? (b) Which is the most probable? (c) What does a beam of two "
        "hold after each step? (d) At which step does "
        "greedy make its mistake, and could it have seen it?",
        f"(a) *the {'cat' if a >= 0.5 else 'dog'}*, {number(greedy)}. (b) "
        f"*a bird*, {number(other)}. (c) *the*, *a*; then *a bird* and *the "
        f"{'cat' if a >= 0.5 else 'dog'}*. (d) At the first, "
        "where *the* was the better word: not to be seen there.",
        ((1, "a"), (1, "b"), (2, "c"), (2, "d")),
        {"first": first, "a": a, "b": b},
        {"greedy": greedy, "best": other},
    )


@question
def q09_cache(r):
    n, N, d = r.choice([8, 10, 12, 20]), r.choice([2, 6, 12]), r.choice([128, 256, 512])
    return Question(
        "What a cache saves and costs",
        f"{n} tokens are written one after the other. (a) How many tokens go through the "
        f"decoder without a cache, and with one? (b) {N} layers, d<sub>model</sub> = "
        f"{d}, two bytes a number: how many bytes does a cache keep for each target token "
        "(self-attention)? (c) Why does it need no causal "
        "mask? (d) What must it know that the shape of its input "
        "does not say?",
        f"(a) 1 + 2 + … + {n} = {n * (n + 1) // 2}, and {n}. (b) 2 · {N} · {d} "
        f"· 2 = {4 * N * d}. (c) It holds the past and nothing else. (d) The "
        "position of the newest token.",
        ((2, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"n": n, "N": N, "d": d},
        {"without": n * (n + 1) // 2, "bytes": 4 * N * d},
    )


@question
def q09_chance(r):
    chances = r.choice(
        [[0.5, 0.3, 0.1, 0.06, 0.04], [0.4, 0.3, 0.15, 0.1, 0.05], [0.6, 0.2, 0.1, 0.07, 0.03]]
    )
    p, T = r.choice([0.65, 0.75, 0.88, 0.93]), 0.5
    kept, total = 0, 0.0
    while total < p - 1e-9:
        total, kept = total + chances[kept], kept + 1
    cold = chances[0] ** 2 / sum(c * c for c in chances)
    return Question(
        "Chance",
        f"The chances of the next token are {row(chances, 2)}. (a) How many "
        f"tokens does top-p with p = {p:g} keep? (b) Which chance has the first "
        f"of them then? (c) And, without a cut, at temperature {T:g}? "
        "(d) Why does it matter whether one cuts before or after dividing by the temperature?",
        f"(a) {kept}: the token that crosses the line belongs to the set. (b) "
        f"{chances[0]:g}/{total:g} = {number(chances[0] / total)}. (c) Squares, renormalised: "
        f"{number(cold)}. (d) Temperature changes which tokens reach "
        "p together; hot, the tail is heavy and more of it stays.",
        ((2, "a"), (1, "b"), (2, "c"), (1, "d")),
        {"chances": chances, "p": p, "T": T},
        {"kept": kept, "first": chances[0] / total, "cold": cold},
    )


@question
def q09_penalty(r):
    short, long = r.choice([1, 7]), r.choice([13, 19])
    log_short, log_long = -r.choice([3, 4]), -r.choice([5, 7])  # no two scores are equal
    scores = [log_short / ((5 + short) / 6), log_long / ((5 + long) / 6)]
    better = "first" if scores[0] > scores[1] else "second"
    return Question(
        "Lengths",
        f"Two finished hypotheses: log P = {number(log_short)} with n = {short}, log P "
        f"= {number(log_long)} with n = {long}; the penalty is ((5 + n) / 6)^α. (a) Which wins "
        "with α = 0? (b) Their scores with α = 1, and who "
        "wins? (c) Somebody *multiplies* by the penalty. What is "
        "preferred then? (d) May an unfinished prefix with log P = −1 win?",
        f"(a) The first. (b) Divisors {(5 + short) // 6} and {(5 + long) // 6}: "
        f"{number(scores[0])} and {number(scores[1])}; the {better}. (c) Short "
        "sentences, more than without any penalty. (d) No: the probability "
        "of a prefix is shared by all sentences that begin with it.",
        ((1, "a"), (2, "b"), (1, "c"), (2, "d")),
        {"n": (short, long), "log_p": (log_short, log_long)},
        {"scores": scores},
    )
