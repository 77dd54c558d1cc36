// Texts of the screen `pronoun`: pronoun resolution.
export const pronoun = {
  title: 'Pronoun resolution',
  intro:
    'Which noun does the model take a pronoun to mean? Each candidate is replaced by other nouns, to see whether the pronoun in the translation changes with it. Attention is shown for comparison; only the model’s behaviour decides.',
  file: 'This needs the model itself, which a saved page does not contain.',
  word: 'Pronoun',
  choose: 'select …',
  noPronoun: 'This sentence contains no known pronoun: select the word yourself, or use another sentence.',
  candidates: 'Candidates',
  noCandidates: 'None selected: nouns after “the”, “a”, “this”, “my”, … are used.',
  fewCandidates: 'Select at least two.',
  second: 'Second sentence, for comparison',
  replace: 'Replace',
  search: 'a word found by search',
  by: 'by',
  run: 'Resolve the pronoun',
  cost: 'This takes a few hundred short translations.',
  running: 'Running a few hundred translations …',
  other: (old: string, other: string) => `For comparison, with “${other}” instead of “${old}”:`,
  foundOther: (old: string, other: string) =>
    `For comparison, with “${other}” instead of “${old}” (found by search), which changes the pronoun:`,
  noSecond: 'No second sentence was found that has the same nouns but another pronoun.',
  scores: 'log p of the translation with',
  table: 'Evidence',
  evidence: 'evidence',
  ownPronoun: 'its pronoun',
  groups: {
    word: (word: string) => `Attention from “${word}” to each candidate, in the encoder`,
    pronoun: () => 'Attention from its pronoun to each candidate, in cross-attention',
    cut: () => 'Loss when these attention edges are removed',
    behaviour: () => 'Behaviour of the model: this decides',
  },
  points: ' points here',
  marks:
    '◂ marks the largest value of a row that votes; other rows are only shown. Values of words with several tokens are summed. Underlined: the verdict.',
  meanings: 'What the rows measure',
  rows: [
    [
      'best head, mean of layer',
      'attention weights from the word to the candidate in the encoder: the best of all heads, and the mean of each layer',
    ],
    ['‖α v W_O‖', 'value-weighted attention: the length of what the candidate’s tokens contribute, over all heads'],
    ['rollout', 'attention weights of all layers multiplied, each half attention and half residual connection'],
    ['in cross-attention', 'the same in the decoder, at the position that predicts the pronoun'],
    ['edges cut', 'no head can attend from there to the candidate: loss of the pronoun’s log-probability, in nats'],
    [
      'pronoun follows',
      'the candidate is replaced by other nouns: how often the pronoun changes too, of the times that any agreement changed',
    ],
    ['log p with its pronoun', 'the translation with each candidate’s pronoun, scored and not searched for'],
  ] as [string, string][],
};
