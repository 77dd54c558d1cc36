// The selection in the URL: written and read it is the same, and an invalid URL does no harm.
import { describe, expect, it } from 'vitest';
import { forcedIds, fromHash, DEFAULTS, TABS, toHash, type Selection } from '../../src/page/state/selection';

const SOME: Selection[] = [
  DEFAULTS,
  { ...DEFAULTS, v: 'attention', at: 'encoder.layers.1.self_attention', h: 1, q: 10, tab: 'compare' },
  { ...DEFAULTS, v: 'memory', s: 'Ça va & "toi"? 50 % #1 =+', t: 'עברית 日本語', b: 8, k: 0 },
  { ...DEFAULTS, v: 'sublayers', at: 'decoder.layers.0.cross_attention', part: 'feed_forward', n: 0 },
  { ...DEFAULTS, v: 'beam', y: 2, f: '282.341', node: 17, a: 60 },
  { ...DEFAULTS, v: 'pronoun', pronoun: 'it#2', c: 'animal,car park', i: 'tired=wide' },
  ...TABS.map((tab) => ({ ...DEFAULTS, tab })),
];

describe('a selection', () => {
  it.each(SOME)('is restored from its URL', (one) => {
    expect(fromHash(toHash(one))).toEqual(one);
    expect(toHash(fromHash(toHash(one)))).toBe(toHash(one));
  });

  it('is read from a documented URL', () => {
    const found = fromHash('#v=attention&at=encoder.layers.1.self_attention&h=1&q=10&tab=token');
    expect(found).toEqual({
      ...DEFAULTS,
      v: 'attention',
      at: 'encoder.layers.1.self_attention',
      h: 1,
      q: 10,
      tab: 'token',
    });
  });

  it.each(['', '#', '#v', '#h=-1&q=1e9&b=x', '#tab=constructor&k=0.5', '#%', '#q=99999999999'])(
    'has its defaults where %s is invalid',
    (hash) => {
      expect({ ...fromHash(hash), v: DEFAULTS.v }).toEqual(DEFAULTS);
    },
  );

  it('forces only valid ids', () => {
    expect(forcedIds({ f: '282.341' })).toEqual([282, 341]);
    for (const f of ['', '1.', '-1', 'x', '1e9', '1234567890']) expect(forcedIds({ f })).toEqual([]);
  });
});
