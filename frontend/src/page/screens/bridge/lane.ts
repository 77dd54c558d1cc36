// One decoder layer's way from the memory to its own keys and values, and whether they come out again.
import { madeWith } from '../../data/touched';
import { grid, joined, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { cosine, largestDifference, timesTransposed } from '../../maths/recompute';

export interface Lane {
  layer: number;
  name: string;
  k: Grid;
  v: Grid;
  /** Summaries of the weights; null where they are not to be had. */
  wk: Grid | null;
  wv: Grid | null;
  kShared: string | null;
  vShared: string | null;
}

const SUMMARY = '64x64';

export async function loadLane(exploration: Exploration, name: string, layer: number): Promise<Lane> {
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
    kShared: shared('k') ?? sharers(exploration, weight('k')),
    vShared: shared('v') ?? sharers(exploration, weight('v')),
  };
}

/** Others whose numbers are these. */
function sharers(exploration: Exploration, name: string): string | null {
  return Object.entries(exploration.manifest.shared).find(([, owner]) => owner === name)?.[0] ?? null;
}

export interface Redone {
  /** null where a what-if has made them with others' matrices. */
  difference: number | null;
  kCosine: number | null;
  vCosine: number | null;
}

/** memory W_Kᵀ + b and memory W_Vᵀ + b again; and how much the matrices are like another attention's. */
export async function redo(exploration: Exploration, lane: Lane, other: string | null): Promise<Redone | null> {
  const memory = grid(await exploration.tensor('memory'));
  let difference = 0;
  const cosines: (number | null)[] = [];
  for (const letter of ['k', 'v'] as const) {
    const [weight, bias, others] = await Promise.all([
      exploration.weight(`${lane.name}.${letter}_proj.weight`),
      exploration.weight(`${lane.name}.${letter}_proj.bias`),
      other === null ? null : exploration.weight(`${other}.${letter}_proj.weight`),
    ]);
    if (weight === null) return null;
    const again = timesTransposed(memory, grid(weight), bias?.values ?? null);
    difference = Math.max(difference, largestDifference(again.values, lane[letter].values));
    cosines.push(others ? cosine(weight.values, others.values) : null);
  }
  const own = (['k', 'v'] as const).every(
    (letter) => madeWith(exploration.manifest.changes, lane.name, letter) === null,
  );
  return { difference: own ? difference : null, kCosine: cosines[0] ?? null, vCosine: cosines[1] ?? null };
}
