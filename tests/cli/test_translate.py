"""`glassformer translate`, `score` and `evaluate`: as many lines out as in, for any input bytes."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from glassformer.builtin.street import PRONOUN_EXAMPLES
from glassformer.cli.common.line_io import MAX_LINE_BYTES, one_line
from tests.processes import COMMAND, glassformer
from tests.small_translator import saved


def run(*arguments: str, stdin: bytes = b"") -> tuple[bytes, str]:
    """stdout and stderr of a command that must succeed."""
    done = glassformer(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.encode(), done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    return str(saved(tmp_path_factory.mktemp("models") / "small"))


def test_the_pronoun_examples_from_an_argument_a_file_and_a_pipe(tmp_path):
    english, german = list(PRONOUN_EXAMPLES), list(PRONOUN_EXAMPLES.values())
    assert run("translate", "street", english[0])[0].decode() == german[0] + "\n"
    lines = "\n".join(english).encode()  # the last line has no end
    (tmp_path / "in.txt").write_bytes(lines)
    expected = "".join(f"{line}\n" for line in german)
    assert run("translate", "street", str(tmp_path / "in.txt"))[0].decode() == expected
    assert run("translate", "street", stdin=lines)[0].decode() == expected


def test_json_says_everything():
    sentence = next(iter(PRONOUN_EXAMPLES))
    out, _ = run("translate", "street", "--json", "--n-best", "3", stdin=f"{sentence}\n\n".encode())
    first, blank = map(json.loads, out.decode().splitlines())
    assert first["translation"] == PRONOUN_EXAMPLES[sentence]
    assert len(first["alternatives"]) == 2
    assert first["tokens"][-1] == "</s>"
    assert len(first["tokens"]) == len(first["log_probabilities"])
    assert first["score"] == pytest.approx(sum(first["log_probabilities"]) / len(first["tokens"]), abs=1e-5)
    source, target = first["source_words"], first["target_words"]
    assert source == sentence.replace(".", " .").split()
    assert target == first["translation"].replace(",", " ,").replace(".", " .").split()
    assert [link["target"] for link in first["alignment"]] == list(range(len(target)))
    links = {target[link["target"]]: source[link["source"]] for link in first["alignment"]}
    true = {"Tier": "animal", "überquerte": "cross", "Straße": "street", "nicht": "didn't", "weil": "because"}
    assert {word: links[word] for word in true} == true
    assert all(0 < link["weight"] <= 1 and link.get("uncertain", True) is True for link in first["alignment"])
    assert not any(link.get("uncertain") for link in first["alignment"] if target[link["target"]] in true)
    assert any(link.get("uncertain") for link in first["alignment"])  # "es" attends to no single word
    assert first["engine"]["precision"] == "float32"
    assert blank == {"source": "", "translation": "", "parts": 0}


def hostile_lines(count: int, seed: int) -> list[bytes]:
    """Random lines of byte sequences that break programs, without line ends."""
    pieces = [
        b"\xef\xbb\xbf",
        b"\r",
        "\u2028".encode(),
        "\u0085".encode(),
        b"\x00",
        b"\xed\xa0\x80",
        b"\xff\xfe",
        b"\xf0\x9f",
        "\u202eabc\u202c".encode(),
        "👩‍👩‍👧‍👦".encode(),
        "🏳️‍🌈".encode(),
        b"[/red]",
        b"[bold]",
        b"\x1b[31m\x1b]0;x\x07",
        b"\x1b[2J",
        b"</s>",
        b"<s>",
        b"<unk>",
        b"<0x0A>",
        "▁".encode(),
        b"   ",
        b"\t",
        b"\x0b\x0c\x1c",
        "é".encode(),
        "e\u0301".encode(),
        "ﷺ".encode(),
        "日本語".encode(),
        b"the street",
        b"{}",
        b"%s%n",
        b"\\",
        b"'\"",
        b"a" * 300,
        b"The dog. " * 40,
    ]
    chance = random.Random(seed)
    return [b"".join(chance.choices(pieces, k=chance.randrange(6))) for _ in range(count)]


def test_two_thousand_hostile_lines_give_as_many(small):
    lines = hostile_lines(2000, seed=0)
    out, stderr = run(
        "translate", small, "--beam", "2", "--max-length-ratio", "0.3", "--split-at", "64", stdin=b"\n".join(lines)
    )
    answers = out.decode().split("\n")
    assert answers.pop() == ""
    assert len(answers) == len(lines)
    assert answers == out.decode().splitlines()  # with the line ends of any program
    for number, (line, answer) in enumerate(zip(lines, answers, strict=True)):
        read = line.removesuffix(b"\r").decode(errors="replace")
        assert bool(read.removeprefix("\ufeff" if number == 0 else "").strip()) or answer == ""
    assert "is not UTF-8 in lines " in stderr
    assert "too long and was translated in" in stderr


def test_a_line_of_a_megabyte_is_one_line(small):
    line = b"The dog sees the house. " * 43_700
    assert len(line) > 2**20
    out, stderr = run("translate", small, "--beam", "1", "--max-length-ratio", "0.01", stdin=b"a\n" + line + b"\nb\n")
    assert out.count(b"\n") == 3
    assert "Line 2 was too long" in stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["nowhere"], b"", "There is no file or directory nowhere"),
        (["street", "absent.txt"], b"", "There is no file absent.txt. To translate this text itself, use a pipe"),
        (["street", "--top-k", "3"], b"a", "--top-k has no effect without --sample: add --sample"),
        (["street", "--temperature", "2"], b"a", "--temperature has no effect without --sample: add --sample"),
        (["street", "--sample", "--diversity", "1"], b"a", "--diversity has no effect with --sample"),
        (["street", "--suppress", "notatoken"], b"a", "'notatoken' is not a token of this model"),
        (["street", "--temperature", "0", "--sample"], b"a", "temperature"),
        (["street", "--glossary", "absent.tsv"], b"a", "absent.tsv cannot be read"),
        (["street"], b"x" * (MAX_LINE_BYTES + 1), "stdin, line 1 is longer than"),
        (["street", "."], b"", ". cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, stdin, message):
    done = glassformer("translate", *arguments, stdin=stdin)
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_bad_glossary_names_its_line(tmp_path):
    (tmp_path / "terms.tsv").write_text("dog\tHund\nno tab here\n")
    done = glassformer("translate", "street", "a dog", "--glossary", str(tmp_path / "terms.tsv"))
    assert done.returncode == 1
    assert "terms.tsv, line 2 should be `term<TAB>translation`" in done.stderr


def test_an_answer_does_not_wait_for_the_end_of_the_input(small):
    with subprocess.Popen([COMMAND, "translate", small], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        for text in (b"The dog.\n", b"The street.\n"):
            running.stdin.write(text)
            running.stdin.flush()
            assert running.stdout.readline().endswith(b"\n")
        running.stdin.close()
        assert running.wait(timeout=60) == 0


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_leaves_whole_lines(small, tmp_path, signal_number):
    expected = run("translate", small, "--beam", "1", stdin=b"The dog sees the house.\n")[0]
    command = [COMMAND, "translate", small, "--beam", "1"]
    with (
        (tmp_path / "out").open("wb") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, bufsize=0, preexec_fn=_receive_signals) as running,
    ):
        deadline = time.monotonic() + 60
        while (tmp_path / "out").stat().st_size == 0 and time.monotonic() < deadline:
            running.stdin.write(b"The dog sees the house.\n" * 50)
        running.send_signal(signal_number)
        assert running.wait(timeout=20) == 128 + signal_number
    written = (tmp_path / "out").read_bytes()
    assert written
    assert written == expected * (len(written) // len(expected))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_while_it_waits_for_a_line_it_exits(small, signal_number):
    """Python aborts if it ends while a thread waits in a read of `sys.stdin`."""
    command = [COMMAND, "translate", small, "--beam", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=_receive_signals
    ) as running:
        running.stdin.write(b"The dog sees the house.\n")
        assert running.stdout.readline().endswith(b"\n")
        running.send_signal(signal_number)
        assert running.wait(timeout=20) == 128 + signal_number


def _receive_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    os.setpgrp()


def test_score_gives_what_translate_gave(tmp_path):
    sentence, german = next(iter(PRONOUN_EXAMPLES.items()))
    (tmp_path / "a").write_text(f"{sentence}\n")
    (tmp_path / "b").write_text(f"{german}\n")
    translated = json.loads(run("translate", "street", "--json", sentence)[0])
    out, stderr = run("score", "street", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b"))
    assert float(out) == pytest.approx(translated["score"], abs=1e-4)
    assert "Perplexity" in stderr
    out, _ = run("score", "street", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b"), "--json")
    assert json.loads(out)["tokens"] == translated["tokens"]
    assert json.loads(out)["engine"] == translated["engine"]


def test_evaluate_scores_and_compares(tmp_path, small):
    pairs = list(PRONOUN_EXAMPLES.items()) * 10
    (tmp_path / "a").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "b").write_text("".join(f"{target}\n" for _, target in pairs))
    files = ["--source", str(tmp_path / "a"), "--reference", str(tmp_path / "b")]
    out, _ = run("evaluate", "street", *files, "--out", str(tmp_path / "kept"))
    assert "100.00" in out.decode()
    for signature in ("case:mixed|eff:no|tok:13a", "nc:6", "tok:tercom"):
        assert signature in out.decode()
    assert (tmp_path / "kept").read_text() == (tmp_path / "b").read_text()
    table = json.loads(run("evaluate", "street", *files, "--against", small, "--json")[0])
    assert [one["metric"] for one in table["street"]["scores"]] == ["BLEU", "chrF", "TER"]
    assert all(one["p_value"] < 0.05 for one in table["street"]["scores"])
    assert table[str(small)]["engine"]["precision"] == table["street"]["engine"]["precision"] == "float32"
    out, _ = run("evaluate", "street", *files, "--against", str(tmp_path / "kept"))
    assert "No significant difference between street and" in " ".join(out.decode().split())
    done = glassformer("evaluate", "street", *files, "--tokenize", "moses")
    assert done.returncode == 1
    assert "'moses' is not a sacrebleu tokenizer" in done.stderr


def test_every_programs_line_ends_are_spaces():
    text = "".join(map(chr, range(0x3000)))
    assert len(one_line(text).splitlines()) == 1
    assert len(one_line(text)) == len(text)
