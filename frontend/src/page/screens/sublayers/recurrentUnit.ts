// The recurrent unit (SSRU) that some decoders have instead of self-attention: its gate, candidate and cell.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { largestDifference } from '../../maths/recompute';
import { cellAfter } from '../../maths/sublayers';

export interface RecurrentUnit {
  candidate: Grid;
  forget: Grid;
  cell: Grid;
  out: Grid;
}

export async function loadRecurrentUnit(exploration: Exploration, layer: string): Promise<RecurrentUnit | null> {
  const names = ['candidate', 'forget', 'cell', 'output'].map((name) => `${layer}.recurrence.${name}`);
  const [candidate, forget, cell, out] = await exploration.several(...names);
  if (!candidate || !forget || !cell || !out) return null;
  return { candidate: grid(candidate), forget: grid(forget), cell: grid(cell), out: grid(out) };
}

/** c = f · c_before + (1 - f) · candidate, then max(0, c): the largest difference at one position. */
export function recomputeUnit(unit: RecurrentUnit, q: number): number {
  const cell = cellAfter(q === 0 ? null : row(unit.cell, q - 1), row(unit.forget, q), row(unit.candidate, q));
  return Math.max(
    largestDifference(cell, row(unit.cell, q)),
    largestDifference(
      cell.map((one) => Math.max(0, one)),
      row(unit.out, q),
    ),
  );
}
