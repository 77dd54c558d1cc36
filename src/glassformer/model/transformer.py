"""The complete Transformer: token ids in, logits out. Independent of text, files, training and search."""

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model.attention import check_mask
from glassformer.model.config import ModelConfig
from glassformer.model.decoder import Decoder
from glassformer.model.decoder_state import INITIAL_CAPACITY, DecoderState
from glassformer.model.dims import Bool, Float, Int, Tensor
from glassformer.model.encoder import Encoder
from glassformer.model.init import initialise
from glassformer.model.tap import Tap


class Transformer(nn.Module):
    """The Transformer: encoder, decoder that attends to its output, and projection to the vocabulary (figure 1).

    >>> import torch
    >>> model = gf.Transformer(gf.preset("tiny", vocab_size=100)).eval()
    >>> model(torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 20, 21]])).shape  # B T V
    torch.Size([1, 3, 100])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_projection = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        self.memory = Tap("B S D")
        self.logits = Tap("B T V")
        self.tie()
        initialise(self)

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters; shared ones count once."""
        return sum(weight.numel() for weight in self.parameters())

    def tie(self) -> None:
        """Make each group of shared weights one parameter, under its first name (section 3.4)."""
        if self.config.share_embeddings:
            self.decoder.embedding.weight = self.encoder.embedding.weight
        if self.config.tie_output:
            self.output_projection.weight = self.decoder.embedding.weight

    def forward(
        self,
        source_ids: Int[Tensor, "B S"],
        target_ids: Int[Tensor, "B T"],
        source_visible: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Next-token logits at each target position. Sentences are padded on the right."""
        visible = self.visible(source_ids) if source_visible is None else source_visible
        memory = self.encode(source_ids, visible)
        return self.project(self.decode(target_ids, memory, visible))

    def visible(self, source_ids: Int[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
        """The source mask: True for tokens, False for padding."""
        return source_ids != self.config.pad_id

    def encode(self, source_ids: Int[Tensor, "B S"], source_visible: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Encode the source: the memory, one vector per source position."""
        check_mask(source_visible)
        return self.memory(self.encoder(source_ids, source_visible))

    def decode(
        self, target_ids: Int[Tensor, "B T"], memory: Float[Tensor, "B S D"], source_visible: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        """Decode all target positions at once: one vector per position; `project` turns them into logits."""
        _check_rows(target_ids, source_visible)
        source = self.decoder.source_keys_values(_without_padding(memory, source_visible))
        return self.decoder(target_ids, source, source_visible)

    def project(self, hidden: Float[Tensor, "*any D"]) -> Float[Tensor, "*any V"]:
        """Project decoder vectors to logits over the vocabulary."""
        return self.logits(self.output_projection(self.scaled(hidden)))

    def scaled(self, hidden: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
        """Decoder vectors, scaled for the output projection if the config says so."""
        return hidden * self.config.d_model**-0.5 if self.config.scale_output else hidden

    @torch.no_grad()
    def start(
        self,
        source_ids: Int[Tensor, "B S"],
        source_visible: Bool[Tensor, "B S"] | None = None,
        capacity: int = INITIAL_CAPACITY,
    ) -> DecoderState:
        """Encode the source and compute every decoder layer's K and V of the memory: the state for the first `step`.

        `capacity`: number of target positions that the caches have memory for; they grow beyond it.
        """
        visible = self.visible(source_ids) if source_visible is None else source_visible
        memory = _without_padding(self.encode(source_ids, visible), visible)
        return DecoderState(
            source=self.decoder.source_keys_values(memory),
            source_visible=visible,
            past=[layer.empty_state(capacity) for layer in self.decoder.layers],
        )

    @torch.no_grad()
    def step(self, target_ids: Int[Tensor, "B T"], state: DecoderState) -> Float[Tensor, "B T V"]:
        """Next-token logits after the newest tokens (usually one per sentence), which extend `state` in place."""
        _check_rows(target_ids, state.source_visible)
        return self.project(self.decoder(target_ids, state.source, state.source_visible, state.past))


def _check_rows(target_ids: Tensor, source_visible: Tensor) -> None:
    if len(target_ids) != len(source_visible):
        raise InputError(
            f"There are {len(target_ids)} target rows for {len(source_visible)} source rows; each target needs one "
            "source. While decoding, `state.reorder` drops and repeats rows."
        )


def _without_padding(memory: Tensor, visible: Tensor) -> Tensor:
    """The memory with padding set to 0: attention gives padding the weight 0, but 0 × NaN is NaN."""
    check_mask(visible)
    return memory.masked_fill(~visible[:, :, None], 0)
