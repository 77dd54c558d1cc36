// The tour: every step leads to itself, and every screen has one.
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../src/page/data/manifest';
import type { Source } from '../../src/page/data/source';
import { Exploration } from '../../src/page/data/trace';
import { stepAt, STEPS, stepsOf, patchFor } from '../../src/page/screens/tour';
import { validSelection } from '../../src/page/state/validSelection';
import { DEFAULTS } from '../../src/page/state/selection';

const side = {
  text: 'a b',
  ids: [1, 2],
  pieces: ['▁a', '▁b'],
  words: [
    [0, 1],
    [1, 2],
  ] as [number, number][],
};
const WHOLE = [
  'encoder.layers.*.feed_forward_norm.residual',
  'decoder.layers.*.feed_forward_norm.residual',
  'output.likeliest',
];
function made(encoder: number, decoder: number, recurrent = false, whole = true, live = true): Exploration {
  const tensors = [
    { name: 'memory', shape: [2, 4] },
    { name: 'encoder.layers.*.self_attention.weights', layers: encoder, shape: [1, 2, 2] },
    ...(recurrent ? [] : [{ name: 'decoder.layers.*.self_attention.weights', layers: decoder, shape: [1, 2, 2] }]),
    { name: 'decoder.layers.*.cross_attention.weights', layers: decoder, shape: [1, 2, 2] },
    ...(whole
      ? WHOLE.map((name) => ({
          name,
          layers: name.startsWith('e') ? encoder : name.startsWith('d') ? decoder : null,
          shape: [2, 4],
        }))
      : []),
  ];
  const manifest = {
    source: side,
    target: side,
    start_token: '<s>',
    tensors,
    parameters: [],
    shared: {},
    changes: [],
    config: { n_heads: 1 },
  };
  return new Exploration(manifest as unknown as Manifest, { live } as Source);
}

describe.each([
  [2, 2, false],
  [1, 6, false],
  [3, 1, true],
])('the tour of %i + %i layers', (encoder, decoder, recurrent) => {
  const exploration = made(encoder, decoder, recurrent);
  const steps = stepsOf(exploration);

  it('goes forward step by step, and back again', () => {
    let selection = validSelection(DEFAULTS, exploration);
    const at: number[] = [];
    for (const step of [...steps, ...[...steps].reverse()]) {
      selection = validSelection({ ...selection, ...patchFor(step, selection, exploration) }, exploration);
      at.push(stepAt(steps, selection, exploration));
    }
    const there = [...steps.keys()];
    expect(at).toEqual([...there, ...there.reverse()]);
  });

  it('leaves out what the model does not have', () => {
    expect(steps.some((step) => step.kind === 'decoder-self' && step.screen === 'attention')).toBe(!recurrent);
  });

  it('leaves out what a file does not contain', () => {
    const few = stepsOf(made(encoder, decoder, recurrent, false));
    expect(steps.filter((step) => !few.includes(step)).map((step) => step.screen)).toEqual([
      'sublayers',
      'sublayers',
      'softmax',
    ]);
  });

  it('stays in the selected layer', () => {
    const last = decoder - 1;
    const selection = {
      ...DEFAULTS,
      v: 'decoding',
      at: `decoder.layers.${last}.cross_attention`,
      q: 1,
      n: 7,
      part: 'feed_forward',
    };
    const step = steps.find((one) => one.screen === 'sublayers' && one.side === 'target');
    const patch = patchFor(step!, selection, exploration);
    expect({ ...selection, ...patch }).toMatchObject({ v: 'sublayers', at: selection.at, q: 1, n: null, part: '' });
  });
});

it('runs nothing without a model', () => {
  expect(stepsOf(made(1, 1, false, true, false)).some((step) => step.needsServer)).toBe(false);
  expect(stepsOf(made(1, 1)).some((step) => step.needsServer)).toBe(true);
});

it('waits for a sentence', () => {
  expect(stepsOf(null)).toEqual(STEPS.slice(0, 1));
});
