// The model's arithmetic, recomputed in the browser. Pure functions of typed arrays.
import type { Grid } from '../data/tensor';

/** Σ a_i b_i, in double precision. */
export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

export function norm(a: ArrayLike<number>): number {
  return Math.sqrt(dot(a, a));
}

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const size = norm(a) * norm(b);
  return size === 0 ? NaN : dot(a, b) / size;
}

/** exp(x - max) / Σ; -∞ gives 0, and a row of only -∞ gives all zeros. */
export function softmax(scores: ArrayLike<number>): Float64Array {
  const out = new Float64Array(scores.length);
  let most = -Infinity;
  for (let i = 0; i < scores.length; i++) most = Math.max(most, scores[i] as number);
  if (most === -Infinity) return out;
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += out[i] = Math.exp((scores[i] as number) - most);
  return out.map((one) => one / sum);
}

/** a bᵀ, plus a bias per column; `b` as torch stores weights, one row per output. */
export function timesTransposed(a: Grid, b: Grid, bias: ArrayLike<number> | null = null): Grid {
  const values = new Float32Array(a.rows * b.rows);
  for (let r = 0; r < a.rows; r++) {
    for (let c = 0; c < b.rows; c++) {
      let sum = 0;
      for (let i = 0, p = r * a.cols, q = c * b.cols; i < a.cols; i++, p++, q++) {
        sum += (a.values[p] as number) * (b.values[q] as number);
      }
      values[r * b.rows + c] = sum + (bias === null ? 0 : (bias[c] as number));
    }
  }
  return { rows: a.rows, cols: b.rows, values };
}

/** Σ_j weights_j · rows_j: attention's weighted sum of the values. */
export function weightedSum(weights: ArrayLike<number>, of: Grid): Float64Array {
  const out = new Float64Array(of.cols);
  for (let r = 0; r < of.rows; r++) {
    const weight = weights[r] as number;
    if (weight === 0) continue;
    for (let c = 0; c < of.cols; c++) out[c] = (out[c] as number) + weight * (of.values[r * of.cols + c] as number);
  }
  return out;
}

/** max |a - b|; two -∞ are equal. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i]) continue;
    const difference = Math.abs((a[i] as number) - (b[i] as number));
    most = Number.isNaN(difference) ? Infinity : Math.max(most, difference);
  }
  return most;
}

/** -Σ p log p, in nats. */
export function entropy(p: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < p.length; i++) if ((p[i] as number) > 0) sum -= (p[i] as number) * Math.log(p[i] as number);
  return sum;
}

/** Indices by decreasing value, without masked ones. */
export function ranking(values: ArrayLike<number>, masked: (index: number) => boolean = () => false): number[] {
  return Array.from({ length: values.length }, (_, i) => i)
    .filter((i) => !masked(i))
    .sort((a, b) => (values[b] as number) - (values[a] as number) || a - b);
}

/** How many of the first values in `order` are needed for this share of the total 1. */
export function countForShare(values: ArrayLike<number>, order: number[], share: number): number {
  let sum = 0;
  for (let i = 0; i < order.length; i++) {
    sum += values[order[i] as number] as number;
    if (sum >= share - 1e-6) return i + 1; // float32 rounding of a sum of weights
  }
  return order.length;
}
