// Everything that the attention room shows of one layer, and what can be redone of it.
import type { Token } from '../../../figures/types';
import { quoted, spoken } from '../../../figures/words';
import { keyLabel, queryLabel, tokensOf, type AttentionPlace } from '../../data/places';
import { touched, type Touched } from '../../data/touched';
import { grid, part, row, type Grid, type Tensor } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { dot, largestDifference, ranking, softmax, weightedSum } from '../../maths/recompute';
import { probability } from '../../parts/numbers';
import { texts } from '../../strings';

export interface Numbers {
  place: AttentionPlace;
  queries: Token[];
  keys: Token[];
  rowLabels: string[];
  colLabels: string[];
  heads: number;
  /** 1 / √K, or 1 where the model does not scale. */
  scale: number;
  /** Whether something beside q · k goes into the scores: then they cannot be redone from q and k. */
  biased: boolean;
  turned: boolean;
  /** What-ifs under which all this came to be. */
  changes: unknown[];
  /** Whether there is more of it than weights. */
  whole: boolean;
  q: Tensor;
  k: Tensor;
  v: Tensor;
  scores: Tensor;
  weights: Tensor;
  context: Tensor;
}

export async function loadNumbers(exploration: Exploration, place: AttentionPlace): Promise<Numbers> {
  const { config } = exploration.manifest;
  const coming = exploration.tensor(`${place.name}.weights`);
  const names = ['q', 'k', 'v', 'scores', 'context'].map((name) => `${place.name}.${name}`);
  const others = exploration.slim
    ? withoutMore(await coming)
    : await Promise.all(names.map((name) => exploration.tensor(name)));
  const weights = await coming;
  const [q, k, v, scores, context] = others as [Tensor, Tensor, Tensor, Tensor, Tensor];
  const [queries, keys] = [tokensOf(exploration, place.queries), tokensOf(exploration, place.keys)];
  return {
    place,
    queries,
    keys,
    rowLabels: queries.map(queryLabel),
    colLabels: keys.map(keyLabel),
    heads: weights.shape[0] ?? 0,
    scale: config.scale_scores ? 1 / Math.sqrt(config.d_head) : 1,
    biased: config.positions === 'relative' && place.kind !== 'cross',
    turned: config.positions === 'rotary' && place.kind !== 'cross',
    changes: exploration.manifest.changes,
    whole: !exploration.slim,
    q,
    k,
    v,
    scores,
    weights,
    context,
  };
}

/** Of a trace that was saved with weights only: no q, k, v and z; and scores that say what is masked. */
function withoutMore(weights: Tensor): Tensor[] {
  const none: Tensor = { values: new Float32Array(), shape: [weights.shape[0] ?? 0, 0, 0], axes: [] };
  return [none, none, none, { ...weights, values: weights.values.map(Math.log) }, none];
}

/** One head of it. */
export interface Head {
  q: Grid;
  k: Grid;
  v: Grid;
  scores: Grid;
  weights: Grid;
  context: Grid;
  touched: Touched;
}

export function headOf(numbers: Numbers, head: number): Head {
  const h = Math.min(head, numbers.heads - 1);
  const of = (tensor: Tensor) => grid(part(tensor, h));
  return {
    q: of(numbers.q),
    k: of(numbers.k),
    v: of(numbers.v),
    scores: of(numbers.scores),
    weights: of(numbers.weights),
    context: of(numbers.context),
    touched: touched(numbers.changes, numbers.place.name, h),
  };
}

export function isMasked(head: Head, query: number, key: number): boolean {
  return head.scores.values[query * head.scores.cols + key] === -Infinity;
}

/** One query's way through one head, and the largest difference between what was redone and what the model has. */
export interface Way {
  raw: number[];
  scaled: number[];
  scores: Float32Array;
  weights: Float32Array;
  z: Float32Array;
  /** null where a what-if has put something else into these steps. */
  difference: number | null;
}

export function wayOf(numbers: Numbers, head: Head, query: number): Way {
  const q = row(head.q, query);
  const [scores, weights, z] = [row(head.scores, query), row(head.weights, query), row(head.context, query)];
  const raw = Array.from({ length: head.k.rows }, (_, j) => dot(q, row(head.k, j)));
  const scaled = raw.map((one) => one * numbers.scale);
  const visible = scaled.map((one, j) => (scores[j] === -Infinity ? -Infinity : one));
  const again = numbers.biased ? Array.from(scores) : visible;
  const redone = softmax(again);
  const difference = Math.max(
    numbers.biased ? 0 : largestDifference(visible, scores),
    largestDifference(redone, weights),
    largestDifference(weightedSum(redone, head.v), z),
  );
  const redoable = !head.touched.scores && !head.touched.context;
  return { raw, scaled, scores, weights, z, difference: redoable ? difference : null };
}

/** "it looks at animal, 0.31, rank 1 of 14" */
export function sentenceOf(numbers: Numbers, head: Head, query: number, key: number): string {
  const [from, on] = [numbers.queries[query], numbers.keys[key]];
  if (from === undefined || on === undefined) return '';
  const words = texts.screen.attention;
  const asking = from.after === undefined ? spoken(from) : `${spoken(from)} it`;
  const name = quoted(on.after ?? on.text);
  if (isMasked(head, query, key)) return words.saysMasked(asking, name);
  const weights = row(head.weights, query);
  const order = ranking(weights, (j) => isMasked(head, query, j));
  return words.says(asking, name, probability(weights[key] ?? 0), order.indexOf(key) + 1, order.length);
}
