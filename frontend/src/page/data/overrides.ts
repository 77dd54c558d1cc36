// Steps of an attention that a what-if replaces: those cannot be recomputed from the numbers shown.

export interface Overrides {
  /** Scores are not q · k. */
  scores: boolean;
  /** z is not the weighted sum of the values. */
  context: boolean;
}

/** `changes` as in a manifest. A removed edge is a masked cell, which can be recomputed. */
export function overridesOf(changes: unknown[], at: string, head: number): Overrides {
  const applicable = (changes as { kind?: string; at?: string; head?: number | null }[]).filter(
    (one) => one.at === at && (one.head === undefined || one.head === null || one.head === head),
  );
  return {
    scores: applicable.some(({ kind }) => kind === 'uniform-attention'),
    context: applicable.some(({ kind }) => kind === 'remove-head' || kind === 'average-head'),
  };
}

/** The attention whose W_K, W_V or W_Q a what-if uses in place of this one's; null if it keeps its own. */
export function matricesFrom(changes: unknown[], at: string, letter: 'q' | 'k' | 'v'): string | null {
  const all = changes as { kind?: string; at?: string; by?: string; which?: string[] }[];
  const replacement = all.findLast(
    (one) => one.kind === 'replace-matrices' && one.at === at && (one.which ?? ['k', 'v']).includes(letter),
  );
  return replacement?.by ?? null;
}
