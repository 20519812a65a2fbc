"""A paper that nobody can make without its secret, and that has little in common with another."""

import functools
import itertools
import os
import re
import secrets
import tomllib

import pytest
import yaml

from course.lessons import ROOT, lessons
from teaching import make
from teaching.generate import exam, secret, worksheets

CHOSEN = (1, 4, 8, 14, 17, 18, 20, 22, 23, 24, 26)
RUBRIC = yaml.safe_load((ROOT / "teaching" / "rubric.yaml").read_text("utf-8"))["examination"]
ENTRY = """
[[{room}]]
kind = "{kind}"
title = "Of my own"
text = "Show it."
answer = "It is shown."
credit = [[{points}, "all"]]
"""


def seed_of(key):
    return functools.partial(secret.seed, key)


def drawn(key, *before, chosen=CHOSEN, **pools):
    seeds = [seed_of(each) for each in (*before, key)]
    return [exam.draw(exam.PLACES[n - 1], *seeds, **pools) for n in chosen]


def shared(one, other):
    """Return the part of the points that who has seen one paper has in the other for nothing."""
    same = sum(a.points for a, b in zip(one, other, strict=True) if exam.alike(a, b))
    return same / sum(question.points for question in one)


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["make.py", *map(str, words)])
    make.main()


@pytest.fixture
def key(tmp_path):
    secret.new(tmp_path / "final.secret")
    return tmp_path / "final.secret"


# ---- the secret


def test_a_new_secret_has_256_bits_and_never_takes_the_place_of_another(tmp_path, monkeypatch):
    for name in ("a", "b"):
        run(monkeypatch, "--new-secret", tmp_path / "mine" / name)
    one, other = (secret.read(tmp_path / "mine" / name) for name in ("a", "b"))
    assert len(one) == len(other) == 32 and one != other
    if os.name == "posix":
        assert (tmp_path / "mine" / "a").stat().st_mode & 0o777 == 0o600
    with pytest.raises(SystemExit, match="is there already"):
        run(monkeypatch, "--new-secret", tmp_path / "mine" / "a")
    assert secret.read(tmp_path / "mine" / "a") == one


@pytest.mark.parametrize(
    "text", ["", "7", "ab" * 15, "ab" * 15 + "a", "correct horse battery " * 3]
)
def test_what_is_no_secret_of_128_bits_is_refused(key, text):
    key.write_text(text)
    with pytest.raises(ValueError, match="holds no secret of 128 bits"):
        secret.read(key)
    key.write_text("ab" * 16)
    assert len(secret.read(key)) == 16


def test_a_secret_that_is_missing_or_that_others_can_read_is_refused(key):
    with pytest.raises(ValueError, match="there is no secret in"):
        secret.read(key.with_name("none"))
    if os.name == "posix":
        key.chmod(0o640)
        with pytest.raises(ValueError, match="other people of this computer can read"):
            secret.read(key)


def test_neither_secret_nor_paper_may_lie_where_git_keeps_it(key, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="which git keeps"):
        secret.new(ROOT / "teaching" / "exam" / "final.secret")
    with pytest.raises(SystemExit, match="which git keeps"):
        run(monkeypatch, "--secret", key, "--paper", "1", "--into", ROOT / "teaching" / "exam")
    (tmp_path / "course" / "deep").mkdir(parents=True)
    (tmp_path / "course" / ".git").write_text("gitdir: elsewhere")  # as in a worktree
    inside = tmp_path / "course" / "deep" / "final.secret"
    inside.write_text("ab" * 16)
    (tmp_path / "link").symlink_to(inside)
    for path in (inside, tmp_path / "link"):
        with pytest.raises(ValueError, match="which git keeps"):
            secret.read(path)


# ---- what it draws


def test_every_bit_of_the_secret_counts_and_the_same_secret_makes_the_same_paper():
    key = secrets.token_bytes(16)
    paper = drawn(key)
    assert [question.text for question in drawn(key)] == [question.text for question in paper]
    for bit in range(0, 128, 9):
        other = (int.from_bytes(key) ^ 1 << bit).to_bytes(16)
        assert shared(paper, drawn(other)) < 1


def test_two_papers_share_less_than_a_third():
    papers = [drawn(n.to_bytes(16)) for n in range(60)]
    found = [shared(a, b) for a, b in itertools.combinations(papers, 2)]
    assert sum(found) / len(found) < 1 / 5
    assert sum(share >= 1 / 3 for share in found) / len(found) < 1 / 8


def test_a_paper_for_those_who_have_seen_another_shares_nothing_with_it():
    first, second, third = (n.to_bytes(16) for n in (1, 2, 3))
    papers = [drawn(first), drawn(second, first), drawn(third, first, second)]
    assert [shared(a, b) for a, b in itertools.combinations(papers, 2)] == [0, 0, 0]
    with pytest.raises(ValueError, match="for question 22 was drawn before"):
        drawn(*(n.to_bytes(16) for n in range(5)), chosen=[22])  # of four


def test_no_paper_has_a_question_of_the_worksheets_that_everybody_has():
    seen = {text for path, text in worksheets.pages().items() if "key" not in path.stem}
    for n in range(20):
        for question in drawn(n.to_bytes(16), chosen=range(1, 17)):
            assert not any(exam.printed.markdown(question.text) in page for page in seen)


@pytest.mark.parametrize("place", exam.PLACES, ids=lambda place: f"{place.number} {place.name}")
def test_a_place_has_many_questions_and_always_as_many_points(place):
    questions = [exam.draw(place, seed_of(n.to_bytes(16))) for n in range(40)]
    (points,) = {question.points for question in questions}
    assert 5 <= points <= 7 and all(len(question.credit) >= 2 for question in questions)
    assert len({question.text for question in questions}) >= 3
    if place.room != "paper":
        assert len(exam.pool(place)) >= 3 and len({q.answer for q in questions}) >= 3
        assert {q.title for q in questions} == {exam.ROOMS["bugs"]} or place.room != "bugs"


def test_a_paper_of_the_shape_in_the_rubric_can_be_chosen():
    questions = dict(zip(CHOSEN, drawn(bytes(16)), strict=True))
    points = dict.fromkeys(exam.ROOMS, 0)
    for number, question in questions.items():
        points[exam.PLACES[number - 1].room] += question.points
    assert points == RUBRIC["parts"] and sum(points.values()) == RUBRIC["points"]
    told = (ROOT / "teaching" / "README.md").read_text("utf-8")
    assert f"--paper {','.join(map(str, CHOSEN))} --minutes {RUBRIC['minutes']}" in told


def test_claims_of_the_examination_agree_with_the_lessons():
    verdicts = {c.number: c.verdict for lesson in lessons().values() for c in lesson.claims}
    for entry in tomllib.loads(exam.WRITTEN.read_text("utf-8"))["claims"]:
        assert verdicts[entry["claim"]] in entry["answer"].lower().split(".")[0]


# ---- questions of one's own


def test_a_folder_of_ones_own_adds_to_the_pools(tmp_path):
    for room in exam.KINDS:
        kind = exam.KINDS[room][0]
        own = ENTRY.format(room=room, kind=kind, points=exam.POINTS[room])
        (tmp_path / "mine.toml").write_text(own, "utf-8")
        (place,) = (p for p in exam.PLACES if (p.room, p.name) == (room, kind))
        assert len(exam.pool(place, tmp_path)) == len(exam.pool(place)) + 1
        texts = {exam.draw(place, seed_of(n.to_bytes(16)), pools=tmp_path).text for n in range(40)}
        assert "Show it." in texts


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[[proofs]]", "[[proof]]", "rooms are bugs, proofs, claims"),
        ('kind = "attention"', 'kind = "magic"', "kinds are attention, masks"),
        ('answer = "It is shown."', "", "proofs 1 needs kind, title, text, answer, and credit"),
        ("[[5,", "[[7,", "proofs 1 has 7 points, not 5"),
        ('"Show it."', '"Show it.', "is no file of questions"),
        ('[[5, "all"]]', '["all"]', "proofs 1 needs kind"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(tmp_path, old, new, words):
    entry = ENTRY.format(room="proofs", kind="attention", points=5)
    assert old in entry
    (tmp_path / "mine.toml").write_text(entry.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        exam.sheet([20], 90, "", bytes(16), pools=tmp_path)


@pytest.mark.parametrize(
    ("numbers", "words"), [([1, 99], "there is no question 99"), ([1, 2, 1], "stands twice")]
)
def test_numbers_that_make_no_paper_are_refused(numbers, words):
    with pytest.raises(ValueError, match=words):
        exam.sheet(numbers, 90, "", bytes(16))


def test_pools_in_the_course_or_nowhere_are_refused(tmp_path):
    for folder, words in (
        (exam.WRITTEN.parent, "which students have"),
        (tmp_path, "no file of questions"),
    ):
        with pytest.raises(ValueError, match=words):
            exam.sheet([20], 90, "", bytes(16), pools=folder)


# ---- the pages


def test_a_paper_says_its_points_and_neither_page_has_the_secret(
    key, tmp_path, monkeypatch, capsys
):
    chosen = ["--paper", ",".join(map(str, CHOSEN)), "--title", "Finals & more"]
    run(monkeypatch, "--secret", key, *chosen, "--into", tmp_path / "finals")
    paper, answers = (
        (tmp_path / "finals" / f"{n}.html").read_text("utf-8") for n in ("paper", "key")
    )
    told = "".join(capsys.readouterr())
    bits = key.read_text().strip()
    for text in (paper, answers, told):
        assert bits not in text.lower() and bits[:8] not in text.lower() and key.name not in text
    rows = re.findall(r"<tr><td>(\w+)</td><td>(\d+)</td><td></td></tr>", paper)
    assert [name for name, _ in rows] == [*map(str, range(1, len(CHOSEN) + 1)), "Sum"]
    *points, total = (int(number) for _, number in rows)
    headings = [int(n) for n in re.findall(r'class="points">(\d+) points', paper)]
    assert points == headings and sum(points) == total and len(points) == len(CHOSEN)
    assert f"<span>{total} points</span>" in paper and f"<span>{total} points</span>" in answers
    assert "<span>90 minutes</span>" in paper and "<title>Finals &amp; more</title>" in paper
    assert paper.count('class="room"') == len(CHOSEN) and "Points:" not in answers
    credit = sum(int(n) for n in re.findall(r"<li>(\d+) for", answers))
    assert credit == total and 'class="credit"' not in paper


def test_what_gets_fewer_points_is_marked_as_an_alternative():
    entry = [2, "a sum", [1, "b without a reason"]]
    question = exam._written(
        {"kind": "masks", "title": "", "text": "", "answer": "", "credit": [[3, "a"], entry]},
        "proofs",
        "",
    )
    assert question.points == 5  # the 1 stands in place of the 2
    shown = exam.printed.answered(1, question)
    assert "<li>2 for a sum. <em>Or instead, not besides: 1 for (b) without a" in shown
    assert "<li>3 for (a).</li>" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["--secret", "x", "--into", "y"],
        ["--paper", "1", "--into", "y"],
        ["--secret", "x", "--paper", "1"],
        ["--secret", "x", "--paper", "one", "--into", "y"],
        ["--secret", "x", "--seed", "7", "--paper", "1", "--into", "y"],  # never share one
        ["--into", "y"],
    ],
)
def test_options_that_do_not_fit_are_refused(monkeypatch, capsys, words):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *words)
    assert stopped.value.code == 2 and "error:" in capsys.readouterr().err
