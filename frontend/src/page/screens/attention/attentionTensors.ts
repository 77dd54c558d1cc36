// Tensors of one attention, per head, and their recomputation.
import type { Token } from '../../../figures/types';
import { quoted, positionPhrase } from '../../../figures/formatting';
import { keyLabel, queryLabel, tokensOf, type AttentionPlace } from '../../data/places';
import { overridesOf, type Overrides } from '../../data/overrides';
import { grid, part, row, type Grid, type Tensor } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { dot, largestDifference, ranking, softmax, weightedSum } from '../../maths/recompute';
import { probability } from '../../parts/numbers';
import { texts } from '../../strings';

export interface AttentionTensors {
  place: AttentionPlace;
  queries: Token[];
  keys: Token[];
  rowLabels: string[];
  colLabels: string[];
  heads: number;
  /** 1 / √K, or 1 if the model does not scale. */
  scale: number;
  /** Whether the scores contain a bias besides q · k: then they cannot be recomputed from q and k. */
  biased: boolean;
  /** Whether q and k are rotated by position. */
  rotated: boolean;
  /** The what-if changes of the trace. */
  changes: unknown[];
  /** Whether the trace has more than the weights. */
  complete: boolean;
  q: Tensor;
  k: Tensor;
  v: Tensor;
  scores: Tensor;
  weights: Tensor;
  context: Tensor;
}

export async function loadAttention(exploration: Exploration, place: AttentionPlace): Promise<AttentionTensors> {
  const { config, positions } = exploration.manifest;
  const loading = exploration.tensor(`${place.name}.weights`);
  const names = ['q', 'k', 'v', 'scores', 'context'].map((name) => `${place.name}.${name}`);
  const others = exploration.weightsOnly
    ? tensorsFromWeights(await loading)
    : await Promise.all(names.map((name) => exploration.tensor(name)));
  const weights = await loading;
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
    biased: positions.biases && place.kind !== 'cross',
    rotated: positions.rotates && place.kind !== 'cross',
    changes: exploration.manifest.changes,
    complete: !exploration.weightsOnly,
    q,
    k,
    v,
    scores,
    weights,
    context,
  };
}

/** For a trace saved with weights only: empty q, k, v and z, and scores that are -∞ where the weight is 0. */
function tensorsFromWeights(weights: Tensor): Tensor[] {
  const none: Tensor = { values: new Float32Array(), shape: [weights.shape[0] ?? 0, 0, 0] };
  return [none, none, none, { ...weights, values: weights.values.map(Math.log) }, none];
}

/** One head of an attention. */
export interface Head {
  q: Grid;
  k: Grid;
  v: Grid;
  scores: Grid;
  weights: Grid;
  context: Grid;
  overrides: Overrides;
}

export function headOf(tensors: AttentionTensors, head: number): Head {
  const h = Math.min(head, tensors.heads - 1);
  const of = (tensor: Tensor) => grid(part(tensor, h));
  return {
    q: of(tensors.q),
    k: of(tensors.k),
    v: of(tensors.v),
    scores: of(tensors.scores),
    weights: of(tensors.weights),
    context: of(tensors.context),
    overrides: overridesOf(tensors.changes, tensors.place.name, h),
  };
}

export function isMasked(head: Head, query: number, key: number): boolean {
  return head.scores.values[query * head.scores.cols + key] === -Infinity;
}

/** The steps of one query in one head, and the largest difference between recomputed and recorded values. */
export interface QuerySteps {
  raw: number[];
  scaled: number[];
  scores: Float32Array;
  weights: Float32Array;
  z: Float32Array;
  /** null if a what-if replaces one of these steps. */
  difference: number | null;
}

export function querySteps(tensors: AttentionTensors, head: Head, query: number): QuerySteps {
  const q = row(head.q, query);
  const [scores, weights, z] = [row(head.scores, query), row(head.weights, query), row(head.context, query)];
  const raw = Array.from({ length: head.k.rows }, (_, j) => dot(q, row(head.k, j)));
  const scaled = raw.map((one) => one * tensors.scale);
  const visible = scaled.map((one, j) => (scores[j] === -Infinity ? -Infinity : one));
  const recomputedScores = tensors.biased ? Array.from(scores) : visible;
  const recomputed = softmax(recomputedScores);
  const difference = Math.max(
    tensors.biased ? 0 : largestDifference(visible, scores),
    largestDifference(recomputed, weights),
    largestDifference(weightedSum(recomputed, head.v), z),
  );
  const known = !head.overrides.scores && !head.overrides.context;
  return { raw, scaled, scores, weights, z, difference: known ? difference : null };
}

/** "it attends to animal, 0.31, rank 1 of 14" */
export function describeCell(tensors: AttentionTensors, head: Head, query: number, key: number): string {
  const [from, to] = [tensors.queries[query], tensors.keys[key]];
  if (from === undefined || to === undefined) return '';
  const words = texts.screen.attention;
  const subject = from.after === undefined ? positionPhrase(from) : `${positionPhrase(from)} it`;
  const name = quoted(to.after ?? to.text);
  if (isMasked(head, query, key)) return words.saysMasked(subject, name);
  const weights = row(head.weights, query);
  const order = ranking(weights, (j) => isMasked(head, query, j));
  return words.says(subject, name, probability(weights[key] ?? 0), order.indexOf(key) + 1, order.length);
}
