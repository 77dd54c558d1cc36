// What-ifs in an address: written and read again they are the same, and what a stranger wrote is dropped, not obeyed.
import { describe, expect, it } from 'vitest';
import { madeWith, touched } from '../../src/page/data/touched';
import { minus, movedShare, sameShape } from '../../src/page/screens/attention/difference';
import { parting } from '../../src/page/screens/whatif/nextTokens';
import { sourceWords } from '../../src/page/screens/whatif/sourceWords';
import {
  added,
  changesFrom,
  removalOf,
  sameChange,
  unplaced,
  written,
  type Change,
} from '../../src/page/state/changes';
import { fromHash, START, toHash } from '../../src/page/state/selection';
import { inkOn } from '../../src/page/parts/ink';

const AT = 'decoder.layers.1.cross_attention';
const ALL: Change[] = [
  { kind: 'remove-head', at: AT, head: 0 },
  { kind: 'average-head', at: 'encoder.layers.11.self_attention', head: 15 },
  { kind: 'cut-edge', at: AT, query: 3, key: 0 },
  { kind: 'cut-edge', at: AT, query: 3, key: 0, head: 2 },
  { kind: 'uniform-attention', at: AT },
  { kind: 'skip-feed-forward', at: 'decoder.layers.0' },
  { kind: 'replace-matrices', at: AT, by: 'decoder.layers.0.cross_attention', which: ['k'] },
  { kind: 'replace-word', old: 'tired & "so"', new: '日本 #1 =+%', which: 1 },
  { kind: 'replace-token', position: 2, count: 2, ids: [5, 6] },
  { kind: 'begin-with', text: 'Die Straße' },
  { kind: 'force-prefix', ids: [7] },
];

describe('changes', () => {
  it.each(ALL.map((one) => [one.kind, one] as const))('of the kind %s come back from their address', (_, one) => {
    const selection = { ...START, w: written([one]), ab: 'b-a' as const, r: 'ein Satz' };
    expect(fromHash(toHash(selection))).toEqual(selection);
    expect(changesFrom(written([one]))).toEqual([one]);
  });

  it('keep their order', () => expect(changesFrom(written(ALL))).toEqual(ALL));

  it.each([
    'x',
    '{}',
    'null',
    '[null, 1, "a", []]',
    '[{"kind":"constructor"}]',
    '[{"kind":"remove-head"}]',
    '[{"kind":"remove-head","at":"a b","head":0}]',
    `[{"kind":"remove-head","at":"${AT}","head":-1}]`,
    `[{"kind":"remove-head","at":"${AT}","head":"0"}]`,
    `[{"kind":"cut-edge","at":"${AT}","query":0.5,"key":1}]`,
    '[{"kind":"begin-with","text":" "}]',
    '[{"kind":"replace-token","position":0,"ids":[]}]',
    `[{"kind":"replace-matrices","at":"${AT}","by":"${AT}","which":["w"]}]`,
    `[{"kind":"begin-with","text":"${'a'.repeat(501)}"}]`,
    '['.repeat(9000),
  ])('that cannot be read are dropped: %s', (hash) => {
    expect(changesFrom(hash)).toEqual([]);
    expect(fromHash(`#w=${encodeURIComponent(hash)}&ab=c`)).toEqual(START);
  });

  it('lose what nobody knows, and what is too much', () => {
    expect(changesFrom(`[{"kind":"uniform-attention","at":"${AT}","head":null,"__proto__":{"a":1},"b":2}]`)).toEqual([
      { kind: 'uniform-attention', at: AT },
    ]);
    const many = Array.from({ length: 100 }, (_, head): Change => ({ kind: 'remove-head', at: AT, head }));
    expect(changesFrom(written(many))).toHaveLength(64);
  });

  it('stand once each, and heads are found again', () => {
    const [head, , edge] = ALL as [Change, Change, Change];
    expect(added([head, edge], { ...head })).toEqual([edge, head]);
    expect(sameChange(ALL[2] as Change, ALL[3] as Change)).toBe(false);
    expect(removalOf(ALL, AT, 0)).toBe(head);
    expect(removalOf(ALL, AT, 1)).toBeNull();
    expect(written([])).toBe('');
  });

  it('of places in a sentence go with it', () => {
    expect(unplaced(ALL).map(({ kind }) => kind)).toEqual([
      'remove-head',
      'average-head',
      'uniform-attention',
      'skip-feed-forward',
      'replace-matrices',
    ]);
  });
});

describe('what the page cannot redo under changes', () => {
  it('is said by head and step', () => {
    expect(touched(ALL, AT, 0)).toEqual({ scores: true, context: true });
    expect(touched(ALL.slice(0, 4), AT, 1)).toEqual({ scores: false, context: false });
    expect(touched([{ kind: 'uniform-attention', at: AT, head: 2 }], AT, 1).scores).toBe(false);
    expect(touched([{ kind: 'uniform-attention', at: AT, head: null }], AT, 1).scores).toBe(true);
  });
});

it('whose matrices are used is said by letter', () => {
  expect(madeWith(ALL, AT, 'k')).toBe('decoder.layers.0.cross_attention');
  expect(madeWith(ALL, AT, 'v')).toBeNull();
  expect(madeWith([{ kind: 'replace-matrices', at: AT, by: 'x' }], AT, 'v')).toBe('x');
});

describe('words of a source', () => {
  const pieces = ['▁The', '▁dog', '▁did', 'n', "'", 't', '▁see', '▁the', '▁dog', '.', '</s>'];
  const words: [number, number][] = [
    [0, 1],
    [1, 2],
    [2, 6],
    [6, 7],
    [7, 8],
    [8, 9],
    [9, 10],
  ];
  it('are read from tokens, each with which of its like it is', () => {
    const found = sourceWords({ pieces, words });
    expect(found.map((one) => one.text)).toEqual(['The', 'dog', "didn't", 'see', 'the', 'dog', '.']);
    expect(found.map((one) => one.which)).toEqual([0, 0, 0, 0, 0, 1, 0]);
  });
});

describe('translations', () => {
  it('part at the first token that is another, or where one changed most', () => {
    expect(parting([5, 6, 7, 2], [5, 9, 7, 2], [0, -1, -9, 0])).toBe(1);
    expect(parting([5, 6, 2], [5, 6, 2], [0.1, -0.2, 0])).toBe(1);
    expect(parting([5, 6, 7, 2], [5, 2], [0, 0, 0, 0])).toBe(1);
    expect(parting([5], [5], [null])).toBe(0);
  });
});

describe('a difference', () => {
  const before = { rows: 2, cols: 2, values: new Float32Array([1, 0, 0.5, 0.5]) };
  const after = { rows: 2, cols: 2, values: new Float32Array([0, 1, 0.5, 0.5]) };
  it('is B minus A, and says how much went elsewhere', () => {
    expect([...minus(after, before).values]).toEqual([-1, 1, 0, 0]);
    expect(movedShare(minus(after, before))).toBe(0.5);
  });
  it('needs the same shape', () => {
    const tensor = (...shape: number[]) => ({ values: new Float32Array(), shape, axes: [] });
    expect(sameShape(tensor(2, 3), tensor(2, 3))).toBe(true);
    expect(sameShape(tensor(2, 3), tensor(2, 4))).toBe(false);
  });
});

it('black or white reads on every grey', () => {
  for (let grey = 0; grey < 256; grey++) {
    const hex = `#${grey.toString(16).padStart(2, '0').repeat(3)}`;
    const light = grey / 255 <= 0.04045 ? grey / 255 / 12.92 : ((grey / 255 + 0.055) / 1.055) ** 2.4;
    const ratio = inkOn(hex) === '#000000' ? (light + 0.05) / 0.05 : 1.05 / (light + 0.05);
    expect(ratio).toBeGreaterThan(4.5);
  }
});
