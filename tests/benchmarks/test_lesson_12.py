"""The long experiments of lesson 12 run at toy size, and measure what they say."""

import json

import pytest
import torch

from benchmarks.lessons import l12_finetune as finetune
from benchmarks.lessons import l12_language as language
from benchmarks.lessons import l12_one_text as one_text
from benchmarks.lessons import l12_pictures as pictures
from benchmarks.lessons.lesson_code import lesson_code
from transformer_lab import PAD, Batch, date_pairs, train_tokenizer
from transformer_lab.data import scenes
from transformer_lab.runs import encode_pairs


# Pictures go in where the package's annotations say ids.
@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    "script", [finetune, language, one_text, pictures], ids=lambda s: s.__name__
)
def test_it_runs_and_writes_what_it_measured(script, tmp_path):
    script.main(["--smoke", "--output", str(tmp_path)])
    (path,) = tmp_path.glob("*.json")
    result = json.loads(path.read_text())
    assert path.stem == result["part"] == script.__name__.rsplit(".", 1)[1] and result["smoke"]
    assert {"hardware", "versions", "commit", "sizes"} <= set(result)
    assert result["rows"]
    for row in result["rows"]:
        if "writes" in row:  # untrained, it may draw a pad, which is not printed
            count = result["sizes"]["written"]
            assert row["writes"].startswith("\n") and count / 2 < len(row["writes"]) - 1 <= count


def test_counted_chances_add_up_to_one_and_more_context_helps():
    code = lesson_code("12", "KneserNey", "bits_of")
    text = torch.tensor([4, 5, 6, 4, 5, 7] * 40 + [8, 3, 9])
    bits = []
    for order in (1, 2, 4):
        model = code["KneserNey"](text, order)
        for context in ((), (4,), (4, 5), (9, 9), (99, 4)):
            assert sum(model.probability(c, context) for c in range(3, 10)) == pytest.approx(1)
        bits.append(code["bits_of"](model, text[:120]))
    assert bits[0] > bits[1] > bits[2]


def read(arm, batch):
    code = lesson_code("12", "read_as", "date_models")
    torch.manual_seed(0)
    both, alone = code["date_models"](int(max(batch.source.max(), batch.target.max())) + 1)
    model = both if arm == one_text.ARMS[0] else alone
    return [value.detach() for value in code["read_as"](arm)(model.eval(), batch)]


@pytest.mark.parametrize("arm", one_text.ARMS)
def test_padding_and_neighbours_do_not_matter_to_an_arm(arm):
    pairs = date_pairs(6, 0)
    tokenizer = train_tokenizer([text for pair in pairs for text in pair], kind="characters")
    encoded = sorted(encode_pairs(tokenizer, pairs), key=lambda pair: len(pair[0]))
    vocabulary = Batch.from_pairs(encoded)
    alone = Batch.from_pairs(encoded[:1])
    padded = Batch(vocabulary.source[:1], vocabulary.target[:1])
    assert (padded.source == PAD).any() and not (alone.source == PAD).any()
    highest = max(int(vocabulary.source.max()), int(vocabulary.target.max()))
    alone.source[0, 0] = padded.source[0, 0] = highest  # so that both models are of one size
    torch.testing.assert_close(read(arm, alone)[0], read(arm, padded)[0])


def test_looks_are_scored_where_the_thing_is():
    code = lesson_code("12", "things_named", "patches_on")
    (scene,) = scenes(1, 0)
    named = code["things_named"](scene.caption)
    assert len(named) == len(scene.caption.split()) and max(x for x in named if x is not None) >= 1
    on = code["patches_on"](scene, 4)
    assert on.shape == (len(scene.pixels), 36) and not (on.sum(0) > 2).any()
    for thing, covered in zip(scene.pixels, on, strict=True):
        row, column = thing.nonzero()[0].tolist()
        assert covered[row // 4 * 6 + column // 4] and covered.sum() <= 9
