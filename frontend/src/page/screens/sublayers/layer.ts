// One layer of a stack: what goes around each of its sub-layers, in the order that the model has.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration, Side } from '../../data/trace';
import type { Config } from '../../data/manifest';
import type { AttentionPlace } from '../../data/places';
import { largestDifference, norm as length } from '../../maths/recompute';
import { added, scaledAndShifted, standardised, type Normed } from '../../maths/sublayers';

export type Stack = 'encoder' | 'decoder';

export interface Where {
  stack: Stack;
  layer: number;
}

/** The layer that an attention stands in. */
export function layerOf(place: AttentionPlace): Where {
  return { stack: place.kind === 'encoder-self' ? 'encoder' : 'decoder', layer: place.layer };
}

export const sideOf = (stack: Stack): Side => (stack === 'encoder' ? 'source' : 'target');

/** A norm with the numbers that it learned; null where they are not to be had. */
export interface Norm {
  gamma: Float32Array | null;
  beta: Float32Array | null;
  /** What comes out of it, a row a token. */
  result: Grid;
}

/** The way around a sub-layer: norm(x + f(x)), or x + f(norm(x)). */
export interface Around {
  part: string;
  name: string;
  x: Grid;
  out: Grid;
  sum: Grid;
  norm: Norm;
}

export interface Layer extends Where {
  name: string;
  parts: Around[];
  /** The stack's last norm, above its last layer, where norms come first. */
  last: { x: Grid; norm: Norm } | null;
}

/** Sub-layers as they follow each other; no layer has all of them. */
export const ORDER = ['self_attention', 'recurrence', 'cross_attention', 'feed_forward'];

export async function loadLayer(exploration: Exploration, { stack, layer }: Where): Promise<Layer> {
  const { config } = exploration.manifest;
  const name = `${stack}.layers.${layer}`;
  const present = ORDER.filter(
    (part) => exploration.has(`${name}.${part}.output`) && exploration.has(`${name}.${part}_norm.residual`),
  );
  const numbers = async (tensor: string) => grid(await exploration.tensor(tensor));
  const entry = numbers(layer === 0 ? `${stack}.input` : `${stack}.layers.${layer - 1}.hidden`);
  const parts = await Promise.all(
    present.map(async (part, i) => {
      const before = present[i - 1];
      const goesOn = config.norm_first ? 'residual' : 'output';
      const [x, out, sum, norm] = await Promise.all([
        before === undefined ? entry : numbers(`${name}.${before}_norm.${goesOn}`),
        numbers(`${name}.${part}.output`),
        numbers(`${name}.${part}_norm.residual`),
        loadNorm(exploration, `${name}.${part}_norm`),
      ]);
      return { part, name: `${name}.${part}`, x, out, sum, norm };
    }),
  );
  const top = exploration.has(`${stack}.final_norm.output`) && !exploration.has(`${stack}.layers.${layer + 1}.hidden`);
  const last = top
    ? { x: await numbers(`${name}.hidden`), norm: await loadNorm(exploration, `${stack}.final_norm`) }
    : null;
  return { stack, layer, name, parts, last };
}

async function loadNorm(exploration: Exploration, name: string): Promise<Norm> {
  const weight = (which: string) => exploration.weight(exploration.storage(`${name}.${which}`));
  const [result, gamma, beta] = await Promise.all([
    exploration.tensor(`${name}.output`),
    weight('weight'),
    weight('bias'),
  ]);
  return { result: grid(result), gamma: gamma?.values ?? null, beta: beta?.values ?? null };
}

/** A vector on the way, with the sign that stands before it. */
export interface Row {
  id: string;
  sign: string;
  values: ArrayLike<number>;
  length: number;
  /** Which colours it is drawn in: numbers of one kind share theirs. */
  kind: 'stream' | 'normed' | 'gamma' | 'beta';
}

export interface Way extends Normed {
  rows: Row[];
  difference: number | null;
}

const line = (id: string, sign: string, kind: Row['kind'], values: ArrayLike<number>): Row => ({
  id,
  sign,
  kind,
  values,
  length: length(values),
});

/** A norm of one token: mean and sigma, what it learned, what comes out. */
function normRows(
  x: ArrayLike<number>,
  norm: Norm,
  q: number,
  config: Config,
): { normed: Normed; rows: Row[]; difference: number | null } {
  const normed = standardised(x, config.norm, config.norm_eps);
  const result = row(norm.result, q);
  const rows = [line('standard', '', 'normed', normed.standard)];
  if (norm.gamma !== null) rows.push(line('gamma', '×', 'gamma', norm.gamma));
  if (norm.beta !== null) rows.push(line('beta', '+', 'beta', norm.beta));
  rows.push(line('norm', '=', 'normed', result));
  const difference =
    norm.gamma === null ? null : largestDifference(scaledAndShifted(normed.standard, norm.gamma, norm.beta), result);
  return { normed, rows, difference };
}

/** One token's way around a sub-layer, in the model's order. */
export function wayAround(of: Around, q: number, config: Config): Way {
  const [x, out, sum] = [row(of.x, q), row(of.out, q), row(of.sum, q)];
  const norm = normRows(config.norm_first ? x : sum, of.norm, q, config);
  const rows = config.norm_first
    ? [line('x', '', 'stream', x), ...norm.rows, line('out', '→', 'stream', out), line('sum', '+ x =', 'stream', sum)]
    : [line('x', '', 'stream', x), line('out', '+', 'stream', out), line('sum', '=', 'stream', sum), ...norm.rows];
  return { ...norm.normed, rows, difference: Math.max(largestDifference(added(x, out), sum), norm.difference ?? 0) };
}

export function lastWay(of: { x: Grid; norm: Norm }, q: number, config: Config): Way {
  const x = row(of.x, q);
  const norm = normRows(x, of.norm, q, config);
  return { ...norm.normed, rows: [line('x', '', 'stream', x), ...norm.rows], difference: norm.difference };
}
