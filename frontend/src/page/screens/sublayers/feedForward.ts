// The feed-forward of a layer: its tensors, its neurons and their contributions, and its recomputation.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { largestDifference } from '../../maths/recompute';
import { contributions, hiddenOf, projected, type FeedForward, type Linear } from '../../maths/sublayers';

export interface FeedForwardTrace {
  name: string;
  x: Grid;
  hidden: Grid;
  out: Grid;
  /** Summaries of W₁ (and the gate) and W₂, as far as they are available. */
  pictures: { name: string; grid: Grid }[];
}

const SUMMARY = '48x48';

export async function loadFeedForward(exploration: Exploration, layer: string): Promise<FeedForwardTrace | null> {
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

/** The full matrices; null if not available. */
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

/** Whether a what-if skips this feed-forward. */
export function isSkipped(exploration: Exploration, feed: FeedForwardTrace): boolean {
  return exploration.manifest.changes.some((one) => {
    const { kind, at } = one as { kind?: string; at?: string };
    return kind === 'skip-feed-forward' && `${at}.feed_forward` === feed.name;
  });
}

/** Recomputes the hidden activations and the output of one token: the largest difference. */
export function recompute(feed: FeedForwardTrace, matrices: FeedForward, q: number): number {
  const [x, hidden, out] = [row(feed.x, q), row(feed.hidden, q), row(feed.out, q)];
  const recomputed = hiddenOf(x, matrices);
  return Math.max(
    largestDifference(recomputed, hidden),
    largestDifference(projected(recomputed, matrices.down.weight, matrices.down.bias), out),
  );
}

export interface Neuron {
  n: number;
  h: number;
  /** |h| ‖w‖, and its share along the output; null until W₂ is loaded. */
  length: number | null;
  share: number | null;
}

export const SORTS = ['n', 'h', 'length', 'share'] as const;
export type Sort = (typeof SORTS)[number];

export function neuronsOf(feed: FeedForwardTrace, matrices: FeedForward | null, q: number): Neuron[] {
  const hidden = row(feed.hidden, q);
  const added = matrices === null ? null : contributions(hidden, matrices.down.weight, row(feed.out, q));
  return Array.from(hidden, (h, n) => ({
    n,
    h,
    length: added?.lengths[n] ?? null,
    share: added?.shares[n] ?? null,
  }));
}

/** In decreasing order, but by number in increasing order; without W₂, by |h| instead of the contribution. */
export function sorted(neurons: Neuron[], by: Sort): Neuron[] {
  const known = neurons[0]?.length !== null;
  const value = (one: Neuron) =>
    by === 'n' ? -one.n : by === 'h' ? one.h : known ? (one[by] as number) : Math.abs(one.h);
  return [...neurons].sort((a, b) => value(b) - value(a) || a.n - b.n);
}

/** Number of activations that are 0; for functions other than relu, below 1 % of the largest. */
export function inactiveNeurons(hidden: ArrayLike<number>, activation: string): number {
  let most = 0;
  for (let n = 0; n < hidden.length; n++) most = Math.max(most, Math.abs(hidden[n] as number));
  const limit = activation === 'relu' ? 0 : most / 100;
  let count = 0;
  for (let n = 0; n < hidden.length; n++) if (Math.abs(hidden[n] as number) <= limit) count++;
  return count;
}
