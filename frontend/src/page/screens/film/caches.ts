// What decoding remembers of one layer and head: keys of the target so far, keys of the source.
import { grid, part, transposed, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { largestDifference, timesTransposed } from '../../maths/recompute';

export interface Caches {
  layer: number;
  /** K of the target, a row a position; of the source the same. */
  self: Grid;
  cross: Grid;
  /** For each position, how far x W_K + b is from its key; null where that cannot be redone. */
  differences: number[] | null;
}

export async function loadCaches(exploration: Exploration, layer: number, head: number): Promise<Caches> {
  const at = `decoder.layers.${layer}`;
  const [self, cross, input] = await Promise.all(
    ['self_attention.k', 'cross_attention.k', 'self_attention.input'].map((name) =>
      exploration.tensor(`${at}.${name}`),
    ),
  );
  if (!self || !cross || !input) throw new Error(`This trace does not have the keys of ${at}.`);
  const own = grid(part(self, head));
  return {
    layer,
    self: own,
    cross: grid(part(cross, head)),
    differences: await redone(exploration, `${at}.self_attention`, head, grid(input), own),
  };
}

async function redone(
  exploration: Exploration,
  name: string,
  head: number,
  x: Grid,
  k: Grid,
): Promise<number[] | null> {
  const { config, changes } = exploration.manifest;
  if (config.positions === 'rotary' || changes.length > 0) return null;
  const rows = `${head * k.cols}:${(head + 1) * k.cols}`;
  const [weight, bias] = await Promise.all([
    exploration.weight(`${name}.k_proj.weight`, { rows }),
    exploration.weight(`${name}.k_proj.bias`),
  ]);
  if (weight === null) return null;
  const again = timesTransposed(x, grid(weight), bias?.values.subarray(head * k.cols, (head + 1) * k.cols) ?? null);
  const of = (matrix: Grid, t: number) => matrix.values.subarray(t * matrix.cols, (t + 1) * matrix.cols);
  return Array.from({ length: k.rows }, (_, t) => largestDifference(of(again, t), of(k, t)));
}

/** The first positions only, as columns: what is remembered after so many steps. */
export function columns(keys: Grid, count: number): Grid {
  return transposed({ rows: count, cols: keys.cols, values: keys.values.subarray(0, count * keys.cols) });
}
