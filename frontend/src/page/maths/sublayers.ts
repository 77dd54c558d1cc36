// Sub-layers other than attention, recomputed: norms, activations, the feed-forward, the recurrent unit.
import { row, type Grid } from '../data/tensor';
import { dot } from './recompute';

export interface Normed {
  /** Subtracted; 0 for RMSNorm. */
  mean: number;
  /** The divisor: √(variance + ε), or √(mean of x² + ε). */
  sigma: number;
  /** (x - mean) / sigma */
  standard: Float64Array;
}

/** A norm without its `weight` and `bias`: mean 0 (except for "rms") and mean square 1. */
export function standardised(x: ArrayLike<number>, kind: string, eps: number): Normed {
  const values = Float64Array.from(x);
  const mean = kind === 'rms' ? 0 : values.reduce((sum, one) => sum + one, 0) / values.length;
  const centred = values.map((one) => one - mean);
  const sigma = Math.sqrt(dot(centred, centred) / centred.length + eps);
  return { mean, sigma, standard: centred.map((one) => one / sigma) };
}

/** standard · weight + bias */
export function scaledAndShifted(
  standard: ArrayLike<number>,
  weight: ArrayLike<number>,
  bias: ArrayLike<number> | null,
): Float64Array {
  return Float64Array.from(
    { length: standard.length },
    (_, i) => (standard[i] as number) * (weight[i] as number) + (bias === null ? 0 : (bias[i] as number)),
  );
}

/** a + b, rounded to float32 as in the model: residuals may be large. */
export function added(a: ArrayLike<number>, b: ArrayLike<number>): Float32Array {
  return Float32Array.from({ length: a.length }, (_, i) => (a[i] as number) + (b[i] as number));
}

/** The error function to 1.5 × 10⁻⁷ (Abramowitz and Stegun, 7.1.26). */
export function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

export const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

const ACTIVATIONS: Record<string, (x: number) => number> = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  'gelu-tanh': (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x * sigmoid(x),
};

export function activated(x: ArrayLike<number>, kind: string): Float64Array {
  const act = ACTIVATIONS[kind];
  if (act === undefined) throw new Error(`Unknown activation ${kind}.`);
  return Float64Array.from(x, act);
}

/** x Wᵀ + b of one vector; `weight` as torch stores it, one row per output. */
export function projected(x: ArrayLike<number>, weight: Grid, bias: ArrayLike<number> | null): Float64Array {
  return Float64Array.from(
    { length: weight.rows },
    (_, r) => dot(x, row(weight, r)) + (bias === null ? 0 : (bias[r] as number)),
  );
}

/** A matrix and its bias, if it has one. */
export interface Linear {
  weight: Grid;
  bias: ArrayLike<number> | null;
}

export interface FeedForward {
  up: Linear;
  gate: Linear | null;
  down: Linear;
  activation: string;
}

/** act(x W₁ + b₁); gated: act(x W_gate) * (x W₁). */
export function hiddenOf(x: ArrayLike<number>, of: FeedForward): Float64Array {
  const up = projected(x, of.up.weight, of.up.bias);
  if (of.gate === null) return activated(up, of.activation);
  return activated(projected(x, of.gate.weight, of.gate.bias), of.activation).map((one, i) => one * (up[i] as number));
}

/** Contribution of each neuron to the output, h_n times its column of W₂: its length, and its share along the output. */
export function contributions(
  hidden: ArrayLike<number>,
  down: Grid,
  output: ArrayLike<number>,
): { lengths: Float64Array; shares: Float64Array } {
  const [squares, along] = [new Float64Array(down.cols), new Float64Array(down.cols)];
  for (let r = 0; r < down.rows; r++) {
    const [values, out] = [row(down, r), output[r] as number];
    for (let n = 0; n < down.cols; n++) {
      const weight = values[n] as number;
      squares[n] = (squares[n] as number) + weight * weight;
      along[n] = (along[n] as number) + weight * out;
    }
  }
  const size = dot(output, output) || 1;
  return {
    lengths: squares.map((one, n) => Math.abs(hidden[n] as number) * Math.sqrt(one)),
    shares: along.map((one, n) => ((hidden[n] as number) * one) / size),
  };
}

/** f · c_before + (1 - f) · candidate: the new cell of a recurrent unit. */
export function cellAfter(
  before: ArrayLike<number> | null,
  forget: ArrayLike<number>,
  candidate: ArrayLike<number>,
): Float64Array {
  return Float64Array.from({ length: forget.length }, (_, i) => {
    const f = forget[i] as number;
    return f * (before === null ? 0 : (before[i] as number)) + (1 - f) * (candidate[i] as number);
  });
}
