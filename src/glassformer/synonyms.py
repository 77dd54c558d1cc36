"""Names that mean the same in other programs: suggestions for an option, a value or a command that does not exist."""

import difflib
from collections.abc import Iterable

GROUPS = [
    set(group.split())
    for group in (
        # Texts and files
        "source src input inputs train-source train-src source-file",
        "target tgt reference references ref refs translations labels output train-target hypothesis",
        "dev-source valid-source validation-source val-source valid-src",
        "dev-target valid-target validation-target val-target valid-tgt",
        "out output output-dir out-dir save save-dir run-dir o dest destination",
        "sentences samples limit max-sentences count n-samples number",
        "glossary terms terminology dictionary lexicon",
        # Search
        "beam beam-size beams num-beams n-beams beam-width",
        "n-best nbest num-return-sequences alternatives best",
        "length-penalty lenpen lp alpha normalize",
        "max-length-ratio max-length max-len max-output-length max-new-tokens",
        "no-repeat no-repeat-ngram-size repetition",
        "temperature temp",
        "top-p nucleus",
        "source-language src-lang source-lang from lang",
        "target-language tgt-lang target-lang to lang",
        "split-at max-source-length max-input-length truncate",
        "ensemble-with ensemble models",
        # Speed
        "workers threads num-threads cpu-threads n-jobs jobs",
        "precision dtype compute-type quantize quantization fp16 int8 half amp bf16",
        "engine backend",
        "batch-tokens batch-size batch tokens-per-batch max-tokens-per-batch mini-batch",
        "batch-size batch batch-sentences mini-batch",
        # Training
        "epochs max-epochs num-epochs num-train-epochs n-epochs passes",
        "updates steps max-steps num-steps max-updates max-update iterations iters",
        "learning-rate lr rate peak-lr",
        "warmup warmup-steps warmup-updates warm-up num-warmup-steps",
        "decay scheduler schedule lr-scheduler lr-schedule",
        "clip clip-norm grad-clip gradient-clipping max-grad-norm",
        "micro-batches accumulate accumulation grad-accumulation gradient-accumulation-steps update-freq",
        "label-smoothing smoothing",
        "patience early-stopping early-stop",
        "every eval-every eval-steps validate-every valid-interval valid-freq",
        "keep save-total-limit keep-last keep-checkpoints",
        "log-every log-interval logging-steps disp-freq",
        "save-minutes save-every save-interval save-freq save-steps",
        "ranks world-size gpus num-gpus nproc devices processes",
        "metric best-metric",
        "finetune fine-tune init-from start-from from pretrained warm-start checkpoint resume",
        "preset size arch architecture config model",
        "seed random-seed random-state",
        "dry-run check estimate plan",
        "set option override",
        # Architecture
        "d-model dim hidden hidden-size embed-dim embedding-dim model-dim width hidden-dim dim-model",
        "d-ff ffn-dim ff-dim ffn-size feedforward-dim dim-feedforward intermediate-size ffn pf-dim",
        "n-heads heads num-heads nhead attention-heads num-attention-heads",
        "encoder-layers enc-layers num-encoder-layers n-layers layers num-layers depth",
        "decoder-layers dec-layers num-decoder-layers n-layers layers num-layers depth",
        "norm-first prenorm pre-norm pre-ln normalize-before",
        "positions position positional-encoding pos-emb position-embedding rope",
        "dropout drop dropout-rate p-dropout",
        "share-embeddings share-all-embeddings tied-embeddings tie-embeddings",
        "tie-output tie-weights share-decoder-input-output-embed",
        "vocab-size vocab vocabulary vocabulary-size n-vocab num-merges bpe-size",
        "max-tokens max-length max-len max-seq-len max-sentence-length",
        "kind model-type type algorithm",
        # Positions and presets
        "rotary rope roformer",
        "sinusoidal sin sine cosine paper",
        "relative t5 relative-bias",
        "learned absolute embedding",
        "paper-base base transformer-base medium",
        "paper-big big large transformer-big",
        # Commands
        "translate infer inference predict decode generate run",
        "evaluate test eval bleu sacrebleu metrics",
        "train fit finetune fine-tune learn resume",
        "serve server api start web http",
        "explore ui gui browser show page",
        "convert import from-hf load",
        "export to-hf save onnx",
        "doctor check clean lint validate data",
        "figure plot draw picture visualize visualise svg",
        "describe info summary inspect config",
        "bench benchmark speed profile",
        "explain attention why interpret",
        "what-if ablate ablation intervene counterfactual",
        "align alignment",
        "score perplexity ppl logprob",
        "verify selftest",
    )
]
"""Of several groups with a name, the first that has a known one counts."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that means the same, or else the one with similar letters; None if there is none."""
    by_spelling = {_plain(each): each for each in known}
    meant = _plain(name)
    if meant in by_spelling:
        return by_spelling[meant]
    for group in GROUPS:
        if meant in group and (same := [each for each in by_spelling if each in group]):
            return by_spelling[same[0]]
    similar = difflib.get_close_matches(meant, by_spelling, n=1)
    return by_spelling[similar[0]] if similar else None


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-").lower()
