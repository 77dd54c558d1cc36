"""Suggestions by meaning: every group names something that exists."""

import pytest
from typer.main import get_command

from glassformer.cli import COMMANDS, app
from glassformer.model import PRESETS, ModelConfig
from glassformer.model.position_kinds import KINDS
from glassformer.settings import Settings
from glassformer.synonyms import GROUPS, closest
from glassformer.training.run_settings import RunSettings
from tests.processes import glassformer


def options_of(settings: type[Settings]) -> set[str]:
    sections = [field.annotation for field in settings.model_fields.values()]
    nested = [section for section in sections if isinstance(section, type) and issubclass(section, Settings)]
    return set(settings.model_fields).union(*map(options_of, nested))


def known_names() -> set[str]:
    group = get_command(app)
    commands = [group.get_command(None, name) for name in COMMANDS]
    options = {name.lstrip("-") for command in commands for parameter in command.params for name in parameter.opts}
    names = {*COMMANDS, *PRESETS, *KINDS, *options, *options_of(RunSettings), *options_of(ModelConfig)}
    return {name.replace("_", "-") for name in names} | {"kind", "vocab-size"}  # of the tokenizer, which is optional


def test_every_group_names_something_that_exists():
    names = known_names()
    assert [group for group in GROUPS if not group & names] == []


def test_a_name_means_itself_and_every_other_of_its_group():
    names = known_names()
    assert all(closest(name, names) == name for name in names)
    for group in GROUPS:
        for known in group & names:
            assert all(closest(f"--{other}", [known, "zzz"]) == known for other in group)
            assert closest(known.upper().replace("-", "_"), [known]) == known
    assert closest("qqqqqq", names) is None


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["evaluate", "street", "--source", "a", "--target", "b"], "did you mean --reference?"),
        (["evaluate", "street", "--source", "a", "--temperature", "2"], "Its options: --against, --beam, --device,"),
        (["translate", "street", "--num-beams", "3", "Hello"], "did you mean --beam?"),
        (["translate", "street", "--temprature", "3", "Hello"], "did you mean --temperature?"),
        (["train", "--sorce", "a"], "did you mean --source?"),
        (["infer", "street"], "did you mean 'translate'?"),
        (["evaluat", "street"], "did you mean 'evaluate'?"),
        (["qqqqqq"], "There is no command 'qqqqqq'."),
    ],
)
def test_what_does_not_exist_gets_a_hint(arguments, hint):
    done = glassformer(*arguments)
    assert done.returncode == 2
    assert hint in " ".join(done.stderr.replace("│", " ").split())
