// The end of the decoder: its last vector, the logits of the likeliest tokens, what they come to.
import { grid, row, type Grid } from '../../data/tensor';
import type { Exploration } from '../../data/trace';
import { logSumExp, mean, tempered } from '../../maths/output';
import { dot, entropy, largestDifference } from '../../maths/recompute';

export interface Output {
  /** T × n: token ids, the likeliest first, and their logits. */
  ids: Grid;
  logits: Grid;
  logNormaliser: Float32Array;
  entropy: Float32Array;
  logProbability: Float32Array;
  /** Of all logits of a position; null in files from before it was kept. */
  meanLogit: Float32Array | null;
  /** What the output projection gets; null where a file left it out. */
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
  /** Whether it is the one that was written, or given. */
  wanted: boolean;
}

/** The likeliest tokens of a position; and the one that stands there, if it is none of them. */
export function candidatesAt(output: Output, t: number, wanted: number | undefined): Candidate[] {
  const [ids, logits, logZ] = [row(output.ids, t), row(output.logits, t), output.logNormaliser[t] as number];
  const found: Candidate[] = Array.from(ids, (id, i) => {
    const logit = logits[i] as number;
    return { id, rank: i + 1, logit, p: Math.exp(logit - logZ), wanted: id === wanted };
  });
  const log = output.logProbability[t];
  if (wanted !== undefined && log !== undefined && !found.some((one) => one.wanted)) {
    found.push({ id: wanted, rank: null, logit: log + logZ, p: Math.exp(log), wanted: true });
  }
  return found;
}

/** From the logits of all tokens again: log Z, the entropy, and how likely what stands there is. */
export function redoSoftmax(output: Output, t: number, all: Float32Array, wanted: number | undefined): number {
  const logZ = logSumExp(all);
  const again = [logZ, entropy(tempered(all, 1))];
  const kept = [output.logNormaliser[t] as number, output.entropy[t] as number];
  if (wanted !== undefined && wanted < all.length) {
    again.push((all[wanted] as number) - logZ);
    kept.push(output.logProbability[t] as number);
  }
  if (output.meanLogit !== null) {
    again.push(mean(all));
    kept.push(output.meanLogit[t] as number);
  }
  return largestDifference(again, kept);
}

/** The decoder's last vector as the output projection wants it. */
export function vectorAt(exploration: Exploration, output: Output, t: number): Float32Array | null {
  const { d_model, scale_output } = exploration.manifest.config;
  if (output.hidden === null) return null;
  const vector = row(output.hidden, t);
  return scale_output ? vector.map((one) => one / Math.sqrt(d_model)) : vector;
}

/** The rows of the output projection, and the biases, by token id. */
export type Rows = Map<number, { weight: Float32Array; bias: number }>;

const MATRIX = 'output_projection.weight';
// A matrix below this many numbers is fetched whole, once; of a larger one the rows that are asked for.
const AT_ONCE = 2 ** 18;

/** Whose numbers the output projection has; null where they are its own. */
export function tiedTo(exploration: Exploration): string | null {
  const owner = exploration.storage(MATRIX);
  return owner === MATRIX ? null : owner;
}

/** Whether rows have to be fetched one by one, because the whole matrix is large. */
export function isWide(exploration: Exploration): boolean {
  const shape = exploration.parameters.get(MATRIX)?.shape ?? [];
  return shape.reduce((product, one) => product * one, 1) > AT_ONCE;
}

/** The rows of these tokens; null where they are not to be had. */
export async function rowsOf(exploration: Exploration, ids: number[]): Promise<Rows | null> {
  const name = exploration.storage(MATRIX);
  const [biases, whole] = await Promise.all([
    exploration.weight('output_projection.bias'),
    isWide(exploration) ? null : exploration.weight(name),
  ]);
  const rowOf = async (id: number) =>
    whole === null ? ((await exploration.weight(name, { rows: String(id) }))?.values ?? null) : row(grid(whole), id);
  const weights = await Promise.all(ids.map(rowOf));
  const found: Rows = new Map();
  ids.forEach((id, i) => {
    const weight = weights[i];
    if (weight) found.set(id, { weight, bias: biases?.values[id] ?? 0 });
  });
  return found.size === ids.length ? found : null;
}

/** vector · row + bias of each token again: the largest difference to its logit. */
export function redoLogits(vector: Float32Array, rows: Rows, candidates: Candidate[]): number {
  const again = candidates.map((one) => {
    const of = rows.get(one.id);
    return of === undefined ? NaN : dot(vector, of.weight) + of.bias;
  });
  return largestDifference(
    again,
    candidates.map((one) => one.logit),
  );
}
