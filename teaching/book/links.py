"""A small extension of Sphinx: anchors, links to the glossary, and what Sphinx's pages lack."""

import re
import tomllib
from pathlib import Path

from docutils import nodes

GLOSSARY = Path(__file__).parents[1] / "glossary.toml"
# Where a word is not prose, or leads somewhere already.
CLOSED = (
    *(nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math),
    *(nodes.math_block, nodes.raw, nodes.table, nodes.rubric),
)


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading as JupyterLab makes it, so that lessons' links hold."""
    return heading.strip().replace(" ", "-")


def link_terms(app, doctree, docname):
    """Let one use of each term in a lesson, in bold if there is one, lead to its definition."""
    folder, _, lesson = docname.partition("/")
    if folder != "notebooks" or lesson == "index":
        return
    lesson = lesson.removeprefix("evidence/")
    terms = tomllib.loads(GLOSSARY.read_text("utf-8"))["term"]
    known = [term for term in terms if term["lesson"] <= lesson[:2] and not term.get("common")]
    unlinked = {
        form.lower(): term for term in known for form in (term["en"], *term.get("also", []))
    }
    page = app.builder.get_relative_uri(docname, "glossary")
    objects = app.env.get_domain("std").get_objects()  # name, title, kind, page, anchor, priority
    addresses = {name: f"{page}#{at}" for name, _, kind, _, at, _ in objects if kind == "term"}
    prose = [text for text in doctree.findall(nodes.Text) if not _inside(text, CLOSED)]
    for text in sorted(prose, key=lambda text: not _inside(text, nodes.strong)):  # bold first
        if parts := _linked(text, unlinked, addresses):
            text.parent.replace(text, parts)


def _linked(text: str, unlinked: dict, addresses: dict) -> list:
    """Return a text in pieces, terms as links, and take these terms out of `unlinked`."""
    longest_first = sorted(unlinked, key=len, reverse=True)
    pattern = rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?:e?s)?(?![\w-])"
    parts, end = [], 0
    for found in re.finditer(pattern, text, re.IGNORECASE) if unlinked else ():
        term = unlinked.get(found[1].lower())
        if term is None:  # an earlier word of this text took it
            continue
        words = " · ".join(dict.fromkeys((term["hans"], term["hant"])))
        link = nodes.reference("", found[0], internal=True, reftitle=f"{term['is']} {words}")
        link["refuri"] = addresses[term["en"]]
        link["classes"].append("term")
        parts += [nodes.Text(text[end : found.start()]), link]
        end = found.end()
        for form in [form for form, owner in unlinked.items() if owner is term]:
            del unlinked[form]
    return [*parts, nodes.Text(text[end:])] if parts else []


def _inside(node, kinds) -> bool:
    while (node := node.parent) is not None:
        if isinstance(node, kinds):
            return True
    return False


def escape(app, what, name, obj, options, lines):
    """Keep two habits of the docstrings, (*B, Lq, d_k) and `KVCache`s, from being markup."""
    lines[:] = [re.sub(r"(?<=\()\*(?=\w)", r"\\*", line) for line in lines]
    lines[:] = [re.sub(r"(?<!`)(`[^`]+`)(?=\w)", r"\1\\ ", line) for line in lines]


def plain_signatures(app, pagename, templatename, context, doctree):
    """Make parts of each signature what they are: Sphinx writes a definition list without terms."""
    signature = re.compile(r"<dl>\s*((?:<dd>.*?</dd>\s*)+)</dl>", re.DOTALL)
    context["body"] = signature.sub(
        lambda found: re.sub(r"(</?)dd>", r"\1div>", found[1]), context.get("body", "")
    )


def lesson_marks(app, pagename, templatename, context, doctree):
    """In a lesson, link each figure to its own file, to be enlarged, and say what is Chinese."""
    if pagename.startswith("notebooks/"):
        figure = r'<img [^>]*?src="((?:\.\./)+_images/[^"]+)"[^>]*>'
        body = re.sub(figure, r'<a class="figure" href="\1">\g<0></a>', context["body"])
        chinese = r"[\u4e00-\u9fff]+(?![^<]*>)"  # not within a tag
        context["body"] = re.sub(chinese, r'<span lang="zh">\g<0></span>', body)


def say_that_it_is_chinese(app, pagename, templatename, context, doctree):
    """Tell browsers the language of a page that is in Chinese."""
    tag = {"hans": "zh-Hans", "hant": "zh-Hant"}.get(pagename.partition("/")[0])
    if tag and "body" in context:
        context["body"] = f'<div lang="{tag}">{context["body"]}</div>'


def list_lessons(app, pagename, templatename, context, doctree):
    """Tell the template lessons.html the addresses and titles of all lessons."""
    titles = app.env.titles
    lessons = sorted(name for name in titles if re.match(r"notebooks/\d", name))
    context["lessons"] = [(context["pathto"](name), titles[name].astext()) for name in lessons]


def setup(app):
    for change in (plain_signatures, lesson_marks, say_that_it_is_chinese, list_lessons):
        app.connect("html-page-context", change)
    app.connect("autodoc-process-docstring", escape)
    app.connect("doctree-resolved", link_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
