"""Questions for paper on lesson 03."""

from teaching.generate.paper.question import Question, question, row


@question
def q03_letters(r):
    right = wrong = None
    while right == wrong:  # a letter that the wrong view moves
        t, j = r.randrange(3), r.randrange(4)
        flat = t * 4 + j
        right, wrong = (j // 2 + 1, t + 1), (flat // 6 + 1, flat % 6 // 2 + 1)
    letter = "abc"[t] + str(j + 1)
    return Question(
        "Where the letters go",
        "Three tokens a, b, c with four features each (a1 … a4, "
        "and so on) are split for two heads. In which head, and "
        f"in which of its three rows, stands {letter} (a) when "
        "heads are split as they should be; (b) when one writes "
        "`x.reshape(2, 3, 2)` and no more? (c) All of token c changes. "
        "How many of the six rows change, and in which heads, in (a) "
        "and in (b)?",
        f"(a) head {right[0]}, row {right[1]}. (b) Number {flat + 1} "
        f"of twelve in memory: head {wrong[0]}, row {wrong[1]}. (c) Two "
        "rows both times; in (a) one in each head, in (b) both in head 2.",
        ((2, "right split"), (2, "memory order"), (2, "one in each head against both in one")),
        {"token": t, "feature": j},
        {"right": right, "wrong": wrong},
    )


@question
def q03_counts(r):
    h, d_k, n = r.choice([2, 4, 8]), r.choice([4, 8, 16]), r.choice([10, 50, 100])
    d = h * d_k
    return Question(
        "What heads cost",
        f"d<sub>model</sub> = {d}, {h} heads, {n} words, no biases. "
        "(a) How many parameters has the attention? (b) How many "
        f"attention weights are computed? (c) Both again for one head of size {d}.",
        f"(a) 4 · {d}² = {4 * d * d}. (b) {h} · {n}² = "
        f"{h * n * n}. (c) {4 * d * d}, the same, and {n * n}.",
        ((2, "4 d²"), (1, "h n²"), (2, "same parameters, fewer weights")),
        {"h": h, "d": d, "n": n},
        {"parameters": 4 * d * d, "weights": h * n * n, "one": n * n},
    )


@question
def q03_looks(r):
    a, b = r.sample(range(1, 10), 2)
    p, q = r.sample([0.25, 0.5, 0.75], 2)
    first, second = p * a + (1 - p) * b, q * a + (1 - q) * b
    return Question(
        "One look, two looks",
        "The giver hands over a number a, the receiver a number b. One look of the verb has the "
        f"shares {p} and {1 - p}, and brings {first}. (a) Name two pairs (a, b) that fit. "
        f"(b) A second look has the shares {q} and {1 - q}, and brings {second}. What are a and b? "
        "(c) Why would a second look with the shares of the first not help?",
        f"(a) All with {p} a + {1 - p} b = {first}, such as a = b = {first}, and a = {a}, b = {b}. "
        f"(b) a = {a}, b = {b}. (c) It brings the same equation again.",
        ((1, "two pairs"), (3, "both numbers"), (1, "the same equation")),
        {"shares": (p, q), "brought": (first, second)},
        {"a": a, "b": b},
    )


@question
def q03_messages(r):
    heads = [[r.randint(1, 3) for _ in range(2)] for _ in range(2)]
    w_o = [[r.randint(0, 2) for _ in range(3)] for _ in range(4)]
    messages = [
        [x * u + y * v for u, v in zip(*w_o[2 * i : 2 * i + 2], strict=True)]
        for i, (x, y) in enumerate(heads)
    ]
    output = [sum(entries) for entries in zip(*messages, strict=True)]
    return Question(
        "What each head says",
        f"For one word head 1 returns {row(heads[0])}, head 2 {row(heads[1])}. The rows of "
        f"W<sub>O</sub> are {', '.join(map(row, w_o))}. (a) What does each head add to the "
        "output? (b) The output? (c) Head 1 is silenced: which rows "
        "become zero, and what is the output now?",
        f"(a) {row(messages[0])} and {row(messages[1])}. (b) Their sum, {row(output)}. (c) The "
        f"first two; {row(messages[1])} is left.",
        ((2, "both messages"), (1, "their sum"), (2, "its rows, the other's message")),
        {"heads": heads, "w_o": w_o},
        {"first": messages[0], "second": messages[1], "output": output},
    )
