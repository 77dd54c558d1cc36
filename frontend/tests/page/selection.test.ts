// An address is a view: written and read again it is the same, and a stranger's address does no harm.
import { describe, expect, it } from 'vitest';
import { forcedIds, fromHash, START, TABS, toHash, type Selection } from '../../src/page/state/selection';

const SOME: Selection[] = [
  START,
  { ...START, v: 'attention', at: 'encoder.layers.1.self_attention', h: 1, q: 10, tab: 'compare' },
  { ...START, v: 'bridge', s: 'Ça va & "toi"? 50 % #1 =+', t: 'עברית 日本語', b: 8, k: 0 },
  { ...START, v: 'sublayers', at: 'decoder.layers.0.cross_attention', part: 'feed_forward', n: 0 },
  { ...START, v: 'beam', y: 2, f: '282.341', node: 17, a: 60 },
  { ...START, v: 'who', who: 'it#2', c: 'animal,car park', i: 'tired=wide' },
  ...TABS.map((tab) => ({ ...START, tab })),
];

describe('a selection', () => {
  it.each(SOME)('comes back from its address', (one) => {
    expect(fromHash(toHash(one))).toEqual(one);
    expect(toHash(fromHash(toHash(one)))).toBe(toHash(one));
  });

  it('is read from the address of the design', () => {
    const found = fromHash('#v=attention&at=encoder.layers.1.self_attention&h=1&q=10&tab=word');
    expect(found).toEqual({
      ...START,
      v: 'attention',
      at: 'encoder.layers.1.self_attention',
      h: 1,
      q: 10,
      tab: 'word',
    });
  });

  it.each(['', '#', '#v', '#h=-1&q=1e9&b=x', '#tab=constructor&k=0.5', '#%', '#q=99999999999'])(
    'is the start where %s says nothing',
    (hash) => {
      expect({ ...fromHash(hash), v: START.v }).toEqual(START);
    },
  );

  it('forces only what are ids', () => {
    expect(forcedIds({ f: '282.341' })).toEqual([282, 341]);
    for (const f of ['', '1.', '-1', 'x', '1e9', '1234567890']) expect(forcedIds({ f })).toEqual([]);
  });
});
