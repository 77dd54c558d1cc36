// From logits to the next token, again: the softmax at any temperature, and what a wanted token costs.
import { softmax } from './recompute';

/** log Σ exp(z) */
export function logSumExp(logits: ArrayLike<number>): number {
  let most = -Infinity;
  for (let i = 0; i < logits.length; i++) most = Math.max(most, logits[i] as number);
  if (!Number.isFinite(most)) return most;
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp((logits[i] as number) - most);
  return most + Math.log(sum);
}

/** softmax(z / τ): below 1 the likely become likelier, above 1 all become alike. */
export function tempered(logits: ArrayLike<number>, temperature: number): Float64Array {
  return softmax(Float64Array.from(logits, (one) => one / temperature));
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number;
  return sum / values.length;
}

/**
 * The cross-entropy against a target that has 1 - ε on the right token and shares ε among all:
 * log Z - (1 - ε) z[right] - ε mean(z), as training counts it.
 */
export function smoothedLoss(logNormaliser: number, right: number, meanLogit: number, smoothing: number): number {
  return logNormaliser - (1 - smoothing) * right - smoothing * meanLogit;
}
