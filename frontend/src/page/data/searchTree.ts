// Search tree of a beam search: one node per hypothesis that was considered. Scores can be recomputed from the
// log-probabilities, also with another length penalty.
import type { BeamData, Fate } from '../../figures/types';
import type { Manifest } from './manifest';
import type { File } from './safetensors';

export interface SearchTree {
  /** Parent of each node; -1 for the start. */
  parent: number[];
  token: number[];
  piece: string[];
  /** Log-probability of each token, in nats. */
  log_probability: number[];
  score: number[];
  fate: Fate[];
  /** The nodes that finish a hypothesis, best first. */
  finished: number[];
  length_penalty: number;
  /** Maximum number of tokens of a hypothesis. */
  limit: number;
}

/** In the order of their codes in a file: `FATES` of `glassformer.decoding.search_tree`. */
const FATES: Fate[] = ['start', 'kept', 'finished', 'outranked', 'displaced', 'abandoned'];

/** The tree from the tensors `search.*` of a file, and its other parts from the manifest. */
export function readTree(file: File, { pieces, start_token, search, tree }: Manifest): SearchTree {
  const [parent, token, log_probability, score, fate] = ['parent', 'token', 'log_probability', 'score', 'fate'].map(
    (name) => file.list(`search.${name}`) ?? [],
  ) as [number[], number[], number[], number[], number[]];
  const rooted =
    parent.length > 0 && parent.every((before, node) => (node === 0 ? before === -1 : before >= 0 && before < node));
  if (!rooted || [token, log_probability, score, fate].some((list) => list.length !== parent.length)) {
    throw new Error('The search tree is invalid.');
  }
  const fates = fate.map((number) => FATES[number] ?? 'outranked');
  const finished = fates.flatMap((one, node) => (one === 'finished' ? [node] : []));
  finished.sort((a, b) => (score[b] as number) - (score[a] as number) || a - b);
  const piece = token.map((id, node) => pieces?.[String(id)] ?? (node === 0 ? start_token : String(id)));
  return {
    parent,
    token,
    piece,
    log_probability,
    score,
    fate: fates,
    finished,
    length_penalty: search.length_penalty,
    limit: tree?.limit ?? 0,
  };
}

/** The nodes from the start, without it, to this one. */
export function pathOf(tree: SearchTree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at > 0; at = tree.parent[at] as number) path.push(at);
  return path.reverse();
}

/** For every node: the number of its tokens, and the sum of their log-probabilities. */
export function sumsOf(tree: SearchTree): { length: number[]; sum: number[] } {
  const [length, sum] = [[0], [0]];
  for (let node = 1; node < tree.parent.length; node++) {
    const before = tree.parent[node] as number;
    length.push((length[before] as number) + 1);
    sum.push((sum[before] as number) + (tree.log_probability[node] as number));
  }
  return { length, sum };
}

/** log-probability / length ** penalty. */
export function penalised(sum: number, length: number, penalty: number): number {
  return length === 0 ? 0 : sum / length ** penalty;
}

export function scoresOf(tree: SearchTree, penalty: number): number[] {
  const { length, sum } = sumsOf(tree);
  return sum.map((one, node) => penalised(one, length[node] as number, penalty));
}

/** The finished hypotheses, best first by this penalty; ties in the order in which they were found. */
export function ranked(tree: SearchTree, penalty: number): { node: number; score: number }[] {
  const scores = scoresOf(tree, penalty);
  const finished = tree.finished.map((node) => ({ node, score: scores[node] as number }));
  return finished.sort((a, b) => b.score - a.score || a.node - b.node);
}

/** The tree in the form that figures take. */
export function beamData(tree: SearchTree, size: number): BeamData {
  const nodes = tree.parent.map((parent, node) => ({
    parent,
    text: tree.piece[node] as string,
    probability: Math.exp(tree.log_probability[node] as number),
    score: tree.score[node] as number,
    fate: tree.fate[node] as Fate,
  }));
  return { size, lengthPenalty: tree.length_penalty, nodes, finished: tree.finished, followed: null };
}
