"""What several tests of teaching need."""

import zipfile

import make_exercises
import pytest


@pytest.fixture(scope="session")
def handed_out(tmp_path_factory):
    """The folder that a student unzips: lessons 00 to 03."""
    folder = tmp_path_factory.mktemp("handed out")
    archive = folder / "course.zip"
    assert make_exercises.main(["--handout", str(archive), "--lessons", "00-03"]) == 0
    zipfile.ZipFile(archive).extractall(folder)
    return folder / "transformer-lab-00-03"
