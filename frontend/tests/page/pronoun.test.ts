// Pronoun resolution: names of words, and the recomputation of the evidence table.
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../src/page/data/manifest';
import type { Source } from '../../src/page/data/source';
import { grid, part, row, type Tensor } from '../../src/page/data/tensor';
import { Exploration } from '../../src/page/data/trace';
import type { PronounReading, PronounResponse } from '../../src/page/data/pronoun';
import { softmax } from '../../src/page/maths/recompute';
import {
  encoderDifference,
  attentionWeights,
  rollout,
  wordPositions,
  weightedValues,
} from '../../src/page/screens/pronoun/internalEvidence';
import { differenceOf, noteOf, recomputed, rowsOf, formatValue } from '../../src/page/screens/pronoun/evidenceRows';
import {
  firstPronoun,
  parseSwap,
  parseCandidates,
  singleWordDifference,
  wordsOf,
} from '../../src/page/screens/pronoun/sentenceWords';

const TIRED = "The animal didn't cross the street because it was too tired.";
const WIDE = "The animal didn't cross the street because it was too wide.";

describe('words of a sentence', () => {
  it('have names that identify each of them', () => {
    expect(wordsOf("It's said that it left; it's gone.").map(({ name }) => name)).toEqual([
      "It's",
      'said',
      'that',
      'it#2',
      'left',
      "it's#2",
      'gone',
    ]);
    expect(
      wordsOf(TIRED)
        .map(({ text }) => text)
        .join(' '),
    ).toBe(TIRED.slice(0, -1));
    expect(wordsOf('  … ')).toEqual([]);
  });

  it('contain a first pronoun, or none', () => {
    expect(firstPronoun(TIRED)).toBe('it');
    expect(firstPronoun('The dog was tired.')).toBeNull();
    expect(firstPronoun('It rained.')).toBe('It');
  });

  it('show the only one in which another sentence differs', () => {
    expect(singleWordDifference(TIRED, WIDE)).toEqual({ old: 'tired', new: 'wide' });
    expect(singleWordDifference(TIRED, TIRED)).toBeNull();
    expect(singleWordDifference(TIRED, 'The dog was tired.')).toBeNull();
  });

  it('are parsed from a URL, also an invalid one', () => {
    expect(parseSwap('tired=wide')).toEqual({ old: 'tired', new: 'wide' });
    for (const wrong of ['', '=', 'tired=', '=wide', 'tired']) expect(parseSwap(wrong)).toBeNull();
    expect(parseCandidates('animal, street,,')).toEqual(['animal', 'street']);
  });
});

function reading(more: Partial<PronounReading> = {}): PronounReading {
  return {
    source: TIRED,
    translation: 'weil es zu müde war',
    word: 'it',
    candidates: ['animal', 'street'],
    pronoun: 'es',
    scores: { es: -1, sie: -8, er: -9.5 },
    own_pronouns: ['es', 'sie'],
    evidence: [
      {
        kind: 'following',
        name: 'pronoun follows the replaced noun',
        values: [1, 0],
        counted: true,
        points_to: 0,
        note: '12 of 12, 0 of 44',
      },
      {
        kind: 'pronoun',
        name: 'log p with its pronoun, minus best',
        values: [0, -7],
        counted: true,
        points_to: 0,
        note: '',
      },
    ],
    verdict: 0,
    votes: [2, 2],
    preference: 7,
    in_words: 'This model resolves it to animal.',
    ...more,
  };
}
const response = (...readings: PronounReading[]): PronounResponse => ({ swap_searched: false, tries: 84, readings });

describe('the evidence table', () => {
  it('has one row per kind, with a gap where a sentence has none', () => {
    const rows = rowsOf(response(reading(), reading({ evidence: reading().evidence.slice(0, 1) })));
    expect(rows.map(({ kind, of }) => [kind, of.map((row) => row !== null)])).toEqual([
      ['following', [true, true]],
      ['pronoun', [true, false]],
    ]);
    const [follows] = reading().evidence;
    if (!follows) throw new Error();
    expect([formatValue(follows, 0), noteOf(follows, 0), noteOf(follows, 1)]).toEqual(['100 %', '12 of 12', '0 of 44']);
  });

  it('is recomputed from the scores', () => {
    expect(recomputed(reading())).toEqual({ preference: 7, pronouns: [0, -7] });
    expect(differenceOf(response(reading()))).toBe(0);
    expect(differenceOf(response(reading({ preference: 6.5 })))).toBe(0.5);
  });

  it('has no badge where nothing can be recomputed', () => {
    const silent = reading({ scores: {}, own_pronouns: [null, null], evidence: [] });
    delete silent.pronoun;
    delete silent.preference;
    expect(differenceOf(response(silent))).toBeNull();
  });
});

let seed = 3;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const some = (...shape: number[]): Tensor => ({
  values: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * chance() - 1),
  shape,
});
function attention(heads: number, size: number): Tensor {
  const found = some(heads, size, size);
  for (let r = 0; r < heads * size; r++)
    found.values.set(softmax(found.values.slice(r * size, (r + 1) * size)), r * size);
  return found;
}

describe('internal evidence', () => {
  const side = {
    text: 'It saw it',
    ids: [1, 2, 3, 4, 5],
    pieces: ['▁It', '▁sa', 'w', '▁it', '</s>'],
    words: [
      [0, 1],
      [1, 3],
      [3, 4],
    ] as [number, number][],
  };
  it('finds the tokens of a word that occurs once', () => {
    expect(wordPositions(side, 'saw')).toEqual([1, 2]);
    expect(wordPositions(side, 'saw it')).toEqual([1, 2, 3]);
    expect(wordPositions(side, 'sa')).toBeNull();
    expect(wordPositions({ ...side, pieces: ['▁it', '▁sa', 'w', '▁it', '</s>'] }, 'it')).toBeNull();
  });

  it('adds up to 1 over all keys', () => {
    const layers = [attention(2, 5), attention(2, 5), attention(2, 5)];
    for (const weight of attentionWeights(layers[0] as Tensor, [1, 2], [0, 1, 2, 3, 4]))
      expect(weight).toBeCloseTo(1, 6);
    expect(rollout(layers, [1, 2]).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 6);
  });

  it('has a rollout that is the product of the matrices', () => {
    const layers = [attention(2, 4), attention(2, 4)];
    const half = (one: Tensor, q: number, k: number) =>
      ([0, 1].reduce((sum, h) => sum + (row(grid(part(one, h)), q)[k] as number), 0) / 2 + Number(q === k)) / 2;
    const product = (q: number, k: number) =>
      [0, 1, 2, 3].reduce((sum, i) => sum + half(layers[1] as Tensor, q, i) * half(layers[0] as Tensor, i, k), 0);
    rollout(layers, [2]).forEach((share, k) => expect(share).toBeCloseTo(product(2, k), 6));
  });

  it('is weighted by the values: zero values contribute nothing', () => {
    const [weights, values, out] = [attention(2, 4), some(2, 4, 3), grid(some(6, 6))];
    expect(weightedValues(weights, { ...values, values: values.values.map(() => 0) }, out, [1], [2])).toBe(0);
    const twice = { ...values, values: values.values.map((x) => 2 * x) };
    expect(weightedValues(weights, twice, out, [1], [2, 3])).toBeCloseTo(
      2 * weightedValues(weights, values, out, [1], [2, 3]),
      5,
    );
  });

  it('is compared only if the trace is of the same sentence', async () => {
    const weights = attention(1, 5);
    const manifest = {
      source: side,
      target: side,
      tensors: [{ name: 'encoder.layers.*.self_attention.weights', layers: 1, shape: [1, 5, 5] }],
      parameters: [],
    };
    const exploration = new Exploration(
      manifest as unknown as Manifest,
      { tensor: async () => weights } as unknown as Source,
    );
    const best = [
      attentionWeights(weights, [3], [0])[0] as number,
      attentionWeights(weights, [3], [1, 2])[0] as number,
    ];
    const evidence = [{ kind: 'word: best head', name: '', values: best, counted: true, note: '' }];
    const analysed = reading({ source: side.text, word: 'it', candidates: ['It', 'saw'], evidence });
    expect(await encoderDifference(exploration, analysed)).toBe(0);
    expect(await encoderDifference(exploration, { ...analysed, source: 'Another one' })).toBeNull();
  });
});
