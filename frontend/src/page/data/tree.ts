// A search to look back on: every hypothesis that it looked at, a node each. Its scores can be made again from its
// log-probabilities, and with another length penalty.
import type { BeamData, Fate } from '../../figures/types';
import type { File } from './safetensors';

export interface Tree {
  /** The node before; -1 at the start. */
  parent: number[];
  token: number[];
  piece: string[];
  /** Of the token, in nats. */
  log_probability: number[];
  score: number[];
  fate: Fate[];
  /** The nodes that end a target, best first. */
  ended: number[];
  length_penalty: number;
  /** Tokens that a hypothesis may have. */
  limit: number;
}

/** As the server writes it: JSON knows no infinity. */
export type SentTree = Omit<Tree, 'log_probability' | 'score'> & {
  log_probability: (number | null)[];
  score: (number | null)[];
};

export function received(sent: SentTree): Tree {
  const filled = (list: (number | null)[]) => list.map((one) => one ?? -Infinity);
  return { ...sent, log_probability: filled(sent.log_probability), score: filled(sent.score) };
}

/** In the order of their numbers in a file. */
const FATES: Fate[] = ['start', 'kept', 'ended', 'outranked', 'displaced', 'abandoned'];

interface About {
  first: string;
  pieces: Record<string, string>;
  search: { length_penalty: number };
  limit: number;
}

/** The tree of a file that `Trace.save` wrote; null where the target was given. */
export function treeOfFile(file: File): Tree | null {
  const [parent, token, log_probability, score, fate] = ['parent', 'token', 'log_probability', 'score', 'fate'].map(
    (name) => file.list(`search.${name}`),
  );
  if (!parent || !token || !log_probability || !score || !fate) return null;
  const about = JSON.parse(file.metadata['glassformer.trace'] ?? '{}') as About;
  const rooted = parent.every((own, node) => (node === 0 ? own === -1 : own >= 0 && own < node));
  if (!rooted || [token, log_probability, score, fate].some((list) => list.length !== parent.length)) {
    throw new Error('The file’s tree of hypotheses is none.');
  }
  const fates = fate.map((number) => FATES[number] ?? 'outranked');
  const ended = fates.flatMap((one, node) => (one === 'ended' ? [node] : []));
  ended.sort((a, b) => (score[b] as number) - (score[a] as number) || a - b);
  const piece = token.map((id, node) => about.pieces[String(id)] ?? (node === 0 ? about.first : String(id)));
  return {
    parent,
    token,
    piece,
    log_probability,
    score,
    fate: fates,
    ended,
    length_penalty: about.search.length_penalty,
    limit: about.limit,
  };
}

/** The nodes from behind the start to this one. */
export function pathOf(tree: Tree, node: number): number[] {
  const way: number[] = [];
  for (let at = node; at > 0; at = tree.parent[at] as number) way.push(at);
  return way.reverse();
}

/** Of every node: how many tokens it has, and the sum of their log-probabilities. */
export function sumsOf(tree: Tree): { length: number[]; sum: number[] } {
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

export function scoresOf(tree: Tree, penalty: number): number[] {
  const { length, sum } = sumsOf(tree);
  return sum.map((one, node) => penalised(one, length[node] as number, penalty));
}

/** The hypotheses that ended, best first by this penalty; of equals, the one found first. */
export function ranked(tree: Tree, penalty: number): { node: number; score: number }[] {
  const scores = scoresOf(tree, penalty);
  const found = tree.ended.map((node) => ({ node, score: scores[node] as number }));
  return found.sort((a, b) => b.score - a.score || a.node - b.node);
}

/** As figures draw it. */
export function dataOf(tree: Tree, size: number): BeamData {
  const nodes = tree.parent.map((parent, node) => ({
    parent,
    text: tree.piece[node] as string,
    probability: Math.exp(tree.log_probability[node] as number),
    score: tree.score[node] as number,
    fate: tree.fate[node] as Fate,
  }));
  return { size, lengthPenalty: tree.length_penalty, nodes, ended: tree.ended, followed: null };
}
