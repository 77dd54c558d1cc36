// What-if changes in the URL: serialised and parsed they are the same, and invalid ones are dropped.
import { describe, expect, it } from 'vitest';
import { matricesFrom, overridesOf } from '../../src/page/data/overrides';
import { minus, movedWeight, sameShape } from '../../src/page/screens/attention/difference';
import { divergence } from '../../src/page/screens/whatif/nextTokens';
import { sourceWords } from '../../src/page/screens/whatif/sourceWords';
import {
  withChange,
  parseChanges,
  headRemoval,
  sameChange,
  withoutPositional,
  serialiseChanges,
  type Change,
} from '../../src/page/state/changes';
import { fromHash, DEFAULTS, toHash } from '../../src/page/state/selection';
import { textColourOn } from '../../src/page/parts/textColour';

const AT = 'decoder.layers.1.cross_attention';
const ALL: Change[] = [
  { kind: 'remove-head', at: AT, head: 0 },
  { kind: 'average-head', at: 'encoder.layers.11.self_attention', head: 15 },
  { kind: 'remove-edge', at: AT, query: 3, key: 0 },
  { kind: 'remove-edge', at: AT, query: 3, key: 0, head: 2 },
  { kind: 'uniform-attention', at: AT },
  { kind: 'skip-feed-forward', at: 'decoder.layers.0' },
  { kind: 'replace-matrices', at: AT, by: 'decoder.layers.0.cross_attention', which: ['k'] },
  { kind: 'replace-word', old: 'tired & "so"', new: '日本 #1 =+%', which: 1 },
  { kind: 'replace-token', position: 2, count: 2, ids: [5, 6] },
  { kind: 'begin-with', text: 'Die Straße' },
  { kind: 'force-prefix', ids: [7] },
];

describe('changes', () => {
  it.each(ALL.map((one) => [one.kind, one] as const))('of the kind %s are restored from the URL', (_, one) => {
    const selection = { ...DEFAULTS, w: serialiseChanges([one]), ab: 'b-a' as const, r: 'ein Satz' };
    expect(fromHash(toHash(selection))).toEqual(selection);
    expect(parseChanges(serialiseChanges([one]))).toEqual([one]);
  });

  it('keep their order', () => expect(parseChanges(serialiseChanges(ALL))).toEqual(ALL));

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
    `[{"kind":"remove-edge","at":"${AT}","query":0.5,"key":1}]`,
    '[{"kind":"begin-with","text":" "}]',
    '[{"kind":"replace-token","position":0,"ids":[]}]',
    `[{"kind":"replace-matrices","at":"${AT}","by":"${AT}","which":["w"]}]`,
    `[{"kind":"begin-with","text":"${'a'.repeat(501)}"}]`,
    '['.repeat(9000),
  ])('that cannot be read are dropped: %s', (hash) => {
    expect(parseChanges(hash)).toEqual([]);
    expect(fromHash(`#w=${encodeURIComponent(hash)}&ab=c`)).toEqual(DEFAULTS);
  });

  it('lose unknown fields, and are limited in number', () => {
    expect(parseChanges(`[{"kind":"uniform-attention","at":"${AT}","head":null,"__proto__":{"a":1},"b":2}]`)).toEqual([
      { kind: 'uniform-attention', at: AT },
    ]);
    const many = Array.from({ length: 100 }, (_, head): Change => ({ kind: 'remove-head', at: AT, head }));
    expect(parseChanges(serialiseChanges(many))).toHaveLength(64);
  });

  it('occur once each, and removed heads are found', () => {
    const [head, , edge] = ALL as [Change, Change, Change];
    expect(withChange([head, edge], { ...head })).toEqual([edge, head]);
    expect(sameChange(ALL[2] as Change, ALL[3] as Change)).toBe(false);
    expect(headRemoval(ALL, AT, 0)).toBe(head);
    expect(headRemoval(ALL, AT, 1)).toBeNull();
    expect(serialiseChanges([])).toBe('');
  });

  it('that refer to positions are dropped with the sentence', () => {
    expect(withoutPositional(ALL).map(({ kind }) => kind)).toEqual([
      'remove-head',
      'average-head',
      'uniform-attention',
      'skip-feed-forward',
      'replace-matrices',
    ]);
  });
});

describe('steps that a change overrides', () => {
  it('are known by head and step', () => {
    expect(overridesOf(ALL, AT, 0)).toEqual({ scores: true, context: true });
    expect(overridesOf(ALL.slice(0, 4), AT, 1)).toEqual({ scores: false, context: false });
    expect(overridesOf([{ kind: 'uniform-attention', at: AT, head: 2 }], AT, 1).scores).toBe(false);
    expect(overridesOf([{ kind: 'uniform-attention', at: AT, head: null }], AT, 1).scores).toBe(true);
  });
});

it('the attention whose matrices are used is known for each of q, k, v', () => {
  expect(matricesFrom(ALL, AT, 'k')).toBe('decoder.layers.0.cross_attention');
  expect(matricesFrom(ALL, AT, 'v')).toBeNull();
  expect(matricesFrom([{ kind: 'replace-matrices', at: AT, by: 'x' }], AT, 'v')).toBe('x');
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
  it('are found from tokens, each with its number among equal words', () => {
    const found = sourceWords({ pieces, words });
    expect(found.map((one) => one.text)).toEqual(['The', 'dog', "didn't", 'see', 'the', 'dog', '.']);
    expect(found.map((one) => one.which)).toEqual([0, 0, 0, 0, 0, 1, 0]);
  });
});

describe('translations', () => {
  it('diverge at the first token that differs, or where one changed most', () => {
    expect(divergence([5, 6, 7, 2], [5, 9, 7, 2], [0, -1, -9, 0])).toBe(1);
    expect(divergence([5, 6, 2], [5, 6, 2], [0.1, -0.2, 0])).toBe(1);
    expect(divergence([5, 6, 7, 2], [5, 2], [0, 0, 0, 0])).toBe(1);
    expect(divergence([5], [5], [null])).toBe(0);
  });
});

describe('a difference', () => {
  const before = { rows: 2, cols: 2, values: new Float32Array([1, 0, 0.5, 0.5]) };
  const after = { rows: 2, cols: 2, values: new Float32Array([0, 1, 0.5, 0.5]) };
  it('is B minus A, and tells how much weight moved', () => {
    expect([...minus(after, before).values]).toEqual([-1, 1, 0, 0]);
    expect(movedWeight(minus(after, before))).toBe(0.5);
  });
  it('needs the same shape', () => {
    const tensor = (...shape: number[]) => ({ values: new Float32Array(), shape });
    expect(sameShape(tensor(2, 3), tensor(2, 3))).toBe(true);
    expect(sameShape(tensor(2, 3), tensor(2, 4))).toBe(false);
  });
});

it('black or white text is legible on every grey', () => {
  for (let grey = 0; grey < 256; grey++) {
    const hex = `#${grey.toString(16).padStart(2, '0').repeat(3)}`;
    const light = grey / 255 <= 0.04045 ? grey / 255 / 12.92 : ((grey / 255 + 0.055) / 1.055) ** 2.4;
    const ratio = textColourOn(hex) === '#000000' ? (light + 0.05) / 0.05 : 1.05 / (light + 0.05);
    expect(ratio).toBeGreaterThan(4.5);
  }
});
