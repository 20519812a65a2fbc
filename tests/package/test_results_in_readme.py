"""What the READMEs say was measured is what the result files say."""

import pytest

from benchmarks.reporting import readme

ABOUT = {
    "hardware": {"cpu": "A CPU"},
    "threads": 2,
    "versions": {"torch": "2.13.0", "python": "3.11.7"},
    "date": "2026-11-21T11:00:00+00:00",
    "commit": "0123456789abcdef",
}
RATIO = {"median": 2.349, "low": 2.2, "high": 2.51}
BLEU = {"bleu": 36.484, "signature": "nrefs:1|tok:13a"}
RESULTS = {
    "training": ABOUT
    | {
        "rows": [
            {"name": "training, small: transformer_lab", "ratio": RATIO, "target": "≥ 1.3"},
            {"name": "one change alone", "ratio": RATIO},
            {"name": "small: transformer_lab, bfloat16", "ratio": {**RATIO, "median": 3.12}},
            {"name": "large: transformer_lab, bfloat16", "ratio": {**RATIO, "median": 3.2}},
        ]
    },
    "dates": ABOUT
    | {
        "rows": [
            {"seed": seed, "seconds": 30.4, "parameters": 234_567, "scores": {"test": hits}}
            for seed, hits in enumerate(({"exact_match": 0.992}, {"exact_match": 0.9985}))
        ]
    },
    "multi30k": ABOUT
    | {
        "rows": [
            {"seed": 0, "seconds": 904.7, "parameters": 3_285_504, "scores": {"test2016": BLEU}}
        ]
    },
    "multi30k-tok": ABOUT
    | {
        "rows": [
            {"seed": seed, "seconds": 5400, "parameters": 2_611_200, "scores": {"test2016": score}}
            | {"scores_paper_alpha": {"test2016": {"bleu": 40.0 + seed}}}
            for seed, score in enumerate((BLEU, BLEU | {"bleu": 41.2, "low": 40.04, "high": 42.31}))
        ]
    },
    "gpu_speed": ABOUT
    | {
        "hardware": {"cpu": "Another CPU", "gpu": "A GPU"},
        "summary": [["base", "51 % of the peak", "≥ 50 %"]],
        "tables": [
            {"title": "Speed", "columns": ["model", "ms"], "rows": [["base", 20]]},
            {"title": "Nothing here", "columns": ["x"], "rows": []},
        ],
        "left_out": ["big: no time was left for it"],
    },
}


@pytest.mark.parametrize("page", readme.PAGES)
def test_the_pages_say_what_the_result_files_say(page):
    text = (readme.ROOT / page).read_text()
    make = getattr(readme, readme.PAGES[page])
    assert readme.renew(text, make(readme.read_results())) == text, (
        f"{page} and benchmarks/results disagree: python -m benchmarks.reporting.readme"
    )


def test_the_summary_has_what_has_a_target():
    text = readme.summary(RESULTS)
    assert [line for line in text.splitlines() if line.startswith("|")][2:] == [
        "| training, small: speed against `nn.Transformer` with a dense loss | 2.3 × | ≥ 1.3 |",
        "| Dates, 2 seeds | test 99.53 % right (99.20 to 99.85), in 30 s of training | "
        "≥ 99.5 % in ≤ 60 s |",
        "| Multi30k En→De, raw, on the CPU, one seed | test2016 BLEU 36.48, in 15.1 min of "
        "training | test2016 ≥ 34 in ≤ 20 min |",
        "| Multi30k En→De, tokenised, on the CPU, 2 seeds | test2016 BLEU 38.84 (36.48 to 41.20), "
        "in 90.0 min of training | test2016 ≥ 41.02 (Wu et al. 2021, two GPUs) |",
        "| base | 51 % of the peak | ≥ 50 % |",
    ]
    assert "Measured on A CPU, threads: 2 and A GPU, some" in text


def test_the_headlines_are_rows_that_a_stranger_understands():
    rows = readme.headlines(RESULTS).splitlines()[2:]
    assert rows == [
        "| a model reads dates in any form, after less than a minute of training | 99.53 % of "
        "unseen dates right after 30 s, two CPU cores |",
        "| training, against PyTorch's own `nn.Transformer` in float32 | 2.3 × as fast; "
        "in bfloat16 3.1 to 3.2 × |",
    ]


def test_the_full_tables_have_all_of_it():
    text = readme.full(RESULTS)
    for words in (
        "### training\n\nA CPU, threads: 2; PyTorch 2.13.0, Python 3.11.7; 2026-11-21, commit 0123",
        "| one change alone | 2.35 | 2.20 to 2.51 |  |",
        "| 0 | 905 | 3,285,504 | BLEU 36.48 |",
        "| 1 | 5400 | 2,611,200 | BLEU 41.20, 40.0 to 42.3 |",
        "95 % of the draws of a bootstrap",
        "At the paper's length penalty, 0.6: test2016 BLEU 40.50 (40.00 to 41.00).",
        "sacreBLEU: `nrefs:1|tok:13a`",
        "### gpu_speed\n\nA GPU; PyTorch",
        "Speed\n\n| model | ms |\n| --- | --- |\n| base | 20 |",
        "Left out: big: no time was left for it",
    ):
        assert words in text
    assert "Nothing here" not in text


def test_without_results_the_pages_say_so(tmp_path):
    assert readme.read_results(tmp_path) == {}
    assert "Nothing has been measured yet" in readme.headlines({}) == readme.summary({})
    assert readme.summary({}) in readme.full({})


@pytest.mark.parametrize("text", ["no marker", readme.START, readme.END + readme.START])
def test_a_page_without_markers_is_refused(text):
    with pytest.raises(ValueError, match="the page must hold"):
        readme.renew(text, "section")


def test_renewing_replaces_the_section_and_nothing_else():
    page = f"before\n{readme.START}old{readme.END}\nafter"
    once = readme.renew(page, "new")
    assert once == f"before\n{readme.START}\n\nnew\n\n{readme.END}\nafter"
    assert readme.renew(once, "new") == once
