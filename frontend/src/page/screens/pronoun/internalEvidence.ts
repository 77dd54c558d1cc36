// Internal evidence of the encoder, recomputed from the trace: attention weights, value-weighted attention, rollout.
import type { TokenizedText } from '../../data/manifest';
import { grid, part, row, type Grid, type Tensor } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import type { PronounReading } from '../../data/pronoun';
import { norm, weightedSum } from '../../maths/recompute';

/** Token positions of a word, or of several consecutive words; null unless it occurs exactly once. */
export function wordPositions(side: TokenizedText, name: string): number[] | null {
  const texts = side.words.map(([first, end]) => side.pieces.slice(first, end).join('').replace(/▁/g, ''));
  const nameWords = name.split(/\s+/);
  const starts = [...texts.keys()].filter((i) => nameWords.every((one, more) => texts[i + more] === one));
  const [start] = starts;
  if (starts.length !== 1 || start === undefined) return null;
  const spans = side.words.slice(start, start + nameWords.length);
  return spans.flatMap(([first, end]) => Array.from({ length: end - first }, (_, i) => first + i));
}

/** Each head's weight from some tokens to others: summed over the keys, mean over the queries. */
export function attentionWeights(weights: Tensor, queries: number[], keys: number[]): number[] {
  return Array.from({ length: weights.shape[0] ?? 0 }, (_, h) => {
    const head = grid(part(weights, h));
    const of = (q: number) => keys.reduce((sum, k) => sum + (row(head, q)[k] as number), 0);
    return queries.reduce((sum, q) => sum + of(q), 0) / queries.length;
  });
}

/** ‖Σ α v W_O‖ over the keys and all heads, mean over the queries. */
export function weightedValues(weights: Tensor, values: Tensor, out: Grid, queries: number[], keys: number[]): number {
  const sizes = queries.map((q) => {
    const taken: number[] = [];
    for (let h = 0; h < (weights.shape[0] ?? 0); h++) {
      const ofHead = row(grid(part(weights, h)), q);
      const all = grid(part(values, h));
      taken.push(
        ...weightedSum(
          ofHead.map((weight, k) => (keys.includes(k) ? weight : 0)),
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

/** Π (A + 1) / 2 over the layers, A the mean of the heads: the mean of some tokens' rows. */
export function rollout(layers: Tensor[], queries: number[]): number[] {
  const size = layers[0]?.shape[1] ?? 0;
  let total = Array.from({ length: size }, () => 0);
  for (const q of queries) total[q] = 1 / queries.length;
  // A row of a matrix product starts from the first factor: here the highest layer.
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

/** The largest difference between received and recomputed rows of the encoder; null if the trace is of another sentence. */
export async function encoderDifference(exploration: Exploration, reading: PronounReading): Promise<number | null> {
  const { source } = exploration.manifest;
  const word = wordPositions(source, reading.word);
  const theirs = reading.candidates.map((name) => wordPositions(source, name));
  if (source.text.trim() !== reading.source.trim() || word === null || theirs.includes(null)) return null;
  const candidates = theirs as number[][];
  const places = exploration.places.filter((place) => place.kind === 'encoder-self').sort((a, b) => a.layer - b.layer);
  const weights = await Promise.all(places.map((place) => exploration.tensor(`${place.name}.weights`)));
  const recomputed = new Map<string, number[]>();
  const attention = weights.map((one) => candidates.map((keys) => attentionWeights(one, word, keys)));
  recomputed.set(
    'word: best head',
    candidates.map((_, c) => Math.max(...attention.flatMap((layer) => layer[c] as number[]))),
  );
  attention.forEach((layer, n) =>
    recomputed.set(
      `word: mean ${n}`,
      layer.map((heads) => heads.reduce((a, b) => a + b, 0) / heads.length),
    ),
  );
  const rolled = rollout(weights, word);
  recomputed.set(
    'rollout',
    candidates.map((keys) => keys.reduce((sum, k) => sum + (rolled[k] as number), 0)),
  );
  for (const [n, place] of places.entries()) {
    const [values] = await exploration.several(`${place.name}.v`);
    const out = await exploration.weight(`${place.name}.out_proj.weight`);
    if (values && out)
      recomputed.set(
        `word: values ${n}`,
        candidates.map((keys) => weightedValues(weights[n] as Tensor, values, grid(out), word, keys)),
      );
  }
  const differences = reading.evidence.flatMap(({ kind, values }) =>
    (recomputed.get(kind) ?? []).map((one, c) => Math.abs(one - (values[c] as number))),
  );
  return differences.length === 0 ? null : Math.max(...differences);
}
