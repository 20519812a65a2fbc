"""Questions for paper on lesson 14."""

from teaching.generate.paper.question import Question, number, question, row


@question
def q14_budget(r):
    n, d, k = r.choice([1, 2, 3]), r.choice([20, 30, 40]), r.choice([2, 3, 5])
    cost = 6 * n * d  # in 10^18
    return Question(
        "Six operations",
        f"A model of {n} · 10⁹ parameters reads {d} · 10⁹ tokens. (a) How many operations does "
        "the training take, by the rule of thumb? (b) Where does the 6 come from? (c) A budget is "
        f"{k * k} times as large, and parameters and tokens grow alike: by which factor? (d) "
        "What does *compute-optimal* leave out of account?",
        f"(a) 6 · {n} · {d} · 10¹⁸ = {cost} · 10¹⁸. (b) A multiplication and an addition for each "
        f"weight and token, forward once, backward twice. (c) √{k * k} = {k}. (d) Writing with the "
        "model afterwards: a smaller one, trained for longer, is cheaper in use.",
        ((1, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"parameters": n, "tokens": d, "times": k * k},
        {"cost": cost, "factor": k},
    )


@question
def q14_balance(r):
    chances = [
        r.sample(shares, 3)
        for shares in r.choices([(6, 3, 1), (7, 2, 1), (5, 4, 1), (8, 1, 1)], k=4)
    ]
    chosen = [each.index(max(each)) for each in chances]
    shares = [chosen.count(e) / 4 for e in range(3)]
    means = [sum(each[e] for each in chances) / 40 for e in range(3)]
    loss = 3 * sum(s * m for s, m in zip(shares, means, strict=True))
    shown = "; ".join(row([c / 10 for c in each], 1) for each in chances)
    return Question(
        "A router",
        f"A router gives four tokens these probabilities of three experts: {shown}. Each token "
        "goes to its most probable expert. (a) The share of the tokens for each expert? (b) The "
        "mean probability of each? (c) The balance loss E · Σ share · mean probability? (d) Its "
        "value if all is even? (e) The gate is left out. What happens to the router?",
        f"(a) {row(shares, 2)}. (b) {row(means)}. (c) {number(loss)}. (d) 1. (e) The model's loss "
        "has no gradient for it any more: it follows the balance loss alone, or learns nothing.",
        ((1, "a"), (1, "b"), (1, "c"), (1, "d"), (1, "e")),
        {"chances": chances},
        {"shares": shares, "means": means, "loss": loss},
    )
