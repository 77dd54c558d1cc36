// Texts of the screen `tokens`: tokens and positions.
export const tokens = {
  title: 'Tokens and positions',
  intro: (scaled: boolean) =>
    `The model reads tokens, not words. Each token becomes a row of the embedding table${scaled ? ' times √D' : ''}; plus a positional encoding, if the model has one, it is the input of the first layer.`,
  without: 'This model adds no positional encoding to the embeddings: positions enter inside attention.',
  layout: {
    sinusoidal: 'Positions: sines and cosines alternate, as in the paper.',
    'sinusoidal-halves': 'Positions: all sines, then all cosines (as in Hugging Face’s Marian).',
    'sinusoidal-fairseq': 'Positions: all sines, then all cosines (as in the authors’ code and fairseq).',
    learned: 'Positions: a learned table.',
    rotary: 'Positions: queries and keys are rotated by their position, inside attention.',
    relative: 'Positions: a bias on the scores by distance, inside attention.',
  } as Record<string, string>,
  embedding: 'embedding',
  position: 'position',
  sum: 'sum',
  norm: 'after the norm',
  id: 'id',
  columns: 'Columns',
  numbers: 'Numbers of the selected token',
  decoderInput: 'Input of the decoder: the translation so far, shifted right by one position.',
  all: 'All tokens',
  chosen: 'Selected token',
  from: 'from column',
};
