// Information on a node of the search tree: its fate, its hypothesis, its text.
import { pathOf, type SearchTree } from '../../data/searchTree';
import { texts } from '../../strings';

/** The same text as `glassformer.decoding.search_tree.SearchTree.why`. */
export function fateText(tree: SearchTree, node: number): string {
  const words = texts.screen.beam.fates;
  if (tree.fate[node] !== 'finished') return words[tree.fate[node] as 'kept'];
  const atLimit = pathOf(tree, node).length === tree.limit;
  return words.finished(tree.finished.indexOf(node) + 1, tree.finished.length, atLimit);
}

/** The finished hypothesis through a node: the followed one if it passes, else the best; by its number, 0 is the best. */
export function hypothesisThrough(tree: SearchTree, node: number, followed: number): number | null {
  const passes = (end: number) => node === 0 || pathOf(tree, end).includes(node);
  const current = tree.finished[followed];
  if (current !== undefined && passes(current)) return followed;
  const best = tree.finished.findIndex(passes);
  return best < 0 ? null : best;
}

/** Tokens joined to a text; ▁ is the space before a word. */
export function textOf(tree: SearchTree, nodes: number[]): string {
  const pieces = nodes.map((node) => tree.piece[node] as string).filter((piece) => !/^<.*>$/.test(piece));
  return pieces
    .join(pieces.some((piece) => piece.startsWith('▁')) ? '' : ' ')
    .replace(/▁/g, ' ')
    .trim();
}
