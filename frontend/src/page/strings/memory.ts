// Texts of the screen `memory`: from encoder to decoder.
export const memory = {
  title: 'From encoder to decoder',
  intro:
    'The encoder’s output becomes keys and values for the decoder, once per sentence. Every decoder layer computes its own, with its own matrices.',
  memory: 'Memory: the encoder’s output',
  layer: (layer: number) => `Decoder layer ${layer}`,
  own: 'its own',
  sharedWith: (name: string) => `shared with ${name}`,
  recompute: 'Recompute K and V',
  cosine: (k: string, v: string, layer: number) =>
    `Cosine similarity with encoder layer ${layer}: W_K ${k}, W_V ${v}. 1 is the same matrix, 0 is unrelated.`,
  otherMatrices: 'What if all layers used the same matrices?',
  encoders: 'Use those of the top encoder layer',
  first: 'Use those of decoder layer 0',
  before: 'Own matrices',
  after: 'These matrices',
  worse: (nats: string) => `The original translation has become less likely by ${nats} nats per token.`,
  cached: (n: number) => `${n} keys and values per layer are cached for the whole sentence.`,
};
