"""Questions for paper on lesson 15."""

from teaching.generate.paper.question import Question, number, question


@question
def q15_tokens(r):
    tokens = r.choice([(10, 30), (20, 60), (10, 40), (5, 20)])
    losses = r.sample([1, 2, 3, 4, 5], 2)
    both = sum(n * loss for n, loss in zip(tokens, losses, strict=True)) / sum(tokens)
    ratio = tokens[1] // tokens[0]
    return Question(
        "Two machines, one batch",
        f"Two machines share a batch. The first has {tokens[0]} real tokens with a mean loss of "
        f"{losses[0]}, the second {tokens[1]} with a mean loss of {losses[1]}. (a) The mean of the "
        "two means? (b) The mean loss per token? (c) In (a), how many times as much does a token "
        "of the first count? (d) Which one number must the machines tell each other before each "
        "can divide its own loss rightly?",
        f"(a) {number(sum(losses) / 2, 1)}. (b) {number(both)}. (c) {ratio} times. (d) Their "
        "numbers of tokens, or rather the sum of these.",
        ((1, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"tokens": tokens, "losses": losses},
        {"means": sum(losses) / 2, "per token": both, "ratio": ratio},
    )


@question
def q15_memory(r):
    size, machines = r.choice([1, 3, 7]), r.choice([2, 4, 8])
    return Question(
        "What a step keeps",
        f"A model of {size} · 10⁹ parameters is trained with Adam, in float32. (a) How many "
        "gigabytes (10⁹ bytes) are weights, gradients and the two moments together? (b) And in "
        "bfloat16, if the optimizer keeps its moments and a copy of the weights in float32? (c) "
        f"In float32 again, on {machines} machines of which each stores its part of all of this: "
        "how many gigabytes has each? (d) What is not counted here, and what makes it grow?",
        f"(a) {size} · 16 = {16 * size}. (b) {size} · (2 + 2 + 12): the same. (c) "
        f"{16 * size} / {machines} = {number(16 * size / machines, 1)}. (d) The activations; they "
        "grow with the tokens of a batch and with the layers.",
        ((2, "a"), (1, "b"), (1, "c"), (1, "d")),
        {"size": size, "machines": machines},
        {"all": 16 * size, "each": 16 * size / machines},
    )
