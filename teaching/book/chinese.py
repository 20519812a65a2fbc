"""The book's pages in Chinese: the index for readers of Chinese notes, and each lesson in short.

What stands in teaching/chinese is simplified Chinese. The traditional pages are made of it: OpenCC
knows the characters, the glossary the terms. `index.toml` has the rows of the index. `NN.toml` has
the translations of lesson NN: its title, its outcomes, its boxes *In short* and what it says aloud,
each under the mark of the English text. When that changes its mark does, and

    python teaching/book/chinese.py

prints what is to be translated anew, ready to be filled in. A row with a claim has the mark of the
verdict in English, in the same way.
"""

import functools
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this file is run as a script, too

from course.lessons import Claim, Lesson, Notebook, lessons  # noqa: E402
from teaching.book import glossary  # noqa: E402

WRITTEN = ROOT / "teaching" / "chinese"
BOX = re.compile(r"^> \*\*In short\.\*\* (.+)$", re.MULTILINE)
ALOUD = re.compile(r"^## To say aloud\n\n(.+?)(?=\n\n## |\n## |\Z)", re.MULTILINE | re.DOTALL)
VERDICTS = {"fact": "对", "myth": "不对", "depends": "看情况", "answer": "解答"}
# Everyday words of the two ways of writing; the terms are the glossary's.
EVERYDAY = {"信息": "資訊", "網絡": "網路", "程序": "程式", "內存": "記憶體", "默認": "預設"}
EVERYDAY |= {"緩存": "快取", "數據": "資料", "代碼": "程式碼"}
EVERYDAY |= {"運行": "執行", "歸一化": "正規化", "打印": "印出", "質量": "品質", "接口": "介面"}


def read() -> dict:
    """Return the index as it is written: `notes` and `topic`s with their `row`s."""
    return tomllib.loads((WRITTEN / "index.toml").read_text("utf-8"))


def rows() -> list[dict]:
    """Return all rows of the index."""
    return [row for topic in read()["topic"] for row in topic["row"]]


@functools.cache
def translations(number: str) -> dict[str, str]:
    """Return the translations of a lesson by the marks of the English texts."""
    file = WRITTEN / f"{number}.toml"
    texts = tomllib.loads(file.read_text("utf-8"))["text"] if file.exists() else []
    return {text["of"]: text["zh"] for text in texts}


def mark(english: str) -> str:
    """Return the mark of a text: it changes when a word does, and not when a line breaks."""
    return hashlib.sha256(" ".join(english.split()).encode()).hexdigest()[:8]


def verdict_of(claim: Claim) -> str:
    return f"{claim.verdict}: {claim.why}"


def texts_of(lesson: Lesson) -> dict[str, list[str]]:
    """Return what of a lesson is translated: title, outcomes, boxes, and what is said aloud."""
    aloud = ALOUD.search(lesson.path.text)
    return {
        "title": [lesson.title],
        "outcomes": lesson.outcomes,
        "boxes": BOX.findall(lesson.path.text),
        "aloud": re.split(r"\n\n+", aloud[1].strip()) if aloud else [],
    }


def stale() -> Iterator[tuple[str, str]]:
    """Yield a lesson's number and each English text of it that has no translation."""
    for number, lesson in lessons().items():
        for texts in texts_of(lesson).values():
            for text in texts:
                if mark(text) not in translations(number):
                    yield number, text


def stale_rows() -> Iterator[tuple[dict, Claim]]:
    """Yield each row of the index whose verdict in English has changed, and its claim."""
    claims = {claim.number: claim for lesson in lessons().values() for claim in lesson.claims}
    for row in rows():
        if "claim" in row and row.get("of") != mark(verdict_of(claims[row["claim"]])):
            yield row, claims[row["claim"]]


# ---- Simplified and traditional


@functools.cache
def _converter():
    import opencc

    return opencc.OpenCC("s2tw")


@functools.cache
def _terms() -> dict[str, str]:
    """Return what OpenCC makes of each term where the glossary has something else for it."""
    pairs = dict(EVERYDAY)
    for term in glossary.read():
        hant = term["hant"].split(" / ")[0].split(" (")[0]
        for hans in term["hans"].split(" / "):
            made = _converter().convert(hans.split(" (")[0])
            if made != hant and len(made) > 1:
                pairs[made] = hant
    return dict(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


def traditional(text: str) -> str:
    """Return a text in traditional characters and with the terms that go with them."""
    made, terms = _converter().convert(text), _terms()
    return re.sub("|".join(map(re.escape, terms)), lambda found: terms[found[0]], made)


# ---- Pages


def pages() -> dict[Path, str]:
    """Return all pages in Chinese, by their path in the book."""
    made = {}
    for folder, change in (("hans", str), ("hant", traditional)):
        made[Path(folder, "index.md")] = change(index_page())
        for number, lesson in lessons().items():
            made[Path(folder, f"{number}.md")] = change(lesson_page(lesson))
    return made


def index_page() -> str:
    index, parts = read(), [HEAD]
    names = {key: f"〔{n}〕" for n, key in enumerate(index["notes"], 1)}
    for topic in index["topic"]:
        paper = f"（论文 {topic['paper']}）" if topic["paper"] else ""
        parts.append(f"\n## {topic['title']}{paper}\n\n| 笔记里说 | 结论 | 在哪里 |\n|---|---|---|")
        for row in topic["row"]:
            notes = "".join(names[note] for note in row["notes"])
            parts.append(f"| {row['says']} {notes} | {_verdict(row)} | {place(row)} |")
    notes = [f"- {names[key]} {title}" for key, title in index["notes"].items()]
    links = "\n".join(lessons())
    return "\n".join([*parts, "\n## 说的是哪几篇笔记\n", *notes, TOCTREE.format(links=links)])


def lesson_page(lesson: Lesson) -> str:
    """Return a lesson in short: what stands here in Chinese is all that the page has."""
    here, texts = translations(lesson.number), texts_of(lesson)

    def chinese(text: str) -> str:
        return here.get(mark(text), f"（尚未翻译）{text}")

    parts = [f"# {lesson.number} · {chinese(lesson.title)}\n"]
    parts.append(f"英文原文：[{lesson.title}](../notebooks/{lesson.name}.ipynb)\n")
    parts += ["## 学完之后你会\n", *(f"- {chinese(text)}" for text in texts["outcomes"])]
    parts += ["\n## 要点\n", *(f"{n}. {chinese(t)}" for n, t in enumerate(texts["boxes"], 1))]
    if texts["aloud"]:
        parts += ["\n## 用自己的话说一遍\n", *(f"{chinese(text)}\n" for text in texts["aloud"])]
    own = [row for row in rows() if row["at"].startswith(lesson.number)]
    if own:
        parts.append("\n## 说得对吗？\n\n| 笔记里说 | 结论 | 在哪里 |\n|---|---|---|")
        parts += [f"| {row['says']} | {_verdict(row)} | {place(row)} |" for row in own]
    return "\n".join(parts) + "\n"


def _verdict(row: dict) -> str:
    word, verdict = VERDICTS[row["is"]], row["verdict"]
    return f"**{word}**{verdict.removeprefix(word) if verdict.startswith(word) else f'。{verdict}'}"


def notebook_of(row: dict) -> Notebook | None:
    """Return the notebook that a row leads to."""
    place, _, _ = row["at"].partition("#")
    lesson = lessons()[place[:2]]
    return lesson.evidence if place.endswith("e") else lesson.path


def place(row: dict) -> str:
    """Return a link to the section that a row leads to."""
    notebook, (where, _, anchor) = notebook_of(row), row["at"].partition("#")
    address = f"../{notebook.path.relative_to(ROOT).as_posix()}"
    titles = {heading.replace(" ", "-"): heading for heading in notebook.headings}
    kind = f"{where[:2]} 课{'验证篇' if where.endswith('e') else ''}"
    if not anchor:
        return f"[{kind}]({address})"
    return f"[{kind} · {titles[anchor]}](<{address}#{quote(anchor, safe='?,·:')}>)"


HEAD = """# 给读过中文笔记的你

你读过一篇关于《Attention Is All You Need》的中文笔记，心里有一句话、一个式子、一个问题。
这里按论文的顺序把它们列出来：笔记里怎么说（用我们自己的话），结论是什么，课程在哪一节让你亲手验证。
课程是英文的，不过每一课都有一页中文要点（左边的目录）；英文术语在[术语表](../glossary.md)里有中文。

结论的四种：**对**；**不对**；**看情况**（后面说看什么）；**解答**（原来是个问题）。
“验证篇”是专门回答疑问的笔记本，每个结论都是可以运行的实验。
"""

TOCTREE = """
```{{toctree}}
:hidden:

{links}
```
"""


def main() -> None:
    for number, text in stale():
        print(f'# lesson {number}: {text}\n[[text]]\nof = "{mark(text)}"\nzh = ""\n')
    for row, claim in stale_rows():
        print(f"# {claim.number} is now {mark(verdict_of(claim))}: {verdict_of(claim)}")
        print(f"# {row['is']}: {row['verdict']}\n")


if __name__ == "__main__":
    main()
