"""All options of a run with default and meaning: the text of `train --options`, and a commented run.toml to start from.

Both are made from the settings classes and the strings below their fields.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from glassformer.data import TokenizerSettings
from glassformer.model import PRESETS, ModelConfig, preset
from glassformer.settings import Settings
from glassformer.text_layout import columns
from glassformer.training.run_settings import DataSettings, RunSettings, TrainingSettings, ValidationSettings

SECTIONS: dict[str, type[Settings]] = {
    "": RunSettings,
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelConfig,
    "training": TrainingSettings,
    "validation": ValidationSettings,
}
FROM_THE_TOKENIZER = ("vocab_size", "source_vocab_size", "pad_id", "bos_id", "eos_id")
"""Options of a model that the tokenizer determines."""
EXAMPLES = {
    "out": "runs/mine",
    "source": "train.en",
    "target": "train.de",
    "dev_source": "dev.en",
    "dev_target": "dev.de",
    "test_source": "test.en",
    "test_target": "test.de",
    "finetune": "runs/other",
    "preset": "tiny",
    "d_head": 64,
    "updates": 5000,
    "epochs": 20.0,
    "micro_batches": 4,
    "warmup": 400,
    "ranks": 2,
    "every": 500,
}
"""Values to show for options that have no default, or one that is chosen for the corpus."""
NEEDED = ("out", "data.source", "data.target")
BY_PRESET = "by preset"
COMMENT_WIDTH = 100


@dataclass(frozen=True)
class RunOption:
    """An option of a run: its place, its default, and its meaning."""

    section: str
    name: str
    default: Any
    """None if it is chosen, or not set."""
    meaning: str
    choices: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def is_by_preset(self) -> bool:
        """Whether presets have different values of it."""
        return self.section == "model" and any(self.name in options for options in PRESETS.values())


def run_options() -> list[RunOption]:
    """Every option that a run.toml may have, by section."""
    options = [option for section in SECTIONS for option in _options_of(section)]
    names = ", ".join(PRESETS)
    meaning = f"Sizes, which the other options override: {names}; chosen for the corpus when left out."
    sizes = RunOption("model", "preset", None, meaning)
    first = next(i for i, option in enumerate(options) if option.section == "model")
    return [*options[:first], sizes, *options[first:]]


def _options_of(section: str) -> Iterator[RunOption]:
    settings = SECTIONS[section]
    meanings = settings.meanings()
    for name, field in settings.model_fields.items():
        if name in SECTIONS or (section == "model" and name in FROM_THE_TOKENIZER):
            continue
        default = field.get_default(call_default_factory=True)
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        meaning = meanings.get(name, "")
        yield RunOption(section, name, None if default is PydanticUndefined else default, meaning, choices)


def options_text(width: int) -> str:
    """Every option with its default and its meaning, for a terminal of this width."""
    lines = []
    for section in SECTIONS:
        rows = [_row(option) for option in run_options() if option.section == section]
        first = max(len(row[0]) for row in rows) + 2
        second = max(len(row[1]) for row in rows) + 2
        room = max(30, width - first - second - 2)
        table = [
            (f"  {name if i == 0 else ''}", default if i == 0 else "", line)
            for name, default, meaning in rows
            for i, line in enumerate(textwrap.wrap(meaning, room, break_on_hyphens=False))
        ]
        lines += [f"[{section}]" if section else "At the top of the file", columns(table), ""]
    return "\n".join(lines).rstrip()


def _row(option: RunOption) -> tuple[str, str, str]:
    choices = [str(choice) for choice in option.choices]
    missing = [choice for choice in choices if choice not in option.meaning]
    meaning = f"{option.meaning} One of: {', '.join(choices)}." if missing else option.meaning
    if option.default is not None:
        default = BY_PRESET if option.is_by_preset else json.dumps(option.default, ensure_ascii=False)
        return option.name, default, meaning
    return option.name, "needed" if option.path in NEEDED else "-", meaning


def starting_file(table: Mapping[str, Any]) -> str:
    """A run.toml with every option and its meaning; those that the given tables do not set are commented out."""
    data, model = {"source": EXAMPLES["source"]} | table.get("data", {}), table.get("model", {})
    RunSettings(**{"out": EXAMPLES["out"], **table, "data": data})  # an unknown option is an error
    preset(model.get("preset", "tiny"), **{name: value for name, value in model.items() if name != "preset"})
    has_both_sides = PurePath(data["source"].removesuffix(".gz")).suffix in (".tsv", ".jsonl")
    lines = ["# Options of a training run: `glassformer train run.toml`.", "# Remove the # before an option to set it."]
    section = ""
    for option in run_options():
        if option.section != section:
            section = option.section
            lines += ["", f"[{section}]"]
        given = table.get(section, {}) if section else table
        value = given.get(option.name, EXAMPLES.get(option.name) if option.default is None else option.default)
        is_set = option.name in given or (option.path in NEEDED and not (option.name == "target" and has_both_sides))
        meaning = f"{_row(option)[2]}{' Its default is that of the preset.' if option.is_by_preset else ''}"
        lines += ["", *(f"# {line}" for line in textwrap.wrap(meaning, COMMENT_WIDTH, break_on_hyphens=False))]
        lines.append(f"{'' if is_set else '# '}{option.name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
