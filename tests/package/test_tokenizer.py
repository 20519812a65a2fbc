"""The tokenizer: text comes back, pieces stay inside words, and no text can forge a special id."""

import importlib.util
import json
import os
import random
import re
import unicodedata

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.config import BOS, EOS, PAD, UNK
from transformer_lab.data import load_multi30k
from transformer_lab.tokenizer import Tokenizer, train_tokenizer

TEXTS = [
    "Two young, White males are outside near many bushes.",
    "A man's T-shirt says: „Hello“ (in 3 colours) … and so on!",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz; draußen ist es kalt.",
    "two  spaces, a tab\t, a no-break space\xa0and a line separator\u2028.",
    "the dog, the dogs, the hot dog, the dog's dog and the dogged dog chased the dog",
] * 3
ALPHABET = "".join(sorted(set("".join(TEXTS))))


@pytest.fixture(scope="module")
def bpe():
    return train_tokenizer(TEXTS, 150)


@pytest.fixture(scope="module")
def characters():
    return train_tokenizer(TEXTS, kind="characters")


@pytest.fixture(params=["bpe", "characters"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def test_special_ids_come_first(tokenizer):
    assert tokenizer.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<bos>", "<eos>", "<unk>"]


@given(text=st.text(ALPHABET))
def test_text_of_known_characters_comes_back_exactly(text):
    for tokenizer in (SHARED["bpe"], SHARED["characters"]):
        ids = tokenizer.encode(text)
        assert ids[-1] == EOS and not {PAD, BOS, EOS, UNK} & set(ids[:-1])
        assert tokenizer.decode(ids) == text


@given(text=st.text(st.characters(exclude_categories=[])))
def test_unknown_characters_become_unk_and_nothing_else_changes(text):
    for tokenizer in (SHARED["bpe"], SHARED["characters"]):
        ids = tokenizer.encode(text)
        assert ids[-1] == EOS and not {PAD, BOS, EOS} & set(ids[:-1])
        shown = "".join(c if c in ALPHABET else "\N{REPLACEMENT CHARACTER}" for c in text)
        assert tokenizer.decode(ids) == shown


SHARED = {  # hypothesis draws many texts for one test, so these are made once
    "bpe": train_tokenizer(TEXTS, 150),
    "characters": train_tokenizer(TEXTS, kind="characters"),
}


def test_the_empty_string_is_eos_alone(tokenizer):
    assert tokenizer.encode("") == [EOS]
    assert tokenizer.decode([EOS]) == tokenizer.decode([]) == ""


@pytest.mark.parametrize("text", ["<eos>", "<pad> <bos>", "a <unk> b", "▁", "\ud800"])
def test_no_text_can_forge_a_special_id_or_a_space(text):
    learned = train_tokenizer([*TEXTS, "<pad> <bos> <eos> <unk>"] * 50, 300)
    ids = learned.encode(text)
    assert not {PAD, BOS, EOS} & set(ids[:-1])
    if "<" in text:
        assert learned.decode(ids) == text
    else:
        assert UNK in ids and " " not in learned.decode(ids)


def test_decode_stops_at_eos_and_drops_bos_and_pad(tokenizer):
    ids = tokenizer.encode("Two dogs")
    assert tokenizer.decode([BOS, *ids, PAD, PAD]) == "Two dogs"
    assert tokenizer.decode([*ids, *ids]) == "Two dogs"
    assert tokenizer.decode([PAD, BOS, *ids[:-1]]) == "Two dogs"
    assert tokenizer.decode(torch.tensor([BOS, *ids, PAD])) == "Two dogs"


def test_a_batch_is_encoded_as_its_texts_alone(tokenizer):
    texts = [*TEXTS, "", " ", "unseen 日本"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_pieces_of_bpe_stay_inside_one_word(bpe):
    for piece in bpe.pieces[4:]:
        assert "▁" not in piece[1:], "a space only begins a piece"
    assert bpe.tokens(bpe.encode("the dog"))[:-1] == ["▁the", "▁dog"]
    assert bpe.tokens(bpe.encode("the dog."))[:-1] == ["▁the", "▁dog", "."]
    assert not any(re.search(r"\w\.", piece) for piece in bpe.pieces), "a full stop stands alone"


def test_pieces_of_characters_are_the_characters_in_order(characters):
    assert characters.pieces[4:] == sorted(ALPHABET.replace(" ", "▁"))
    assert characters.tokens(characters.encode("a b")) == ["a", "▁", "b", "<eos>"]


def test_merges_make_texts_shorter(bpe, characters):
    pieces, letters = (sum(map(len, t.encode_batch(TEXTS))) for t in (bpe, characters))
    assert pieces < 0.6 * letters


def test_vocab_size_is_kept(bpe):
    assert bpe.vocab_size == len(bpe.pieces) == 150
    assert train_tokenizer(["a b"], 100).vocab_size == 4 + len(["▁", "a", "b", "▁a", "▁b"])


def test_training_is_deterministic_and_ignores_the_order_of_texts():
    shuffled = random.Random(0).sample(TEXTS, len(TEXTS))
    first, again, other = (train_tokenizer(texts, 150) for texts in (TEXTS, TEXTS, shuffled))
    assert first.pieces == again.pieces == other.pieces
    assert first.merges == again.merges == other.merges


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(str(path))
    assert loaded.pieces == tokenizer.pieces and loaded.merges == tokenizer.merges
    assert loaded.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_keeps_the_old_file(tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        train_tokenizer(["another"], kind="characters").save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


FOREIGN = {
    "a list": [],
    "no pieces": {"merges": None},
    "no merges": {"pieces": ["a"]},
    "another library's": {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}},
    "pieces as text": {"pieces": "abc", "merges": None},
    "pieces as object": {"pieces": {"a": 4}, "merges": None},
    "numbers as pieces": {"pieces": [1, 2], "merges": None},
    "an empty piece": {"pieces": ["a", ""], "merges": None},
    "a piece twice": {"pieces": ["a", "b", "a"], "merges": None},
    "a special piece": {"pieces": ["a", "<eos>"], "merges": None},
    "half a surrogate pair": {"pieces": ["\ud800"], "merges": []},
    "merges as number": {"pieces": ["a"], "merges": 3},
    "a merge of three": {"pieces": ["a", "aa", "aaa"], "merges": ["a a a"]},
    "a merge of unknown pieces": {"pieces": ["a", "ab"], "merges": ["a b"]},
    "a merge into an unknown piece": {"pieces": ["a", "b"], "merges": ["a b"]},
    "a merge that is no text": {"pieces": ["a", "b", "ab"], "merges": [["a", "b"]]},
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused(content, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"tokenizer\.json (is not a tokenizer|must hold)"):
        Tokenizer.load(path)


@pytest.mark.parametrize("keep", [0, 1, 100, -2])
def test_a_damaged_file_is_refused(bpe, tmp_path, keep):
    path = tmp_path / "tokenizer.json"
    bpe.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        Tokenizer.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.json"):
        Tokenizer.load(tmp_path / "absent.json")


def as_readers_have_it():
    """The module without the run-time type checks of the test run, which would come first."""
    origin = importlib.util.find_spec("transformer_lab.tokenizer").origin
    spec = importlib.util.spec_from_file_location("transformer_lab.tokenizer", origin)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAIN = as_readers_have_it()
LETTERS = PLAIN.train_tokenizer(["abc"], kind="characters")  # 4 special, the space, 3 letters

BAD = {
    "one string": (lambda: PLAIN.train_tokenizer("abc"), "texts must be a list .* got str"),
    "bytes": (lambda: PLAIN.train_tokenizer(b"abc"), "texts must be a list .* got bytes"),
    "no list": (lambda: PLAIN.train_tokenizer(None), "texts must be a list .* got NoneType"),
    "a number among texts": (lambda: PLAIN.train_tokenizer(["a", 1]), "a text must .* got int"),
    "no texts": (lambda: PLAIN.train_tokenizer([]), "texts must hold some words.* got none"),
    "empty texts": (lambda: PLAIN.train_tokenizer(["", ""]), "texts must hold some words"),
    "unknown kind": (lambda: PLAIN.train_tokenizer(["a"], kind="words"), "kind must .* 'words'"),
    "too small": (lambda: PLAIN.train_tokenizer(["abc"], 7), "vocab_size must .* 8 .* got 7"),
    "not whole": (lambda: PLAIN.train_tokenizer(["abc"], 9.5), r"vocab_size must .* got 9\.5"),
    "size of characters": (
        lambda: PLAIN.train_tokenizer(["abc"], 9, kind="characters"),
        "characters take no vocab_size, got 9",
    ),
    "encode a number": (lambda: LETTERS.encode(5), "a text must be a string, got int"),
    "encode nothing": (lambda: LETTERS.encode(None), "a text must be a string, got NoneType"),
    "encode a list": (lambda: LETTERS.encode(["a"]), "a text must be a string, got list"),
    "a string as batch": (lambda: LETTERS.encode_batch("ab"), "texts must be a list .* got str"),
    "id too large": (lambda: LETTERS.decode([4, 8]), "every id must be from 0 to 7, got 8"),
    "negative id": (lambda: LETTERS.decode([-1]), "every id must be from 0 to 7, got -1"),
    "bad id after EOS": (lambda: LETTERS.decode([EOS, 99]), "every id must be from 0 to 7, got 99"),
    "tokens of a bad id": (lambda: LETTERS.tokens([8]), "every id must be from 0 to 7, got 8"),
    "ids as text": (lambda: LETTERS.decode("abc"), "ids must be a flat list .* got 'abc'"),
    "fractions": (lambda: LETTERS.decode([1.0]), r"ids must be a flat list .* got \[1\.0\]"),
    "one number": (lambda: LETTERS.decode(5), "ids must be a flat list .* got 5"),
    "a batch of ids": (lambda: LETTERS.decode(torch.ones(2, 3).long()), "ids must be a flat list"),
    "a column of ids": (lambda: LETTERS.decode(torch.ones(2, 1).long()), "ids must be a flat list"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.skipif("TRANSFORMER_LAB_DATA" not in os.environ, reason="needs the Multi30k files")
def test_multi30k_comes_back_exactly():
    pairs = load_multi30k("raw")
    learned = train_tokenizer([text for pair in pairs["train"] for text in pair], 4000)
    texts = [text for split in pairs.values() for pair in split[:1014] for text in pair]
    rows = learned.encode_batch(texts)
    unknown = [text for text, ids in zip(texts, rows, strict=True) if UNK in ids]
    assert len(unknown) == 1 and "Stráße" in unknown[0], "the test sets have one new character"
    for text, ids in zip(texts, rows, strict=True):
        assert learned.decode(ids) == text or text in unknown
    words = sum(len(text.split()) for text in texts)
    assert sum(map(len, rows)) < 1.5 * words, "most words are one piece"


def test_a_text_that_spells_a_special_token_is_no_special_token(tmp_path):
    text, letters = "天<unk>地", "天地人日月山水火"
    texts = [f"{one}<unk>{other}" for one in letters for other in letters]
    tokenizer = train_tokenizer(texts, vocab_size=40)
    assert len(set(tokenizer.pieces)) == len(tokenizer.pieces)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode(text) == tokenizer.encode(text)


# ---- Scripts without spaces

CLAUSES = {  # what repeats, and with what it changes
    "Chinese": ("我昨天在学校里看见了他", "猫狗鸟鱼马牛羊虎"),
    "Japanese": ("わたしはきのうがっこうでみた", "猫犬鳥魚馬牛羊虎"),
    "katakana": ("コンピューターデスクトップ", "猫犬鳥魚馬牛羊虎"),
    "Thai": ("เมื่อวานนี้ฉันเห็นเขาที่โรงเรียน", "กขคงจฉชซ"),
    "Khmer": ("ម្សិលមិញខ្ញុំឃើញគាត់នៅសាលា", "កខគឃងចឆជ"),
    "Lao": ("ມື້ວານນີ້ຂ້ອຍເຫັນລາວຢູ່ໂຮງຮຽນ", "ກຂຄງຈຊຍດ"),
    "Burmese": ("မနေ့ကကျွန်တော်သူ့ကိုကျောင်းမှာတွေ့တယ်", "ကခဂဃငစဆဇ"),
}


def letters_of(piece: str) -> str:
    """Return a piece without the space before it and the marks on its letters."""
    return "".join(c for c in piece.removeprefix("▁") if unicodedata.category(c)[0] != "M")


@pytest.mark.parametrize(("clause", "others"), CLAUSES.values(), ids=CLAUSES)
def test_a_clause_without_spaces_becomes_no_piece(clause, others):
    texts = [f"{clause}，{other}{clause}。" for other in others] * 20
    tokenizer = train_tokenizer([*texts, *TEXTS], 600)
    pieces = tokenizer.tokens(tokenizer.encode(texts[0]))[:-1]
    assert "".join(pieces) == f"▁{texts[0]}" and tokenizer.decode(tokenizer.encode(texts[0]))
    assert max(len(letters_of(piece)) for piece in pieces) == 1


def test_words_between_letters_without_spaces_stay_words():
    texts = ["我有3000个iPhone手机，很好。", "他的 iPhone 3000 也好"] * 40
    tokenizer = train_tokenizer(texts, 200)
    pieces = ["▁我", "有", "3000", "个", "iPhone", "手", "机", "，", "很", "好", "。"]
    assert tokenizer.tokens(tokenizer.encode(texts[0]))[:-1] == pieces


def test_a_new_vocabulary_is_cut_in_the_same_way_when_it_is_loaded(tmp_path):
    texts = ["我喜欢猫，你喜欢狗。", "A man likes cats."] * 9
    tokenizer = train_tokenizer(texts, 60)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode_batch(texts) == (
        tokenizer.encode_batch(texts)
    )
