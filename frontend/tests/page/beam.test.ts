// Search tree: scores follow from log-probabilities, the layout has no overlaps, every node can be reached by keys.
import { describe, expect, it } from 'vitest';
import type { Fate } from '../../src/figures/types';
import { readSafetensors } from '../../src/page/data/safetensors';
import type { Manifest } from '../../src/page/data/manifest';
import { pathOf, penalised, ranked, scoresOf, readTree, type SearchTree } from '../../src/page/data/searchTree';
import { CELL, layoutTree, droppedOf, isDropped, nextNode } from '../../src/page/screens/beam/treeLayout';
import { textOf, hypothesisThrough, fateText } from '../../src/page/screens/beam/nodes';

let seed = 7;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

/** A random beam search: at every step each hypothesis has some continuations, and the best few are kept. */
function searched(size: number, steps: number, penalty: number): SearchTree {
  const tree: SearchTree = {
    parent: [-1],
    token: [0],
    piece: ['<s>'],
    log_probability: [0],
    score: [0],
    fate: ['start'],
    finished: [],
    length_penalty: penalty,
    limit: steps,
  };
  let growing = [{ node: 0, sum: 0, length: 0 }];
  for (let step = 1; step <= steps && growing.length > 0; step++) {
    const ways = growing.flatMap((from) =>
      Array.from({ length: 2 * size }, (_, i) => {
        const log = -4 * chance() * (i + 1);
        return {
          from,
          token: Math.floor(50 * chance()),
          log,
          sum: from.sum + log,
          ends: step > 2 && (chance() < 0.15 || step === steps),
        };
      }),
    );
    ways.sort((a, b) => b.sum - a.sum);
    const next: typeof growing = [];
    ways.forEach((way, rank) => {
      const node = tree.parent.length;
      const kept = !way.ends && next.length < size;
      const fate: Fate =
        way.ends && rank < size
          ? 'finished'
          : kept
            ? step === steps - 1 && chance() < 0.3
              ? 'abandoned'
              : 'kept'
            : 'outranked';
      tree.parent.push(way.from.node);
      tree.token.push(way.token);
      tree.piece.push(way.ends ? '</s>' : `▁word${way.token}`);
      tree.log_probability.push(way.log);
      tree.score.push(penalised(way.sum, way.from.length + 1, penalty));
      tree.fate.push(fate);
      if (kept && fate === 'kept') next.push({ node, sum: way.sum, length: way.from.length + 1 });
    });
    growing = next;
  }
  tree.finished = tree.fate.flatMap((fate, node) => (fate === 'finished' ? [node] : []));
  tree.finished.sort((a, b) => (tree.score[b] as number) - (tree.score[a] as number) || a - b);
  return tree;
}

const TREES = [searched(1, 6, 0), searched(3, 8, 1), searched(5, 60, 1), searched(8, 30, 0.6)];

describe.each(TREES.map((tree) => ({ tree, nodes: tree.parent.length })))('a tree of $nodes nodes', ({ tree }) => {
  it('has scores that follow from its log-probabilities, and with its own penalty its own order', () => {
    expect(scoresOf(tree, tree.length_penalty)).toEqual(tree.score);
    expect(ranked(tree, tree.length_penalty).map(({ node }) => node)).toEqual(tree.finished);
  });

  it('is re-ranked by sum / length ** penalty, and by the sum alone without a penalty', () => {
    for (const penalty of [0, 0.35, 1, 2]) {
      const order = ranked(tree, penalty);
      for (const { node, score } of order) {
        const path = pathOf(tree, node);
        const sum = path.reduce((total, one) => total + (tree.log_probability[one] as number), 0);
        expect(score).toBeCloseTo(sum / path.length ** penalty, 10);
      }
      expect(order.map(({ score }) => score)).toEqual(order.map(({ score }) => score).sort((a, b) => b - a));
      expect(new Set(order.map(({ node }) => node))).toEqual(new Set(tree.finished));
    }
  });

  const opened = new Set([tree.parent[1] as number, tree.parent[tree.parent.length - 1] as number]);
  it.each([new Set<number>(), opened])('is drawn without overlaps, children to the right of their parents', (open) => {
    const drawing = layoutTree(tree, open);
    const drawn = tree.fate.flatMap((_, node) =>
      !isDropped(tree, node) || open.has(tree.parent[node] as number) ? [node] : [],
    );
    expect([...drawing.cells.keys()].sort((a, b) => a - b)).toEqual(drawn);
    const wrong = [...drawing.cells.values()].filter((cell) => {
      const parent = drawing.cells.get(tree.parent[cell.node] as number);
      const outside = cell.x + cell.width > drawing.width || cell.y + CELL > drawing.height;
      return outside || (parent !== undefined && cell.x < parent.x + parent.width);
    });
    expect(wrong).toEqual([]);
    const apart = (a: (typeof drawing.boxes)[0], b: (typeof drawing.boxes)[0]) =>
      a.y !== b.y || a.x + a.width <= b.x || b.x + b.width <= a.x;
    expect(drawing.boxes.filter((a, i) => drawing.boxes.slice(i + 1).some((b) => !apart(a, b)))).toEqual([]);
  });

  it('has edges that cross no frame', () => {
    const drawing = layoutTree(tree, opened);
    for (const { edge } of drawing.boxes.slice(1)) {
      const [, from, x, to] = /^M\S+ (\S+)H(\S+)V(\S+)H/.exec(edge) as unknown as [string, string, string, string];
      const [top, bottom] = [Math.min(Number(from), Number(to)), Math.max(Number(from), Number(to))];
      const over = drawing.boxes.filter(
        (box) => box.x < Number(x) && Number(x) < box.x + box.width && box.y + CELL > top && box.y < bottom,
      );
      expect(over).toEqual([]);
    }
  });

  it('can be navigated completely by arrow keys', () => {
    const drawing = layoutTree(tree, opened);
    const seen = new Set([0]);
    const waiting = [0];
    for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
      for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End']) {
        const next = nextNode(key, node, tree, drawing);
        if (next === null) throw new Error(key);
        expect(drawing.cells.has(next)).toBe(true);
        if (!seen.has(next)) waiting.push(next);
        seen.add(next);
      }
    }
    expect(seen).toEqual(new Set(drawing.cells.keys()));
    expect(nextNode('a', 0, tree, drawing)).toBeNull();
  });

  it('merges tokens without a branch: fewer frames than tokens, and few enough elements for a page', () => {
    const drawing = layoutTree(tree, new Set());
    expect(drawing.boxes.length).toBeLessThanOrEqual(drawing.cells.size);
    expect(3 * drawing.cells.size + 3 * drawing.boxes.length).toBeLessThan(4000);
  });

  it('tells the fate of every node, and its hypothesis', () => {
    const dropped = droppedOf(tree);
    expect(dropped.reduce((sum, one) => sum + one, 0)).toBe(
      tree.fate.filter((_, node) => isDropped(tree, node)).length,
    );
    tree.finished.forEach((end, place) => {
      expect(fateText(tree, end)).toMatch(new RegExp(`^finished.*, number ${place + 1} of ${tree.finished.length}$`));
      expect(hypothesisThrough(tree, end, 0)).toBe(place);
      expect(textOf(tree, pathOf(tree, end))).not.toContain('▁');
      expect(pathOf(tree, end).filter((node) => hypothesisThrough(tree, node, place) !== place)).toEqual([]);
    });
    const silent = tree.fate.filter(
      (fate, node) =>
        (isDropped(tree, node) && hypothesisThrough(tree, node, 0) !== null) ||
        (fate !== 'finished' && !fateText(tree, node)),
    );
    expect(silent).toEqual([]);
  });
});

const manifestOf = (tree: SearchTree) =>
  ({
    start_token: '<s>',
    pieces: Object.fromEntries(tree.token.slice(1).map((id, i) => [String(id), tree.piece[i + 1]])),
    search: { length_penalty: tree.length_penalty },
    tree: { limit: tree.limit },
  }) as Manifest;

/** A file as the server sends it, with the tensors of a search only. */
function saved(tree: SearchTree): ArrayBuffer {
  const fates: Fate[] = ['start', 'kept', 'finished', 'outranked', 'displaced', 'abandoned'];
  const parts: [string, string, Uint8Array][] = [
    ['search.parent', 'I32', new Uint8Array(Int32Array.from(tree.parent).buffer)],
    ['search.token', 'I32', new Uint8Array(Int32Array.from(tree.token).buffer)],
    ['search.log_probability', 'F64', new Uint8Array(Float64Array.from(tree.log_probability).buffer)],
    ['search.score', 'F64', new Uint8Array(Float64Array.from(tree.score).buffer)],
    ['search.fate', 'U8', Uint8Array.from(tree.fate.map((fate) => fates.indexOf(fate)))],
  ];
  const list: Record<string, unknown> = {};
  let end = 0;
  for (const [name, dtype, bytes] of parts)
    list[name] = { dtype, shape: [tree.parent.length], data_offsets: [end, (end += bytes.length)] };
  const header = new TextEncoder().encode(JSON.stringify(list));
  const whole = new Uint8Array(8 + header.length + end);
  new DataView(whole.buffer).setBigUint64(0, BigInt(header.length), true);
  whole.set(header, 8);
  let at = 8 + header.length;
  for (const [, , bytes] of parts) {
    whole.set(bytes, at);
    at += bytes.length;
  }
  return whole.buffer;
}

describe('a tree in a file', () => {
  it('is the one that was saved, to the last digit, with -∞', () => {
    const tree = { ...searched(2, 7, 1) };
    tree.token = tree.token.map((_, node) => node); // every token has one piece
    tree.log_probability[tree.parent.length - 1] = tree.score[tree.parent.length - 1] = -Infinity;
    expect(readTree(readSafetensors(saved(tree)), manifestOf(tree))).toEqual(tree);
  });

  it('is refused if it is absent, or if a parent comes after its child', () => {
    const tree = searched(2, 4, 1);
    const empty = readSafetensors(new Uint8Array([2, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x7d]).buffer);
    expect(() => readTree(empty, manifestOf(tree))).toThrow('search tree is invalid');
    tree.parent[1] = 3;
    expect(() => readTree(readSafetensors(saved(tree)), manifestOf(tree))).toThrow('search tree is invalid');
  });
});
