// Output layer, recomputed: softmax at any temperature, and the loss of a target token.
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

/** softmax(z / τ): sharper below 1, flatter above 1. */
export function softmaxAtTemperature(logits: ArrayLike<number>, temperature: number): Float64Array {
  return softmax(Float64Array.from(logits, (one) => one / temperature));
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number;
  return sum / values.length;
}

/**
 * Cross-entropy with label smoothing: 1 - ε on the correct token, ε shared among all tokens:
 * log Z - (1 - ε) z[right] - ε mean(z), as in training.
 */
export function smoothedLoss(logNormaliser: number, right: number, meanLogit: number, smoothing: number): number {
  return logNormaliser - (1 - smoothing) * right - smoothing * meanLogit;
}
