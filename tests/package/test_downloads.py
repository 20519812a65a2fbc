"""load_multi30k against a server that fails in every way: a clear error or the right file."""

import gzip
import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from transformer_lab.data import multi30k as data

ROOT = Path(__file__).parents[2]
SLOW = 5.0  # seconds; a test that waits so long has failed


class Site(ThreadingHTTPServer):
    """Serves `files` (path -> bytes); `fault` says what goes wrong, `asked` what was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files, self.fault, self.asked, self.together = {}, None, [], None
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server
        site.asked.append(self.path)
        if site.together:
            site.together.wait()
        content = site.files.get(self.path.lstrip("/"), b"")
        if site.fault == "missing":
            return self.send_error(404)
        if site.fault == "silent":
            return time.sleep(SLOW)
        if site.fault == "no http":
            return self.wfile.write(b"220 here is no web server\r\n")
        declared = content
        if site.fault == "other file":
            content = declared = content + b"!"
        if site.fault == "truncated":
            content = content[: len(content) // 2]
        if site.fault == "truncated, shorter length":
            content = declared = content[: len(content) // 2]
        if site.fault == "login page":
            content = declared = b"<html>Please log in</html>"
        if site.fault == "empty":
            content = declared = b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(declared)))
        self.end_headers()
        if site.fault == "drip":
            for byte in content:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def stored_sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def site(monkeypatch, tmp_path):
    """A small Multi30k of five splits on a loopback server, and an empty cache."""
    server = Site()
    sums = {}
    for stem in data.MULTI30K_SPLITS.values():
        for language in ("en", "de"):
            # NEL and LINE SEPARATOR are no ends of lines: str.splitlines would make four of two.
            text = f"One {stem} {language}\u2028 \x85 é\nTwo {stem}\n".encode()
            for variant in ("raw", "tok"):
                name = data.MULTI30K_FILES[variant].format(stem, language)
                packed = gzip.compress(text) if name.endswith(".gz") else text
                server.files[f"{variant}/{name}"] = packed
                sums[f"{variant}/{stem}.{language}"] = hashlib.sha256(text).hexdigest()
    monkeypatch.setattr(data, "MULTI30K_SHA256", sums)
    monkeypatch.setattr(data, "MULTI30K_URL", server.url)
    monkeypatch.setattr(data, "TIMEOUT", 0.3)
    monkeypatch.setattr(data, "DEADLINE", 0.3)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TRANSFORMER_LAB_DATA", raising=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "transformer_lab" / "multi30k"


EXPECTED = [
    ("One train en\u2028 \x85 é", "One train de\u2028 \x85 é"),
    ("Two train", "Two train"),
]


@pytest.mark.parametrize("variant", ["raw", "tok"])
def test_downloads_once_and_then_reads_the_cache(site, cache, variant):
    first = data.load_multi30k(variant)
    assert first["train"] == EXPECTED
    assert list(first) == ["train", "val", "test2016", "test2017", "mscoco"]
    assert sorted(site.asked) == sorted(f"/{n}" for n in site.files if n.startswith(variant))
    site.fault = "missing"
    assert data.load_multi30k(variant) == first
    assert len(site.asked) == 10
    names = {name.split("/")[1] for name in site.files if name.startswith(variant)}
    assert set(stored_sizes(cache)) == names, "nothing but the files may be left"


FAULTS = [
    ("missing", "404"),
    ("silent", "timed out"),
    ("drip", "not complete after 0.3 seconds"),
    ("no http", "220 here"),
    ("other file", "not the published file"),
    ("truncated", "not the published file"),
    ("truncated, shorter length", "not the published file"),
    ("login page", "not the published file"),
    ("empty", "not the published file"),
]


@pytest.mark.parametrize("variant", ["raw", "tok"])
@pytest.mark.parametrize(("fault", "reason"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_a_failed_download_says_what_to_do_and_leaves_nothing(site, cache, variant, fault, reason):
    site.fault = fault
    start = time.monotonic()
    with pytest.raises(OSError, match=reason) as caught:
        data.load_multi30k(variant)
    assert time.monotonic() - start < SLOW
    assert site.url in str(caught.value) and "TRANSFORMER_LAB_DATA" in str(caught.value)
    assert stored_sizes(cache) == {}
    site.fault = None
    assert data.load_multi30k(variant)["train"] == EXPECTED, "the next try must succeed"


def test_a_refused_connection_says_what_to_do(site, cache, monkeypatch):
    with socket.socket() as unheard:  # holds a port on which nobody listens
        unheard.bind(("127.0.0.1", 0))
        monkeypatch.setattr(data, "MULTI30K_URL", f"http://127.0.0.1:{unheard.getsockname()[1]}")
        with pytest.raises(OSError, match=r"refused.*TRANSFORMER_LAB_DATA"):
            data.load_multi30k()
    assert stored_sizes(cache) == {}


def test_an_endless_answer_is_cut_off(site, cache, monkeypatch):
    monkeypatch.setattr(data, "MAX_BYTES", 10)
    with pytest.raises(OSError, match="more than 10 bytes came"):
        data.load_multi30k()
    assert stored_sizes(cache) == {}


def test_a_gzip_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(data, "MAX_BYTES", 1000)
    bomb = b"0" * 1_000_000
    assert data._checked_text(gzip.compress(bomb), hashlib.sha256(bomb).hexdigest()) is None


def test_a_full_disk_says_so_and_leaves_nothing(site, cache):
    resource = pytest.importorskip("resource", reason="Windows cannot limit the size of a file")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))  # a write beyond 20 bytes fails
    try:
        with pytest.raises(OSError, match=r"could not download .*File too large.*try again"):
            data.load_multi30k("tok")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stored_sizes(cache) == {}


def test_a_failing_write_keeps_the_file_that_was_there(site, cache, monkeypatch):
    data.load_multi30k()
    old = cache / "train.en.gz"
    old.write_bytes(b"damaged")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = stored_sizes(cache)
    with pytest.raises(OSError, match="No space left on device"):
        data.load_multi30k()
    assert old.read_bytes() == b"damaged" and stored_sizes(cache) == before


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b", b"\x1f\x8bnot gzip at all", b"other text"])
def test_a_damaged_file_in_the_cache_is_fetched_again_but_never_lost(site, cache, damage):
    data.load_multi30k()
    damaged = cache / "val.de.gz"
    whole = damaged.read_bytes()
    damaged.write_bytes(damage)
    site.fault = "truncated"
    with pytest.raises(OSError, match=r"val\.de\.gz"):
        data.load_multi30k()
    assert damaged.read_bytes() == damage, "a failed download must not touch the old file"
    site.fault, site.asked = None, []
    assert data.load_multi30k()["train"] == EXPECTED
    assert damaged.read_bytes() == whole
    assert site.asked == ["/raw/val.de.gz"], "the other files are there"


@pytest.mark.parametrize("inside", ["multi30k", "."])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("variant", ["raw", "tok"])
def test_a_folder_serves_files_packed_or_not(site, tmp_path, monkeypatch, variant, packed, inside):
    folder = tmp_path / "data" / inside
    folder.mkdir(parents=True)
    for name, content in site.files.items():
        if name.startswith(variant):
            text = gzip.decompress(content) if name.endswith(".gz") else content
            plain = name.split("/")[1].removesuffix(".gz")
            path = folder / (f"{plain}.gz" if packed else plain)
            path.write_bytes(gzip.compress(text) if packed else text)
    assert data.load_multi30k(variant, tmp_path / "data")["train"] == EXPECTED
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path / "data"))
    assert data.load_multi30k(variant)["train"] == EXPECTED
    assert site.asked == []


def test_a_damaged_file_in_the_users_folder_is_named_and_kept(site, tmp_path):
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    mine = folder / "train.en.gz"
    mine.write_bytes(gzip.compress(b"my own text\n"))
    with pytest.raises(ValueError, match=r"train\.en\.gz must be the file that Multi30k published"):
        data.load_multi30k(folder=tmp_path / "data")
    assert gzip.decompress(mine.read_bytes()) == b"my own text\n" and site.asked == []


def test_a_file_that_the_folder_lacks_is_downloaded_to_the_cache(site, cache, tmp_path):
    (tmp_path / "data").mkdir()
    assert data.load_multi30k(folder=tmp_path / "data")["train"] == EXPECTED
    assert stored_sizes(tmp_path / "data") == {} and len(stored_sizes(cache)) == 10


def test_bad_arguments_are_named(site, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r'variant must be "raw" or "tok", got \'cooked\''):
        data.load_multi30k("cooked")
    with pytest.raises(ValueError, match=r"must hold multi30k/, got .*nowhere, which does not"):
        data.load_multi30k(folder=tmp_path / "nowhere")
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"TRANSFORMER_LAB_DATA.*nowhere"):
        data.load_multi30k()
    assert site.asked == []


WORKER = """
import os, sys
from transformer_lab.data import multi30k as data
data.MULTI30K_URL, data.TIMEOUT = sys.argv[1], 60
data.MULTI30K_SHA256 = dict(zip(sys.argv[2::2], sys.argv[3::2]))
child = os.fork()  # two processes, of which one has to import torch
os.write(1, f"{data.load_multi30k()['train']}\\n".encode())  # one write: no line inside a line
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_two_processes_at_once_both_get_the_right_files(site, cache):
    site.together = threading.Barrier(2, timeout=60)  # no answer before both have asked
    sums = [word for pair in data.MULTI30K_SHA256.items() for word in pair]
    command = [sys.executable, "-c", WORKER, site.url, *sums]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert run.returncode == 0 and run.stdout.splitlines() == [str(EXPECTED)] * 2, run.stderr
    assert len(site.asked) == 20, "both processes must have downloaded every file"
    for name, size in stored_sizes(cache).items():
        assert size == len(site.files[f"raw/{name}"])
