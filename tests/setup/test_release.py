"""What a release needs: one version, a changelog that knows it, a citation, launch links."""

import re
import subprocess
import tomllib

import pytest
import yaml


@pytest.fixture
def release(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]


def test_the_changelog_begins_with_the_version(root, release):
    assert re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == release


def test_the_version_is_set_in_one_place(root, release):
    """Prose may name it; a line that sets it would have to be changed with pyproject.toml."""
    command = ["git", "grep", "-nE", rf"version.{{0,4}}[:=].{{0,3}}{re.escape(release)}\b"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if found.returncode > 1:
        pytest.skip("this copy has no git history that says which files are the project's")
    assert [line.split(":")[0] for line in found.stdout.splitlines()] == ["pyproject.toml"]


def test_the_citation_has_what_its_format_requires_and_no_version_of_its_own(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == "MIT"
    assert not {"version", "date-released"} & set(citation)
    assert all(author.get("name") or author["family-names"] for author in citation["authors"])


def test_launch_links_have_a_place_for_all_that_varies(root):
    text = (root / "teaching" / "launch.md").read_text()
    links = re.findall(r"^    (https://\S+)$", text, re.MULTILINE)
    assert len(links) == len(re.findall("^## ", text, re.MULTILINE)) == 3
    for link in links:
        assert set(re.findall(r"{(\w+)}", link)) == {"repository", "release", "lesson"}
        filled = link.format(repository="owner/name", release="v1.0.0", lesson="00_start_here")
        assert filled.count("notebooks") == 1
        assert "00_start_here.ipynb" in filled
