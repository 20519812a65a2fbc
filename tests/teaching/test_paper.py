"""Every number of the examination and the worksheets, computed once more by other means.

The questions compute with plain Python; here PyTorch, the package and the solutions do.
"""

import itertools
import math
import re
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import transformer_lab as lab
from course import lessons as course
from teaching.generate import bugs, paper

sys.path.insert(0, str(course.ROOT / "tests" / "answers"))
from catalogue import solutions

SEEDS = range(6)


def tensor(x):
    return torch.tensor(x, dtype=torch.float64)


def of_lesson(number, name):
    (stem,) = (t[0].lesson for n, t in course.tasks().items() if n == number)
    return solutions(stem)[name]


def q01_context(g):
    log = tensor(g["exps"]).log()
    values = tensor(g["values"])
    pads = torch.zeros(2, dtype=torch.float64)
    return {
        "context": log.softmax(0) @ values,
        "padded": torch.cat([log, pads]).softmax(0) @ torch.cat([values, pads]),
    }


def q01_lead(g):
    lead = tensor([[0.0]])
    return {
        "lead": bisect(lambda x: math.exp(x) / (math.exp(x) + g["others"]), g["share"] / 100) + lead
    }


def bisect(f, wanted, low=0.0, high=20.0):
    """Return where an increasing function takes a value."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < wanted else (low, middle)
    return low


def q01_waiting(g):
    n = g["places"]
    recurrent = [None] + [1] * n
    return {"steps": [len(recurrent) - 1, len(recurrent), 1, n]}


def q01_additive(g):
    keys, values = tensor(g["keys"]), tensor(g["values"])
    context = lambda v: (v * torch.tanh(g["q"] + keys)).softmax(0) @ values  # noqa: E731
    bare = [(1000 * (q + keys)).softmax(0) for q in (-3.0, 2.0)]
    torch.testing.assert_close(*bare)
    return {"mean": context(0), "best": context(1000)}


def q02_one_query(g):
    query, keys, values = (tensor(g[name]) for name in ("query", "keys", "values"))
    output, weights = lab.scaled_dot_product_attention(query[None], keys, values)
    return {"weights": weights[0], "output": output[0]}


def q02_root(g):
    d = g["d_k"]
    chances = np.array([1.0])
    for _ in range(d):  # the distribution of a sum of ±1, convolved d times
        chances = np.convolve(chances, [0.5, 0, 0.5])
    variance = chances @ np.arange(-d, d + 1) ** 2.0
    return {
        "variance": variance,
        "deviation": variance**0.5,
        "scaled": (variance / d) ** 0.5,
        "by_d": (variance / d**2) ** 0.5,
    }


def q02_temperature(g):
    share = g["ratio"] / (1 + g["ratio"])
    inverse = bisect(lambda x: tensor([g["gap"] * x, 0]).softmax(0)[0].item(), share)
    return {"T": 1 / inverse}


def q02_softmax_backward(g):
    scores = tensor(g["w"]).log().requires_grad_()
    (scores.softmax(0) @ tensor(g["dw"])).backward()
    return {"ds": scores.grad}


def q03_letters(g):
    x = torch.arange(12).view(1, 3, 4)
    wanted = g["token"] * 4 + g["feature"]
    places = [lab.attention.split_heads(x.double(), 2)[0], x.reshape(2, 3, 2)]
    found = [tuple((place == wanted).nonzero()[0, :2].add(1).tolist()) for place in places]
    for place in places:  # token c changes
        assert (place >= 8).any(-1).sum() == 2
    assert [(place >= 8).any(-1).sum(1).tolist() for place in places] == [[1, 1], [0, 2]]
    return {"right": found[0], "wrong": found[1]}


def q03_counts(g):
    attention = lab.MultiHeadAttention(g["d"], g["h"])
    x = lab.attention.split_heads(torch.zeros(1, g["n"], g["d"]), g["h"])
    _, weights = lab.scaled_dot_product_attention(x, x, x)
    count = of_lesson("03", "count_parameters")(g["d"], g["h"])
    assert count == of_lesson("03", "count_parameters")(g["d"], 1)
    assert count == sum(p.numel() for n, p in attention.named_parameters() if "bias" not in n)
    return {"parameters": count, "weights": weights.numel(), "one": weights[0, 0].numel()}


def q03_looks(g):
    shares = np.array([[p, 1 - p] for p in g["shares"]])
    a, b = np.linalg.solve(shares, g["brought"])
    return {"a": a, "b": b}


def q03_messages(g):
    blocks = tensor(g["w_o"]).split(2)
    pairs = zip(g["heads"], blocks, strict=True)
    first, second = ((tensor(head) @ block).tolist() for head, block in pairs)
    output = tensor(g["heads"]).flatten() @ tensor(g["w_o"])
    return {"first": first, "second": second, "output": output}


def q04_three_ways(g):
    scores = tensor(g["exps"]).log()
    allowed = torch.tensor([True, True, False])
    zero = scores.clone()
    zero[2] = 0
    return {
        "minus_infinity": scores.masked_fill(~allowed, -math.inf).softmax(0)[1],
        "zeroed": (scores.softmax(0) * allowed).sum(),
        "score_zero": zero.softmax(0)[2],
    }


def q04_pairs(g):
    tokens = torch.tensor([[5] * g["real"] + [lab.PAD] * (g["length"] - g["real"])])
    causal, padding = lab.causal_mask(g["length"]), lab.padding_mask(tokens)
    both = (causal & padding)[0, 0]
    assert torch.equal(both[: g["real"]], causal[: g["real"]])
    return {
        "causal": causal.sum(),
        "padding": padding.expand(1, 1, g["length"], -1).sum(),
        "both": both.sum(),
    }


def q04_share(g):
    scores = torch.cat([tensor(g["exps"]).log(), torch.zeros(g["pads"], dtype=torch.float64)])
    share = scores.softmax(0)[3:].sum()
    return {"share": share, "factor": 1 - share}


def q04_rows(g):
    scores, ones = torch.zeros(g["n"], g["n"]), torch.ones(g["n"], g["n"], dtype=torch.bool)
    weights = lambda k: scores.masked_fill(~ones.tril(k), -1e9).softmax(-1)  # noqa: E731
    row = g["row"] - 1
    return {"causal": weights(0)[row, 0], "one_off": weights(1)[row, 0], "empty": weights(-1)[0, 0]}


def q05_encoding(g):
    return {"pe": lab.sinusoidal_encoding(g["t"] + 1, 4)[g["t"]].double()}


def q05_offset(g):
    pe = lab.sinusoidal_encoding(200, g["d"]).double()
    wanted = pe[g["a"]] @ pe[g["a"] + g["step"]]
    for place in (g["c"] + g["step"], g["c"] - g["step"]):
        torch.testing.assert_close(pe[g["c"]] @ pe[place], wanted, atol=1e-4, rtol=0)
    return {
        "above": g["c"] + g["step"],
        "below": g["c"] - g["step"],
        "norm": pe[g["c"]] @ pe[g["c"]],
    }


def q05_bag(g):
    n = g["t"] + 3
    value = torch.zeros(n, 1)
    value[0] = g["v"]
    x, mask = torch.zeros(n, 4), lab.causal_mask(n)
    masked, _ = lab.scaled_dot_product_attention(x, x, value, mask)
    free, _ = lab.scaled_dot_product_attention(x, x, value)
    return {"masked": masked[g["t"], 0], "free": free[g["t"], 0]}


def q05_rotate(g):
    place = complex(*g["pair"])
    at = lambda t: place * 1j**t  # noqa: E731
    score = (at(g["k"]) * at(g["k"] + 4).conjugate()).real
    assert score == (at(0) * at(0).conjugate()).real
    return {"turned": (at(g["k"]).real, at(g["k"]).imag), "score": score}


def q06_layer_norm(g):
    x, weight = tensor(g["x"]), tensor([g["gamma"]] * 4)
    norm = lambda x: F.layer_norm(x, (4,), weight, tensor([g["beta"]] * 4), eps=0)  # noqa: E731
    torch.testing.assert_close(norm(10 * x), norm(x))
    torch.testing.assert_close(norm(x + 1000), norm(x))
    return {"y": norm(x)}


def q06_ffn(g):
    hidden = F.relu(F.linear(tensor(g["x"]), tensor(g["W1"]).T, tensor(g["b1"])))
    return {"hidden": hidden, "y": F.linear(hidden, tensor(g["W2"]).T)}


def q06_collapse(g):
    p = g["p"]
    A, x = tensor([[p, 1 - p], [1 - p, p]]), tensor([0.0, 1.0])
    once, often, more = A @ x, torch.linalg.matrix_power(A, g["n"]) @ x, x + A @ x
    return {
        "one": once[1] - once[0],
        "left": often[1] - often[0],
        "residual": more[1] - more[0],
        "sum": more.sum(),
    }


def q06_slopes(g):
    def slope(step):
        x = tensor(1.0).requires_grad_()
        y = x
        for _ in range(g["n"]):
            y = step(y)
        y.backward()
        return x.grad

    return {"plain": slope(lambda y: g["s"] * y), "residual": slope(lambda y: y + g["s"] * y)}


def q07_merges(g):
    return {"merges": of_lesson("07", "learn_bpe")(g["counts"], 3)}


def q07_count(g):
    config = lab.ModelConfig(
        source_vocab_size=g["V"], target_vocab_size=g["V"], d_model=g["d"], num_heads=4,
        d_ff=g["d_ff"], num_encoder_layers=g["N"], num_decoder_layers=g["N"], max_length=8,
        tie_embeddings=True,
    )  # fmt: skip
    model = lab.Transformer(config)
    kinds = Counter()
    for name, module in model.named_modules():
        size = sum(p.numel() for p in module.parameters(recurse=False))
        if isinstance(module, torch.nn.LayerNorm):
            kinds["norms"] += size
        elif isinstance(module, torch.nn.Linear) and "generator" not in name:
            kinds["attention" if "attention" in name else "network"] += size
    kinds["table"] = model.generator.weight.numel()
    assert sum(kinds.values()) == sum(p.numel() for p in model.parameters())
    return dict(kinds)


def q07_shapes(g):
    d = g["h"] * g["d_k"]
    model = lab.Transformer(lab.ModelConfig(
        source_vocab_size=g["V"], target_vocab_size=g["V"], d_model=d, num_heads=g["h"], d_ff=8,
        num_encoder_layers=1, num_decoder_layers=1, max_length=16,
    )).eval()  # fmt: skip
    source, target = (torch.randint(4, g["V"], (g["B"], g[side])) for side in ("Ls", "Lt"))
    memory, mask = model.encode(source)
    logits = model(source, target)
    other = target.clone()
    other[:, 2] = 4 + (other[:, 2] - 3) % (g["V"] - 4)
    moved = (model(source, other) != logits).any(-1)[0].sum()
    B, h = g["B"], g["h"]
    shapes = [memory.shape, mask.shape, (B, h, g["Lt"], g["Ls"]), (B, h, g["Lt"], g["Lt"])]
    return {"shapes": [tuple(s) for s in (*shapes, logits.shape)], "moved": moved}


def q07_twice(g):
    probabilities = torch.zeros(1, g["V"], dtype=torch.float64)
    probabilities[0, 2] = 1
    position = lab.sinusoidal_encoding(9, g["d"])[5]
    return {
        "loss": F.cross_entropy(probabilities, torch.tensor([2])),
        "word": g["d"] ** 0.5 * (g["d"] * (1 / g["d"])) ** 0.5,
        "position": position.norm(),
    }


def q08_loss(g):
    chances = tensor([2.0**-p for p in g["powers"]] + [0.5] * g["pads"])
    bits = -chances.log2()
    return {
        "right": bits[:3].mean(),
        "pads_counted": bits.mean(),
        "pads_in_divisor": bits[:3].sum() / len(bits),
    }


def q08_mean_of_means(g):
    parts = [tensor([float(g["a"])] * g["short"]), tensor([float(g["b"])] * g["long"])]
    weigh = [1 / 2 / len(part) for part in parts]
    return {
        "means": torch.stack([part.mean() for part in parts]).mean(),
        "tokens": torch.cat(parts).mean(),
        "ratio": weigh[0] / weigh[1],
    }


def q08_smoothing(g):
    q = torch.full((g["V"],), g["eps"] / g["V"], dtype=torch.float64)
    q[0] += 1 - g["eps"]
    floor = F.cross_entropy(q.log()[None], torch.tensor([0]), label_smoothing=g["eps"])
    return {"high": q[0], "low": q[1], "floor": floor}


def q08_rate(g):
    rate = of_lesson("08", "noam_rate")
    wanted = rate(g["half"], 512, g["warmup"])
    after = next(
        step
        for step in range(g["warmup"] + 1, 10**6)
        if rate(step, 512, g["warmup"]) <= wanted + 1e-15
    )
    lengths = g["lengths"]
    batches = of_lesson("08", "batches_by_tokens")(lengths, 12)
    places = sum(len(b) * max(lengths[i] for i in b) for b in batches)
    filled = sorted(sorted(lengths[i] for i in batch) for batch in batches)
    return {"after": after, "batches": filled, "padding": places - sum(lengths)}


def q09_tree(g):
    first = {"the": g["first"], "a": 1 - g["first"]}
    second = {"the": (g["a"], 1 - g["a"]), "a": (g["b"], 1 - g["b"])}
    greedy = max(first, key=first.get)
    every = {w: first[w] * max(second[w]) for w in first}
    assert max(every, key=every.get) == "a" != greedy
    return {"greedy": every[greedy], "best": every["a"]}


def q09_cache(g):
    read = sum(len(range(n)) for n in range(1, g["n"] + 1))
    kept = torch.zeros(2, g["N"], g["d"], dtype=torch.bfloat16)  # keys and values of a token
    return {"without": read, "bytes": kept.numel() * kept.element_size()}


def q09_chance(g):
    logits = tensor(g["chances"]).log()
    # The float just below p: sums such as 0.4 + 0.3 + 0.15 must reach 0.85 here as on paper.
    kept = of_lesson("09", "keep_top_p")(logits[None].float(), g["p"] - 1e-6)[0]
    return {
        "kept": kept.isfinite().sum(),
        "first": kept.softmax(0)[0],
        "cold": (logits / g["T"]).softmax(0)[0],
    }


def q09_penalty(g):
    pairs = zip(g["log_p"], g["n"], strict=True)
    return {"scores": [log_p / ((5 + n) / 6) ** 1.0 for log_p, n in pairs]}


def q10_bleu(g):
    from sacrebleu.metrics import BLEU

    found = BLEU(tokenize="none", effective_order=True).corpus_score(
        [g["hypothesis"]], [[g["reference"]]]
    )
    return {"matches": found.counts[:2], "totals": found.totals[:2]}


def q11_entropy(g):
    entropy = lambda k: torch.distributions.Categorical(torch.ones(k)).entropy()  # noqa: E731
    return {"uniform": entropy(g["n"]), "some": entropy(g["k"])}


def q11_other_weights(g):
    values = tensor(g["values"])
    rows = tensor([[1 / 3] * 3, [0.5, 0, 0.5], [0, 1, 0]]) @ values
    torch.testing.assert_close(rows, rows[:1].expand(3))
    return {"output": rows[0]}


def q12_prefix(g):
    mask = torch.ones(g["length"], g["length"], dtype=torch.bool).tril()
    causal = mask.sum().item()
    mask[: g["prefix"], : g["prefix"]] = True
    return {"allowed": mask.sum(), "causal": causal}


def q12_patches(g):
    side, p = g["side"], g["patch"]
    picture = torch.arange(side * side).view(1, 1, side, side).double()
    patches = F.unfold(picture.expand(1, g["channels"], side, side), p, stride=p)[0].T
    (index,) = {row.item() for row, _ in (patches == p * side).nonzero()}
    return {"count": patches.shape[0], "size": patches.shape[1], "index": index}


def q13_groups(g):
    heads = torch.arange(g["G"]).repeat_interleave(g["H"] // g["G"])
    cache = lambda heads: 2 * heads * g["d"] * g["n"]  # noqa: E731
    return {"group": heads[g["asked"]], "shared": cache(g["G"]), "all": cache(g["H"])}


def q13_rms(g):
    return {"y": F.rms_norm(tensor(g["x"]), (len(g["x"]),), eps=0)}


def q13_online(g):
    scores, values = tensor(g["scores"]) * math.log(2), tensor(g["values"])

    def sums(count):
        power = (scores[:count] - scores[:count].max()).exp()
        return torch.stack([power.sum(), power @ values[:count]])

    return {"kept": sums(2), "sums": sums(3), "output": scores.softmax(0) @ values}


def q14_budget(g):
    times = lambda x: 6 * g["parameters"] * x * g["tokens"] * x  # noqa: E731
    return {"cost": times(1), "factor": bisect(times, g["times"] * times(1))}


def q14_balance(g):
    chances = tensor(g["chances"]) / 10
    chosen = chances.argmax(-1)
    return {
        "shares": F.one_hot(chosen, 3).double().mean(0),
        "means": chances.mean(0),
        "loss": of_lesson("14", "balance_loss")(chances, chosen),
    }


def q15_tokens(g):
    tokens, losses = g["tokens"], tensor(g["losses"])
    every = losses.repeat_interleave(torch.tensor(tokens))
    weight = [0.5 / count for count in tokens]
    return {
        "means": losses.mean(),
        "per token": every.mean(),
        "ratio": tensor(weight[0] / weight[1]),
    }


def q15_memory(g):
    sizes = of_lesson("15", "memory_of_a_step")(g["size"], 1, 1, 1, 0)
    return {"all": sum(sizes.values()), "each": tensor(sum(sizes.values())) / g["machines"]}


@pytest.mark.parametrize("name", paper.names())
def test_a_question_on_paper_has_the_right_numbers(name):
    for seed in SEEDS:
        question = paper.make(name, seed)
        again = globals()[f"q{name}"](question.given)
        assert again.keys() == question.numbers.keys()
        for key, value in question.numbers.items():
            if isinstance(value, list | tuple) and not isinstance(value[0], int | float):
                assert list(again[key]) == list(value), key
            else:
                ours, theirs = (torch.as_tensor(v).double().squeeze() for v in (value, again[key]))
                torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def printed(text):
    """Return the numbers in a text, each with half a unit of its last digit; fractions too."""
    text = text.replace("−", "-")
    for a, b in re.findall(r"(?<![\d.])(-?\d+)/(\d+)", text):
        yield int(a) / int(b), 1e-9
    for whole, digits in re.findall(r"(-?\d+)(?:\.(\d+))?", text):
        yield float(f"{whole}.{digits or 0}"), 0.5001 * 10 ** -len(digits)


@pytest.mark.parametrize("name", paper.names())
def test_the_key_prints_what_was_computed(name):
    for seed in SEEDS:
        question = paper.make(name, seed)
        shown = list(printed(question.answer))
        for value in question.numbers.values():
            for v in value if isinstance(value, list | tuple) else [value]:
                if isinstance(v, float):
                    assert any(abs(v - s) <= unit for s, unit in shown), (v, question.answer)


# ---- which bug made this table?


def rows_of(question):
    lines = question.numbers["table"].split("\n")[2:]
    return tensor([[float(x) for x in re.findall(r"-?\d+\.\d+", line)] for line in lines])


def wrong_tables(g, name):
    """The table of a bug, computed by other means; None where it is drawn by chance."""
    if "scores" in g:
        scores = torch.tensor(g["scores"])
        ones = torch.ones(4, 4, dtype=torch.bool)
        masked = lambda allowed: scores.masked_fill(~allowed, -math.inf).softmax(1)  # noqa: E731
        pads = torch.tensor([True, True, True, False])
    if "x" in g:
        x = torch.tensor(g["x"])
    if "steps" in g:
        d = g.get("d", 4)
        pe = lab.sinusoidal_encoding(g["steps"], d).double()
    return {
        "over_queries": lambda: scores.softmax(0),
        "scaled_after": lambda: (2 * scores).softmax(1) / math.sqrt(4),
        "not_divided": lambda: scores.exp(),
        "causal_encoder": lambda: masked(lab.causal_mask(4)),
        "transposed_mask": lambda: masked(lab.causal_mask(4).T),
        "one_off": lambda: masked(ones.tril(1)),
        "not_renormalised": lambda: scores.softmax(1) * pads,
        "score_zero": lambda: (scores * pads).softmax(1),
        "masked_queries": lambda: scores.masked_fill(~pads[:, None], -1e9).softmax(1),
        "wrong_norm": lambda: F.layer_norm(x.T, (4,), eps=0).T,
        "not_centred": lambda: x / (x.var(1, correction=0) ** 0.5)[:, None],
        "position_zero": lambda: (pe - pe[0]).abs().amax(1, keepdim=True),
        "cosine_missing": lambda: pe[g["first"] :, ::2].repeat_interleave(2, 1),
    }.get(name, lambda: None)()  # fmt: skip


@pytest.mark.parametrize("name", bugs.names())
def test_a_table_is_that_of_its_bug_and_of_no_other(name):
    for seed in range(20):
        question = bugs.make(name, seed)
        shown = rows_of(question)
        wrong = wrong_tables(question.given, name)
        if wrong is not None:
            torch.testing.assert_close(shown, wrong, atol=6e-4, rtol=0)
        if "scores" in question.given:
            sums = shown.sum(1)
            rows = {"causal_encoder", "transposed_mask", "one_off", "score_zero", "masked_queries"}
            assert (name in rows) == torch.allclose(sums, torch.ones_like(sums), atol=3e-3)


def test_each_table_shows_what_the_key_says():
    for seed in range(20):
        shown = {name: rows_of(bugs.make(name, seed)) for name in bugs.names()}
        sums = {name: x.sum(1) for name, x in shown.items()}
        close = lambda x, value: bool(((x - value).abs() < 3e-3).all())  # noqa: E731
        assert close(shown["over_queries"].sum(0), 1) and close(sums["scaled_after"], 0.5)
        assert shown["not_divided"].max() > 1 and sums["not_divided"].std() > 0.1
        dropped = shown["dropout_on"] == 0
        assert dropped.sum(1).tolist().count(0) == 1 and dropped.sum() == 3
        assert close(sums["dropout_on"][~dropped.any(1)], 4 / 3)
        assert shown["causal_encoder"].triu(1).sum() == 0
        assert shown["transposed_mask"][3].tolist() == [0, 0, 0, 1]
        assert shown["one_off"].triu(2).sum() == 0 < shown["one_off"].diagonal(1).min()
        assert shown["not_renormalised"][:, 3].sum() == 0 < shown["score_zero"][:, 3].min()
        assert close(shown["masked_queries"][3], 0.25) and shown["masked_queries"][:3, 3].min() > 0
        wrong, centred = shown["wrong_norm"], shown["not_centred"]
        assert wrong.mean(0).abs().max() < 2e-3 < wrong.mean(1).abs().max()
        assert close(centred.std(1, correction=0), 1) and centred.mean(1).min() > 0.5
        assert shown["position_zero"][0] == 0 < shown["position_zero"][1:].min()
        assert torch.equal(shown["cosine_missing"][:, ::2], shown["cosine_missing"][:, 1::2])
        assert shown["network_mixes"].min() > 0


# ---- what a student can compute without a computer


def flat(values):
    for value in values:
        yield from flat(value) if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("name", paper.names())
def test_no_number_on_paper_needs_a_computer(name):
    for seed in SEEDS:
        question = paper.make(name, seed)
        floats = [v for v in flat(question.numbers.values()) if isinstance(v, float)]
        odd = [v for v in floats if abs(Fraction(v).limit_denominator(10**4) - Fraction(v)) > 1e-10]
        if odd and "decimals" in question.text:
            shown = [s for s, unit in printed(question.text) if unit > 1e-8]
            assert any(abs(v - s) < 6e-4 for v in odd for s in shown), "the values are not given"
        elif odd:
            assert re.search(r"ln|√|\^", question.answer), "the key has no exact form"


# ---- no part has the answer of another by chance


def parts(answer):
    """The numbers in each part of a key, as they are written last."""
    starts, at = [], 0
    for letter in "abcdefg":
        if (at := answer.find(f"({letter})", at)) < 0:
            break
        starts.append(at)
    for start, end in itertools.pairwise([*starts, len(answer)]):
        *_, last = answer[start + 3 : end].rstrip("., ;").split("=")
        yield re.findall(r"−?\d+(?:[./]\d+)?", last) or last


@pytest.mark.parametrize("name", paper.names())
def test_two_parts_have_the_same_answer_always_or_never(name):
    same = Counter()
    for seed in range(400):
        for (i, a), (j, b) in itertools.combinations(
            enumerate(parts(paper.make(name, seed).answer)), 2
        ):
            same[i, j] += a == b
    assert not {pair: n for pair, n in same.items() if 0 < n < 400}
