// The feed-forward of a layer: its neurons, what each brings, and whether it comes out again.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { largestDifference } from '../../maths/recompute';
import { contributions, hiddenOf, projected, type FeedForward, type Linear } from '../../maths/sublayers';

export interface Feed {
  name: string;
  x: Grid;
  hidden: Grid;
  out: Grid;
  /** Small pictures of W₁ (and the gate) and W₂; null where they are not to be had. */
  pictures: { name: string; grid: Grid }[];
}

const SUMMARY = '48x48';

export async function loadFeed(exploration: Exploration, layer: string): Promise<Feed | null> {
  const name = `${layer}.feed_forward`;
  const [x, hidden, out] = await exploration.several(`${name}.input`, `${name}.hidden`, `${name}.output`);
  if (!x || !hidden || !out) return null;
  const matrices = ['gate_proj', 'up_proj', 'down_proj'].filter((one) =>
    exploration.parameters.has(`${name}.${one}.weight`),
  );
  const small = await Promise.all(
    matrices.map((one) => exploration.weight(exploration.storage(`${name}.${one}.weight`), { to: SUMMARY })),
  );
  const pictures = matrices.flatMap((one, i) => (small[i] ? [{ name: one, grid: grid(small[i]) }] : []));
  return { name, x: grid(x), hidden: grid(hidden), out: grid(out), pictures };
}

/** The matrices themselves; null where they are not to be had. */
export async function loadMatrices(exploration: Exploration, name: string): Promise<FeedForward | null> {
  const linear = async (which: string): Promise<Linear | null> => {
    const [weight, bias] = await Promise.all(
      ['weight', 'bias'].map((kind) => exploration.weight(exploration.storage(`${name}.${which}.${kind}`))),
    );
    return weight ? { weight: grid(weight), bias: bias?.values ?? null } : null;
  };
  const { config } = exploration.manifest;
  const [up, gate, down] = await Promise.all([linear('up_proj'), linear('gate_proj'), linear('down_proj')]);
  if (up === null || down === null || (config.gated && gate === null)) return null;
  return { up, gate, down, activation: config.activation };
}

/** Whether a what-if has put something else in the place of what these matrices make. */
export function isSkipped(exploration: Exploration, feed: Feed): boolean {
  return exploration.manifest.changes.some((one) => {
    const { kind, at } = one as { kind?: string; at?: string };
    return kind === 'skip-feed-forward' && `${at}.feed_forward` === feed.name;
  });
}

/** One token's hidden numbers and output from its input again: the largest difference. */
export function redo(feed: Feed, matrices: FeedForward, q: number): number {
  const [x, hidden, out] = [row(feed.x, q), row(feed.hidden, q), row(feed.out, q)];
  const again = hiddenOf(x, matrices);
  return Math.max(
    largestDifference(again, hidden),
    largestDifference(projected(again, matrices.down.weight, matrices.down.bias), out),
  );
}

export interface Neuron {
  n: number;
  h: number;
  /** |h| ‖w‖, and its part of the output's direction; null until W₂ is there. */
  length: number | null;
  share: number | null;
}

export const SORTS = ['n', 'h', 'length', 'share'] as const;
export type Sort = (typeof SORTS)[number];

export function neuronsOf(feed: Feed, matrices: FeedForward | null, q: number): Neuron[] {
  const hidden = row(feed.hidden, q);
  const brought = matrices === null ? null : contributions(hidden, matrices.down.weight, row(feed.out, q));
  return Array.from(hidden, (h, n) => ({
    n,
    h,
    length: brought?.lengths[n] ?? null,
    share: brought?.shares[n] ?? null,
  }));
}

/** The largest first, by number the smallest; of h its size counts where nothing better is known. */
export function sorted(neurons: Neuron[], by: Sort): Neuron[] {
  const known = neurons[0]?.length !== null;
  const value = (one: Neuron) =>
    by === 'n' ? -one.n : by === 'h' ? one.h : known ? (one[by] as number) : Math.abs(one.h);
  return [...neurons].sort((a, b) => value(b) - value(a) || a.n - b.n);
}

/** How many hidden numbers are 0; of an activation that has no zeros, how many are below a hundredth of the largest. */
export function quietNeurons(hidden: ArrayLike<number>, activation: string): number {
  let most = 0;
  for (let n = 0; n < hidden.length; n++) most = Math.max(most, Math.abs(hidden[n] as number));
  const limit = activation === 'relu' ? 0 : most / 100;
  let count = 0;
  for (let n = 0; n < hidden.length; n++) if (Math.abs(hidden[n] as number) <= limit) count++;
  return count;
}
