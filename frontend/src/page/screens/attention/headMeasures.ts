// Measures of a head's attention weights.
import { row, type Grid } from '../../data/tensor';
import { entropy } from '../../maths/recompute';

/** Mean over the rows of -Σ p log p; 0 if every row attends to one token only. */
export function meanEntropy(weights: Grid): number {
  let sum = 0;
  for (let r = 0; r < weights.rows; r++) sum += entropy(row(weights, r));
  return sum / (weights.rows || 1);
}

/** Mean over the rows of Σ p_j |i - j|: the attention distance. In cross-attention, i and j count in different sentences. */
export function meanDistance(weights: Grid): number {
  let sum = 0;
  for (let r = 0; r < weights.rows; r++) {
    for (let c = 0; c < weights.cols; c++) sum += (weights.values[r * weights.cols + c] as number) * Math.abs(r - c);
  }
  return sum / (weights.rows || 1);
}
