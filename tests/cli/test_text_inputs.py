"""Inputs of `translate`: texts, files, gzip, a terminal; what is no text is refused by name; --out."""

import contextlib
import gzip
import os
import pty
import signal
import subprocess
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.cli.common import progress_counter
from glassformer.cli.common.line_io import groups_of
from glassformer.cli.common.text_inputs import is_path
from tests.processes import COMMAND, TIMEOUT_SECONDS, glassformer
from tests.small_translator import saved

SENTENCES = ["The dog sleeps.", "The man reads the book.", "The street was too wide."]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    return str(saved(tmp_path_factory.mktemp("models") / "small"))


@pytest.fixture(scope="module")
def translations(small) -> dict[str, str]:
    """A sentence -> the line that `translate` prints for it."""
    lines = run("translate", small, stdin="\n".join(SENTENCES).encode()).splitlines(keepends=True)
    return dict(zip(SENTENCES, lines, strict=True))


def run(*arguments: object, stdin: bytes = b"", cwd=None) -> str:
    done = glassformer(*arguments, stdin=stdin, **({"cwd": cwd} if cwd else {}))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(*arguments: object, stdin: bytes = b"", cwd) -> str:
    done = glassformer(*arguments, stdin=stdin, cwd=cwd)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_sentences_are_never_taken_for_paths():
    assert not any(is_path(text) for pair in street.sentences("test", 500) for text in (pair.source, pair.target))
    assert not any(map(is_path, ["Hello", "He/she sleeps.", "I like Node.js", "It costs 3.50", "a / b", "3.14"]))


@given(st.text("abcXYZ09_-", min_size=1), st.sampled_from([".txt", ".en", ".de", ".gz", ".docx", ".toml"]))
def test_words_with_a_slash_or_an_extension_are_paths(word, extension):
    assert not is_path(word)
    for path in (f"{word}{extension}", f"{word}/{word}", f"./{word}", f"/{word}", f"{word}/a {word}{extension}"):
        assert is_path(path)
    assert is_path(f"{word} {word}.txt")


def test_one_word_is_a_text(small):
    assert run("translate", small, "Hello") == run("translate", small, stdin=b"Hello")


def test_several_texts_and_files_give_their_lines_in_order(small, translations, tmp_path):
    first, second, third = SENTENCES
    (tmp_path / "a").write_text(f"{first}\n{second}")  # the last line has no end
    (tmp_path / "b.gz").write_bytes(gzip.compress(f"{third}\n".encode()))
    expected = "".join(translations.values())
    assert run("translate", small, *SENTENCES) == expected
    assert run("translate", small, "a", "b.gz", cwd=tmp_path) == expected
    assert run("translate", small, "a", "-", cwd=tmp_path, stdin=third.encode()) == expected


def test_out_is_a_file_or_a_directory(small, translations, tmp_path):
    first, second, third = SENTENCES
    (tmp_path / "a").write_text(f"{first}\n{second}\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(third.encode()))
    run("translate", small, "a", "b.gz", "--out", "new/out", cwd=tmp_path)
    assert (tmp_path / "new/out/a").read_text() == translations[first] + translations[second]
    assert gzip.decompress((tmp_path / "new/out/b.gz").read_bytes()).decode() == translations[third]
    run("translate", small, "a", "--out", "one", cwd=tmp_path)
    run("translate", small, "a", "--out", "new/", cwd=tmp_path)
    run("translate", small, *SENTENCES[:2], "--out", "texts.gz", cwd=tmp_path)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "new/a").read_bytes() == (tmp_path / "new/out/a").read_bytes()
    assert gzip.decompress((tmp_path / "texts.gz").read_bytes()) == (tmp_path / "one").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b.gz", "new", "one", "texts.gz"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A directory of files that are not text."""
    directory = tmp_path_factory.mktemp("odd")
    for name in ("n.docx", "n.xlsx", "archive"):
        with zipfile.ZipFile(directory / name, "w") as archive:
            archive.writestr("word/document.xml", "<w:document/>")
    text = "The dog sleeps.\nThe man reads.\n"
    (directory / "bom.txt").write_bytes(text.encode("utf-16"))
    (directory / "little.txt").write_bytes(text.encode("utf-16-le"))
    (directory / "big.txt").write_bytes(text.encode("utf-16-be"))
    (directory / "nul.txt").write_bytes(b"The dog sleeps.\nThe \0 man.\n")
    (directory / "n.pdf").write_bytes(b"%PDF-1.7\n")
    (directory / "zipped").write_bytes(gzip.compress(text.encode()))
    (directory / "cut.gz").write_bytes(gzip.compress(text.encode())[:-9])
    (directory / "not.gz").write_text(text)
    for name in ("good.txt", "other.txt"):
        (directory / name).write_text(text)
    return directory


REFUSED = {
    "n.docx": "n.docx is a Word document: save it as plain text",
    "n.xlsx": "n.xlsx is an Excel workbook: save it as plain text",
    "archive": "archive is a ZIP archive: save it as plain text",
    "n.pdf": "n.pdf is a PDF file",
    "zipped": "zipped is compressed by gzip: decompress it first",
    "bom.txt": "bom.txt is UTF-16: convert it first, with `iconv",
    "little.txt": "little.txt is UTF-16",
    "big.txt": "big.txt is UTF-16",
    "nul.txt": "nul.txt, line 2 contains a NUL byte",
    "cut.gz": "cut.gz is damaged or truncated",
    "not.gz": "not.gz is damaged or truncated",
    "absent.txt": "There is no file absent.txt. To translate this text itself, use a pipe",
    "here/absent": "There is no file here/absent.",
    "my file.txt": "There is no file my file.txt.",
}


@pytest.mark.parametrize(("name", "message"), REFUSED.items())
def test_what_is_no_text_is_refused_by_name_before_anything_is_written(name, message, odd):
    assert message in refusal("translate", "street", name, cwd=odd)
    several = refusal("translate", "street", "good.txt", name, "--out", "new", cwd=odd)
    assert message.partition(". To")[0] in several
    assert not (odd / "new").exists()


@pytest.mark.parametrize("name", ["archive", "bom.txt", "little.txt", "zipped"])
def test_what_is_no_text_is_refused_in_a_pipe_and_a_corpus(name, odd):
    message = REFUSED[name].partition(":")[0]
    assert message.replace(name, "stdin", 1) in refusal("translate", "street", stdin=(odd / name).read_bytes(), cwd=odd)
    assert message in refusal("score", "street", "--source", name, "--target", "good.txt", cwd=odd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["The", "dog", "sleeps."], "Put a sentence in quotes: 'The dog sleeps.'"),
        (["good.txt", "--out", "good.txt"], "would overwrite the input good.txt"),
        (["good.txt", "nul", "--out", "x"], "There is no file nul."),
        (["good.txt", "-", "--out", "."], "--out . is a directory, but stdin has no file name"),
        (["good.txt", "./good.txt", "--out", "new"], "would both be written to new/good.txt"),
        (["good.txt", "--out", "absent/x"], "absent/x cannot be written: there is no directory absent."),
        (["good.txt", "other.txt", "--out", "n.pdf"], "--out n.pdf is a file, but there are 2 inputs"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, message, odd):
    assert message in refusal("translate", "street", *arguments, cwd=odd)


class Terminal:
    """A command in a terminal, and what the terminal shows so far."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        self.running = subprocess.Popen(
            [COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=self._own_terminal
        )
        os.close(theirs)
        self.shown = ""

    @staticmethod
    def _own_terminal() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first terminal opened becomes the controlling one

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self.ours, 4096).decode(errors="replace").replace("\r\n", "\n")

    def end(self, key: str) -> int:
        """Type a key that ends the command, again after a second: Python misses Ctrl-C right after it shows a prompt.

        (Between the prompt and `select` a signal's handler runs, but `select` then waits for the next key.)
        """
        try:
            for _ in range(TIMEOUT_SECONDS):
                self.type(key)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return self.running.wait(timeout=1)
            raise AssertionError(self.shown)
        finally:
            self.running.kill()
            self.running.wait()
            os.close(self.ours)


@pytest.mark.parametrize(("key", "status"), [("\x04", 0), ("\x03", 130)], ids=["Ctrl-D", "Ctrl-C"])
def test_a_terminal_gets_a_prompt_and_an_answer_per_line(key, status, small, translations):
    terminal = Terminal("translate", small)
    terminal.wait_for("Ctrl-D ends.\n")
    for sentence in SENTENCES[:2]:
        terminal.wait_for("> ")
        terminal.type(f"{sentence}\n")
        terminal.wait_for(translations[sentence])
        terminal.shown = terminal.shown.partition(translations[sentence])[2]
    terminal.wait_for("> ")
    assert terminal.end(key) == status
    assert "Traceback" not in terminal.shown


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 100))
def test_the_time_left_counts_down_from_the_rate_so_far(done, more, seconds, later):
    """At a constant rate, the time passed and the time left add up to the time of the whole."""
    now = 1000.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_counter.time, "monotonic", lambda: now)
        counter = progress_counter.ProgressCounter("Translated", total=done + more)
        assert "left" not in counter.clock()
        now += seconds
        counter.add(done)
        now += later
        passed, left = (_seconds(part) for part in counter.clock().removesuffix(" left").split(", "))
    assert passed == seconds + later
    assert left == pytest.approx(max(0, seconds * (done + more) / done - passed), abs=0.51)


def _seconds(clock: str) -> float:
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


@given(st.integers(0, 5000), st.integers(1, 2000))
def test_groups_hold_every_item_once_and_in_order(count, size):
    groups = list(groups_of(range(count), size))
    assert [item for group in groups for item in group] == list(range(count))
    assert all(0 < len(group) <= size for group in groups)
