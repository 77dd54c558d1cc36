// Texts of the screen `tokens`: tokens and positions.
export const tokens = {
  title: 'Tokens and positions',
  intro: (scaled: boolean) =>
    `The model reads tokens, not words. Each token becomes a row of the embedding table${scaled ? ' times √D' : ''}; plus a positional encoding, if the model has one, it is the input of the first layer.`,
  without: 'This model adds no positional encoding to the embeddings: positions enter inside attention.',
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
