"""BLEU of targets without spaces: sacreBLEU's tokenizer for their script cuts them."""

import random
import re

import pytest
from sacrebleu.metrics import BLEU

from transformer_lab import cli, load_run, scoring, train
from transformer_lab.scoring import score, tokenizer_for

WHO = {"the man": "男人", "the woman": "女人", "the child": "孩子", "my friend": "我的朋友"}
DOES = {"buys": "买", "sees": "看见", "likes": "喜欢", "draws": "画", "forgets": "忘记"}
WHAT = {"a book": "一本书", "a red hat": "一顶红帽子", "the old house": "那座旧房子", "tea": "茶"}
WHEN = {"today": "今天", "in the morning": "早上", "every week": "每个星期"}


def made_pairs(count: int) -> list[tuple[str, str]]:
    """Return English sentences with their Chinese: 600 of them, each with its own number."""
    pairs, draw = [], random.Random(0)
    for n in range(count):
        (a, x), (b, y), (c, z), (d, t) = (
            draw.choice([*words.items()]) for words in (WHO, DOES, WHAT, WHEN)
        )
        pairs.append((f"{a} {b} {c} {d}, for the {n}th time.", f"{x}{t}第{n}次{y}{z}。"))
    return pairs


def one_word_wrong(targets: list[str], step: int = 10) -> list[str]:
    """Return the targets; in each tenth a verb is another one."""
    wrong, verbs = list(targets), [*DOES.values()]
    for i in range(0, len(wrong), step):
        verb = next(v for v in verbs if v in wrong[i])
        wrong[i] = wrong[i].replace(verb, verbs[verbs.index(verb) - 1])
    assert sum(a != b for a, b in zip(wrong, targets, strict=True)) == len(targets) // step
    return wrong


SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1}
SHORT = SIZES | {"num_decoder_layers": 1, "steps": 1, "max_tokens": 400, "progress": False}


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    """A folder with a run on 600 pairs, whose test set is all of them."""
    folder = tmp_path_factory.mktemp("chinese")
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in made_pairs(600)))
    some = folder / "some.tsv"
    some.write_text("well\t好\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformer_lab.runs.Run.translate", knowing_all_but_a_tenth)
        files = {"data": file, "valid": some, "test": file}
        train("pairs", folder / "run", on_note=None, **files, **SHORT)
    return folder / "run"


def knowing_all_but_a_tenth(run, sources, **_):
    known = dict(made_pairs(600))
    return one_word_wrong([known[source] for source in sources])


@pytest.fixture
def translating(monkeypatch):
    monkeypatch.setattr("transformer_lab.runs.Run.translate", knowing_all_but_a_tenth)


def test_one_wrong_word_in_each_tenth_chinese_sentence_costs_some_bleu(chinese, translating):
    scores = load_run(chinese).evaluate()["test"]
    assert scores["exact_match"] == 0.9
    assert 90 < scores["bleu"] < 99 and "tok:zh" in scores["signature"]
    assert 90 < scores["chrf"] < 100 and "nc:6" in scores["chrf_signature"]


def test_one_wrong_word_in_every_chinese_sentence_is_not_all_wrong():
    """As one word, as 13a takes it, no sentence would be right."""
    targets = [target for _, target in made_pairs(600)]
    wrong = one_word_wrong(targets, step=1)
    assert score("pairs", wrong, targets, tokenize="13a")["bleu"] == 0
    assert 50 < score("pairs", wrong, targets)["bleu"] < 90


def test_chrf_and_the_signature_stand_beside_bleu(chinese, translating, capsys):
    assert cli.main(["evaluate", "--run", str(chinese)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"BLEU 9\d\.\d\d, chrF 9\d\.\d\d  \(.*tok:zh.*; .*nc:6", out)


@pytest.mark.parametrize("name", ["char", "13a", "intl", "none"])
def test_another_tokenizer_is_used_if_it_is_asked_for(chinese, translating, capsys, name):
    assert cli.main(["evaluate", "--run", str(chinese), "--tokenize", name]) == 0
    assert f"tok:{name}|" in capsys.readouterr().out


def test_a_tokenizer_that_is_not_there_is_refused_with_those_that_are(chinese, capsys):
    assert cli.main(["evaluate", "--run", str(chinese), "--tokenize", "cahr"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "error: --tokenize must be one of" in message and "did you mean char?" in message
    assert all(name in message for name in BLEU.TOKENIZERS)


def absent(monkeypatch, name: str) -> None:
    """Let one of sacreBLEU's tokenizers need what is not installed."""

    def without(self, *_):
        raise RuntimeError("\nPlease install it.\n")

    module = f"sacrebleu.tokenizers.tokenizer_{name}"
    kind = "".join(part.capitalize() for part in name.split("_"))
    monkeypatch.setattr(f"{module}.Tokenizer{kind}.__init__", without)


def test_a_tokenizer_that_needs_more_is_refused_before_anything_is_translated(
    chinese, monkeypatch, capsys
):
    absent(monkeypatch, "ja_mecab")
    monkeypatch.setattr("transformer_lab.runs.Run.translate", None)
    assert cli.main(["evaluate", "--run", str(chinese), "--tokenize", "ja-mecab"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "--tokenize=ja-mecab cannot be used here: Please install it." in message


TEXTS = {
    "Chinese": ("他喜欢猫，也喜欢狗。", "zh"),
    "Chinese with English": ("他买了一部iPhone手机，很高兴。", "zh"),
    "traditional": ("他們昨天買了一本書。", "zh"),
    "Japanese": ("彼は猫が好きです。", "char"),
    "katakana": ("コンピューターを買った。", "char"),
    "Thai": ("เขาชอบแมวและสุนัข", "char"),
    "Khmer": ("គាត់ចូលចិត្តឆ្មា", "char"),
    "Lao": ("ລາວມັກແມວ", "char"),
    "Burmese": ("သူကြောင်ကိုကြိုက်တယ်", "char"),
    "Tibetan": ("ཁོང་བྱི་ལ་ལ་དགའ་པོ་ཡོད།", "char"),
    "Korean": ("그는 고양이를 좋아한다.", "13a"),
    "German": ("Er mag Katzen.", "13a"),
    "Arabic": ("يحب القطط", "13a"),
    "Hindi": ("उसे बिल्लियाँ पसंद हैं", "13a"),
    "Vietnamese": ("Anh ấy thích mèo.", "13a"),
    "English with a Chinese word": ("He calls it 猫 all day long.", "13a"),
    "no letters": ("2019-02-15", "13a"),
}


@pytest.mark.parametrize(("text", "name"), TEXTS.values(), ids=TEXTS)
def test_the_script_of_the_references_chooses_the_tokenizer(text, name, monkeypatch):
    absent(monkeypatch, "ja_mecab")
    assert tokenizer_for([text] * 3) == name
    scores = score("pairs", [text], [text])
    assert scores["bleu"] == pytest.approx(100) and f"tok:{name}|" in scores["signature"]


def test_japanese_is_cut_into_words_where_that_can_be_done(monkeypatch):
    monkeypatch.setattr(scoring, "_bleu", lambda data, tokenize: None)
    assert tokenizer_for(["彼は猫が好きです。"]) == "ja-mecab"
    assert tokenizer_for(["他喜欢猫。"]) == "zh"


@pytest.mark.parametrize("data", ["multi30k-raw", "multi30k-tok"])
def test_captions_are_scored_as_before(data):
    name = {"multi30k-raw": "13a", "multi30k-tok": "none"}[data]
    text = "他喜欢猫，也喜欢狗。 ein Hund läuft"
    assert f"tok:{name}|" in score(data, [text], [text])["signature"]
    assert "tok:char|" in score(data, [text], [text], tokenize="char")["signature"]


def test_dates_have_no_bleu_to_tokenize_for():
    with pytest.raises(ValueError, match="tokenize must be left out for dates, got 'zh'"):
        score("dates", ["2019"], ["2019"], tokenize="zh")
