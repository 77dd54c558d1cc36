// Which steps of an attention a what-if has put something else into: there the page cannot redo what the model has.

export interface Touched {
  /** Scores are not q · k. */
  scores: boolean;
  /** z is not the weighted sum of the values. */
  context: boolean;
}

/** `changes` as a manifest has them; an edge that is cut is a masked cell, which can be redone. */
export function touched(changes: unknown[], at: string, head: number): Touched {
  const mine = (changes as { kind?: string; at?: string; head?: number | null }[]).filter(
    (one) => one.at === at && (one.head === undefined || one.head === null || one.head === head),
  );
  return {
    scores: mine.some(({ kind }) => kind === 'uniform-attention'),
    context: mine.some(({ kind }) => kind === 'remove-head' || kind === 'average-head'),
  };
}

/** The attention whose matrices a what-if makes keys or values (or queries) with, instead of its own. */
export function madeWith(changes: unknown[], at: string, letter: 'q' | 'k' | 'v'): string | null {
  const all = changes as { kind?: string; at?: string; by?: string; which?: string[] }[];
  const found = all.findLast(
    (one) => one.kind === 'replace-matrices' && one.at === at && (one.which ?? ['k', 'v']).includes(letter),
  );
  return found?.by ?? null;
}
