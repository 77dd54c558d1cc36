// Search tree of a beam search: one node per hypothesis that was considered. Scores can be recomputed from the
// log-probabilities, also with another length penalty.
import type { BeamData, Fate } from '../../figures/types';
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
  ended: number[];
  length_penalty: number;
  /** Maximum number of tokens of a hypothesis. */
  limit: number;
}

/** As sent by the server: JSON has no infinity. */
export type TreeResponse = Omit<SearchTree, 'log_probability' | 'score'> & {
  log_probability: (number | null)[];
  score: (number | null)[];
};

export function treeFromResponse(response: TreeResponse): SearchTree {
  const filled = (list: (number | null)[]) => list.map((one) => one ?? -Infinity);
  return { ...response, log_probability: filled(response.log_probability), score: filled(response.score) };
}

/** In the order of their codes in a file. */
const FATES: Fate[] = ['start', 'kept', 'ended', 'outranked', 'displaced', 'abandoned'];

interface TraceInfo {
  start_token: string;
  pieces: Record<string, string>;
  search: { length_penalty: number };
  limit: number;
}

/** The tree of a file written by `Trace.save`; null if the target was given. */
export function treeFromFile(file: File): SearchTree | null {
  const [parent, token, log_probability, score, fate] = ['parent', 'token', 'log_probability', 'score', 'fate'].map(
    (name) => file.list(`search.${name}`),
  );
  if (!parent || !token || !log_probability || !score || !fate) return null;
  const info = JSON.parse(file.metadata['glassformer.trace'] ?? '{}') as TraceInfo;
  const rooted = parent.every((before, node) => (node === 0 ? before === -1 : before >= 0 && before < node));
  if (!rooted || [token, log_probability, score, fate].some((list) => list.length !== parent.length)) {
    throw new Error('The file’s search tree is invalid.');
  }
  const fates = fate.map((number) => FATES[number] ?? 'outranked');
  const ended = fates.flatMap((one, node) => (one === 'ended' ? [node] : []));
  ended.sort((a, b) => (score[b] as number) - (score[a] as number) || a - b);
  const piece = token.map((id, node) => info.pieces[String(id)] ?? (node === 0 ? info.start_token : String(id)));
  return {
    parent,
    token,
    piece,
    log_probability,
    score,
    fate: fates,
    ended,
    length_penalty: info.search.length_penalty,
    limit: info.limit,
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
  const finished = tree.ended.map((node) => ({ node, score: scores[node] as number }));
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
  return { size, lengthPenalty: tree.length_penalty, nodes, ended: tree.ended, followed: null };
}
