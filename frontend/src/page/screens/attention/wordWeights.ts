// Attention weights between words: summed over the tokens of the key, mean over the tokens of the query.
import type { AttentionPlace } from '../../data/places';
import type { Grid } from '../../data/tensor';
import type { Exploration, Side } from '../../data/trace';

export type Span = [number, number];

/** Spans that cover all `count` positions: the words, and a span for every other position. */
export function covering(words: Span[], count: number): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const [first, end] of words) {
    while (at < first) spans.push([at, ++at]);
    if (first < end && end <= count) spans.push([first, (at = end)]);
  }
  while (at < count) spans.push([at, ++at]);
  return spans;
}

/** Target queries are grouped by the tokens that they predict; target keys by their input tokens, one position later. */
export function spansOf(exploration: Exploration, place: AttentionPlace, as: 'queries' | 'keys'): Span[] {
  const side: Side = place[as];
  const { words, pieces } = exploration.manifest[side];
  const shift = as === 'keys' && side === 'target' ? 1 : 0;
  const moved = words.map(([first, end]): Span => [first + shift, Math.min(end + shift, pieces.length)]);
  return covering(
    moved.filter(([first, end]) => first < end),
    pieces.length,
  );
}

export function merged(weights: Grid, rows: Span[], cols: Span[]): Grid {
  const values = new Float32Array(rows.length * cols.length);
  rows.forEach(([top, bottom], r) => {
    cols.forEach(([left, right], c) => {
      let sum = 0;
      for (let i = top; i < bottom; i++) {
        for (let j = left; j < right; j++) sum += weights.values[i * weights.cols + j] as number;
      }
      values[r * cols.length + c] = sum / (bottom - top);
    });
  });
  return { rows: rows.length, cols: cols.length, values };
}
