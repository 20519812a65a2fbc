"""Make the book: `make book`, or `python teaching/book/make.py`, writes build/book/html.

The sources are gathered in build/book/source, in the same folders as in the course, so that a
link between two files means the same in both. What is not a page is only linked to: a program
becomes a download. What is made for teaching stands in teaching/made as in build/teaching. The
solutions are no part of the book.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from course.lessons import lessons  # noqa: E402
from teaching import make as teaching  # noqa: E402
from teaching.book import chinese, glossary  # noqa: E402

BOOK = ROOT / "teaching" / "book"
MADE = Path("teaching", "made")
BUILD = ROOT / "build" / "book"
VOLUME = "transformer-lab.pdf"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# What pages link to as a file, and where its copy stands.
FILES = {
    "benchmarks": "benchmarks",
    "notebooks": "stored/notebooks",
    "exercises": "stored/exercises",
}
# The page in which the model of a lesson, by its number, can be tried.
DATES = '<a href="../teaching/made/page/dates.html">the date model</a>'
HEAD = '<a href="../teaching/made/page/head.html">one attention head</a>'
TRY = {"00": DATES, "02": HEAD, "08": DATES, "09": DATES}


def make(
    build: Path = BUILD, pdf: bool = True, repository: str = "", students: bool = False
) -> Path:
    """Build the book in the folder `build` and return the folder of its pages.

    For `students` the part on teaching stays out, papers and keys with it. `repository` is the
    owner and name of a public copy ("owner/name"): with it, each lesson has its launch links. The
    PDFs need Chromium and are left out, with a word, where it is missing.
    Raises `subprocess.CalledProcessError` if Sphinx has something to complain about.
    """
    source, html = build / "source", build / "html"
    program = next(filter(None, map(shutil.which, CHROMIUM)), None) if pdf else None
    files = teaching.made(makers=(teaching.page,) if students else teaching.MADE)
    gather(source, files, program is not None, repository, students)
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-c", BOOK, "-d", build / "doctrees"]
    options += ["-D", f"html_search_scorer={scorer(build / 'search.js')}"]
    subprocess.run([sys.executable, "-m", "sphinx", *options, source, html], check=True)
    here = teaching.page.pages("../../../notebooks/{}.html", "../../../index.html")
    teaching.write(files | teaching.encoded(here), html / MADE)
    if program:
        print_lessons(html, program)
    elif pdf:
        print("There is no Chromium here: the book has no PDFs.", file=sys.stderr)
    return html


def gather(
    source: Path, files: Mapping[Path, bytes], pdf: bool, repository: str, students: bool = False
) -> None:
    """Put all pages, as Sphinx wants them, into `source`; touch only what has changed.

    `files` are those that are made for teaching; `make` says what `students` do not get.
    """
    pages = {
        path.relative_to(BOOK / "pages"): path.read_text("utf-8")
        for path in (BOOK / "pages").rglob("*.md")
    }
    pages[Path("index.md")] = first_page(pages[Path("index.md")], pdf, repository)
    slides = set((ROOT / "teaching" / "slides").glob("[0-9][0-9].md"))  # sources, not pages
    for path in (ROOT / "teaching").rglob("*.md"):
        if BOOK not in path.parents and path not in slides:
            pages[path.relative_to(ROOT)] = path.read_text("utf-8")
    grading = Path("course", "grading", "grading.md")  # lies beside what it describes
    pages[grading] = "---\norphan: true\n---\n\n" + (ROOT / grading).read_text("utf-8")
    pages[MADE / "index.md"] = made_page(files)
    if students:
        ours = Path("teaching", "chinese", "README.md")
        of_teachers = ("teaching", "course")
        pages = {p: text for p, text in pages.items() if p.parts[0] not in of_teachers or p == ours}
        pages[ours] = "---\norphan: true\n---\n\n" + pages[ours]
        pages[Path("index.md")] = pages[Path("index.md")].replace("\nteaching/index\n", "\n")
    pages[Path("glossary.md")] = glossary.page(glossary.read())
    pages |= chinese.pages()
    for path, content in files.items():
        if path.suffix == ".md":
            pages[MADE / path] = content.decode()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        lesson = lesson_page(path.stem, notebook, pdf, repository)
        pages[path.relative_to(ROOT)] = json.dumps(lesson, ensure_ascii=False)
    for path in (ROOT / "notebooks" / "evidence").glob("*.ipynb"):
        evidence = as_shown(json.loads(path.read_text("utf-8")))
        pages[path.relative_to(ROOT)] = json.dumps(evidence, ensure_ascii=False)
    for path in (ROOT / "exercises").glob("*.ipynb"):
        exercises = exercise_page(path.stem, json.loads(path.read_text("utf-8")))
        pages[path.relative_to(ROOT)] = json.dumps(exercises, ensure_ascii=False)

    source.mkdir(parents=True, exist_ok=True)
    for name, copy in FILES.items():
        unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / name, source / copy, dirs_exist_ok=True, ignore=unwanted)
    for old in [
        *source.glob("*.md"),
        *source.glob("notebooks/**/*.*"),
        *source.glob("exercises/*"),
        *source.glob("han[st]/*"),
        *source.glob("teaching/**/*.md"),
    ]:
        if old.relative_to(source) not in pages:
            old.unlink()
    for name, text in pages.items():
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def scorer(path: Path) -> Path:
    """Write how the search ranks what it finds to `path`, and return that."""
    own = {}
    for term in glossary.read():
        if found := glossary.place(term):
            for form in (term["en"], *term.get("also", [])):
                own[form.lower()] = found[0].path.stem[:2]
    text = (BOOK / "static" / "search.js").read_text("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("LESSON_OF = {}", f"LESSON_OF = {json.dumps(own)}"), "utf-8")
    return path


def first_page(text: str, pdf: bool, repository: str) -> str:
    """Return the first page, which says where the course is and how README starts it."""
    address = f"https://github.com/{repository}"
    where = f"[{address}]({address})" if repository else "the folder that this book was built from"
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.search(r"```\nmake lab .*?```", readme, re.DOTALL)
    volume = f'To print: <a href="pdf/{VOLUME}">all lessons in one volume</a>.' if pdf else ""
    return Template(text).substitute(where=where, commands=commands[0], volume=volume)


def made_page(files: Mapping[Path, bytes]) -> str:
    """Return the page that leads to what is made for teaching and is no page of the book."""

    def link(words: str, path: str) -> str:
        return f'<a href="{path}">{words}</a>' if Path(path) in files else ""

    rows = [
        f"| {number} · {lesson.title} | {link('slides', f'slides/{number}.html')} "
        f"| {link('worksheet', f'worksheets/{number}.html')} "
        f"| {link('key', f'worksheets/{number}_key.html')} |"
        for number, lesson in lessons().items()
    ]
    return MADE_PAGE.format(
        rows="\n".join(rows),
        questions=link("an example of every question", "exam/questions.html"),
        key=link("their key", "exam/key.html"),
        gift=link("Moodle", "quiz/claims.gift"),
        qti=link("its manifest", "quiz/qti/imsmanifest.xml"),
    )


MADE_PAGE = """# To show and to print

Made from the lessons, with numbers that everybody can see here: for marks, make
[a paper of your own](../README.md#a-paper), with a secret.

| lesson | to show | to print | |
|---|---|---|---|
{rows}

The examination: {questions}, {key}. The quiz: for {gift}, and as QTI 2.1 in the folder of {qti}.
"""


def lesson_page(name: str, notebook: dict, pdf: bool, repository: str) -> dict:
    """Return a lesson as the book shows it; its outputs stay as they are stored."""
    _put_under_title(downloads(name, pdf, repository), notebook)
    below = [f"../exercises/{name}"] if has_exercises(name) else []
    below += [f"evidence/{name}"] if has_evidence(name) else []
    if below:  # their pages follow
        toctree = "\n".join(["```{toctree}", ":hidden:", "", *below, "```"])
        cell = {"id": "below", "cell_type": "markdown", "metadata": {}, "source": toctree}
        notebook["cells"].append(cell)
    return as_shown(notebook)


def as_shown(notebook: dict) -> dict:
    """Return a lesson, or its evidence, with drawing cells folded and pictures described."""
    for cell in notebook["cells"]:
        metadata = cell["metadata"]
        if cell["cell_type"] == "markdown":  # MyST wants a question mark in an anchor as it is
            cell["source"] = "".join(cell["source"]).replace("%3F", "?")
        if "alt" in metadata:
            metadata["mystnb"] = {"image": {"alt": metadata["alt"]}}
        if metadata.get("jupyter", {}).get("source_hidden"):
            metadata.setdefault("tags", []).append("hide-input")
        if cell["cell_type"] == "code" and not cell["outputs"] and "alt" in metadata:
            text = f"*This moves in the notebook. At its start:* {metadata['alt']}"
            data = {"text/markdown": text, "text/plain": text}
            cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    return notebook


def exercise_page(name: str, notebook: dict) -> dict:
    """Return exercises as the book shows them: to be read, and to be done in the notebook."""
    file = f"{{download}}`{name}.ipynb <../stored/exercises/{name}.ipynb>`"
    line = (
        "*This page is for reading. To do the exercises and have your answers checked, open* "
        f"{file} *in the folder* `exercises/` *of [the course](../index.md).*"
    )
    _put_under_title(line, notebook)
    notebook["metadata"]["no-search"] = "true"  # the same words as in the lesson, and stubs
    return notebook


def has_exercises(name: str) -> bool:
    return (ROOT / "exercises" / f"{name}.ipynb").is_file()


def has_evidence(name: str) -> bool:
    return (ROOT / "notebooks" / "evidence" / f"{name}.ipynb").is_file()


def _put_under_title(line: str, notebook: dict) -> None:
    first, *_ = notebook["cells"]
    title, newline, rest = "".join(first["source"]).partition("\n")
    first["source"] = f"{title}\n\n{line}\n{newline}{rest}"


def downloads(name: str, pdf: bool, repository: str) -> str:
    """Return the line of links under a lesson's title."""
    links = [f"{{download}}`Notebook <../stored/notebooks/{name}.ipynb>`"]
    if has_exercises(name):
        links.append(f"[Exercises](../exercises/{name}.ipynb)")
    if pdf:
        links.append(f'<a href="../pdf/{name}.pdf">PDF</a>')
    if repository:
        links += launch_links(name, repository)
    if page := TRY.get(name[:2]):
        links.append(f"Try it in the page: {page}")
    return " · ".join(links)


def launch_links(name: str, repository: str) -> list[str]:
    """Return the links that open a lesson elsewhere, from the templates in teaching/launch.md."""
    templates = (ROOT / "teaching" / "launch.md").read_text("utf-8")
    release = f"v{version('transformer-lab')}"
    return [
        f"[{place}]({link.format(repository=repository, release=release, lesson=name)})"
        for place, link in re.findall(r"^## (.+?)\n.*?^    (https://\S+)", templates, re.M | re.S)
    ]


def print_lessons(html: Path, program: str) -> None:
    """Print each lesson with Chromium into `html`/pdf: answers open, code that only draws shut."""
    from playwright.sync_api import sync_playwright

    (html / "pdf").mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for lesson in sorted((html / "notebooks").glob("[0-9]*.html")):
            pdf = html / "pdf" / f"{lesson.stem}.pdf"
            if pdf.is_file() and pdf.stat().st_mtime > lesson.stat().st_mtime:
                continue
            page = browser.new_page(color_scheme="light")
            page.goto(lesson.as_uri())
            page.evaluate("window.MathJax?.startup?.promise")  # no formula, no MathJax
            page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
            page.pdf(
                path=pdf,
                format="A4",
                margin={"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"},
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                outline=True,
                tagged=True,
            )
            page.close()
        browser.close()
    bind(html / "pdf")


FOOTER = """<div style="font: 8px sans-serif; width: 100%; padding: 0 16mm; color: #555">
<span class="title"></span>
<span style="float: right">
<span class="pageNumber"></span> / <span class="totalPages"></span>
</span></div>"""


def bind(folder: Path) -> None:
    """Put the lessons' PDFs together, each under its title in the contents."""
    from pypdf import PdfWriter

    with PdfWriter() as volume:
        for number, lesson in lessons().items():
            title = f"{number} · {lesson.title}"
            volume.append(folder / f"{lesson.name}.pdf", outline_item=title)
        volume.write(folder / VOLUME)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the book.")
    parser.add_argument(
        "--repository", default="", help="owner/name of a public copy: launch links"
    )
    parser.add_argument("--no-pdf", dest="pdf", action="store_false", help="leave the PDFs out")
    parser.add_argument("--students", action="store_true", help="leave teaching, papers, keys out")
    options = parser.parse_args()
    build = BUILD.with_name("book-for-students") if options.students else BUILD
    try:
        html = make(build, options.pdf, options.repository, options.students)
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(f"The book is in {html.relative_to(ROOT)}: open {html / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
