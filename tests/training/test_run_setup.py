"""Runs from options to report: defaults, checks, averaging, early stopping and the files they write."""

import json
import re
from pathlib import Path

import pytest
import torch

from glassformer.atomic_directory import verify
from glassformer.builtin import street
from glassformer.data import corpus, scan
from glassformer.errors import DirectoryError, GlassformerError
from glassformer.loading import load
from glassformer.model import load_model, n_parameters, preset
from glassformer.model.directory import read_weights
from glassformer.model_location import find_model
from glassformer.training import RunSettings, run_resources, train_run
from glassformer.training.default_choices import DEFAULTS_BY_PAIRS, choose_model, choose_tokenizer
from glassformer.training.run_settings import DataSettings
from glassformer.training.run_setup import prepare_run
from glassformer.training.weight_averaging import MovingAverage, mean, using_weights
from tests.training.runs import Listener, options, trained, write_corpus


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict]:
    here = tmp_path_factory.mktemp("finished")
    run_options = options(here)
    run_options["data"] |= write_corpus(here / "text", 12, "test")
    return here / "run", trained(run_options)


def test_it_leaves_a_model_a_score_and_a_report(finished):
    run, report = finished
    assert report == json.loads((run / "report.json").read_text())
    assert report["scored_on"] == "test"
    assert set(report["scores"]) == {"dev", "test"}
    assert report["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert len(report["translations"]) == 12
    assert len((run / "test.translations.txt").read_text().splitlines()) == 12
    verify(run / report["model"])
    assert report["parameters"] == load_model(run / report["model"]).n_parameters
    assert report["updates"] == 24


def test_the_best_model_translates_what_the_report_says(finished):
    run, report = finished
    translator = load(run)
    translator.search = translator.search.model_copy(update={"size": 2})
    sources = [sample["source"] for sample in report["translations"]]
    assert translator.translate(sources) == [sample["translation"] for sample in report["translations"]]


def test_run_toml_is_what_was_used(finished):
    settings = RunSettings.read(finished[0] / "run.toml")
    assert settings.training.updates == 24
    assert RunSettings(**json.loads(settings.as_json())) == settings


def test_metrics_record_losses_and_scores(finished):
    lines = [json.loads(line) for line in (finished[0] / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if "loss" in line] == [5, 10, 15, 20]
    assert [line["update"] for line in lines if "dev_bleu" in line] == [6, 12, 18, 24]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]


def test_the_page_is_one_file_that_fetches_nothing_and_runs_nothing(finished):
    page = (finished[0] / "report.html").read_text()
    assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page)
    assert page.count("<svg") == 3
    assert page.count("aria-label") == 3


def test_blank_lines_of_a_test_set_stay_blank(tmp_path):
    run_options = options(tmp_path, updates=3)
    run_options["data"] |= write_corpus(tmp_path / "text", 5, "test")
    for side in ("source", "target"):
        path = Path(run_options["data"][f"test_{side}"])
        path.write_text("\n" + path.read_text() + "  \n")
    trained(run_options)
    lines = (tmp_path / "run/test.translations.txt").read_text().split("\n")
    assert (len(lines), lines[0], lines[6]) == (8, "", "")


def test_text_in_the_page_is_escaped(tmp_path):
    """Sentences may contain markup; the page must escape it."""
    run_options = options(tmp_path, updates=6)
    source = Path(run_options["data"]["dev_source"])
    source.write_text(source.read_text().replace("The ", "<img src=x> & [/red] ", 1))
    trained(run_options)
    page = (tmp_path / "run/report.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x&gt; &amp; [/red]" in page


@pytest.mark.parametrize(("blank", "pairs"), [(1, "1 pair"), (2, "2 pairs")])
def test_skipped_pairs_are_counted(tmp_path, blank, pairs):
    run_options = options(tmp_path)
    for side, line in (("source", "\n"), ("target", "Hallo.\n")):
        with Path(run_options["data"][side]).open("a") as file:
            file.write(blank * line)
    messages = []
    with prepare_run(run_options, messages.append):
        pass
    assert f"Skipped {pairs} with an empty side and 0 longer than 256 tokens." in messages


def test_a_dev_set_is_split_off_and_kept_apart(tmp_path):
    files = write_corpus(tmp_path, 400)
    held = scan(corpus(*files.values())).part(one_in=20)
    dev, rest = {pair.source for pair in held}, {pair.source for pair in held.complement}
    assert not dev & rest
    assert len(dev) + len(rest) == 400
    assert 5 <= len(dev) <= 40
    run_options = options(tmp_path, updates=3) | {"data": files}
    assert trained(run_options)["scored_on"] == "dev"


def test_any_symbols_can_be_learned(tmp_path):
    """Letters to sounds, separated by spaces: each space-separated symbol is a token."""
    words = [sentence.source.split()[1] for sentence in street.sentences("train", 300)]
    lines = [f"{' '.join(word)}\t{' '.join(letter.upper() + '1' for letter in word)}\n" for word in words]
    (tmp_path / "sounds.tsv").write_text("".join(lines))
    run_options = options(tmp_path, updates=6) | {
        "data": {"source": str(tmp_path / "sounds.tsv")},
        "tokenizer": {"kind": "word", "vocab_size": 200, "joint": False},
    }
    report = trained(run_options)
    assert report["pairs"] > 250


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_the_best_model_has_the_requested_average(tmp_path, average):
    run_options = options(tmp_path, average=average, average_last=3, keep=9, updates=20)
    run_options["validation"] |= {"metric": "loss"}
    trained(run_options)
    run = tmp_path / "run"
    best = max(run.glob("best-*"), key=lambda path: int(path.name.split("-")[1]))
    update = int(best.name.split("-")[1])
    best_weights = read_weights(best / "model.safetensors")
    validated = [number for number in (20, 18, 12, 6) if number <= update][:3]
    steps = [read_weights(run / f"step-{number}" / "model.safetensors") for number in validated]
    expected = {
        "none": steps[0],
        "ema": read_weights(run / f"step-{update}" / "average.safetensors") if average == "ema" else {},
        "last": mean(steps),
    }[average]
    for name, weight in best_weights.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-7)


def test_the_moving_average_is_its_formula():
    model = torch.nn.Linear(2, 1)
    average = MovingAverage(model, decay=0.9)
    expected = model.weight.detach().clone()
    for number in range(1, 30):
        with torch.no_grad():
            model.weight += 1
        decay = min(0.9, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * model.weight.detach()
        average.update(model, number)
    torch.testing.assert_close(average.weights["weight"], expected)
    original = model.weight.detach().clone()
    with using_weights(model, average.weights):
        torch.testing.assert_close(model.weight, expected)
    assert torch.equal(model.weight, original)


def test_training_ends_early_when_nothing_gets_better(tmp_path):
    run_options = options(tmp_path, updates=600, learning_rate=1e-12)
    run_options["validation"] |= {"patience": 2}
    report = trained(run_options)
    assert report["updates"] == 18
    assert report["ended"] == "early stopping, no better bleu in 2 validations"


def test_gradients_that_are_not_finite_are_skipped_and_then_end_the_run(tmp_path):
    run_options = options(tmp_path, updates=600, learning_rate=1e30, warmup=0, clip=0.0)
    listener = Listener()
    with pytest.raises(GlassformerError, match="5 consecutive updates had a gradient that is not finite") as error:
        trained(run_options, listener)
    assert sum("skipped: its gradient is not finite" in text for text in listener.messages) == 5
    path = Path(re.search(r"batch is in (\S+\.json)", str(error.value))[1])
    batch = json.loads(path.read_text())
    assert set(batch[0]) == {"pair", "source", "target"}
    assert batch[0]["source"] in Path(run_options["data"]["source"]).read_text()


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    import errno

    from glassformer.training import training_loop

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

    monkeypatch.setattr(training_loop.Trainer, "_log_line", full)
    with pytest.raises(DirectoryError, match=r"No space left on device \(metrics.jsonl\)"):
        train_run(options(tmp_path))


def test_fine_tuning_starts_from_a_model_with_its_vocabulary(finished, tmp_path):
    run, _ = finished
    run_options = options(tmp_path, updates=2) | {"finetune": str(run)}
    del run_options["model"], run_options["tokenizer"]
    trained(run_options)
    before, after = (read_weights(next(path.glob("best-*")) / "model.safetensors") for path in (run, tmp_path / "run"))
    moved = max((before[name] - after[name]).abs().max().item() for name in before)
    assert 0 < moved < 0.1
    vocabulary = tmp_path / "run/tokenizer/joint.model"
    assert vocabulary.read_bytes() == (run / "tokenizer/joint.model").read_bytes()


def test_defaults_grow_with_the_corpus():
    sizes = [size for size, *_ in DEFAULTS_BY_PAIRS]
    assert sizes == sorted(sizes)
    vocabularies = [choose_tokenizer(int(min(size, 1e9))).vocab_size for size in sizes]
    assert vocabularies == sorted(vocabularies)
    assert choose_model({"dropout": 0.3}, 10) == {"preset": "tiny", "dropout": 0.3}
    assert choose_model({"preset": "small"}, 10) == {"preset": "small"}


def test_settings_survive_toml(tmp_path):
    path = tmp_path / "run.toml"
    for text in ('"quoted"', "back\\slash", "über\u2028", "tab\t\x7f", "[x]=#"):
        settings = RunSettings(out=text, data=DataSettings(source=text), model={"preset": "tiny", "dropout": 0.25})
        path.write_text(settings.as_toml(), encoding="utf-8")
        assert RunSettings.read(path) == settings


def test_bfloat16_learns_too(tmp_path):
    """It can be requested even where the hardware is not faster with it; weights stay in float32."""
    report = trained(options(tmp_path, precision="bfloat16", learning_rate=0.01))
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    weights = read_weights(tmp_path / "run" / report["model"] / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_ranks_fit_into_memory_and_cores(monkeypatch):
    monkeypatch.setattr(run_resources, "cores", lambda: 64)
    assert run_resources.choose_ranks(parameters=1_000_000) == run_resources.MAX_RANKS
    assert run_resources.choose_ranks(parameters=10**12) == 1
    monkeypatch.setattr(run_resources, "cores", lambda: 2)
    assert run_resources.choose_ranks(parameters=1_000_000) == 2


def test_the_parameters_of_a_large_model_are_counted_without_building_it():
    assert n_parameters(preset("paper-base")) == 63_082_496


def test_the_built_in_model_translates_the_pronoun_examples():
    translator = load("street")
    assert translator.translate(list(street.PRONOUN_EXAMPLES)) == list(street.PRONOUN_EXAMPLES.values())
    assert translator.translate(["", "   "]) == ["", ""]
    verify(find_model("street"))
