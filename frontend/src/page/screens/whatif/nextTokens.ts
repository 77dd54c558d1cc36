// What may come next at one position, before and after the changes: probabilities of the same tokens, and their difference.
import { grid, row } from '../../data/tensor';
import type { Exploration } from '../../data/trace';

export interface Chance {
  id: number;
  piece: string;
  /** null where a token is not among those that were kept: then it is below the least of them. */
  before: number | null;
  after: number | null;
}

export interface NextTokens {
  chances: Chance[];
  /** The least probability that was kept, of each. */
  least: { before: number; after: number };
}

async function likeliest(exploration: Exploration, t: number): Promise<Map<number, number>> {
  const [ids, logits, normaliser] = await exploration.several(
    'output.likeliest',
    'output.likeliest_logits',
    'output.log_normaliser',
  );
  if (!ids || !logits || !normaliser) return new Map();
  const own = row(grid(logits), t);
  return new Map(
    Array.from(row(grid(ids), t), (id, i) => [id, Math.exp((own[i] as number) - (normaliser.values[t] as number))]),
  );
}

/** The likeliest of either, `count` of them. */
export async function nextTokens(
  before: Exploration,
  after: Exploration,
  t: number,
  count: number,
): Promise<NextTokens> {
  const [was, is] = await Promise.all([likeliest(before, t), likeliest(after, t)]);
  const chances = [...new Set([...was.keys(), ...is.keys()])].map((id): Chance => {
    const piece = after.manifest.pieces?.[String(id)] ?? before.piece(id);
    return { id, piece, before: was.get(id) ?? null, after: is.get(id) ?? null };
  });
  const size = (one: Chance) => Math.max(one.before ?? 0, one.after ?? 0);
  chances.sort((a, b) => size(b) - size(a) || a.id - b.id);
  const least = (of: Map<number, number>) => Math.min(1, ...of.values());
  return { chances: chances.slice(0, count), least: { before: least(was), after: least(is) } };
}

/** Where translations part: the first position that is another, or the one whose token changed most. */
export function parting(before: number[], after: number[], differences: (number | null)[]): number {
  const first = before.findIndex((id, t) => id !== after[t]);
  if (first >= 0) return Math.min(first, after.length - 1);
  const sizes = differences.map((one) => Math.abs(one ?? Infinity));
  return Math.max(0, sizes.indexOf(Math.max(...sizes)));
}
