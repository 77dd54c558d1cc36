// The output layer: the decoder's output vector, the logits of the most likely tokens, and their recomputation.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { logSumExp, mean, softmaxAtTemperature } from '../../maths/output';
import { dot, entropy, largestDifference } from '../../maths/recompute';

export interface Output {
  /** T × n: token ids, the most likely first, and their logits. */
  ids: Grid;
  logits: Grid;
  logNormaliser: Float32Array;
  entropy: Float32Array;
  logProbability: Float32Array;
  /** Mean of all logits of a position; null in old files, which do not contain it. */
  meanLogit: Float32Array | null;
  /** Input of the output projection; null if a file does not contain it. */
  hidden: Grid | null;
}

export async function loadOutput(exploration: Exploration): Promise<Output> {
  const of = (name: string) => exploration.tensor(`output.${name}`);
  const last = `decoder.layers.${exploration.manifest.config.decoder_layers - 1}.hidden`;
  const [ids, logits, normaliser, entropies, logProbability] = await Promise.all(
    ['likeliest', 'likeliest_logits', 'log_normaliser', 'entropy', 'log_probability'].map(of),
  );
  const [meanLogit, normed, hidden] = await exploration.several('output.mean_logit', 'decoder.final_norm.output', last);
  const vector = normed ?? hidden;
  return {
    ids: grid(ids!),
    logits: grid(logits!),
    logNormaliser: normaliser!.values,
    entropy: entropies!.values,
    logProbability: logProbability!.values,
    meanLogit: meanLogit?.values ?? null,
    hidden: vector ? grid(vector) : null,
  };
}

export interface Candidate {
  id: number;
  rank: number | null;
  logit: number;
  /** At temperature 1. */
  p: number;
  /** Whether it is the token of the translation. */
  isTarget: boolean;
}

/** The most likely tokens of a position, and the target token if it is not among them. */
export function candidatesAt(output: Output, t: number, targetId: number | undefined): Candidate[] {
  const [ids, logits, logZ] = [row(output.ids, t), row(output.logits, t), output.logNormaliser[t] as number];
  const candidates: Candidate[] = Array.from(ids, (id, i) => {
    const logit = logits[i] as number;
    return { id, rank: i + 1, logit, p: Math.exp(logit - logZ), isTarget: id === targetId };
  });
  const log = output.logProbability[t];
  if (targetId !== undefined && log !== undefined && !candidates.some((one) => one.isTarget)) {
    candidates.push({ id: targetId, rank: null, logit: log + logZ, p: Math.exp(log), isTarget: true });
  }
  return candidates;
}

/** Recomputes log Z, the entropy and the target's log-probability from all logits: the largest difference. */
export function recomputeSoftmax(output: Output, t: number, all: Float32Array, targetId: number | undefined): number {
  const logZ = logSumExp(all);
  const recomputed = [logZ, entropy(softmaxAtTemperature(all, 1))];
  const recorded = [output.logNormaliser[t] as number, output.entropy[t] as number];
  if (targetId !== undefined && targetId < all.length) {
    recomputed.push((all[targetId] as number) - logZ);
    recorded.push(output.logProbability[t] as number);
  }
  if (output.meanLogit !== null) {
    recomputed.push(mean(all));
    recorded.push(output.meanLogit[t] as number);
  }
  return largestDifference(recomputed, recorded);
}

/** The input vector of the output projection. */
export function vectorAt(exploration: Exploration, output: Output, t: number): Float32Array | null {
  const { d_model, scale_output } = exploration.manifest.config;
  if (output.hidden === null) return null;
  const vector = row(output.hidden, t);
  return scale_output ? vector.map((one) => one / Math.sqrt(d_model)) : vector;
}

/** The rows of the output projection, and the biases, by token id. */
export type Rows = Map<number, { weight: Float32Array; bias: number }>;

const MATRIX = 'output_projection.weight';
// A matrix of up to this many numbers is fetched as a whole; of a larger one, single rows.
const AT_ONCE = 2 ** 18;

/** The parameter that the output projection is tied to; null if it has its own. */
export function tiedTo(exploration: Exploration): string | null {
  const owner = exploration.storage(MATRIX);
  return owner === MATRIX ? null : owner;
}

/** Whether rows are fetched one by one, because the matrix is large. */
export function isWide(exploration: Exploration): boolean {
  const shape = exploration.parameters.get(MATRIX)?.shape ?? [];
  return shape.reduce((product, one) => product * one, 1) > AT_ONCE;
}

/** The rows of these tokens; null if not available. */
export async function rowsOf(exploration: Exploration, ids: number[]): Promise<Rows | null> {
  const name = exploration.storage(MATRIX);
  const [biases, whole] = await Promise.all([
    exploration.weight('output_projection.bias'),
    isWide(exploration) ? null : exploration.weight(name),
  ]);
  const rowOf = async (id: number) =>
    whole === null ? ((await exploration.weight(name, { rows: String(id) }))?.values ?? null) : row(grid(whole), id);
  const weights = await Promise.all(ids.map(rowOf));
  const rows: Rows = new Map();
  ids.forEach((id, i) => {
    const weight = weights[i];
    if (weight) rows.set(id, { weight, bias: biases?.values[id] ?? 0 });
  });
  return rows.size === ids.length ? rows : null;
}

/** Recomputes vector · row + bias of each token: the largest difference from its logit. */
export function recomputeLogits(vector: Float32Array, rows: Rows, candidates: Candidate[]): number {
  const recomputed = candidates.map((one) => {
    const of = rows.get(one.id);
    return of === undefined ? NaN : dot(vector, of.weight) + of.bias;
  });
  return largestDifference(
    recomputed,
    candidates.map((one) => one.logit),
  );
}
