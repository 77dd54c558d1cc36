// What is said of a node: what became of it, and which hypothesis it belongs to.
import { pathOf, type Tree } from '../../data/tree';
import { texts } from '../../strings';

/** In the words of `glassformer.decoding.search_tree.Tree.why`. */
export function whyOf(tree: Tree, node: number): string {
  const words = texts.screen.beam.fates;
  if (tree.fate[node] !== 'ended') return words[tree.fate[node] as 'kept'];
  const atLimit = pathOf(tree, node).length === tree.limit;
  return words.ended(tree.ended.indexOf(node) + 1, tree.ended.length, atLimit);
}

/** The hypothesis that ended and goes through a node: the one that is followed if it does, else the best; by its number, the best is 0. */
export function through(tree: Tree, node: number, followed: number): number | null {
  const passes = (end: number) => node === 0 || pathOf(tree, end).includes(node);
  const own = tree.ended[followed];
  if (own !== undefined && passes(own)) return followed;
  const found = tree.ended.findIndex(passes);
  return found < 0 ? null : found;
}

/** Tokens put together to a text; ▁ stands for the space before a word. */
export function textOf(tree: Tree, nodes: number[]): string {
  const pieces = nodes.map((node) => tree.piece[node] as string).filter((piece) => !/^<.*>$/.test(piece));
  return pieces
    .join(pieces.some((piece) => piece.startsWith('▁')) ? '' : ' ')
    .replace(/▁/g, ' ')
    .trim();
}
