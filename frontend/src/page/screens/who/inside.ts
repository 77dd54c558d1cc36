// What the word has of each candidate, redone from the trace that the page has: looks, weighted values, rollout.
import type { SideOf } from '../../data/manifest';
import { grid, part, row, type Grid, type Tensor } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import type { Reading } from '../../data/who';
import { norm, weightedSum } from '../../maths/recompute';

/** The places of a word's tokens, or of several words in a row; null where it does not stand there just once. */
export function tokensOf(side: SideOf, name: string): number[] | null {
  const texts = side.words.map(([first, end]) => side.pieces.slice(first, end).join('').replace(/▁/g, ''));
  const wanted = name.split(/\s+/);
  const starts = [...texts.keys()].filter((i) => wanted.every((one, more) => texts[i + more] === one));
  const [start] = starts;
  if (starts.length !== 1 || start === undefined) return null;
  const spans = side.words.slice(start, start + wanted.length);
  return spans.flatMap(([first, end]) => Array.from({ length: end - first }, (_, i) => first + i));
}

/** Each head's weights from some tokens to others: the keys' summed, the mean over the queries. */
export function looks(weights: Tensor, queries: number[], keys: number[]): number[] {
  return Array.from({ length: weights.shape[0] ?? 0 }, (_, h) => {
    const head = grid(part(weights, h));
    const of = (q: number) => keys.reduce((sum, k) => sum + (row(head, q)[k] as number), 0);
    return queries.reduce((sum, q) => sum + of(q), 0) / queries.length;
  });
}

/** ‖Σ α v W_O‖ over the keys and all heads, the mean over the queries. */
export function weightedValues(weights: Tensor, values: Tensor, out: Grid, queries: number[], keys: number[]): number {
  const sizes = queries.map((q) => {
    const taken: number[] = [];
    for (let h = 0; h < (weights.shape[0] ?? 0); h++) {
      const own = row(grid(part(weights, h)), q);
      const all = grid(part(values, h));
      taken.push(
        ...weightedSum(
          own.map((weight, k) => (keys.includes(k) ? weight : 0)),
          all,
        ),
      );
    }
    return norm(
      Array.from({ length: out.rows }, (_, d) => row(out, d).reduce((sum, w, i) => sum + w * (taken[i] as number), 0)),
    );
  });
  return sizes.reduce((sum, one) => sum + one, 0) / sizes.length;
}

/** Π (A + 1) / 2 over the layers, A the mean of the heads: the rows of some tokens, their mean. */
export function rollout(layers: Tensor[], queries: number[]): number[] {
  const size = layers[0]?.shape[1] ?? 0;
  let total = Array.from({ length: size }, () => 0);
  for (const q of queries) total[q] = 1 / queries.length;
  // A row of a product is made from the last factor backwards: here the highest layer's comes first.
  for (const weights of [...layers].reverse()) {
    const heads = weights.shape[0] ?? 1;
    const next = total.map((one) => one / 2);
    for (let h = 0; h < heads; h++) {
      const head = grid(part(weights, h));
      for (let q = 0; q < size; q++) {
        const share = (total[q] as number) / (2 * heads);
        if (share !== 0) row(head, q).forEach((weight, k) => (next[k] = (next[k] as number) + share * weight));
      }
    }
    total = next;
  }
  return total;
}

/** By how much the rows of the encoder differ from what the page's own trace gives; null where it is of another sentence. */
export async function insideDifference(exploration: Exploration, reading: Reading): Promise<number | null> {
  const { source } = exploration.manifest;
  const own = tokensOf(source, reading.word);
  const theirs = reading.candidates.map((name) => tokensOf(source, name));
  if (source.text.trim() !== reading.source.trim() || own === null || theirs.includes(null)) return null;
  const candidates = theirs as number[][];
  const places = exploration.places.filter((place) => place.kind === 'encoder-self').sort((a, b) => a.layer - b.layer);
  const weights = await Promise.all(places.map((place) => exploration.tensor(`${place.name}.weights`)));
  const found = new Map<string, number[]>();
  const look = weights.map((one) => candidates.map((keys) => looks(one, own, keys)));
  found.set(
    'word: best head',
    candidates.map((_, c) => Math.max(...look.flatMap((layer) => layer[c] as number[]))),
  );
  look.forEach((layer, n) =>
    found.set(
      `word: mean ${n}`,
      layer.map((heads) => heads.reduce((a, b) => a + b, 0) / heads.length),
    ),
  );
  const rolled = rollout(weights, own);
  found.set(
    'rollout',
    candidates.map((keys) => keys.reduce((sum, k) => sum + (rolled[k] as number), 0)),
  );
  for (const [n, place] of places.entries()) {
    const [values] = await exploration.several(`${place.name}.v`);
    const out = await exploration.weight(`${place.name}.out_proj.weight`);
    if (values && out)
      found.set(
        `word: values ${n}`,
        candidates.map((keys) => weightedValues(weights[n] as Tensor, values, grid(out), own, keys)),
      );
  }
  const differences = reading.evidence.flatMap(({ kind, values }) =>
    (found.get(kind) ?? []).map((one, c) => Math.abs(one - (values[c] as number))),
  );
  return differences.length === 0 ? null : Math.max(...differences);
}
