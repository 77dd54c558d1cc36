// Complete figures, from small hand-made data.
import { describe as group, expect, it } from 'vitest';
import { describe, render, views } from '../src/figures/index';
import type { AttentionData, BeamData, BeamNode, Fate, Matrix } from '../src/figures/types';
import { layout } from '../src/figures/views/beam';
import { chosenSteps } from '../src/figures/views/decodingSteps';
import { drawnIndices } from '../src/figures/views/multiHead';

const node = (parent: number, text: string, fate: Fate, probability = 0.5): BeamNode => ({
  parent,
  text,
  probability,
  score: -probability,
  fate,
});

// <s> a b c </s> is the best; d is dropped; "x y" is finished too.
const TREE: BeamData = {
  size: 2,
  lengthPenalty: 1,
  nodes: [
    node(-1, '<s>', 'start'),
    node(0, 'a', 'kept'),
    node(0, 'x', 'kept'),
    node(1, 'b', 'kept'),
    node(1, 'd', 'outranked'),
    node(2, 'y', 'kept'),
    node(3, 'c', 'kept'),
    node(5, '</s>', 'finished'),
    node(6, '</s>', 'finished'),
  ],
  finished: [8, 7],
  followed: 8,
};

function square(size: number, hidden = false): Matrix {
  const values = Array.from({ length: size * size }, (_, i) =>
    hidden && i % size > Math.floor(i / size) ? null : 1 / size,
  );
  return { rows: size, cols: size, values };
}

function attentionOf(size: number, hidden = false): AttentionData {
  const tokens = Array.from({ length: size }, (_, i) => ({ text: `▁t${i}` }));
  return {
    place: { stack: 'decoder', layer: 0, kind: 'self' },
    heads: 1,
    head: 0,
    token: null,
    queries: tokens,
    keys: tokens,
    scaled: true,
    biased: false,
    linearBias: true,
    rotated: false,
    causal: hidden,
    weights: [square(size, hidden)],
  };
}

group('every figure', () => {
  it('has a name; unknown names are errors', () => {
    expect(views).toContain('cross-attention');
    expect(() => render('nonsense', {})).toThrow('There is no view nonsense');
  });
  it('is the same every time, and described in its own file', () => {
    const [once, again] = [render('beam', TREE), render('beam', TREE)];
    expect(once).toBe(again);
    expect(once).toContain(describe('beam', TREE).slice(0, 40));
  });
  it('embeds an image only for many cells', () => {
    expect(render('attention', attentionOf(50))).not.toContain('<image');
    expect(render('attention', attentionOf(51))).toContain('<image');
  });
  it('hatches masked cells', () => {
    expect(render('attention', attentionOf(5))).not.toContain('<pattern');
    expect(render('attention', attentionOf(5, true))).toContain('<pattern');
  });
  it('can omit the caption, but never the description', () => {
    const bare = render('beam', TREE, { caption: false });
    expect(bare).toContain('<desc');
    expect(bare.length).toBeLessThan(render('beam', TREE).length);
  });
});

group('the search tree', () => {
  const runs = layout(TREE);
  it('puts tokens without a branch into one box', () => {
    expect(runs.map((run) => run.nodes)).toEqual([
      [1, 3, 6, 8],
      [2, 5, 7],
    ]);
  });
  it('has the best path in the first row, and the boxes do not overlap', () => {
    expect(runs.map((run) => [run.row, run.best])).toEqual([
      [0, true],
      [1, false],
    ]);
  });
  it('counts steps from the start', () => {
    expect(runs.map((run) => [run.from, run.to])).toEqual([
      [1, 4],
      [1, 3],
    ]);
  });
});

group('omitted', () => {
  it('are steps in the middle', () => {
    expect(chosenSteps(3)).toEqual([0, 1, 2]);
    const many = chosenSteps(60);
    expect([many[0], many[many.length - 1]]).toEqual([0, 59]);
    expect(new Set(many).size).toBe(many.length);
    expect(many.length).toBeLessThanOrEqual(14);
  });
  it('are heads before the last', () => {
    expect(drawnIndices(3)).toEqual([0, 1, 2]);
    expect(drawnIndices(16)).toEqual([0, 1, 2, 3, 4, 5, null, 15]);
  });
});
