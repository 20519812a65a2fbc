"""A real JupyterLab in a real Chromium, and what a reader does there.

The notebooks are a copy, so that no test can save over the course's own. Without playwright or
Chromium every test is skipped, and the summary says why.
"""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # Chromium has none for root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SETTINGS = {  # every cell is in the page, also those out of sight
    "notebook-extension/tracker": {"windowingMode": "none"},
}
PATIENCE = 60  # seconds for one step; a shared machine can be slow
WANTED = os.environ.get("TRANSFORMER_LAB_SCREENSHOTS")  # a folder: keep pictures of whole lessons
SCREENSHOTS = Path(WANTED or Path(tempfile.gettempdir(), "transformer-lab-screenshots"))
kept = []  # the screenshots of this run


def pytest_terminal_summary(terminalreporter):
    if kept:
        terminalreporter.write_line(f"{len(kept)} screenshots are in {SCREENSHOTS}")


@pytest.fixture(scope="module")  # not longer: while it lives, other tests cannot use asyncio
def chromium():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (it comes with the extra dev)"
    )
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    api.expect.set_options(timeout=1000 * PATIENCE)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The folder of what is made for teaching: slides, worksheets, the model in the page."""
    from teaching import make  # it takes seconds, and the tests of JupyterLab need none of it

    folder = tmp_path_factory.mktemp("teaching")
    make.write(make.made(), folder)
    return folder


@pytest.fixture(scope="module")
def lab(chromium, tmp_path_factory):
    """A running JupyterLab: its folder, address and token."""
    home = tmp_path_factory.mktemp("jupyterlab")
    (home / "course").mkdir()
    for name, values in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex()
    own = {  # the course's look, and nothing of whoever runs the tests
        "JUPYTER_CONFIG_PATH": ROOT / "course" / "jupyter",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_TOKEN": token,
    }
    flags = ["--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.allow_root=True"]
    flags += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    with (home / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *flags, f"--ServerApp.root_dir={home}/course"],
            cwd=home,
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_port(port, process, home / "log.txt")
        yield {
            "folder": home / "course",
            "settings": home / "settings" / "@jupyterlab",
            "address": f"http://127.0.0.1:{port}",
            "token": token,
        }
    finally:
        process.terminate()  # the server shuts its kernels down, and then itself
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # a kernel ends by itself when its server is gone


def wait_for_port(port, process, log):
    deadline = time.monotonic() + 3 * PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
def open_notebook(chromium, lab, request):
    """Open a notebook of the course by its path: `open_notebook("notebooks/00_start_here.ipynb")`.

    Each test has a copy of its own, and so a new kernel. A screenshot of the last state is kept
    whether the test passes or not.
    """
    name = re.sub(r"\W+", "_", request.node.name).strip("_")  # it stands in an address
    for folder in ("notebooks", "exercises", "benchmarks/results"):
        unwanted = shutil.ignore_patterns(".ipynb_checkpoints")
        shutil.copytree(ROOT / folder, lab["folder"] / name / folder, ignore=unwanted)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()

    def open_notebook(path, changes=None, copy=None):
        """With `changes`, {piece of source: another}, each cell is open and can be run.

        `copy(file)` returns the file that is opened in the place of `path`.
        """
        file = lab["folder"] / name / path
        if changes is not None:
            change(file, changes)
        if copy is not None:
            file = copy(file)
        workspace = f"{name}-{file.stem}"  # else the notebook opened before comes back too
        place = f"/lab/workspaces/{workspace}/tree/{file.relative_to(lab['folder']).as_posix()}"
        page.goto(f"{lab['address']}{place}?token={lab['token']}")
        return Notebook(page, file)

    yield open_notebook
    screenshot(page, f"end_of_{name}")
    context.close()
    stop_kernels(lab)


# Where the arrow ends and its grip is; the middle of the star; the dots of the values.
DRAWN = """(app) => {
    const [left, right] = app.querySelectorAll("svg");
    const grip = left.querySelector(".handle .fill");
    const star = [...right.querySelector(".star").points];
    const middle = (circle) => [circle.cx.baseVal.value, circle.cy.baseVal.value];
    const mean = (axis) => star.reduce((sum, point) => sum + point[axis] / star.length, 0);
    const end = left.querySelector("polygon.query").points[3];
    return [[[end.x, end.y], middle(grip)], [mean("x"), mean("y")],
        [...right.querySelectorAll("circle.value")].map(middle)];
}"""


class Query:
    """The explorable of lesson 02, wherever it stands on a page."""

    def __init__(self, page):
        self.page = page
        self.app = page.locator("[data-explorable=query] .app")
        self.tip = self.app.get_by_role("slider", name="query: what")

    def grip(self):
        """The middle of the arrow's tip on the screen."""
        self.tip.scroll_into_view_if_needed()
        box = self.tip.locator(".fill").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def unit(self):
        """How many pixels of the screen are 1."""
        return self.app.locator("svg").first.bounding_box()["width"] / 6

    def drag(self, dx, dy):
        """Drag the tip with the mouse, so far to the right and up in units of the plane."""
        (x, y), unit = self.grip(), self.unit()
        self.page.mouse.move(x + 3, y - 3)
        self.page.mouse.down()
        self.page.mouse.move(x + 3 + dx * unit, y - 3 - dy * unit, steps=4)
        self.page.mouse.up()

    def touch(self, dx, dy):
        """The same with a finger."""
        (x, y), unit = self.grip(), self.unit()
        session = self.page.context.new_cdp_session(self.page)
        for kind, share in (("Start", 0), ("Move", 0.5), ("Move", 1), ("End", None)):
            points = (
                [] if share is None else [{"x": x + share * dx * unit, "y": y - share * dy * unit}]
            )
            session.send(
                "Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points}
            )

    def asked(self):
        return [
            number(text.split()[1]) for text in self.tip.get_attribute("aria-valuetext").split(",")
        ]

    def table(self):
        """What each word has: its score and its weight, and its bar as a share of a whole one."""
        rows = self.app.locator("tbody tr").all()
        cells = [row.locator("td").all() for row in rows]
        bars = [
            cell[2].locator("div").evaluate("(it) => parseFloat(it.style.width)") for cell in cells
        ]
        scores, weights = ([number(cell[i].inner_text()) for cell in cells] for i in (0, 1))
        return scores, weights, [bar / 100 for bar in bars]

    def check(self, temperature=1.0, keys=None, values=None):
        """Compare all that is shown with PyTorch, to half a unit of its last digit."""
        import torch

        from course.explorables.query import numbers

        lesson = numbers()
        keys, values, asked = (
            torch.tensor(each)
            for each in (keys or lesson["keys"], values or lesson["values"], self.asked())
        )
        expected = (keys @ asked) / temperature
        weights = expected.softmax(dim=0)
        scores, shown, bars = self.table()
        for came, truth in ((scores, expected), (shown, weights)):
            torch.testing.assert_close(torch.tensor(came), truth, atol=0.00501, rtol=0)
        torch.testing.assert_close(torch.tensor(bars), weights, atol=1e-4, rtol=0)
        tip, star, dots = self.app.evaluate(DRAWN)
        assert tip[0] == pytest.approx(tip[1], abs=0.01)  # the arrow ends where it is dragged
        came, dots = torch.tensor(star), torch.tensor(dots)
        torch.testing.assert_close(came, weights @ dots, atol=0.1, rtol=0)  # pixels
        output = self.app.locator(".said").inner_text().rpartition("[")[2].rstrip("].").split(", ")
        came = torch.tensor([number(entry) for entry in output])
        torch.testing.assert_close(came, weights @ values, atol=0.00501, rtol=0)


def number(text):
    return float(text.replace("−", "-").strip("[](),°"))


@pytest.fixture
def query_on():
    return Query


def change(file, changes):
    notebook = json.loads(file.read_text("utf-8"))
    for cell in notebook["cells"]:
        cell["metadata"].pop("jupyter", None)
        for old, new in changes.items():
            cell["source"] = [line.replace(old, new) for line in cell["source"]]
    file.write_text(json.dumps(notebook), "utf-8")


def stop_kernels(lab):
    """Stop what a failed test has left running, before it slows down the next."""

    def ask(method, path=""):
        address = f"{lab['address']}/api/kernels{path}"
        headers = {"Authorization": f"token {lab['token']}"}
        request = urllib.request.Request(address, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read()

    for kernel in json.loads(ask("GET")):
        ask("DELETE", f"/{kernel['id']}")


def screenshot(page, name):
    kept.append(SCREENSHOTS / f"{name}.png")
    page.screenshot(path=kept[-1])


class Notebook:
    """A notebook in JupyterLab. Each cell is named by a piece of its source, as it was stored."""

    def __init__(self, page, file):
        self.page, self.name = page, f"{file.parent.name}_{file.stem[:2]}"
        cells = json.loads(file.read_text("utf-8"))["cells"]
        self.sources = ["".join(cell["source"]) for cell in cells]
        self._wait_for(page.locator("#jupyterlab-splash"), "to_have_count", 0)
        self._wait_for(page.locator(".jp-Notebook-cell"), "to_have_count", len(cells))
        self._wait_for(page.locator(".jp-Notebook-cell h1"), "to_be_visible")  # text comes last
        self.wait_idle()

    # ---- What a reader does

    def run(self, part):
        """Click into a cell and press Shift+Enter; return when it has run."""
        prompt = self.cell(part).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        self.start(part)
        self._wait_for(prompt, "not_to_have_text", before)
        self._wait_for(prompt, "to_have_text", re.compile(r"\[\d+\]"))
        self.wait_idle()

    def start(self, part):
        """Click into a cell and press Shift+Enter; return at once."""
        self.cell(part).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def run_through(self, part, *, seconds):
        """Run all cells from the first to this one, from empty outputs; return when it has run."""
        self.clear()
        cell = self.cell(part)
        cell.scroll_into_view_if_needed()
        cell.locator(".jp-InputPrompt").click()
        self._choose("Run", "Run All Above Selected Cell")
        cell.locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        self._wait_for(prompt, "to_have_text", re.compile(r"\[\d+\]"), seconds=seconds)
        self.wait_idle()

    def run_all(self, *, seconds):
        """Run all cells from empty outputs; return when they have run or one has failed."""
        self.start_all()
        self.wait_for_all(seconds=seconds)

    def start_all(self):
        """Clear all outputs and run all cells, by the menu; return at once."""
        self.clear()
        self._choose("Run", "Run All Cells")

    def clear(self):
        """Clear all outputs, by the menu; the prompts, which count the runs, are empty then."""
        self._choose("Edit", "Clear Outputs of All Cells")

    def interrupt(self):
        """Stop what runs, by the menu."""
        self._choose("Kernel", "Interrupt Kernel")
        self.wait_idle()

    def wait_for_all(self, *, seconds):
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")];
                const counts = (pattern) => prompts.filter((p) => pattern.test(p.innerText)).length;
                const failed = document.querySelector("[data-mime-type$='jupyter.stderr']");
                return counts(/\\d/) == prompts.length || (failed && !counts(/\\*/));
            }""",
            timeout=1000 * seconds,
        )
        self.wait_idle()

    def write(self, part, line):
        """Type `line` in the place of the last line of a cell."""
        self.cell(part).locator(".cm-content").click()
        for key in ("Control+End", "Shift+Home"):  # Home stops at the indentation
            self.page.keyboard.press(key)
        self.page.keyboard.type(line)

    def slide(self, part, label, share):
        """Click on the slider with this label, at `share` of its length: one change, one redraw."""
        slider = self.cell(part).locator(".widget-slider", has_text=label)
        track = slider.locator(".noUi-target")
        track.scroll_into_view_if_needed()
        box = track.bounding_box()
        self.page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)

    def fill(self, part, label, text):
        """Type into the text field with this label, and press Enter."""
        self.cell(part).get_by_label(label).fill(text)
        self.page.keyboard.press("Enter")

    # ---- What a reader sees

    def cell(self, part):
        places = [place for place, source in enumerate(self.sources) if part in source]
        assert len(places) == 1, f"{part!r} is in {len(places)} cells of the notebook"
        return self.page.locator(".jp-Notebook-cell").nth(places[0])

    def sees(self, part, text):
        """Wait until the output of a cell contains `text`."""
        self._wait_for(self.cell(part).locator(".jp-Cell-outputArea"), "to_contain_text", text)

    def picture(self, part, *, seconds=PATIENCE):
        picture = self.cell(part).locator(".jp-Cell-outputArea img")
        return picture.get_attribute("src", timeout=1000 * seconds)

    def sees_new_picture(self, part, old, *, idle=True):
        """Wait until a cell's picture is another than `old`, and return it."""
        picture = self.cell(part).locator(".jp-Cell-outputArea img")
        self._wait_for(picture, "not_to_have_attribute", "src", old)
        if idle:
            self.wait_idle()
        return self.picture(part)

    def errors(self):
        """What no reader should see: exceptions, warnings, formulas in red, dead widgets."""
        red = "mjx-merror, mjx-container [style*='color: red']"
        seen = self.page.locator(f"[data-mime-type$='jupyter.stderr'], {red}").all_inner_texts()
        outputs = self.page.locator(".jp-OutputArea-output").all_inner_texts()
        return seen + [o for o in outputs if re.search("Error displaying widget|Loading widget", o)]

    def wait_idle(self):
        self._wait_for(self.page.locator("#jp-main-statusbar"), "to_contain_text", "| Idle")

    def screenshot(self, name, part=None):
        """Keep what is on the screen; with `part`, after scrolling to that cell."""
        if part is not None:
            self.cell(part).scroll_into_view_if_needed()
        screenshot(self.page, f"{self.name}_{name}")

    def screenshot_pages(self, name):
        """If somebody wants to look, keep the whole notebook, one screen after the other."""
        if not WANTED:
            return
        scroller = self.page.locator(".jp-Notebook .jp-WindowedPanel-outer").first
        screen = scroller.evaluate("(it) => it.clientHeight")
        last = self.page.locator(".jp-Notebook-cell").last.bounding_box()
        scrolled = scroller.evaluate("(it) => it.scrollTop") - scroller.bounding_box()["y"]
        end = int(last["y"] + last["height"] + scrolled)  # below it, the notebook is empty
        for page, top in enumerate(range(0, end, screen - 50), 1):
            scroller.evaluate("(it, top) => { it.scrollTop = top }", top)
            self.screenshot(f"{name}_{page:02}")

    def _wait_for(self, locator, what, *arguments, seconds=PATIENCE):
        """Wait with playwright's `expect`; if in vain, fail without its text of the whole page."""
        from playwright.sync_api import expect

        try:
            return getattr(expect(locator), what)(*arguments, timeout=1000 * seconds)
        except AssertionError as error:
            lines = str(error).partition("Aria snapshot")[0].splitlines()
        pytest.fail("\n".join(line[:200] for line in lines))  # a picture is one long line

    def choose_theme(self, name):
        """Choose "JupyterLab Dark", or another, in the menu Settings."""
        self._choose("Settings", "Theme")
        self.page.locator(".lm-Menu-itemLabel").filter(has_text=re.compile(f"^{name}$")).click()

    def _choose(self, menu, entry):
        for kind, label in (("MenuBar", menu), ("Menu", entry)):
            labels = self.page.locator(f".lm-{kind}-itemLabel")
            labels.filter(has_text=re.compile(f"^{label}$")).click()
