// B − A of one attention: what the changes did to where a head looks.
import { shown } from '../../../figures/text';
import { keyLabel, queryLabel } from '../../data/places';
import type { Grid, Tensor } from '../../data/tensor';
import type { Token } from '../../../figures/types';
import type { Numbers } from './numbers';

export function sameShape(one: Tensor, other: Tensor): boolean {
  return one.shape.length === other.shape.length && one.shape.every((size, i) => size === other.shape[i]);
}

export function minus(after: Grid, before: Grid): Grid {
  return { rows: after.rows, cols: after.cols, values: after.values.map((x, i) => x - (before.values[i] as number)) };
}

/** The share of a row's look that went elsewhere, Σ |Δ| / 2, mean over the rows. */
export function movedShare(difference: Grid): number {
  return difference.values.reduce((sum, x) => sum + Math.abs(x), 0) / 2 / (difference.rows || 1);
}

/** Labels of now, and in brackets what stood there before, where that is another. */
function labels(
  after: Token[],
  before: Token[],
  label: (token: Token) => string,
  own: (token: Token) => string,
): string[] {
  return after.map((token, i) => {
    const [now, then] = [own(token), own(before[i] ?? token)];
    return now === then ? label(token) : `${label(token)} (${then})`;
  });
}

export const rowLabels = (after: Numbers, before: Numbers) =>
  labels(after.queries, before.queries, queryLabel, (token) => shown(token.text));
export const keyLabels = (after: Token[], before: Token[]) => labels(after, before, keyLabel, keyLabel);
export const colLabels = (after: Numbers, before: Numbers) => keyLabels(after.keys, before.keys);
