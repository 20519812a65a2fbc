"""Files of sentence pairs as the public has them: columns, two files, CSV, headers, odd text."""

import csv
import gzip
import io
import unicodedata
from pathlib import Path
from time import perf_counter

import pytest

from transformer_lab import load_run, train
from transformer_lab.data import load_pairs
from transformer_lab.data.reading import one_line, read_pairs

PAIRS = [(f"Say {letter}!", f"Sag {letter}!") for letter in "abcdefghijk"]
BY = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250 (Wittydev)"
IDS = [str(1276 + 7 * i) for i in range(2 * len(PAIRS))]


def write(path: Path, rows, mark: str = "\t", start: str = "") -> Path:
    path.write_text(start + "".join(f"{mark.join(row)}\n" for row in rows), "utf-8", newline="\n")
    return path


def attributed():
    return [(*pair, BY) for pair in PAIRS]


def with_ids():
    """Rows as Tatoeba's page gives them to whoever asks for two languages."""
    return [(IDS[2 * i], a, IDS[2 * i + 1], b) for i, (a, b) in enumerate(PAIRS)]


def as_csv(rows, **options) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue()


# ---- Columns


def test_a_third_column_of_attributions_is_left_out_and_said(tmp_path):
    file = write(tmp_path / "fra.txt", attributed())
    pairs, (note,) = read_pairs(file)
    assert pairs == PAIRS
    assert note.endswith("has 3 columns: column 1 is read as the source, column 2 as the target")


@pytest.mark.parametrize("bom", ["", "\ufeff"], ids=["plain", "with a byte-order mark"])
@pytest.mark.parametrize("columns", ["2,4", " 2, 4", (2, 4), [2, 4]], ids=str)
def test_columns_that_are_chosen_are_read_and_said(tmp_path, bom, columns):
    file = write(tmp_path / "pairs.tsv", with_ids(), start=bom)
    pairs, (note,) = read_pairs(file, columns=columns)
    assert pairs == PAIRS
    assert note.endswith("has 4 columns: column 2 is read as the source, column 4 as the target")


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (
            ("17", "Go.", "18", "Va !"),
            "1 = 17, 2 = Go., 3 = 18, 4 = Va !: choose two, as columns=2,4",
        ),
        (("Go.", "Va !", "by whom"), "1 = Go., 2 = Va !, 3 = by whom: choose two, as columns=1,2"),
        (("0.9", "Go.", "Va !"), "1 = 0.9, 2 = Go., 3 = Va !: choose two, as columns=2,3"),
        (("eng", "Go.", "fra", "x" * 99), "3 = fra, 4 = x{30}: choose"),
        (tuple("abcdefghijkl"), "1 = a, .* 9 = i, …: choose"),
    ],
    ids=["ids", "by whom", "a score", "codes", "many"],
)
def test_columns_that_cannot_be_guessed_are_shown_with_their_numbers(tmp_path, row, shown):
    with pytest.raises(ValueError, match=f"more than one tab.*; line 1 has .*{shown}") as caught:
        read_pairs(write(tmp_path / "pairs.tsv", [row] * 20))
    assert "\n" not in str(caught.value)


def test_a_header_is_shown_where_columns_cannot_be_guessed(tmp_path):
    rows = [("id", "English", "German"), *(("7", *pair) for pair in PAIRS)]
    file = write(tmp_path / "pairs.csv", rows, ",")
    with pytest.raises(ValueError, match=r"line 1 has 3 columns, 1 = id, 2 = English, 3 = German"):
        read_pairs(file)
    pairs, (columns, header) = read_pairs(file, columns="2,3")
    assert pairs == PAIRS and "column 2" in columns
    assert "line 1 of" in header and "'English' and 'German': it is left out" in header


def test_a_column_that_is_not_there_shows_those_that_are(tmp_path):
    file = write(tmp_path / "pairs.tsv", PAIRS)
    with pytest.raises(ValueError, match=r"with too few columns .*2 columns, 1 = Say a!, 2 = Sag"):
        read_pairs(file, columns="2,4")


def test_a_stray_tab_is_a_bad_line_also_among_three_columns(tmp_path):
    rows = [*attributed() * 20, ("Go", "now.", "Va !", BY), ("alone",)]
    pairs, (_, note) = read_pairs(write(tmp_path / "pairs.tsv", rows))
    assert pairs == PAIRS * 20
    assert "1 with too many columns (line 221), 1 with too few columns (line 222)" in note


@pytest.mark.parametrize("columns", ["2", "2,2", "0,1", "1,2,3", "a,b", "", (3,)])
def test_columns_must_be_two_numbers(tmp_path, columns):
    with pytest.raises(ValueError, match="columns must be two different numbers from 1, such as 2"):
        read_pairs(write(tmp_path / "pairs.tsv", with_ids()), columns=columns)


# ---- Two files


def aligned(folder: Path, sources, targets, suffix: str = "") -> list[Path]:
    paths = []
    for language, lines in (("en", sources), ("de", targets)):
        content = "".join(f"{line}\n" for line in lines).encode()
        paths.append(folder / f"train.{language}{suffix}")
        paths[-1].write_bytes(gzip.compress(content) if suffix else content)
    return paths


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_aligned_files_are_read_line_by_line(tmp_path, suffix):
    files = aligned(tmp_path, *zip(*PAIRS, strict=True), suffix)
    assert read_pairs(files) == (PAIRS, [])
    files[0].write_bytes(files[0].read_bytes().removesuffix(b"\n"))
    assert read_pairs(tuple(files)) == (PAIRS, [])


@pytest.mark.parametrize(("ours", "theirs"), [(1200, 1199), (1199, 1200)])
def test_two_files_of_different_lengths_are_refused_with_both_numbers(tmp_path, ours, theirs):
    files = aligned(tmp_path, ["a"] * ours, ["b"] * theirs)
    with pytest.raises(ValueError, match=rf"as many lines.* got {ours:,} and {theirs:,}"):
        read_pairs(files)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("place", [0, 100, -1], ids=["first", "in the middle", "last"])
def test_an_empty_line_of_two_files_is_bad_and_shifts_nothing(tmp_path, side, place):
    lines = [[f"{letter}{i}" for i in range(201)] for letter in "ab"]
    lines[side][place] = ""
    pairs, (note,) = read_pairs(aligned(tmp_path, *lines))
    assert len(pairs) == 200 and all(a[1:] == b[1:] for a, b in pairs)
    assert f"1 with an empty side (line {range(1, 202)[place]}); they are left out" in note


def test_two_files_that_are_pairs_themselves_are_refused(tmp_path):
    files = aligned(tmp_path, *[["a\tb"] * 20] * 2)
    with pytest.raises(ValueError, match="must be a sentence without a tab, got 20 of 20 lines"):
        read_pairs(files)


@pytest.mark.parametrize("count", [0, 3])
def test_there_are_one_or_two_files(tmp_path, count):
    files = [write(tmp_path / "pairs.tsv", PAIRS)] * count
    with pytest.raises(ValueError, match=f"one file, or from two .* got {count} files"):
        read_pairs(files)


def test_two_files_have_no_columns_to_choose(tmp_path):
    files = aligned(tmp_path, ["a"], ["b"])
    with pytest.raises(ValueError, match="columns must be left out with two files"):
        read_pairs(files, columns="1,2")


def test_files_to_validate_and_test_are_read_in_the_same_ways(tmp_path):
    files = aligned(tmp_path, *zip(*PAIRS, strict=True), ".gz")
    valid = write(tmp_path / "valid.txt", attributed()[:1])
    test = tmp_path / "test.csv"
    test.write_text("English,German\nWell,Gut\n")
    splits, notes = load_pairs(files, valid=valid, test=test)
    assert splits == {"train": PAIRS, "val": PAIRS[:1], "test": [("Well", "Gut")]}
    assert ["has 3 columns" in notes[0], "left out" in notes[1]] == [True, True]


# ---- CSV, TSV with quotes, and headers

ODD = [
    ('He said, "Go!"', "Er sagte: „Geh!“, sofort"),
    ("One; two", '"Eins", zwei'),
    ("Two\nlines, one sentence", "Zwei\r\nZeilen"),
    ("A\ttab", "Ein Tab"),
    *PAIRS,
]
PLAIN = [(one_line(a), one_line(b)) for a, b in ODD]


WRITTEN = [(suffix, mark) for suffix in ("csv", "CSV", "csv.gz") for mark in ",;\t"]


@pytest.mark.parametrize(("suffix", "mark"), [*WRITTEN, ("tsv", "\t"), ("txt.gz", "\t")])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["some", "all"])
def test_quotes_that_a_spreadsheet_writes_are_no_part_of_a_sentence(
    tmp_path, suffix, mark, quoting
):
    content = as_csv(ODD, delimiter=mark, quoting=quoting).encode("utf-8-sig")
    file = tmp_path / f"pairs.{suffix}"
    file.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert read_pairs(file) == (PLAIN, [])


OWN_QUOTES = {
    "around one sentence": ('"Go!"', '"Geh!"'),
    "at the start": ('"Go!" he said.', '"Geh!", sagte er.'),
    "open": ('"I came.', '"Ich kam.'),
    "closed": ('I saw."', 'Ich sah."'),
    "from one column to the other": ('"I came.', 'Ich kam."'),
    "an inch": ('A 5" pipe', 'Ein 5"-Rohr'),
    "doubled by hand": ('""Go""', "Geh"),
}


@pytest.mark.parametrize("pair", OWN_QUOTES.values(), ids=OWN_QUOTES)
def test_quotes_of_a_plain_file_with_tabs_stay_in_its_sentences(tmp_path, pair):
    rows = [*PAIRS, pair, *PAIRS]
    assert read_pairs(write(tmp_path / "pairs.tsv", rows)) == (rows, [])


def test_a_quote_over_two_lines_of_a_plain_file_swallows_none(tmp_path):
    rows = [*PAIRS, OWN_QUOTES["open"], OWN_QUOTES["closed"], *PAIRS]
    assert read_pairs(write(tmp_path / "pairs.tsv", rows)) == (rows, [])


def test_a_quote_of_a_csv_that_never_ends_is_named_with_its_line(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text('a,b\n"c,d\ne,f\n')
    with pytest.raises(ValueError, match=r"pairs\.csv must be CSV, .* in the row of line 2: "):
        read_pairs(file)


def test_a_csv_of_one_column_lacks_a_comma(tmp_path):
    file = write(tmp_path / "pairs.csv", [("alone",)] * 9)
    with pytest.raises(ValueError, match=r"a source, a comma and a target, .* 9 without a comma"):
        read_pairs(file)


def test_a_csv_says_what_it_lacks_in_its_own_words(tmp_path):
    file = write(tmp_path / "pairs.csv", [*PAIRS * 20, ("alone",), ("a", "b", "c")], ",")
    pairs, (note,) = read_pairs(file)
    assert pairs == PAIRS * 20 and "must be a source, a comma and a target" in note
    assert "1 without a comma (line 221), 1 with more than one comma (line 222)" in note


HEADERS = [
    ("English", "German"),
    ("en", "de"),
    ("eng", "cmn"),
    ("source", "target"),
    ("sentence_en", "sentence_zh-CN"),
    ("eng_Latn", "zho_Hans"),
    ("Englisch", "Deutsch"),
    ("anglais", "français"),
    ("英语", "中文"),
    ("English sentence", "Simplified Chinese"),
    ("question", "answer"),
]


@pytest.mark.parametrize("header", HEADERS, ids=" ".join)
@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_a_first_line_that_names_languages_or_columns_is_left_out_and_said(
    tmp_path, header, name, mark
):
    pairs, (note,) = read_pairs(write(tmp_path / name, [header, *PAIRS], mark))
    assert pairs == PAIRS
    assert f"line 1 of {tmp_path / name} names the columns, {header[0]!r} and {header[1]!r}" in note


NO_HEADERS = [
    [("Hello", "Hallo"), ("English", "German")],  # not the first line
    [("English", "Englisch"), ("German", "Deutsch"), ("French", "Französisch")],  # a word list
    [("English is hard", "German")],
    [("one", "1"), ("two", "2")],
    [("text", "text")],
    [
        ("he", "el"),
        *[("she", "ella"), ("you", "tú"), ("we", "nosotros")] * 9,
    ],  # words that are codes
]


@pytest.mark.parametrize("rows", NO_HEADERS, ids=lambda rows: " ".join(rows[0]))
def test_a_first_line_that_may_be_a_pair_is_kept(tmp_path, rows):
    assert read_pairs(write(tmp_path / "pairs.tsv", [*rows, *PAIRS])) == ([*rows, *PAIRS], [])


def test_marks_without_end_on_one_letter_take_no_time(tmp_path):
    """To put n of them in order takes n² steps."""
    rows = [("a" + "\u0301\u0316" * 200_000, "b"), *PAIRS * 10]
    file = write(tmp_path / "pairs.tsv", rows)
    start = perf_counter()
    assert read_pairs(file)[0] == PAIRS * 10
    with pytest.raises(ValueError, match="too few columns"):
        read_pairs(file, columns="1,9")
    with pytest.raises(ValueError, match="is longer than max_length"):
        load_run().translate(rows[0][0])
    assert perf_counter() - start < 20


def test_a_header_alone_holds_no_pair(tmp_path):
    with pytest.raises(ValueError, match="must hold a pair in each line, got names of columns"):
        read_pairs(write(tmp_path / "pairs.tsv", [("en", "de")]))


# ---- Odd separators, and letters that are written in two ways

SEPARATORS = ["\r", "\u2028", "\u2029", "\x85", "\v", "\f", "\x1e", " \u2028 "]


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("kind", ["plain", "csv", "two files"])
def test_what_separates_lines_elsewhere_is_a_space_inside_a_sentence(tmp_path, separator, kind):
    rows = [(f"One{separator}two", f"Eins{separator}zwei"), *PAIRS]
    if kind == "two files":
        files = aligned(tmp_path, *zip(*rows, strict=True))
    elif kind == "csv":
        files = tmp_path / "pairs.csv"
        files.write_text(as_csv(rows), newline="")
    else:
        files = write(tmp_path / "pairs.tsv", rows)
    pairs, notes = read_pairs(files)
    assert [len(pairs), notes] == [len(rows), []]
    assert [side.split() for side in pairs[0]] == [["One", "two"], ["Eins", "zwei"]]
    assert all(side.isprintable() for pair in pairs for side in pair)


WORDS = ["café", "Ärger", "tiếng", "한국", "が", "Å"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on words that its file has in one way for sources, in the other for targets."""
    folder = tmp_path_factory.mktemp("spelling")
    words = [f"{word} {i}" for i in range(20) for word in WORDS]
    rows = [(unicodedata.normalize("NFD", w), unicodedata.normalize("NFC", w)) for w in words]
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1}
    settings = sizes | {"num_decoder_layers": 1, "steps": 2, "progress": False}
    file = write(folder / "words.tsv", rows)
    return train("pairs", folder / "run", data=file, **settings)


def test_composed_and_decomposed_letters_are_one_in_training(run):
    splits = {path.stem: path.read_text() for path in run.folder.glob("pairs/*.tsv")}
    assert len(splits) == 3
    for text in splits.values():
        assert all(len({*line.split("\t")}) == 1 for line in text.splitlines())
        assert unicodedata.is_normalized("NFC", text)


@pytest.mark.parametrize("word", WORDS)
def test_composed_and_decomposed_letters_are_one_in_translate(run, word):
    ways = [unicodedata.normalize(form, f"{word} 1") for form in ("NFC", "NFD")]
    for model in (run, load_run(run.folder), load_run()):
        one, other = model.translate(ways, beam=1, max_length=9)
        assert one == other
        assert model.unknown_characters(ways[0]) == model.unknown_characters(ways[1])
    assert run.unknown_characters(ways[1]) == []


def test_a_vocabulary_of_decomposed_letters_still_reads_them(run):
    """It is one's own, so its texts are read as they come."""
    from transformer_lab import Run, Transformer, train_tokenizer
    from transformer_lab.config import ModelConfig

    text = unicodedata.normalize("NFD", "café")
    tokenizer = train_tokenizer([text], kind="characters")
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), tokenizer.vocab_size)
    model = Transformer(ModelConfig(d_model=8, num_heads=2, d_ff=8, max_length=20, **sizes))
    assert Run.from_model(model, tokenizer).unknown_characters(text) == []
    assert Run.from_model(model, tokenizer).unknown_characters("café") == ["é"]


# ---- The other direction


@pytest.mark.parametrize("columns", [None, "1,2"])
def test_the_other_direction_of_the_same_file(tmp_path, columns):
    file = write(tmp_path / "fra.txt", attributed())
    pairs, (note,) = read_pairs(file, columns=columns, reverse=True)
    assert pairs == [(b, a) for a, b in PAIRS]
    assert "column 2 is read as the source, column 1 as the target" in note
    files = aligned(tmp_path, *zip(*PAIRS, strict=True))
    assert read_pairs(files, reverse=True)[0] == pairs
    splits, _ = load_pairs(files, valid=files, reverse=True)
    assert splits["val"] == pairs
