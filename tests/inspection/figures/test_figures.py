"""Figures: drawn from a trace alone, deterministic to the byte, and showing the trace's own numbers."""

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer import load
from glassformer.decoding import Request
from glassformer.errors import GlassformerError, InputError, SettingsError
from glassformer.figure_catalogue import VIEWS, VIEWS_OF_SCREEN
from glassformer.inspection import Trace, inspect
from glassformer.inspection.figures import figure
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.png import with_symbol_font
from glassformer.inspection.figures.renderer import BUNDLE, as_svg
from glassformer.inspection.figures.tensor_rows import rounded, weight
from glassformer.inspection.figures.views import VIEW_FUNCTIONS, view_data
from glassformer.inspection.tracing.trace_builder import TokenNames, trace
from tests.examples import ALL, cases, max_examples
from tests.models import build_source_sensitive, configs, seeds
from tests.processes import ROOT, glassformer, load_script, run_fresh

SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "The animal didn't cross the street because it was too tired."
ATTENTION_VIEWS = ("qkv", "self-attention", "heads", "heads-out", "concat", "multi-head", "attention")


@cache
def street():
    return load("street")


@cache
def street_trace() -> Trace:
    return inspect(street()).trace(SENTENCE)


def pieces(ids):
    return street().tokenizer.pieces(ids, "target")


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def random_trace(config, seed, given_target=False) -> Trace:
    model = build_source_sensitive(config, seed)
    usable = [i for i in range(min(config.source_vocab_size, config.vocab_size)) if i != config.pad_id]
    source = [usable[(seed + step) % len(usable)] for step in range(4)] + [config.eos_id]
    return trace(model, Request(source), [usable[0], usable[-1], config.eos_id] if given_target else None)


@pytest.mark.parametrize("dark", cases(False, more=[True]))
def test_a_story_has_every_figure_with_its_description_and_loads_nothing(dark, tmp_path):
    at = "decoder.layers.1.cross_attention"
    page = street_trace().story(name="street", at=at, head=2, token=8, dark=dark).html
    assert SENTENCE.replace("'", "&#x27;") in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=(?!\"data:)|url\((?!#)", page)
    options = {
        "qkv": {"at": at, "token": 8},
        "attention": {"at": at, "token": 8},
        "concat": {"at": at, "token": 8},
        "decoding-steps": {},
    }
    places = [
        page.index(figure(street_trace(), view, head=2, dark=dark, caption=False, **given).svg)
        for view, given in options.items()
    ]
    assert places == sorted(places)
    assert page.count("<figure") == page.count("<figcaption>") == len(VIEWS)
    one_head = figure(street_trace(), "attention", at=at, head=0, caption=False).svg
    story = street_trace().story(at=at, head=None)
    assert one_head in story.html  # as the command does without --head
    story.save(tmp_path / "it.html")
    with pytest.raises(InputError, match=r"use a name that ends in \.html"):
        story.save(tmp_path / "it.svg")
    with pytest.raises(InputError, match=r"There is no attention 'encoder\.layers\.9"):
        street_trace().story(at="encoder.layers.9.self_attention")


def test_a_story_names_the_figures_that_its_trace_has_no_tensors_for(tmp_path):
    street_trace().save(tmp_path / "slim.safetensors", "attention")
    page = Trace.load(tmp_path / "slim.safetensors").story().html
    assert 0 < page.count("<figure") < len(VIEWS)
    assert page.count("Not drawn") == len(VIEWS) - page.count("<figure")
    given = inspect(street()).trace(SENTENCE, "Das Tier schlief.").story().html
    assert given.count("Not drawn") == 1


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("dark", "width"), cases((False, "178mm"), (True, "86mm"), more=[(False, "86mm"), (True, "178mm")])
)
def test_a_figure_is_well_formed_and_has_a_description(view, dark, width):
    drawn = figure(street_trace(), view, dark=dark, width=width)
    root = ElementTree.fromstring(drawn.svg)
    assert root.get("width") == width
    assert root.find(f"{SVG}title").text == drawn.title
    assert root.find(f"{SVG}desc").text == drawn.description
    assert re.search(r"\d", drawn.description)
    assert drawn.title in drawn._repr_mimebundle_()["text/plain"]
    # Nothing external: images are embedded, patterns are defined inside.
    links = re.findall(r'(?:href|src)="([^"]{0,12})', drawn.svg) + re.findall(r"url\(([^)]*)\)", drawn.svg)
    assert all(link.startswith(("data:image/p", "#")) for link in links)
    assert not re.search(r'[="\s,]-?0*\.?NaN|undefined|Infinity', drawn.svg)


@pytest.mark.parametrize(
    "view", cases("attention", "decoding-steps", more=sorted(set(VIEWS) - {"attention", "decoding-steps"}))
)
def test_the_same_trace_gives_the_same_bytes_in_every_thread(view):
    once = figure(street_trace(), view).svg
    with ThreadPoolExecutor(3) as threads:
        again = list(threads.map(lambda _: figure(street_trace(), view).svg, range(3)))
    assert again == [once] * 3


@pytest.mark.parametrize("view", [*ATTENTION_VIEWS, "cross-attention", "decoding-steps"])
def test_every_token_appears_as_text(view):
    written = texts(figure(street_trace(), view, caption=False).svg)
    tokens = street_trace().target if view == "decoding-steps" else street_trace().source
    for piece in tokens:
        start = piece.removeprefix("▁")[:4]  # long tokens are truncated
        assert any(text.startswith(start) for text in written), (view, piece)


@cache
def text_width():
    """The renderer's estimate of text width: the width in the widest of the common fonts."""
    import quickjs

    context = quickjs.Context()
    context.eval(BUNDLE.read_text() + "function textWidth(t, s, b) { return glassformerFigures.textWidth(t, s, b); }")
    return context.get("textWidth")


def text_boxes(element: ElementTree.Element, dx: float = 0, dy: float = 0):
    """Bounding box and content of every horizontal text. A <g> may translate its children."""
    if moved := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
        dx, dy = dx + float(moved[1]), dy + float(moved[2])
    if element.tag == f"{SVG}text" and "rotate" not in element.get("transform", ""):
        size, bold = float(element.get("font-size", 8)), element.get("font-weight") == "bold"
        parts = [(element.text, size)]
        for span in element:
            parts += [(span.text, float(span.get("font-size", size))), (span.tail, size)]
        width = sum(text_width()(text, part_size, bold) for text, part_size in parts if text)
        left = float(element.get("x")) + dx - width * {"middle": 0.5, "end": 1}.get(element.get("text-anchor"), 0)
        baseline = float(element.get("y")) + dy
        yield left, baseline - 0.72 * size, left + width, baseline, "".join(element.itertext())
    for child in element:
        yield from text_boxes(child, dx, dy)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", ["86mm", "178mm"])
def test_texts_do_not_overlap_or_leave_the_page(view, width):
    for at in street_trace().attentions[:: 1 if ALL else 4] if view in ATTENTION_VIEWS else [None]:
        root = ElementTree.fromstring(figure(street_trace(), view, at=at, width=width).svg)
        boxes = list(text_boxes(root))
        right = float(root.get("viewBox").split()[2])
        for number, (left, top, end, baseline, text) in enumerate(boxes):
            assert left >= 0, text
            assert end <= right, text
            for other in boxes[number + 1 :]:
                across = min(end, other[2]) - max(left, other[0])
                down = min(baseline, other[3]) - max(top, other[1])
                assert across < 0.8 or down < 0.8, (at, text, other[4])


@given(configs(), seeds, st.data())
@max_examples(25)
def test_any_model_can_be_drawn(config, seed, data):
    """Unequal depths, pre- and post-norm, any number of heads, relative and rotary positions, recurrent decoders."""
    traced = random_trace(config, seed)
    view = data.draw(st.sampled_from(list(VIEWS)))
    at = data.draw(st.sampled_from(traced.attentions)) if view in ATTENTION_VIEWS else None
    head = data.draw(st.integers(0, config.n_heads - 1))
    drawn = figure(traced, view, at=at, head=head, width=data.draw(st.sampled_from(["86mm", "178mm"])))
    ElementTree.fromstring(drawn.svg)
    assert "NaN" not in drawn.svg
    assert "undefined" not in drawn.svg


@given(configs(decoder_ssru=True, positions="sinusoidal"), seeds)
@max_examples(4)
def test_a_recurrent_decoder_has_no_self_attention_to_draw(config, seed):
    traced = random_trace(config, seed, given_target=True)
    assert "has no self-attention" in figure(traced, "decoding-steps").description
    with pytest.raises(InputError, match="has no self-attention"):
        figure(traced, "attention", at="decoder.layers.0.self_attention")


@given(configs(decoder_ssru=False), seeds)
@max_examples(4)
def test_masked_positions_are_hatched_and_not_0(config, seed):
    traced = random_trace(config, seed, given_target=True)
    at = "decoder.layers.0.self_attention"
    data = view_data(traced, "attention", FigureOptions(at=at))
    for head in data["weights"]:
        cells = torch.tensor([value is None for value in head["values"]]).view(head["rows"], head["cols"])
        assert torch.equal(cells, torch.ones(3, 3, dtype=torch.bool).triu(1))
    drawn = figure(traced, "attention", at=at).svg
    assert "<pattern" in drawn
    assert "masked" in texts(drawn)


def test_the_softmax_shows_the_traces_probabilities():
    traced = street_trace()
    position = traced.target.index("▁es")
    drawn = figure(traced, "softmax", token="es", caption=False)
    written = texts(drawn.svg)
    p = traced["output.log_probability"][position].exp().item()
    assert f"{p:.2f} written" in written
    likeliest = pieces(traced["output.likeliest"][position, :10].tolist())
    assert [text for text in written if f"▁{text}" in likeliest or text in likeliest] == [
        piece.removeprefix("▁") for piece in likeliest
    ]
    data = view_data(traced, "softmax", FigureOptions(token="es", likeliest=7))
    shown = sum(one["probability"] for one in data["likeliest"]) + data["rest"]["probability"]
    assert shown == pytest.approx(1, abs=1e-3)
    assert data["rest"]["count"] == traced.config.vocab_size - 7


def test_the_description_names_the_strongest_of_the_trace():
    traced = street_trace()
    at, head = "decoder.layers.1.cross_attention", 1
    row = traced.target.index("▁es")
    weights = traced[f"{at}.weights"][head, row]
    best = traced.source[int(weights.argmax())].removeprefix("▁")
    description = figure(traced, "attention", at=at, head=head, token="es").description
    assert f"after weil, predicting es, attends most to {best} {weights.max():.3f}" in description


def test_the_cross_attention_view_shows_which_matrices_are_shared():
    traced = street_trace()
    unshared = figure(traced, "cross-attention").svg
    assert texts(unshared).count("own") == 2 * traced.config.decoder_layers
    assert texts(unshared).count("≠") == traced.config.decoder_layers
    first, second = (f"decoder.layers.{i}.cross_attention.k_proj.weight" for i in range(2))
    about = traced.about.model_copy(update={"shared": traced.about.shared | {second: first}})
    shared = Trace(about, traced.loaders, traced.tree, traced.parameters)
    written = texts(figure(shared, "cross-attention").svg)
    assert written.count("own") == 2
    assert any(text.startswith("shared with dec") for text in written)


def test_a_trace_saved_without_weights_is_drawn_without_them(tmp_path):
    street_trace().save(tmp_path / "trace.safetensors", half=True)
    loaded = Trace.load(tmp_path / "trace.safetensors")
    for view in VIEWS:
        drawn = figure(loaded, view)
        missing = view in ("qkv", "concat", "multi-head", "cross-attention")
        assert ("numbers not saved with this trace" in texts(drawn.svg)) == missing, view


def test_attention_can_be_drawn_from_the_smallest_trace(tmp_path):
    street_trace().save(tmp_path / "trace.safetensors", detail="attention")
    loaded = Trace.load(tmp_path / "trace.safetensors")
    for at in loaded.attentions:
        assert figure(loaded, "attention", at=at).svg == figure(street_trace(), "attention", at=at).svg


def test_right_to_left_scripts_are_drawn_from_right_to_left():
    arabic = ["▁لم", "▁يعبر", "▁الحيوان", "▁الشارع", "</s>"]
    config = street().model.config
    names = TokenNames(pieces=lambda ids, side: [arabic[i % 5] for i in ids], text=lambda ids, side: "")
    traced = trace(street().model, Request([5, 6, 7, 8, config.eos_id]), [5, 6, config.eos_id], names=names)
    drawn = figure(traced, "attention", at="decoder.layers.0.cross_attention", head=0)
    columns = [e for e in ElementTree.fromstring(drawn.svg).iter(f"{SVG}text") if "rotate" in e.get("transform", "")]
    columns.sort(key=lambda element: float(element.get("x")))
    assert [element.text for element in columns] == [one.removeprefix("▁") for one in traced.source[::-1]]
    assert "from right to left" in drawn.description


def test_tokens_of_any_kind_make_well_formed_files():
    strange = ["▁<b>&\"'", "\x00\x1b", "▁", "a" * 300, "\ud800", "🦓", "é́", "]]>", "--"]
    config = street().model.config
    names = TokenNames(pieces=lambda ids, side: [strange[i % len(strange)] for i in ids], text=lambda ids, side: "")
    traced = trace(street().model, Request([*range(9, 18), config.eos_id]), [*range(18, 27)], names=names)
    for view in set(VIEWS) - {"beam"}:
        ElementTree.fromstring(figure(traced, view).svg)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9))
def test_numbers_keep_four_significant_digits(numbers):
    for number, kept in zip(numbers, rounded(torch.tensor(numbers, dtype=torch.float64)), strict=True):
        assert kept == float(f"{number:.4g}")


def test_large_weights_are_reduced_to_means_of_bins():
    table = weight(torch.arange(300.0 * 130).view(300, 130), 300, 130)
    assert (table["rows"], table["cols"], table["perRow"], table["perCol"]) == (300, 130, 3, 2)
    assert len(table["values"]) == 100 * 65
    assert table["values"][0] == pytest.approx(torch.tensor([0.0, 1, 130, 131, 260, 261]).mean().item(), rel=1e-3)


def test_in_a_png_only_texts_with_rare_symbols_change_their_font():
    """resvg sets a whole text in a serif font if the first font lacks one symbol."""
    svg = "<svg><desc>a → b</desc><text x='1'>1st <tspan>−0.5</tspan></text><text>plain</text><text>√K</text></svg>"
    drawn = with_symbol_font(svg)
    changed = re.sub(r' font-family="[^"]*"', "", drawn)
    assert changed == svg
    assert [text.startswith("<text font-family") for text in re.findall(r"<text.*?</text>", drawn)] == [
        True,
        False,
        True,
    ]


def test_png_and_svg_files(tmp_path):
    drawn = street_trace().figure("attention", head=2, token="it")
    drawn.save(tmp_path / "it.svg")
    drawn.save(tmp_path / "it.png")
    assert (tmp_path / "it.svg").read_text(encoding="utf-8") == drawn.svg == drawn._repr_svg_()
    png = (tmp_path / "it.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width = int.from_bytes(png[16:20], "big")
    assert width == pytest.approx(178 / 25.4 * 96 * 2, abs=2)
    with pytest.raises(InputError, match=r"use a name that ends in \.svg or \.png"):
        drawn.save(tmp_path / "it.jpg")


@pytest.mark.parametrize(
    ("view", "options", "complaint"),
    [
        ("attn", {}, "There is no view 'attn'"),
        (
            "attention",
            {"at": "encoder.layers.9.self_attention"},
            "There is no attention 'encoder.layers.9.self_attention'",
        ),
        ("attention", {"head": 4}, "Head 4 is out of range (0 to 3)"),
        ("attention", {"token": "horse"}, "There is no token 'horse'. Give one of these tokens (The animal"),
        ("softmax", {"token": 99}, "Position 99 is out of range"),
        (
            "decoding-steps",
            {"at": "encoder.layers.0"},
            "is not part of a decoder layer (decoder.layers.0 to decoder.layers.1)",
        ),
        ("attention", {"colour": "red"}, "colour"),
        ("attention", {"width": "10cm"}, "width"),
    ],
)
def test_invalid_options_are_errors(view, options, complaint):
    with pytest.raises((InputError, SettingsError), match=re.escape(complaint)):
        figure(street_trace(), view, **options)


def test_no_tree_without_a_search():
    with pytest.raises(InputError, match="Trace the sentence again without a target"):
        figure(inspect(street()).trace(SENTENCE, "Das Tier schläft."), "beam")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    drawn = figure(street_trace(), "softmax")
    with pytest.raises(GlassformerError, match=re.escape("pip install 'glassformer[figures]'")):
        drawn.png(scale=1.25)
    with ThreadPoolExecutor(1) as fresh:  # a thread that has no renderer yet
        monkeypatch.setitem(sys.modules, "quickjs", None)
        with pytest.raises(GlassformerError, match=re.escape("pip install 'glassformer[figures]'")):
            fresh.submit(figure, street_trace(), "softmax").result()


def test_the_drawing_packages_are_imported_only_when_drawing():
    run_fresh("""
        import sys
        import glassformer.inspection.figures
        assert not {"quickjs", "resvg_py"} & set(sys.modules)
    """)


NODE = """
const [bundle] = process.argv.slice(1);
const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
require('vm').runInThisContext(require('fs').readFileSync(bundle, 'utf8'));
process.stdout.write(JSON.stringify(input.map((one) => glassformerFigures.render(...one))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_quickjs_draws_the_bytes_that_node_draws():
    options = {"width": 178, "dark": False, "caption": True}
    inputs = [[view, view_data(street_trace(), view, FigureOptions()), options] for view in VIEWS]
    done = subprocess.run(
        ["node", "-e", NODE, str(BUNDLE)], input=json.dumps(inputs), capture_output=True, text=True, check=True
    )
    for (view, data, style), by_node in zip(inputs, json.loads(done.stdout), strict=True):
        assert as_svg(view, data, style) == by_node, view


@cache
def write_figures():
    return load_script("docs/write_figures.py")


def test_the_figures_of_the_docs_are_what_the_model_draws():
    """If this fails, the built-in model, a tap or the renderer changed: check the figures, then run `make figures`."""
    script = write_figures()
    translator = script.translator()
    drawn = script.figures(inspect(translator).trace(script.SENTENCE))
    assert {path.stem for path in script.DIRECTORY.glob("*.svg")} == set(drawn)
    for name, one in drawn.items():
        assert (script.DIRECTORY / f"{name}.svg").read_text(encoding="utf-8") == one.svg, name
    assert (script.DIRECTORY / "README.md").read_text(encoding="utf-8") == script.gallery(drawn)


def test_the_catalogue_is_complete():
    """Each of its views has data, is drawn by the renderer, is offered on a screen, and takes existing options."""
    quickjs = pytest.importorskip("quickjs")
    context = quickjs.Context()
    context.eval(BUNDLE.read_text(encoding="utf-8"))
    drawn = json.loads(context.eval("JSON.stringify(glassformerFigures.views)"))
    assert set(VIEWS) == set(drawn) == set(VIEW_FUNCTIONS)
    assert {name for name, view in VIEWS.items() if view.of_attention} == set(ATTENTION_VIEWS)
    assert set().union(*VIEWS_OF_SCREEN.values()) == set(VIEWS)
    assert all({*view.options} <= FigureOptions.model_fields.keys() for view in VIEWS.values())
    page = ROOT / "frontend/src/page"
    known = "".join((page / name).read_text(encoding="utf-8") for name in ("screens/registry.ts", "state/selection.ts"))
    assert all(f"'{screen}'" in known for screen in VIEWS_OF_SCREEN)


def test_the_catalogue_is_listed_without_torch():
    listed = run_fresh("""
        import sys
        from glassformer.cli.figure import figure
        from glassformer.figure_catalogue import VIEWS, for_explorer
        for_explorer()
        assert "torch" not in sys.modules
        assert all(f"  {view.name:<16}{view.summary}" in figure.__doc__ for view in VIEWS.values())
        print(*VIEWS)
    """)
    assert listed.split() == list(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_depends_on_its_options_only(view):
    """An option that the catalogue does not name for a view changes nothing in it."""
    own = street_trace()
    given = {"at": "decoder.layers.0.cross_attention", "head": 1, "token": 2, "likeliest": 3}
    first = figure(own, view).svg
    for option, value in given.items():
        if option not in VIEWS[view].options:
            assert _without_ids(figure(own, view, **{option: value}).svg) == _without_ids(first), option


def _without_ids(svg: str) -> str:
    return re.sub(r'(id|labelledby|describedby|href)="[^"]*"|url\([^)]*\)', "", svg)


def test_the_command_draws(tmp_path):
    def run(*arguments):
        return glassformer("figure", "street", SENTENCE, *arguments)

    done = run("attention", str(tmp_path / "it.svg"), "--head", "1", "--token", "it", "--width", "86mm")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Head 1 of encoder layer 1, self-attention: it attends most to ")
    ElementTree.parse(tmp_path / "it.svg")
    done = run("--all", str(tmp_path / "all"), "--target", "Das Tier schläft.")
    assert {path.stem for path in (tmp_path / "all").iterdir()} == set(VIEWS) - {"beam"}
    assert "Trace the sentence again without a target" in done.stderr
    assert run("attention").returncode == 1
