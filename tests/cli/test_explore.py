"""`glassformer explore`: the explorer over HTTP and as a file."""

import re
import signal
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

from glassformer.cli.explore import explorer_path
from tests.processes import glassformer

SENTENCE = "The dog & the 100 % cat: été?"


def test_the_address_carries_the_sentence():
    assert explorer_path(None) == "/"
    found = parse_qs(urlsplit(explorer_path(SENTENCE, beam=2)).fragment)
    assert found == {"v": ["sentence"], "s": [SENTENCE], "b": ["2"]}


def test_it_says_where_the_page_is_and_stops_when_told(tmp_path):
    command = [sys.executable, "-m", "glassformer", "explore", "street", SENTENCE, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        line = running.stdout.readline()
        found = re.fullmatch(r"Exploring street at (http://127\.0\.0\.1:\d+/)(#\S+); Ctrl-C stops it\.\n", line)
        assert found, line
        with urlopen(found[1]) as answer:
            page = answer.read().decode()
        assert '<script type="module"' in page
        for asset in re.findall(r'(?:src|href)="/(assets/[^"]+)"', page):
            with urlopen(found[1] + asset) as answer:
                assert answer.read()
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0


def explored(*arguments):
    return glassformer("explore", "street", *arguments)


def test_a_sentence_becomes_a_file(tmp_path):
    path = tmp_path / "page.html"
    done = explored(SENTENCE, "--html", path, "--detail", "attention")
    assert done.returncode == 0, done.stderr
    assert f"{path.stat().st_size:,} bytes" in done.stdout
    assert "The dog &amp; the 100 % cat: été?" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--html needs a sentence to show"),
        ([SENTENCE, "--detail", "all"], "Unknown --detail 'all'; choose one of attention, full"),
        ([SENTENCE, "--detail", "attention", "nowhere/page.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_reported_in_one_sentence(arguments, message, tmp_path):
    *given, path = [*arguments, tmp_path / "page.html"] if "nowhere/page.html" not in arguments else arguments
    done = explored(*given, "--html", tmp_path / path)
    assert done.returncode != 0
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
