"""Format detection: every supported format opens; anything else is refused in one sentence."""

import pytest
import torch
from torch import nn

import glassformer
from glassformer.errors import GlassformerError, InputError
from glassformer.interop.fairseq import NAMES
from glassformer.interop.format_detection import open_imported
from glassformer.interop.hugging_face import write_hugging_face
from glassformer.model import ModelConfig, save_model
from tests.interop.hugging_face_models import FAMILIES
from tests.models import build, sources, targets


@pytest.mark.parametrize("kind", FAMILIES)
def test_load_opens_hugging_face_models_and_gives_logits_for_ids(kind, tmp_path):
    theirs = FAMILIES[kind](1)
    theirs.save_pretrained(tmp_path)
    loaded = glassformer.load(tmp_path)
    config = loaded.model.config
    source, target = sources(config, [5, 3], 0), targets(config, [4, 4], 0)
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=(source != config.pad_id).long(), decoder_input_ids=target)
        torch.testing.assert_close(loaded.model(source, target), expected.logits, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="has no tokenizer: it takes token ids, not text"):
        loaded("A sentence.")


def test_load_opens_a_built_in_model():
    assert glassformer.load("street")("The animal didn't cross the street because it was too wide.").startswith(
        "Das Tier"
    )


def test_an_exported_directory_is_opened_as_hugging_faces(tmp_path):
    """An exported directory also has config.json and model.safetensors."""
    street = glassformer.load("street")
    (tmp_path / "out").mkdir()
    write_hugging_face(street.model, street.tokenizer, tmp_path / "out")
    again = glassformer.load(tmp_path / "out")
    texts = ["The dog didn't cross the bridge because it was too narrow.", "The woman is tired."]
    assert again.translate(texts) == street.translate(texts)


def test_a_name_of_the_hub_is_looked_up_in_its_cache(tmp_path, monkeypatch):
    """Offline: the cache's snapshots are links to its blobs."""
    home = tmp_path / "hub" / "models--somebody--small-model"
    (home / "snapshots" / ("1" * 40)).mkdir(parents=True)
    (home / "blobs").mkdir()
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("1" * 40)
    FAMILIES["marian"](0).save_pretrained(tmp_path / "made")
    for number, file in enumerate(sorted((tmp_path / "made").iterdir())):
        (home / "blobs" / str(number)).write_bytes(file.read_bytes())
        (home / "snapshots" / ("1" * 40) / file.name).symlink_to(f"../../blobs/{number}")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    assert glassformer.load("somebody/small-model").model.config.vocab_size == 41
    with pytest.raises(InputError, match="There is no directory nobody/nothing"):
        glassformer.load("nobody/nothing")


class Attention(nn.Module):
    """As the notebook writes it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, query, key, value, mask):
        size, width = len(query), query.shape[-1]
        q, k, v = (
            project(x).view(size, -1, self.heads, width // self.heads).permute(0, 2, 1, 3)
            for project, x in ((self.fc_q, query), (self.fc_k, key), (self.fc_v, value))
        )
        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / (width // self.heads) ** 0.5
        weights = torch.softmax(energy.masked_fill(mask == 0, -1e10), dim=-1)
        return self.fc_o(torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(size, -1, width))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc_1, self.fc_2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc_2(torch.relu(self.fc_1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.self_attn_layer_norm, self.ff_layer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attention = Attention(width, heads)
        self.positionwise_feedforward = FeedForward(width, hidden)

    def forward(self, x, mask):
        x = self.self_attn_layer_norm(x + self.self_attention(x, x, x, mask))
        return self.ff_layer_norm(x + self.positionwise_feedforward(x))


class DecoderLayer(EncoderLayer):
    def __init__(self, width, heads, hidden):
        super().__init__(width, heads, hidden)
        self.enc_attn_layer_norm = nn.LayerNorm(width)
        self.encoder_attention = Attention(width, heads)

    def forward(self, x, memory, mask, source_mask):
        x = self.self_attn_layer_norm(x + self.self_attention(x, x, x, mask))
        x = self.enc_attn_layer_norm(x + self.encoder_attention(x, memory, memory, source_mask))
        return self.ff_layer_norm(x + self.positionwise_feedforward(x))


class Stack(nn.Module):
    def __init__(self, vocab, width, layers, longest=100):
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(vocab, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(layers)

    def embed(self, ids):
        return self.tok_embedding(ids) * self.tok_embedding.embedding_dim**0.5 + self.pos_embedding(
            torch.arange(ids.shape[1])
        )


class Seq2Seq(nn.Module):
    """The notebook's whole model, without its dropout."""

    def __init__(self, source, target, width, heads, hidden, layers):
        super().__init__()
        self.encoder = Stack(source, width, [EncoderLayer(width, heads, hidden) for _ in range(layers)])
        self.decoder = Stack(target, width, [DecoderLayer(width, heads, hidden) for _ in range(layers + 1)])
        self.decoder.fc_out = nn.Linear(width, target)

    def forward(self, source, target):
        source_mask = (source != 1)[:, None, None, :]
        target_mask = (target != 1)[:, None, None, :] & torch.ones(target.shape[1], target.shape[1]).tril().bool()
        x = self.encoder.embed(source)
        for layer in self.encoder.layers:
            x = layer(x, source_mask)
        memory, x = x, self.decoder.embed(target)
        for layer in self.decoder.layers:
            x = layer(x, memory, target_mask, source_mask)
        return self.decoder.fc_out(x)


@pytest.mark.parametrize("heads", [8, 2])
def test_a_model_of_the_tutorial_opens(heads, tmp_path):
    torch.manual_seed(heads)
    theirs = Seq2Seq(31, 29, 16, heads, 24, layers=2).eval()
    torch.save(theirs.state_dict(), tmp_path / "tut6-model.pt")
    with pytest.raises(InputError, match=r"`glassformer convert --allow-pickle` .* without running any code"):
        open_imported(tmp_path / "tut6-model.pt")
    opened = open_imported(tmp_path / "tut6-model.pt", allow_pickle=True, heads=None if heads == 8 else heads)
    config = opened.model.config
    source, target = sources(config, [7, 4], heads), targets(config, [6, 6], heads)
    with torch.no_grad():
        torch.testing.assert_close(opened.model(source, target), theirs(source, target), rtol=0, atol=1e-5)
    assert opened.tokenizer is None
    assert ("8 are assumed" in " ".join(opened.notes)) == (heads == 8)


def fairseq_run(directory, seed=0):
    """A small fairseq run: checkpoint, dictionaries and BPE codes."""
    options = {"positions": "sinusoidal-fairseq", "position_offset": 2, "pad_id": 1, "bos_id": 2, "eos_id": 2}
    config = ModelConfig(
        vocab_size=12, source_vocab_size=10, d_model=8, n_heads=2, d_ff=9, encoder_layers=2, decoder_layers=1,
        share_embeddings=False, norm_first=True, **options,
    )  # fmt: skip
    model = build(config, seed, torch.float32)
    weights = {NAMES.theirs(name): weight.detach() for name, weight in model.named_parameters()}
    weights["decoder.output_projection.weight"] = weights["decoder.embed_tokens.weight"]
    both = {"embed_dim": 8, "ffn_embed_dim": 9, "attention_heads": 2, "normalize_before": True, "learned_pos": False}
    args = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    args |= {"encoder_layers": 2, "decoder_layers": 1, "source_lang": "xx", "target_lang": "yy"}
    torch.save({"args": None, "cfg": {"model": args}, "model": weights}, directory / "checkpoint_best.pt")
    (directory / "dict.xx.txt").write_text("".join(f"{piece} 9\n" for piece in ("a@@", "b@@", "ab@@", "a", "b", "ab")))
    (directory / "dict.yy.txt").write_text("".join(f"{piece} 9\n" for piece in "cdefghij"))
    (directory / "bpecodes").write_text("#version: 0.2\na b</w>\na b\n")
    return model


def test_a_run_of_fairseq_opens_with_its_dictionaries_and_codes(tmp_path):
    expected = fairseq_run(tmp_path)
    opened = open_imported(tmp_path, allow_pickle=True)
    for (name, weight), (other, same) in zip(expected.named_parameters(), opened.model.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(weight, same)
    assert opened.tokenizer.encode("ab aba z", "source") == [9, 6, 7, 3, 2]  # ab, ab@@ a, unknown, the end
    assert opened.tokenizer.decode([4, 5, 2]) == "c d"


def test_an_unsupported_option_is_refused_by_name(tmp_path):
    fairseq_run(tmp_path)
    saved = torch.load(tmp_path / "checkpoint_best.pt")
    saved["cfg"]["model"] |= {"no_cross_attention": True, "encoder_embed_dim": 16}
    torch.save(saved, tmp_path / "checkpoint_best.pt")
    with pytest.raises(InputError, match="no_cross_attention = True, which is not supported"):
        open_imported(tmp_path, allow_pickle=True)


def test_unknown_and_missing_tensors_are_named(tmp_path):
    fairseq_run(tmp_path)
    saved = torch.load(tmp_path / "checkpoint_best.pt")
    saved["model"]["encoder.layers.0.gate.weight"] = torch.zeros(3)
    saved["model"]["decoder.surprise"] = torch.zeros(3)
    torch.save(saved, tmp_path / "checkpoint_best.pt")
    with pytest.raises(GlassformerError, match=r"does not have: decoder.surprise, encoder.layers.0.gate.weight\."):
        open_imported(tmp_path, allow_pickle=True)
    del saved["model"]["encoder.layers.0.gate.weight"], saved["model"]["decoder.surprise"]
    del saved["model"]["encoder.layers.1.fc1.bias"]
    torch.save(saved, tmp_path / "checkpoint_best.pt")
    with pytest.raises(GlassformerError, match=r"missing: encoder.layers.1.feed_forward.up_proj.bias"):
        open_imported(tmp_path, allow_pickle=True)


@pytest.mark.parametrize("what", ["nothing", "empty", "ours"])
def test_other_directories_are_refused_in_one_sentence(what, tmp_path):
    if what == "empty":
        (tmp_path / what).mkdir()
    if what == "ours":
        save_model(build(ModelConfig(vocab_size=9, d_model=4, n_heads=1), dtype=torch.float32), tmp_path / what)
    with pytest.raises(GlassformerError, match=str(tmp_path / what)):
        open_imported(tmp_path / what)


def test_a_hub_that_cannot_be_reached_is_not_blamed_on_the_name(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    def failing(error):
        def download(*arguments, **options):
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    failing(ConnectionError("Name or service not known"))
    with pytest.raises(InputError, match=r"could not be downloaded .* Is the network available\? Name or service"):
        glassformer.load("somebody/model")
    failing(RepositoryNotFoundError.__new__(RepositoryNotFoundError))
    with pytest.raises(InputError, match="the Hugging Face hub has no public model of that name"):
        glassformer.load("somebody/model")
