// Keys and values that one decoder layer computes from the memory, and their recomputation.
import { matricesFrom } from '../../data/overrides';
import { grid, joined, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { cosine, largestDifference, timesTransposed } from '../../maths/recompute';

export interface LayerKeysValues {
  layer: number;
  name: string;
  k: Grid;
  v: Grid;
  /** Summaries of the weights; null if not available. */
  wk: Grid | null;
  wv: Grid | null;
  kShared: string | null;
  vShared: string | null;
}

const SUMMARY = '64x64';

export async function loadKeysValues(exploration: Exploration, name: string, layer: number): Promise<LayerKeysValues> {
  const weight = (letter: string) => `${name}.${letter}_proj.weight`;
  const [k, v, wk, wv] = await Promise.all([
    exploration.tensor(`${name}.k`),
    exploration.tensor(`${name}.v`),
    exploration.weight(weight('k'), { to: SUMMARY }),
    exploration.weight(weight('v'), { to: SUMMARY }),
  ]);
  const shared = (letter: string) =>
    exploration.storage(weight(letter)) === weight(letter) ? null : exploration.storage(weight(letter));
  return {
    layer,
    name,
    k: joined(k),
    v: joined(v),
    wk: wk && grid(wk),
    wv: wv && grid(wv),
    kShared: shared('k') ?? sharedBy(exploration, weight('k')),
    vShared: shared('v') ?? sharedBy(exploration, weight('v')),
  };
}

/** Another parameter that shares these numbers. */
function sharedBy(exploration: Exploration, name: string): string | null {
  return Object.entries(exploration.manifest.shared).find(([, owner]) => owner === name)?.[0] ?? null;
}

export interface Recomputed {
  /** null if a what-if uses other matrices. */
  difference: number | null;
  kCosine: number | null;
  vCosine: number | null;
}

/** memory W_Kᵀ + b and memory W_Vᵀ + b, recomputed; and the cosine similarity with another attention's matrices. */
export async function recompute(
  exploration: Exploration,
  kv: LayerKeysValues,
  other: string | null,
): Promise<Recomputed | null> {
  const memory = grid(await exploration.tensor('memory'));
  let difference = 0;
  const cosines: (number | null)[] = [];
  for (const letter of ['k', 'v'] as const) {
    const [weight, bias, otherWeight] = await Promise.all([
      exploration.weight(`${kv.name}.${letter}_proj.weight`),
      exploration.weight(`${kv.name}.${letter}_proj.bias`),
      other === null ? null : exploration.weight(`${other}.${letter}_proj.weight`),
    ]);
    if (weight === null) return null;
    const again = timesTransposed(memory, grid(weight), bias?.values ?? null);
    difference = Math.max(difference, largestDifference(again.values, kv[letter].values));
    cosines.push(otherWeight ? cosine(weight.values, otherWeight.values) : null);
  }
  const ownMatrices = (['k', 'v'] as const).every(
    (letter) => matricesFrom(exploration.manifest.changes, kv.name, letter) === null,
  );
  return { difference: ownMatrices ? difference : null, kCosine: cosines[0] ?? null, vCosine: cosines[1] ?? null };
}
