"""`glassformer explore`: the page of one model, at an address that it says."""

import re
import signal
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from glassformer.cli.explore import page_of

SENTENCE = "The dog & the 100 % cat: été?"


def test_the_address_carries_the_sentence():
    assert page_of(None) == "/"
    found = parse_qs(urlsplit(page_of(SENTENCE, beam=2)).fragment)
    assert found == {"v": ["sentence"], "s": [SENTENCE], "b": ["2"]}


def test_it_says_where_the_page_is_and_stops_when_told(tmp_path):
    command = [sys.executable, "-m", "glassformer", "explore", "street", SENTENCE, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        said = running.stdout.readline()
        found = re.fullmatch(r"Exploring street at (http://127\.0\.0\.1:\d+/)(#\S+); Ctrl-C stops it\.\n", said)
        assert found, said
        with urlopen(found[1]) as answer:
            page = answer.read().decode()
        assert '<script type="module"' in page
        for asset in re.findall(r'(?:src|href)="/(assets/[^"]+)"', page):
            with urlopen(found[1] + asset) as answer:
                assert answer.read()
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
