// Layout of the search tree in pixels: time to the right, branches below each other. Pure. `layout` of the figures
// determines the runs of tokens, and which runs continue in the same row.
import { tokenText } from '../../../figures/text';
import type { BeamNode } from '../../../figures/types';
import { isRetained, layout, type Run } from '../../../figures/views/beam';
import { textWidth } from '../../../figures/textWidth';
import { beamData, type SearchTree } from '../../data/searchTree';

export const CELL = 56;
export const ROW = 65;
export const TOP = 22;
const GAP = 18;
const MIN_COLUMN_WIDTH = 56;
const MAX_COLUMN_WIDTH = 124;
const FONT = 15;
/** Width after a finished hypothesis, for rank and score. */
export const LABEL = 136;

export interface Cell {
  node: number;
  depth: number;
  row: number;
  x: number;
  y: number;
  width: number;
}

/** A run of tokens as one frame. */
export interface Box {
  first: number;
  last: number;
  x: number;
  y: number;
  width: number;
  /** SVG path from the previous run. */
  edge: string;
}

export interface TreeLayout {
  cells: Map<number, Cell>;
  /** The drawn children of each node, from the top down. */
  children: Map<number, number[]>;
  /** The drawn nodes of each step, from the top down. */
  steps: number[][];
  boxes: Box[];
  columns: { x: number; width: number }[];
  width: number;
  height: number;
}

/** Whether a node was dropped at its step. */
export function isDropped(tree: SearchTree, node: number): boolean {
  return tree.fate[node] === 'outranked' || tree.fate[node] === 'displaced';
}

/** Number of dropped continuations of each node. */
export function droppedOf(tree: SearchTree): number[] {
  const count = tree.parent.map(() => 0);
  tree.parent.forEach((parent, node) => {
    if (parent >= 0 && isDropped(tree, node)) count[parent] = (count[parent] as number) + 1;
  });
  return count;
}

/** `opened`: the nodes whose dropped continuations are drawn too. */
export function layoutTree(tree: SearchTree, opened: ReadonlySet<number>): TreeLayout {
  const data = beamData(tree, 0);
  const runs = layout(data, (node) => isRetained(node) || opened.has(node.parent));
  const columns = columnsOf(data.nodes, runs);
  const at = (depth: number) => columns[depth] as { x: number; width: number };
  const start: Cell = { node: 0, depth: 0, row: 0, ...at(0), y: TOP };
  const cells = new Map([[0, start]]);
  const rows = rowsOf(tree, runs, columns);
  const boxes: Box[] = [{ first: 0, last: 0, x: start.x, y: start.y, width: start.width, edge: '' }];
  for (const run of runs) {
    const row = rows.get(run.row) as number;
    run.nodes.forEach((node, i) => {
      cells.set(node, { node, depth: run.from + i, row, ...at(run.from + i), y: TOP + row * ROW });
    });
    const [first, last] = [run.nodes[0] as number, run.nodes[run.nodes.length - 1] as number];
    const { x, y } = cells.get(first) as Cell;
    const width = at(run.to).x + at(run.to).width - x;
    const from = cells.get(tree.parent[first] as number) as Cell;
    const edge = `M${from.x + from.width} ${from.y + CELL / 2}H${x - GAP / 2}V${y + CELL / 2}H${x}`;
    boxes.push({ first, last, x, y, width, edge });
  }
  const end = at(columns.length - 1);
  const height = TOP + (1 + Math.max(0, ...rows.values())) * ROW;
  return { cells, ...relations(tree, cells), boxes, columns, width: end.x + end.width + LABEL, height };
}

type Span = [number, number];

/** Rows of the figure's layout -> rows shared by short branches; no two overlap, and no edge crosses a frame. */
function rowsOf(tree: SearchTree, runs: Run[], columns: { x: number; width: number }[]): Map<number, number> {
  const taken: Span[][] = [];
  const free = (row: number, [from, to]: Span) => (taken[row] ?? []).every(([a, b]) => to <= a || b <= from);
  const rows = new Map<number, number>();
  // A row of the figure is a branch with its straight continuations. Branches further right come first there, so a
  // branch that leaves earlier passes them on their left.
  for (const run of runs) {
    if (rows.has(run.row)) continue;
    const straight = runs.filter((one) => one.row === run.row);
    const end = straight[straight.length - 1] as Run;
    const [first, last] = [columns[run.from], columns[end.to]] as [
      { x: number; width: number },
      { x: number; width: number },
    ];
    const labelled = tree.fate[end.nodes[end.nodes.length - 1] as number] === 'finished';
    const span: Span = [first.x - GAP, last.x + last.width + (labelled ? LABEL : 0)];
    const above = run.parent === null ? -1 : (rows.get(run.parent.row) as number);
    const line: Span = [first.x - GAP, first.x];
    let row = run.parent === null && rows.size === 0 ? 0 : Math.max(1, above + 1);
    while (!free(row, span)) row++;
    for (let between = Math.max(0, above) + 1; between < row; between++) (taken[between] ??= []).push(line);
    (taken[row] ??= []).push(span);
    rows.set(run.row, row);
  }
  return rows;
}

function columnsOf(nodes: BeamNode[], runs: Run[]): { x: number; width: number }[] {
  const widths = [MIN_COLUMN_WIDTH];
  for (const run of runs) {
    run.nodes.forEach((node, i) => {
      const width = textWidth(tokenText((nodes[node] as BeamNode).text), FONT) + 16;
      const depth = run.from + i;
      widths[depth] = Math.max(widths[depth] ?? MIN_COLUMN_WIDTH, Math.min(MAX_COLUMN_WIDTH, Math.ceil(width)));
    });
  }
  let x = 2;
  return widths.map((width) => {
    const column = { x, width };
    x += width + GAP;
    return column;
  });
}

function relations(tree: SearchTree, cells: Map<number, Cell>): Pick<TreeLayout, 'children' | 'steps'> {
  const children = new Map<number, number[]>();
  const steps: number[][] = [];
  const inOrder = [...cells.values()].sort((a, b) => a.row - b.row);
  for (const { node, depth } of inOrder) {
    (steps[depth] ??= []).push(node);
    const parent = tree.parent[node] as number;
    if (parent >= 0) children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  return { children, steps };
}

/** The node that a key moves to: the parent, the best child, or another node of the same step; null for other keys. */
export function nextNode(key: string, node: number, tree: SearchTree, drawing: TreeLayout): number | null {
  const depth = drawing.cells.get(node)?.depth ?? 0;
  const step = drawing.steps[depth] ?? [node];
  const place = step.indexOf(node);
  switch (key) {
    case 'ArrowLeft':
      return Math.max(0, tree.parent[node] as number);
    case 'ArrowRight':
      return drawing.children.get(node)?.[0] ?? node;
    case 'ArrowUp':
      return step[place - 1] ?? node;
    case 'ArrowDown':
      return step[place + 1] ?? node;
    case 'Home':
      return 0;
    case 'End': {
      let last = node;
      for (let next: number | undefined = node; next !== undefined; next = drawing.children.get(last)?.[0]) last = next;
      return last;
    }
    default:
      return null;
  }
}
