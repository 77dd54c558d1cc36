// Texts of the screen `beam`: beam search.
export const beam = {
  title: 'Beam search',
  difference: 'Finished hypotheses before and after the changes',
  differenceHint: '—: not finished in that search.',
  intro: (size: number) =>
    size === 1
      ? 'Greedy search takes the most likely token at every step and considers no alternatives.'
      : `Beam search extends the best ${size} hypotheses in parallel. Time runs to the right: a frame is a run of tokens without a branch, and below each token are its log p and the score of the hypothesis up to there.`,
  given:
    'The translation was given, so there was no search and there is no tree: clear it on the first screen to see one.',
  treeLabel: 'Hypotheses of the search',
  keys: 'Arrows: left to the previous token, right to the next, up and down to others of the same step. Space: show what was dropped there.',
  keysOfServer: ' Enter: follow that hypothesis on all screens.',
  legend:
    'Thick: the best hypothesis. Double frame: finished, with rank and score. Dashed: unfinished when the search ended. Light: dropped. Underlined: shown on the other screens.',
  shownHere: 'shown',
  says: (token: string, step: number, logP: string, score: string) =>
    step === 0 ? token : `${token}, step ${step}, log p ${logP}, score ${score}`,
  fates: {
    start: 'the start',
    kept: 'among the best of its step: extended',
    outranked: 'outranked by others of its step: dropped',
    displaced: 'dropped in favour of the greedy hypothesis, which always keeps a place',
    abandoned: 'unfinished when nothing could beat the finished hypotheses any more',
    finished: (place: number, of: number, atLimit: boolean) =>
      `finished${atLimit ? ' at the maximum length' : ''}, number ${place} of ${of}`,
  },
  over: 'then all its continuations were dropped',
  none: 'No finished hypothesis goes through here.',
  start: 'The start',
  step: (n: number) => `Step ${n}`,
  within: (rank: string) => `part of the ${rank} hypothesis`,
  probability: 'probability',
  score: 'score',
  length: 'length',
  follow: (rank: string) => `Follow the ${rank} hypothesis`,
  followHead: 'Follow',
  force: 'Force this token',
  showDropped: (n: number) => `Dropped continuations (${n})`,
  openIn: 'Open in:',
  forced: 'This translation has a forced prefix, which was selected in the tree.',
  unforce: 'Remove the forced prefix',
  ranking: 'Finished hypotheses, ranked with another length penalty',
  penalty: 'Length penalty',
  penaltyHint:
    'Hypotheses are ranked by Σ log p / length^α. This re-ranks the finished hypotheses; a search with this α might have finished others.',
  ownPenalty: (own: string) => `As in the search: ${own}`,
  rank: 'Rank',
  rankBefore: 'In the search',
  tokens: 'tokens',
  show: 'Show',
  all: (n: number) => `All ${n}`,
};
