"""Scores and signatures equal those of sacrebleu's command line."""

import pytest

from glassformer.builtin.street import sentences
from glassformer.errors import InputError
from glassformer.evaluation import score
from tests.processes import run_plainly

REFERENCES = [sentence.target for sentence in sentences("dev", 50)]
TRANSLATIONS = [text.replace("nicht", "doch").replace(" der ", " die ") for text in REFERENCES]


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_they_are_what_the_command_line_tool_says(tmp_path, tokenize):
    (tmp_path / "reference").write_text("\n".join(REFERENCES) + "\n")
    (tmp_path / "translation").write_text("\n".join(TRANSLATIONS) + "\n")
    theirs = run_plainly(
        """
        import json, subprocess, sys
        command = [sys.executable, "-m", "sacrebleu", sys.argv[1], "-i", sys.argv[2], "-m", "bleu", "chrf", "-w", "8"]
        command += ["--tokenize", sys.argv[3], "--force"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for line in json.loads(done.stdout):
            print(line["score"], line["signature"])
        """,
        str(tmp_path / "reference"),
        str(tmp_path / "translation"),
        tokenize,
    )
    ours = score(TRANSLATIONS, REFERENCES, tokenize)
    lines = theirs.splitlines()
    assert float(lines[0].split()[0]) == pytest.approx(ours.bleu, abs=1e-7)
    assert float(lines[1].split()[0]) == pytest.approx(ours.chrf, abs=1e-7)
    assert f"tok:{tokenize}" in ours.signature
    assert lines[0].split()[1].endswith(ours.signature)
    assert 20 < ours.bleu < 99


def test_unequal_counts_are_refused():
    with pytest.raises(InputError, match="2 translations for 1 references"):
        score(["a", "b"], ["a"])
