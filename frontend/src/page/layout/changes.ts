// How much each sub-layer changes what passes: ‖output‖ / ‖residual‖, mean over the tokens.
import type { Exploration, Sublayer } from '../data/trace';
import { grid, row } from '../data/tensor';
import { norm } from '../maths/recompute';

export async function changeOf(exploration: Exploration, sublayer: Sublayer): Promise<number | null> {
  const residual = `${sublayer.name}_norm.residual`;
  if (!exploration.has(residual)) return null;
  const [out, on] = (
    await Promise.all([exploration.roughly(`${sublayer.name}.output`), exploration.roughly(residual)])
  ).map(grid);
  if (out === undefined || on === undefined || out.rows === 0) return null;
  let sum = 0;
  for (let r = 0; r < out.rows; r++) sum += norm(row(out, r)) / (norm(row(on, r)) || 1);
  return sum / out.rows;
}
