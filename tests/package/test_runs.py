"""Runs: where there is none, and one made from a model that was fitted in another way."""

import shutil

import pytest

from transformer_lab import (
    EOS,
    ModelConfig,
    Run,
    TrainConfig,
    Transformer,
    fit,
    load,
    load_run,
    save,
    train_tokenizer,
)
from transformer_lab.runs import PRETRAINED, encode_pairs
from transformer_lab.training import STATE

WORDS = ["abc", "cab", "bca", "ab", "ba"]
SIZES = dict(d_model=16, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1)
TRAINING = TrainConfig(steps=4, max_tokens=100, warmup=4)


@pytest.fixture
def fitted():
    """A model that was fitted on words and their reverse, with its tokenizer."""
    tokenizer = train_tokenizer(WORDS, kind="characters")
    size = tokenizer.vocab_size
    model = Transformer(ModelConfig(source_vocab_size=size, target_vocab_size=size, **SIZES))
    pairs = encode_pairs(tokenizer, [(word, word[::-1]) for word in WORDS])
    fit(model, pairs, TRAINING, progress=False)
    return model, tokenizer


def test_a_fitted_model_translates_and_comes_back_from_its_folder(fitted, tmp_path):
    run = Run.from_model(*fitted, beam=2)
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.beam == 2 and again.translate(WORDS) == run.translate(WORDS)
    assert isinstance(run.translate("cab"), str)
    run.save(tmp_path / "run")  # as when a cell is run once more
    with pytest.raises(ValueError, match="only if train made it"):
        again.evaluate()


def test_a_run_that_is_something_else_is_not_overwritten(fitted, tmp_path):
    folder = shutil.copytree(PRETRAINED / "dates_0", tmp_path / "run")
    with pytest.raises(ValueError, match="got a folder with"):
        Run.from_model(*fitted).save(folder)
    with pytest.raises(ValueError, match="saved already"):
        load_run(folder).save(tmp_path / "other")
    assert load_run(folder).data == "dates" and not (tmp_path / "other").exists()


def test_a_tokenizer_of_another_size_is_refused(fitted):
    other = train_tokenizer(["abcdefg"], kind="characters")
    with pytest.raises(ValueError, match="as many pieces as the model"):
        Run.from_model(fitted[0], other)


class Alphabet:
    """A tokenizer of somebody's own: three letters."""

    vocab_size = 7

    def encode_batch(self, texts):
        return [[*(4 + "abc".index(letter) for letter in text), EOS] for text in texts]

    def decode(self, ids):
        return "".join(self.tokens(i for i in ids if i >= 4))

    def tokens(self, ids):
        return ["....abc"[i] for i in ids]

    def save(self, path):
        path.write_text("abc")


def test_a_tokenizer_of_ones_own_is_as_good_as_ours(tmp_path):
    tokenizer = Alphabet()
    model = Transformer(ModelConfig(source_vocab_size=7, target_vocab_size=7, **SIZES))
    run = Run.from_model(model, tokenizer)
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run", tokenizer=tokenizer)
    assert again.translate(WORDS) == run.translate(WORDS)
    assert again.cross_attention("cab")[2] == ["c", "a", "b", "."]
    assert again.unknown_characters("ab") == []


def test_where_there_is_no_run_those_that_are_near_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PRETRAINED / "dates_0", tmp_path / "runs" / "dates")
    for folder in ("runs/date", "runs", "nowhere"):
        with pytest.raises(ValueError) as caught:
            load_run(folder)
        assert f"no trained model in {folder} " in str(caught.value)
        assert str(caught.value).endswith("there is one in runs/dates")


def test_a_folder_with_a_model_alone_names_load_and_what_makes_a_run(fitted, tmp_path):
    save(fitted[0], tmp_path)
    with pytest.raises(ValueError, match=r"load\('.*'\) reads that, and Run.from_model"):
        load_run(tmp_path)
    assert load(tmp_path).config == fitted[0].config


def test_a_training_that_has_not_ended_is_told_from_no_training(tmp_path):
    (tmp_path / STATE).touch()
    with pytest.raises(ValueError, match="its training has not ended"):
        load_run(tmp_path)


@pytest.mark.parametrize(("end", "warns"), [([EOS], False), ([], True)])
def test_fit_says_when_targets_lack_the_end(fitted, end, warns, recwarn):
    pairs = [([4, EOS], [5, EOS]), ([5, EOS], [4, *end])]
    fit(fitted[0], pairs, TRAINING, progress=False)
    said = [str(each.message) for each in recwarn if "EOS=2" in str(each.message)]
    assert len(said) == warns
    assert not warns or said[0].startswith("1 of 2 targets have no EOS")
