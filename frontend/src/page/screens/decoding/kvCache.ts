// KV cache of one layer and head: keys of the target so far, and keys of the source.
import { grid, part, transposed, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { largestDifference, timesTransposed } from '../../maths/recompute';

export interface LayerCache {
  layer: number;
  /** Keys of the target, one row per position; keys of the source. */
  self: Grid;
  cross: Grid;
  /** Difference of x W_K + b from the key, for each position; null if it cannot be recomputed. */
  differences: number[] | null;
}

export async function loadLayerCache(exploration: Exploration, layer: number, head: number): Promise<LayerCache> {
  const at = `decoder.layers.${layer}`;
  const [self, cross, input] = await Promise.all(
    ['self_attention.k', 'cross_attention.k', 'self_attention.input'].map((name) =>
      exploration.tensor(`${at}.${name}`),
    ),
  );
  if (!self || !cross || !input) throw new Error(`This trace does not contain the keys of ${at}.`);
  const keys = grid(part(self, head));
  return {
    layer,
    self: keys,
    cross: grid(part(cross, head)),
    differences: await keyDifferences(exploration, `${at}.self_attention`, head, grid(input), keys),
  };
}

async function keyDifferences(
  exploration: Exploration,
  name: string,
  head: number,
  x: Grid,
  k: Grid,
): Promise<number[] | null> {
  const { positions, changes } = exploration.manifest;
  if (positions.rotates || changes.length > 0) return null;
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

/** The keys of the first `count` positions, as columns: the cache after that many steps. */
export function cachedColumns(keys: Grid, count: number): Grid {
  return transposed({ rows: count, cols: keys.cols, values: keys.values.subarray(0, count * keys.cols) });
}
