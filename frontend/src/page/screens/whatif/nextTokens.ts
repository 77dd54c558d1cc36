// Probabilities of the next token at one position, before and after the changes.
import { grid, row } from '../../data/tensor';
import type { Exploration } from '../../data/trace';

export interface NextToken {
  id: number;
  piece: string;
  /** null if the token is not among the recorded ones: then it is below the least of them. */
  before: number | null;
  after: number | null;
}

export interface NextTokens {
  tokens: NextToken[];
  /** The least recorded probability. */
  least: { before: number; after: number };
}

async function mostLikely(exploration: Exploration, t: number): Promise<Map<number, number>> {
  const [ids, logits, normaliser] = await exploration.several(
    'output.likeliest',
    'output.likeliest_logits',
    'output.log_normaliser',
  );
  if (!ids || !logits || !normaliser) return new Map();
  const values = row(grid(logits), t);
  return new Map(
    Array.from(row(grid(ids), t), (id, i) => [id, Math.exp((values[i] as number) - (normaliser.values[t] as number))]),
  );
}

/** The `count` most likely tokens of both. */
export async function nextTokens(
  before: Exploration,
  after: Exploration,
  t: number,
  count: number,
): Promise<NextTokens> {
  const [was, is] = await Promise.all([mostLikely(before, t), mostLikely(after, t)]);
  const tokens = [...new Set([...was.keys(), ...is.keys()])].map((id): NextToken => {
    const piece = after.manifest.pieces?.[String(id)] ?? before.piece(id);
    return { id, piece, before: was.get(id) ?? null, after: is.get(id) ?? null };
  });
  const size = (one: NextToken) => Math.max(one.before ?? 0, one.after ?? 0);
  tokens.sort((a, b) => size(b) - size(a) || a.id - b.id);
  const least = (of: Map<number, number>) => Math.min(1, ...of.values());
  return { tokens: tokens.slice(0, count), least: { before: least(was), after: least(is) } };
}

/** The first position where the translations differ; if none, the token whose log-probability changed most. */
export function divergence(before: number[], after: number[], differences: (number | null)[]): number {
  const first = before.findIndex((id, t) => id !== after[t]);
  if (first >= 0) return Math.min(first, after.length - 1);
  const sizes = differences.map((one) => Math.abs(one ?? Infinity));
  return Math.max(0, sizes.indexOf(Math.max(...sizes)));
}
