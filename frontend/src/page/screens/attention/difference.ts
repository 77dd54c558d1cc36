// B − A of the weights of one attention.
import { tokenText } from '../../../figures/text';
import { keyLabel, queryLabel } from '../../data/places';
import type { Grid, Tensor } from '../../data/tensor';
import type { Token } from '../../../figures/types';
import type { AttentionTensors } from './attentionTensors';

export function sameShape(one: Tensor, other: Tensor): boolean {
  return one.shape.length === other.shape.length && one.shape.every((size, i) => size === other.shape[i]);
}

export function minus(after: Grid, before: Grid): Grid {
  return { rows: after.rows, cols: after.cols, values: after.values.map((x, i) => x - (before.values[i] as number)) };
}

/** The share of a row's weight that moved to other keys, Σ |Δ| / 2, mean over the rows. */
export function movedWeight(difference: Grid): number {
  return difference.values.reduce((sum, x) => sum + Math.abs(x), 0) / 2 / (difference.rows || 1);
}

/** Labels of the tokens after the changes, followed by those before in brackets if they differ. */
function labels(
  after: Token[],
  before: Token[],
  label: (token: Token) => string,
  compared: (token: Token) => string,
): string[] {
  return after.map((token, i) => {
    const [now, then] = [compared(token), compared(before[i] ?? token)];
    return now === then ? label(token) : `${label(token)} (${then})`;
  });
}

export const rowLabels = (after: AttentionTensors, before: AttentionTensors) =>
  labels(after.queries, before.queries, queryLabel, (token) => tokenText(token.text));
export const keyLabels = (after: Token[], before: Token[]) => labels(after, before, keyLabel, keyLabel);
export const colLabels = (after: AttentionTensors, before: AttentionTensors) => keyLabels(after.keys, before.keys);
