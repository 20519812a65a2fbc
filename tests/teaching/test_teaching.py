"""What a teacher is given holds: minutes, numbers, names, links; and nothing of it is stale."""

import itertools
import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from course import lessons as course
from teaching import make
from teaching.generate import (
    matrix,
    misconceptions,
    notes,
    paper,
    plan,
    quiz,
    tables,
    worksheets,
)
from teaching.project import leaderboard

TEACHING = course.ROOT / "teaching"
WEEKS = sorted((TEACHING / "notes").glob("week_*.md"), key=lambda path: int(path.stem[5:]))
LESSONS_OF = {
    1: "00 01",
    2: "02",
    3: "03",
    4: "04 05",
    5: "06",
    6: "07 08",
    7: "09",
    8: "10",
    9: "11",
    10: "12 13",
    11: "14 15",
}
RUBRIC = yaml.safe_load((TEACHING / "rubric.yaml").read_text("utf-8"))
SYLLABUS = (TEACHING / "SYLLABUS.md").read_text("utf-8")
PAGES = [path for path in sorted(TEACHING.rglob("*.md")) if "book" not in path.parts]

each_week = pytest.mark.parametrize("path", WEEKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def made():
    """Everything that `make teaching` makes, by its path in build/teaching."""
    return make.made()


def test_no_page_with_a_part_that_is_made_is_stale():
    assert not make.stale(), "run python teaching/make.py"


def test_everything_can_be_made(made):
    folders = Counter(str(path.parent) for path in made)
    lessons = len(course.lessons())
    texts = len([*(TEACHING / "slides").glob("[0-9][0-9].md")])
    assert folders["slides"] == texts + 3 and folders["worksheets"] == 2 * (lessons - 1)
    assert folders["exam"] == 2 and folders["quiz/qti"] == len(quiz.items()) + 1


def test_links_of_the_tables_lead_somewhere(made):
    for path in (matrix.OUT, misconceptions.OUT):
        links_lead_somewhere(make.BUILD / path, made[path].decode())


def test_only_what_is_stale_is_written_and_what_has_no_lesson_any_more_goes(
    tmp_path, monkeypatch, capsys
):
    week = tmp_path / "week.md"
    week.write_text("old")
    monkeypatch.setattr(make, "ROOT", tmp_path)
    monkeypatch.setattr(make, "BUILD", tmp_path / "build")
    monkeypatch.setattr(make, "stale", lambda: {week: b"new"})
    monkeypatch.setattr(make, "made", lambda: {Path("slides/01.html"): b"one"})
    monkeypatch.setattr("sys.argv", ["make.py", "--check"])
    with pytest.raises(SystemExit, match="run python"):
        make.main()
    assert week.read_text() == "old" and "stale: week.md" in capsys.readouterr().out
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "02.html").write_text("of a lesson that is gone")
    monkeypatch.setattr("sys.argv", ["make.py"])
    make.main()
    assert week.read_text() == "new"
    assert [p.name for p in (tmp_path / "build").rglob("*.html")] == ["01.html"]


# ---- the plan


def planned(**changes):
    text = plan.PLAN.read_text("utf-8")
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("set-up (20 min)", "set-up (46 min)", "a lab of 81 minutes, at most 80"),
        (", `repaired_loss`", ", `repaired_loss`, x (9 min)", "a home of 99 minutes, 30 to 90"),
        ("to its end (20 min)", "to its end (9 min)", "a home of 29 minutes, 30 to 90"),
        ("`attend_one`", "`attend_one`, `context_vector`", "no task ['context_vector']"),
        ("`stable_softmax`", "`stable_sofmax`", "no task ['stable_sofmax']"),
        (", `repaired_step`", "", "leaves out: [('05', 'repaired_step')]"),
        (", `memory_of_a_step` · **50", " · **50", "leaves out: [('15', 'memory_of_a_step')]"),
        ("`attention_gradient`", "`attention_gradient`, `attend_one`", "stand twice in a plan"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(old, new, words):
    with pytest.raises(ValueError) as caught:
        plan.with_sums(planned(change=(old, new)))
    assert words in str(caught.value)


def test_the_plan_names_every_lesson_of_the_storyboards():
    first = plan.PLAN.read_text("utf-8").split("## Plan 2")[0]
    assert set(re.findall(r"\b(\d\d)(?=,| \|)", first)) >= {f"{n:02}" for n in range(16)}


def test_a_term_has_one_lesson_a_week_each_after_those_it_builds_on_with_its_own_notes():
    fourth = plan.PLAN.read_text("utf-8").split("## Plan 4")[1].split("\n## ")[0]
    rows = re.findall(
        r"^\| \[(\d+)\]\(notes/week_(\d+)\.md\) \| ([\d, ]+) \|", fourth, re.MULTILINE
    )
    assert [number for _, _, of in rows for number in of.split(", ")] == [*course.lessons()]
    assert [week for week, _, of in rows if "," in of] == ["1"]
    for _, of_plan_1, of in rows:
        assert set(of.split(", ")) <= set(plan.lessons_of(int(of_plan_1)))


def test_a_lesson_that_is_to_come_is_named_and_not_added_up():
    row = (
        "| week | lessons | lab, at most 85 min |\n|---|---|---|\n| 9 | 98 | `later` · **7 min** |"
    )
    assert "`later` · **– min**" in plan._plan(row, whole=False)


# ---- the notes


def week_of(path):
    return int(path.stem.removeprefix("week_"))


def lecture(path):
    """The rows of a lecture's table: minutes, its cell of slides, what."""
    rows = notes.ROW.findall(path.read_text("utf-8").split("## What to draw")[0])
    return [(int(minutes), slides, what) for minutes, slides, what, _ in rows]


@each_week
def test_a_lecture_takes_ninety_minutes_with_its_activities_and_questions(path):
    rows = lecture(path)
    assert sum(minutes for minutes, _, _ in rows) == 90 and len(rows) >= 7
    titles = re.findall(r"^\*\*[^*]+\((\d+) min\)\.\*\*", path.read_text("utf-8"), re.MULTILINE)
    for number, takes in enumerate(titles, 1):
        room = [minutes for minutes, _, what in rows if f"ctivity {number}" in what]
        assert sum(room) >= int(takes), f"activity {number}"
    assert any("uestion " in what for _, _, what in rows)
    asked = path.read_text("utf-8").split("## Questions to discuss")[1]
    for _, _, what in rows:
        for number in re.findall(r"uestion (\d)", what):
            assert f"\n{number}. *" in asked


@each_week
def test_a_row_of_the_lecture_shows_slides_of_the_sections_it_names(path):
    week = week_of(path)
    seen = []
    for _, cell, what in lecture(path):
        shown = notes.slides_of(cell, plan.lessons_of(week))
        seen += shown
        for lesson, place in notes.PLACE.findall(what) if shown else []:
            anchors = {a for n, number in shown if n == lesson for a in notes.sections(n, number)}
            anchor = course.lessons()[lesson].link(place, "").partition("#")[2].rstrip(">")
            assert anchor in anchors, (what, place)
    assert len(seen) == len(set(seen)), "a slide in two rows"


def test_slides_that_no_row_names_are_listed_and_slides_that_are_not_there_refused():
    last = notes.count("03")
    text = f"| 5 | 1–2, 4–{last - 1} | x | y |\n\nNot shown: –.\n"
    assert notes.with_unseen(text, ["03"]).endswith(f"\nNot shown: slides 3, {last}.\n")
    both = f"| 5 | 03: 1–{last}; 04: 2–{notes.count('04')} | x | y |\n\nNot shown: –.\n"
    assert notes.with_unseen(both, ["03", "04"]).endswith("\nNot shown: slides 04: 1.\n")
    with pytest.raises(ValueError, match=f"no slide {last + 1} of lesson 03"):
        notes.slides_of(f"2, {last}–{last + 1}", ["03"])


def test_the_lab_has_a_timetable_that_comes_from_the_plan(monkeypatch):
    table = notes.timetable(3)
    assert "| 15 | the sheets compared, then `check` | 5 |" in table
    assert "| 35 | `split_heads`, `merge_heads` | 20 |" in table
    assert "| 65 | save;" in table
    assert all("\n| until min |" in path.read_text("utf-8") for path in WEEKS)
    monkeypatch.setattr(notes, "COLLECT", 31)
    with pytest.raises(ValueError, match="the lab of week 3 takes 91 minutes, at most 90"):
        notes.timetable(3)


SETTLED = {  # the sections that settle a lesson's first **Predict**, where a lecture has it
    place for path in WEEKS for _, _, what in lecture(path) if "settled" in what
    for place in notes.PLACE.findall(what.split("settled")[1])
}  # fmt: skip


def cut(cell, lessons):
    """The sections in a plan's last column, and in its talk: §5 to §8 are four."""
    lesson, found = lessons[0], []
    for number, first, last in re.findall(r"(?<!\d)(\d\d)(?= )|§(\d+)(?: to §(\d+))?", cell):
        lesson = number or lesson
        span = range(int(first), int(last or first) + 1) if first else ()
        found += [(lesson, f"§{n}") for n in span]
    return found


def test_every_section_that_a_plan_names_is_in_its_lesson():
    named = set()
    for line in re.findall(r"^\| (?:\[?\d+|day \d, \d).*$", plan.PLAN.read_text("utf-8"), re.M):
        _, of, talk, *_, late = (cell.strip() for cell in line.strip("|").split("|"))
        named |= {place for cell in (talk, late) for place in cut(cell, re.findall(r"\d\d", of))}
    assert len(named) > 40
    for number, place in sorted(named):
        course.lessons()[number].link(place, "..")  # raises `ValueError` if there is none


def test_what_is_cut_is_in_the_lecture_and_settles_no_prediction():
    assert len(SETTLED) >= 10  # one for each lesson from 01 on
    for path in WEEKS[:9]:
        week = week_of(path)
        places = {place for *_, what in lecture(path) for place in notes.PLACE.findall(what)}
        row = plan.row(week)
        cuts = cut(row["when late"].split("; keep")[0], plan.lessons_of(week))
        assert cuts and set(cuts) <= places - SETTLED, week
    for part in plan.PLAN.read_text("utf-8").split("\n## Plan ")[2:]:
        for line in re.findall(r"^\| (?:\d+|day \d, \d) \|.*$", part, re.MULTILINE):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            of = re.findall(r"\d\d", cells[1])
            whole = re.sub(r"\bin §\d+", "", cells[-1])  # a part of a section may go
            assert not set(cut(whole, of)) & SETTLED, line


@each_week
def test_notes_are_three_pages_with_everything_in_its_place(path):
    body = path.read_text("utf-8").split(notes.MARK)[0]
    rooms = re.split(r"^## ", body, flags=re.MULTILINE)
    titles = [room.split("\n")[0] for room in rooms[1:]]
    assert titles == [
        "The lecture",
        "What to draw",
        "The lab",
        "Where a room gets stuck",
        "Activities for pairs",
        "Questions to discuss",
    ]
    assert len(re.findall(r"^\*\*[^*]+\(\d+ min\)\.\*\*", rooms[5], re.MULTILINE)) == 2
    assert 4 <= len(re.findall(r"^\d\. \*", rooms[6], re.MULTILINE)) <= 6
    for question in re.split(r"^\d\. ", rooms[6], flags=re.MULTILINE)[1:]:
        assert notes.PLACE.search(question), f"which section settles it? {question}"


@each_week
def test_what_students_are_told_is_what_the_checks_say(path):
    names = [course.lessons()[number].name for number in plan.lessons_of(week_of(path))]
    said = {text for name in names for text in misconceptions.texts_of(name)}
    for line in re.split(r"\n(?=- )", path.read_text("utf-8")):
        if match := re.match(r"- `(\w+)`(?: \(home\))?: (?=\")", line):
            quotes = re.findall(
                r'"([^"]+)"', " ".join(line[match.end() :].split("\n\n")[0].split())
            )
            assert quotes
            for quote in quotes[:1]:
                assert any(quote in text or text in quote for text in said), (match[1], quote)


@each_week
def test_a_number_in_the_notes_stands_in_the_lessons(path):
    week = int(path.stem[5:])
    text = path.read_text("utf-8").split(notes.MARK)[0].replace("−", "-")
    text = re.sub(r"\[\d\d [^\]]+\]|^# .*$|lessons? [\d, and]+", "", text, flags=re.IGNORECASE)
    found = re.findall(r"\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{3,}|\d+(?= (?:to \d+ )?%)", text)
    lessons = "".join(
        file.read_text("utf-8")
        for number in LESSONS_OF.get(week, "").split()
        for file in (course.ROOT / "notebooks").rglob(f"{number}_*.ipynb")
    )
    lessons = lessons.replace("{,}", ",").replace("−", "-")
    missing = [n for n in found if not re.search(rf"(?<![\d.]){re.escape(n)}(?!\d|\.\d)", lessons)]
    assert not [n for n in missing if n not in {"2004", "2040", "2017", "4,194,304"}]


def test_numbers_of_the_notes_that_no_lesson_has():
    ours = ["the", "cat", "the", "cat", "on", "the", "mat"]
    theirs = ["the", "cat", "sat", "on", "the", "mat"]
    words = Counter(ours) & Counter(theirs)
    pairs = Counter(itertools.pairwise(ours)) & Counter(itertools.pairwise(theirs))
    assert (words.total(), len(ours), pairs.total(), len(ours) - 1) == (5, 7, 3, 6)
    assert "5 of 7" in (WEEKS[7]).read_text("utf-8") and "3 of 6" in WEEKS[7].read_text("utf-8")
    # lesson 03: the multiplications, of which its evidence counts two operations each
    assert 8_388_608 // 2 == 4 * 128 * 64**2 + 2 * 128**2 * 64 == 4_194_304
    assert 2 * 2 + 3 + 4 + 5 == 16 and "= 16" in WEEKS[9].read_text("utf-8")


def test_a_section_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="lesson 02 has no section '§99'"):
        notes.with_links("see [02 §99]\n")
    assert "[98 §1]:" not in notes.with_links("see [98 §1]\n")


# ---- pages by hand


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links_lead_somewhere(path, path.read_text("utf-8"))


def links_lead_somewhere(path, text):
    for target in re.findall(r"\]\(<?([^)>\s]+)>?\)|^\[[^\]]+\]: <([^>]+)>", text, re.M):
        file, _, anchor = "".join(target).partition("#")
        if file.startswith("http"):
            continue
        there = Path(os.path.normpath(path.parent / file)) if file else path
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
        if anchor and there.suffix == ".ipynb":
            assert anchor in course.Notebook(there).sections


def test_what_is_public_weighs_little():
    shares = RUBRIC["shares"]
    assert 10 <= shares["exercises"] <= 15  # their solutions are in the repository
    assert shares["examination"] + shares["oral"] >= 60 and RUBRIC["pass"]["examination"] == 50
    for part in ("exercises", "examination"):
        assert f"half of the points in the {part}" in SYLLABUS


def test_the_hours_of_the_syllabus_are_those_of_plan_and_lessons():
    table = plan.hours()
    hours_of_each, points = table.split("| **ECTS**")
    rows = [
        [int(n) for n in re.findall(r"\| \**(\d+)\**(?= \|)", line)]
        for line in hours_of_each.split("\n")
    ]
    *hours, total = [row for row in rows if row]
    assert [sum(column) for column in zip(*hours, strict=True)] == total
    ects = re.findall(r"\*\*(\d+)(?: to (\d+))?\*\*", points)
    for (low, high), hours_of_all in zip(ects, total, strict=True):
        assert 25 * int(low) <= hours_of_all <= 30 * int(high or low), table
    home = [sum(m for _, m in plan.work(week, "home")) for week in range(1, 12)]
    assert all(30 <= minutes <= 90 for minutes in home) and hours[2][1] == round(sum(home) / 60)
    assert table in SYLLABUS


def test_shares_are_the_same_in_syllabus_and_rubric_and_add_up():
    shares = {k: int(v) for k, v in re.findall(r"^\| (\w+) \| (\d+) % \|", SYLLABUS, re.MULTILINE)}
    assert shares == RUBRIC["shares"] and sum(shares.values()) == 100
    criteria = RUBRIC["project"]["criteria"]
    project = (TEACHING / "project" / "README.md").read_text("utf-8")
    told = re.findall(r"^\| \*\*(\w+)\*\* \((\d+) %\)", project, re.MULTILINE)
    assert {name: int(share) for name, share in told} == criteria and sum(criteria.values()) == 100
    oral = RUBRIC["oral"]
    told = f"wo talks of {oral['minutes']} minutes"
    assert oral["times"] == 2 and told in SYLLABUS and told in plan.PLAN.read_text("utf-8")
    for level in RUBRIC["project"]["levels"]:
        assert f"{level} (" in project


def test_predictions_and_marks_by_hand_are_the_same_in_syllabus_plan_and_notes():
    assert "**Predictions** on paper are never graded for being right" in SYLLABUS
    told = plan.PLAN.read_text("utf-8")
    read = [week_of(p) for p in WEEKS if "read by hand" in p.read_text("utf-8")]
    assert read == [3, 5, 7]
    assert "(weeks 3, 5 and 7)" in SYLLABUS and "In weeks 3, 5 and 7 one task is read" in told
    for stem, name in RUBRIC["manual"]["tasks"].items():
        (path,) = (p for p in WEEKS if stem[:2] in LESSONS_OF.get(week_of(p), ""))
        assert re.search(rf"`{name}` is read by hand", " ".join(path.read_text("utf-8").split()))


def test_the_tasks_that_are_read_by_hand_exist():
    for stem, name in RUBRIC["manual"]["tasks"].items():
        assert name in [n for task in course.tasks()[stem[:2]] for n in task.names]
    assert all(set(levels) == {0, 1, 2} for levels in RUBRIC["manual"]["criteria"].values())


def test_the_answers_to_the_self_test_are_right():
    a, b = torch.zeros(2, 3), torch.zeros(3, 4)
    sums = [x + y for x in (-1, 1) for y in (-1, 1)]
    right = [
        "2 × 4; 4 × 2" if (a @ b).shape == (2, 4) and (b.T @ a.T).shape == (4, 2) else "",
        str(int(np.dot([1, 2, -1], [3, 0, 2]))),
        f"{int(np.mean(sums))} and {int(np.var(sums))}",
        f"{int(math.exp(0))} and {int(math.log(1))}",
        f"e times, about {math.e:.3f}",
        str(2 * 3),
        str(2 * 5),
        f"`{torch.zeros(2, 3, 4).sum(dim=-1).shape}`",
        f"`{torch.arange(6).view(2, 3)[1]}`",
        f"{-math.log(1 / 4) / math.log(2):.0f}",
    ]
    box = SYLLABUS.split("<summary>Answers</summary>")[1].split("</details>")[0]
    told = [part.strip() for part in re.split(r"(?:^|·)\s*\d+\. ", " ".join(box.split()))[1:]]
    told = [part.removesuffix("·").strip() for part in told]
    assert told == right


# ---- worksheets


def test_another_seed_has_other_numbers_and_the_same_seed_the_same():
    made = {seed: worksheets.pages(seed) for seed in (1, 2)}
    assert made[1] == worksheets.pages(1) and made[1].keys() == made[2].keys()
    differing = [path for path in made[1] if made[1][path] != made[2][path]]
    assert len(differing) == len(made[1])
    same = [n for n in paper.names() if len({paper.make(n, s).text for s in range(12)}) < 3]
    assert not same


def test_every_lesson_has_a_worksheet_of_four_questions():
    for lesson in course.tasks():
        assert len(paper.names(lesson)) == 4 or int(lesson) >= 10
        assert Path("worksheets", f"{lesson}.html") in worksheets.pages()


# ---- quiz and matrix


def gift_questions(text):
    """Read GIFT as Moodle does: blocks between empty lines, signs escaped by a backslash."""
    lesson = None
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if not line.startswith("//")]
        if (block := "\n".join(lines).strip()).startswith("$CATEGORY: "):
            lesson = block.rpartition("/")[2]
        elif block:
            name, question, answer, feedback = re.fullmatch(
                r"::((?:\\.|[^:\\])+)::((?:\\.|[^{}~=#:\\])+)\{(TRUE|FALSE)####((?:\\.|[^{}~=#:\\])+)\}",
                block,
                re.S,
            ).groups()
            plain = [re.sub(r"\\(.)", r"\1", part).strip() for part in (question, feedback)]
            yield quiz.Item(name, lesson, plain[0], answer == "TRUE", plain[1])


def qti_item(text):
    """Read a QTI item, every reference of which must lead to a declaration."""
    space = {"q": quiz.QTI}
    item = ElementTree.fromstring(text.encode())
    # In the order of imsqti_v2p1.xsd, by which every item was found valid.
    order = ["responseDeclaration", "outcomeDeclaration", "outcomeDeclaration", "itemBody"]
    order += ["responseProcessing", "modalFeedback"]
    assert [each.tag for each in item] == [f"{{{quiz.QTI}}}{name}" for name in order]
    assert {"identifier", "title", "adaptive", "timeDependent"} == set(item.attrib)
    outcomes = {o.get("identifier") for o in item.iterfind("q:outcomeDeclaration", space)}
    used = {o.get("identifier") for o in item.iterfind(".//q:setOutcomeValue", space)}
    assert used <= outcomes == {"SCORE", "FEEDBACK"}
    (response,) = (r.get("identifier") for r in item.iterfind("q:responseDeclaration", space))
    (asked,) = item.iterfind(".//q:choiceInteraction", space)
    assert asked.get("responseIdentifier") == response == "RESPONSE"
    choices = [c.get("identifier") for c in asked.iterfind("q:simpleChoice", space)]
    (right,) = (v.text for v in item.iterfind(".//q:correctResponse/q:value", space))
    assert choices == list(quiz.CHOICES) and right in choices
    (told,) = item.iterfind("q:modalFeedback", space)
    (shown,) = item.iterfind(".//q:setOutcomeValue[@identifier='FEEDBACK']/q:baseValue", space)
    assert (told.get("outcomeIdentifier"), told.get("identifier")) == ("FEEDBACK", shown.text)
    lesson = re.fullmatch(r"Lesson (\d\d), .*", item.get("title"))[1]
    prompt = asked.find("q:prompt", space).text
    return quiz.Item(item.get("identifier"), lesson, prompt, right == "true", told.text)


def test_what_a_platform_reads_in_both_formats_is_the_quiz():
    found = quiz.items()
    assert list(gift_questions(quiz.gift(found))) == found
    assert [qti_item(quiz.qti(item)) for item in found] == found
    space = {"cp": quiz.CP}
    manifest = ElementTree.fromstring(quiz.manifest(found).encode())
    files = [entry.get("href") for entry in manifest.iterfind(".//cp:file", space)]
    made = {path.name for path in quiz.pages() if path.suffix == ".xml"}
    assert files == [f"{item.number}.xml" for item in found]
    assert made == {*files, "imsmanifest.xml"}


def test_the_quiz_cannot_be_passed_by_one_answer_and_its_items_stand_alone():
    found = quiz.items()
    assert len({item.text for item in found}) == len(found) >= 60
    share = sum(item.right for item in found) / len(found)
    assert 0.4 < share < 0.6
    for item in found:  # no lesson, run or figure that only its reader has seen
        assert not re.search(r"\b(our|ours|we|here|lesson|this course)\b|§", item.text), item


def test_an_item_of_no_claim_is_refused(tmp_path, monkeypatch):
    (tmp_path / "quiz.toml").write_text('[C999]\ntext = "x"\ntrue = true\nwhy = "y"\n')
    monkeypatch.setattr(quiz, "WRITTEN", tmp_path / "quiz.toml")
    with pytest.raises(ValueError, match="no lesson has the claims"):
        quiz.items()


def test_the_matrix_has_every_section_of_the_paper_task_and_claim():
    text = matrix.pages()[matrix.OUT]
    assert re.search(r"^\| Figure 1 \| .* \| \[00 §8\]\(.*\), \[06 §7\]\(.*\|$", text, re.M)
    for tasks in course.tasks().values():
        assert all(f"`{name}`" in text for task in tasks for name in task.names)
    claims = [claim for lesson in course.lessons().values() for claim in lesson.claims]
    assert all(f"[{claim.number}](" in text for claim in claims)
    assert all(lesson.outcomes for lesson in course.lessons().values())


# ---- the leaderboard


def test_no_source_stands_on_both_sides_of_the_split():
    pairs = [(f"Word {n} x", str(n)) for n in range(300)] + [
        (f"word  {n} X", "?") for n in range(300)
    ]
    parts = leaderboard.split(pairs, "salt")
    sides = [{" ".join(s.lower().split()) for s, _ in parts[name]} for name in ("public", "hidden")]
    assert not sides[0] & sides[1] and sum(map(len, parts.values())) == 600
    assert 0.1 < len(parts["hidden"]) / 600 < 0.3
    assert leaderboard.split(pairs, "another")["hidden"] != parts["hidden"]
    for bad, salt in ((pairs, ""), (pairs[:1], "salt")):
        with pytest.raises(ValueError):
            leaderboard.split(bad, salt)


def test_a_leaderboard_says_who_cannot_be_told_from_the_first():
    truth = [str(n) for n in range(100)]
    wrong = {"good": 5, "as good": 6, "worse": 40}
    answers = {name: ["?"] * n + truth[n:] for name, n in wrong.items()}
    answers["as good"] = truth[:94] + ["?"] * 6
    lines = leaderboard.table(answers, truth).split("\n")[2:]
    assert [line.split("|")[2].strip() for line in lines] == ["good", "as good", "worse"]
    assert ["not told" in line for line in lines] == [False, True, False]
    low, high = leaderboard.interval([1.0] * 50 + [0.0] * 50)
    assert 0.37 < low < 0.44 and 0.56 < high < 0.63  # 0.5 ± 1.96 · 0.05


class FakeRun:
    def translate(self, sources):
        return [source[::-1] for source in sources]


def test_one_broken_run_does_not_end_the_ranking(tmp_path, monkeypatch, capsys):
    (tmp_path / "hidden.tsv").write_text("abc\tcba\nabd\tdba\n", "utf-8")

    def load_run(folder):
        if folder.name == "broken":
            raise ValueError(f"{folder} was stopped")
        return FakeRun()

    monkeypatch.setattr(leaderboard, "load_run", load_run)
    line = ["leaderboard.py", "rank", str(tmp_path / "hidden.tsv"), "broken", "whole"]
    monkeypatch.setattr("sys.argv", line)
    leaderboard.main()
    told = capsys.readouterr()
    assert "| whole | 100.0%" in told.out and "broken is left out: broken was stopped" in told.err


def test_what_the_split_leaves_out_is_said(tmp_path, monkeypatch, capsys):
    lines = "".join(f"{n}\t{n}\n" for n in range(300)) + "a\tb\tc\n"
    (tmp_path / "pairs.tsv").write_text(lines, "utf-8")
    line = ["leaderboard.py", "split", str(tmp_path / "pairs.tsv"), "--salt", "x", "--into"]
    monkeypatch.setattr("sys.argv", [*line, str(tmp_path / "out")])
    leaderboard.main()
    assert "301" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("sys.argv", [*line, str(tmp_path / "file")])
    with pytest.raises(SystemExit):
        leaderboard.main()


# ---- the tables of lessons


def test_the_head_of_a_table_says_what_it_holds():
    marked = "{}| lesson | time |\n|---|---|\n| old | 1 |\n{}"
    made = tables.renewed(marked.format(tables.BEGIN, tables.END), "notebooks/")
    assert "old" not in made and made.count("\n| [") == len(course.lessons())
    minutes = course.lessons()["00"].minutes
    assert f"| [00 Start here](notebooks/00_start_here.ipynb) | {minutes} min |\n" in made
    with pytest.raises(ValueError, match="has columns lesson, time"):
        tables.renewed(f"{tables.BEGIN}| lesson | colour |\n{tables.END}", "")


# ---- mistakes to expect


def test_a_message_that_no_check_has_is_refused():
    told = "This is the answer when softmax runs over the queries; the keys are dim=-1."
    assert misconceptions.is_said("02_scaled_dot_product_attention", told)
    assert not misconceptions.is_said("02_scaled_dot_product_attention", told.replace("runs", "is"))
    with pytest.raises(ValueError, match="no check of 02_scaled_dot_product_attention says 'x'"):
        misconceptions._lesson("02", [{"task": "attend_one", "told": "x", "why": "", "ask": ""}])
