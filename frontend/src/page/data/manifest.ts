// What the server says of a trace and of its model, as `glassformer.server.schemas` writes it.

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

export interface Folded {
  name: string;
  layers?: number | number[] | null;
  axes?: string | null;
  shape: number[];
  dtype?: string | null;
}

export interface SideOf {
  text: string;
  ids: number[];
  pieces: string[];
  words: [number, number][];
}

export interface Ended {
  node: number;
  text: string;
  score: number | null;
  tokens: number;
}

export interface Manifest {
  id: string;
  version: string;
  config: Config;
  source: SideOf;
  target: SideOf;
  first: string;
  /** Target tokens that the search or the output looked at, by their ids. */
  pieces?: Record<string, string>;
  given: boolean;
  search: { size: number; length_penalty: number };
  hypothesis: number;
  changes: unknown[];
  log_probabilities: (number | null)[];
  tensors: Folded[];
  parameters: Folded[];
  shared: Record<string, string>;
  /** Not there where the target was given. */
  tree?: { nodes: number; limit: number; ended: Ended[] } | null;
}

export interface ModelInfo {
  name: string;
  version: string;
  config: Config;
  limits: { trace_beam: number; trace_tokens: number };
}

/** Names with * for the layer, written out: name -> its entry. */
export function unfolded(entries: Folded[]): Map<string, Folded> {
  const found = new Map<string, Folded>();
  for (const entry of entries) {
    const layers = typeof entry.layers === 'number' ? [...Array(entry.layers).keys()] : (entry.layers ?? null);
    if (layers === null) found.set(entry.name, entry);
    else for (const layer of layers) found.set(entry.name.replace('*', String(layer)), entry);
  }
  return found;
}
