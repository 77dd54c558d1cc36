// One layer: the residual connections and norms of its sub-layers, in the model's order.
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

/** The layer of an attention. */
export function layerOf(place: AttentionPlace): Where {
  return { stack: place.kind === 'encoder-self' ? 'encoder' : 'decoder', layer: place.layer };
}

export const sideOf = (stack: Stack): Side => (stack === 'encoder' ? 'source' : 'target');

/** A norm and its learned parameters; null if not available. */
export interface Norm {
  gamma: Float32Array | null;
  beta: Float32Array | null;
  /** Its output, one row per token. */
  result: Grid;
}

/** A sub-layer with residual connection and norm: norm(x + f(x)), or x + f(norm(x)). */
export interface ResidualBlock {
  part: string;
  name: string;
  x: Grid;
  out: Grid;
  sum: Grid;
  norm: Norm;
}

export interface Layer extends Where {
  name: string;
  parts: ResidualBlock[];
  /** The final norm of the stack, after its last layer, in pre-norm models. */
  last: { x: Grid; norm: Norm } | null;
}

/** Sub-layers in order; no layer has all of them. */
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

/** A displayed vector, with the sign before it. */
export interface Row {
  id: string;
  sign: string;
  values: ArrayLike<number>;
  length: number;
  /** Rows of one kind share a colour scale. */
  kind: 'stream' | 'normed' | 'gamma' | 'beta';
}

export interface ResidualRows extends Normed {
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

/** The norm of one token: mean and sigma, learned parameters, output. */
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

/** The vectors of one token around a sub-layer, in the model's order. */
export function residualRows(of: ResidualBlock, q: number, config: Config): ResidualRows {
  const [x, out, sum] = [row(of.x, q), row(of.out, q), row(of.sum, q)];
  const norm = normRows(config.norm_first ? x : sum, of.norm, q, config);
  const rows = config.norm_first
    ? [line('x', '', 'stream', x), ...norm.rows, line('out', '→', 'stream', out), line('sum', '+ x =', 'stream', sum)]
    : [line('x', '', 'stream', x), line('out', '+', 'stream', out), line('sum', '=', 'stream', sum), ...norm.rows];
  return { ...norm.normed, rows, difference: Math.max(largestDifference(added(x, out), sum), norm.difference ?? 0) };
}

export function finalNormRows(of: { x: Grid; norm: Norm }, q: number, config: Config): ResidualRows {
  const x = row(of.x, q);
  const norm = normRows(x, of.norm, q, config);
  return { ...norm.normed, rows: [line('x', '', 'stream', x), ...norm.rows], difference: norm.difference };
}
