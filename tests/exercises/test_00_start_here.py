"""The check of lesson 00's tiny exercise. A mistake's text ends "This is the answer when …"."""

from course.checking import expect

TRUTHS = ["02-15", "03-03", "01-10", "09-26", "04-07"]
# Three are right; of the other two, each is the truth of the other.
PREDICTIONS = ["02-15", "01-10", "03-03", "09-26", "04-07"]


def mistakes(predictions, truths):
    equal = [p == t for p, t in zip(predictions, truths, strict=True)]
    letters = [
        a == b for p, t in zip(predictions, truths, strict=True) for a, b in zip(p, t, strict=True)
    ]
    right, count = sum(equal), len(equal)
    return {
        "the right ones are counted: divide by how many there are.": right,
        "it is in percent: a share goes from 0 to 1.": 100 * right / count,
        "the wrong ones are counted, not the right ones.": 1 - right / count,
        "`//` divides: it rounds down, and `/` does not.": right // count,
        "single characters are compared, not whole dates.": sum(letters) / len(letters),
        "the number of right characters is divided by the number of dates.": sum(letters) / count,
        "the order is lost: each prediction belongs to the truth at its own place.": len(
            set(predictions) & set(truths)
        )
        / count,
    }


def test_the_share_of_equal_pairs(exact_match):
    share = exact_match(PREDICTIONS, TRUTHS)
    assert not isinstance(share, bool), f"It returned {share}. Compare the lists pair by pair."
    expect(share, 0.6, mistakes(PREDICTIONS, TRUTHS))


def test_all_right_and_all_wrong(exact_match):
    expect(exact_match(TRUTHS, TRUTHS), 1.0, mistakes(TRUTHS, TRUTHS))
    expect(exact_match(["", "03"], ["02-15", "03-03"]), 0.0)
