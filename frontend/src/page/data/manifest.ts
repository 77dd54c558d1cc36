// Description of a trace and of its model, as written by `glassformer.inspection.tracing.trace_manifest`.

export interface Config {
  vocab_size: number;
  d_model: number;
  n_heads: number;
  d_head: number;
  d_ff: number;
  encoder_layers: number;
  decoder_layers: number;
  positions: string;
  norm: string;
  norm_first: boolean;
  norm_eps: number;
  activation: string;
  gated: boolean;
  scale_embeddings: boolean;
  embedding_norm: boolean;
  linear_bias: boolean;
  scale_scores: boolean;
  scale_output: boolean;
  decoder_ssru: boolean;
}

/** What the model's positions do: add vectors to the embeddings, add a bias to the scores, rotate queries and keys. */
export interface PositionEffects {
  adds: boolean;
  biases: boolean;
  rotates: boolean;
  explanation: string;
}

/** Tensors of the same name and shape in several layers. */
export interface TensorGroup {
  name: string;
  layers?: number | number[] | null;
  axes?: string | null;
  shape: number[];
  dtype?: string | null;
}

export interface TokenizedText {
  text: string;
  ids: number[];
  pieces: string[];
  words: [number, number][];
}

export interface FinishedHypothesis {
  node: number;
  text: string;
  score: number | null;
  tokens: number;
}

export interface Manifest {
  id: string;
  version: string;
  config: Config;
  positions: PositionEffects;
  source: TokenizedText;
  target: TokenizedText;
  start_token: string;
  /** Display text, by id, of every target token in the search tree or the output tensors. */
  pieces?: Record<string, string>;
  target_given: boolean;
  search: { size: number; length_penalty: number };
  hypothesis: number;
  changes: unknown[];
  log_probabilities: (number | null)[];
  tensors: TensorGroup[];
  parameters: TensorGroup[];
  shared: Record<string, string>;
  /** Missing if the target was given. */
  tree?: { nodes: number; limit: number; finished: FinishedHypothesis[] } | null;
}

export interface ModelInfo {
  name: string;
  version: string;
  config: Config;
  limits: { trace_beam: number; trace_tokens: number };
  /** Missing for a saved trace, whose figures cannot be drawn. */
  figures?: FigureCatalogue;
}

/** From `glassformer.figure_catalogue`: the views by name, and the names that fit each screen, the most fitting first. */
export interface FigureCatalogue {
  views: Record<string, { summary: string; options: string[]; of_attention: boolean }>;
  screens: Record<string, string[]>;
}

/** Entries by full name, with * replaced by each layer's number. */
export function expandLayers(entries: TensorGroup[]): Map<string, TensorGroup> {
  const byName = new Map<string, TensorGroup>();
  for (const entry of entries) {
    const layers = typeof entry.layers === 'number' ? [...Array(entry.layers).keys()] : (entry.layers ?? null);
    if (layers === null) byName.set(entry.name, entry);
    else for (const layer of layers) byName.set(entry.name.replace('*', String(layer)), entry);
  }
  return byName;
}
