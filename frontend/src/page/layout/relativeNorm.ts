// Relative norm of a sub-layer's output: ‖output‖ / ‖residual sum‖, mean over the tokens.
import type { Exploration, Sublayer } from '../data/trace';
import { grid, row } from '../data/tensor';
import { norm } from '../maths/recompute';

export async function relativeNorm(exploration: Exploration, sublayer: Sublayer): Promise<number | null> {
  const residual = `${sublayer.name}_norm.residual`;
  if (!exploration.has(residual)) return null;
  const [out, sums] = (
    await Promise.all([exploration.float16Tensor(`${sublayer.name}.output`), exploration.float16Tensor(residual)])
  ).map(grid);
  if (out === undefined || sums === undefined || out.rows === 0) return null;
  let total = 0;
  for (let r = 0; r < out.rows; r++) total += norm(row(out, r)) / (norm(row(sums, r)) || 1);
  return total / out.rows;
}
