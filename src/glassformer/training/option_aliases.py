"""Names and values that people type for an option, and the ones that settings and run.toml have.

Only those that mean exactly the same; others get a suggestion (`glassformer.synonyms`).
"""

from typing import Any

from glassformer.errors import SettingsError

NAMES = {
    "training": {
        "lr": "learning_rate",
        "max_epochs": "epochs",
        "max_steps": "updates",
        "max_updates": "updates",
        "steps": "updates",
        "warmup_steps": "warmup",
        "warmup_updates": "warmup",
        "clip_norm": "clip",
        "max_grad_norm": "clip",
    },
    "model": {"prenorm": "norm_first", "pre_norm": "norm_first", "hidden_size": "d_model", "dim_feedforward": "d_ff"},
}
VALUES = {
    "model.preset": {"base": "paper-base", "big": "paper-big", "transformer-base": "paper-base"},
    "model.positions": {"rope": "rotary", "sine": "sinusoidal", "t5": "relative", "absolute": "learned"},
    "model.norm": {"layernorm": "layer", "rmsnorm": "rms"},
    "model.activation": {"swish": "silu"},
    "training.decay": {"inverse_sqrt": "inverse-sqrt", "noam": "inverse-sqrt"},
    "training.precision": {"fp32": "float32", "bf16": "bfloat16"},
}


def canonical(options: dict[str, Any]) -> dict[str, Any]:
    """The tables of a run with every alias replaced; an alias outside its section is moved into it (`lr`).

    An empty section is left out: it sets nothing, as a run.toml of which every line is commented out.
    """
    table = {name: dict(value) if isinstance(value, dict) else value for name, value in options.items() if value != {}}
    for section, names in NAMES.items():
        for alias, name in names.items():
            if alias in table:
                _set(table.setdefault(section, {}), alias, table.pop(alias), section)
            options_of_section = table.get(section)
            if isinstance(options_of_section, dict) and alias in options_of_section:
                _set(options_of_section, name, options_of_section.pop(alias), section, alias)
    for path, values in VALUES.items():
        section, name = path.split(".")
        options_of_section = table.get(section)
        if isinstance(options_of_section, dict) and isinstance(value := options_of_section.get(name), str):
            options_of_section[name] = values.get(value.lower(), value)
    return table


def _set(options: Any, name: str, value: Any, section: str, alias: str | None = None) -> None:
    if not isinstance(options, dict):
        raise SettingsError(f"{section} = {options!r} should contain named options.")
    if name in options:
        raise SettingsError(
            f"{section}.{alias or name} and {section}.{name} are the same option: give only one of them."
        )
    options[name] = value
