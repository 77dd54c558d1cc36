// Who is it: words by the names that the server finds them by, and what of the table the page redoes.
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../src/page/data/manifest';
import type { Source } from '../../src/page/data/source';
import { grid, part, row, type Tensor } from '../../src/page/data/tensor';
import { Exploration } from '../../src/page/data/trace';
import type { Reading, WhoFound } from '../../src/page/data/who';
import { softmax } from '../../src/page/maths/recompute';
import { insideDifference, looks, rollout, tokensOf, weightedValues } from '../../src/page/screens/who/inside';
import { differenceOf, noteOf, redone, rowsOf, written } from '../../src/page/screens/who/table';
import { firstPronoun, insteadOf, namesOf, oneWordApart, wordsOf } from '../../src/page/screens/who/words';

const TIRED = "The animal didn't cross the street because it was too tired.";
const WIDE = "The animal didn't cross the street because it was too wide.";

describe('words of a sentence', () => {
  it('are named so that each is found again', () => {
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

  it('have a first to ask about, if there is one', () => {
    expect(firstPronoun(TIRED)).toBe('it');
    expect(firstPronoun('The dog was tired.')).toBeNull();
    expect(firstPronoun('It rained.')).toBe('It');
  });

  it('say in which one another sentence differs', () => {
    expect(oneWordApart(TIRED, WIDE)).toEqual({ old: 'tired', new: 'wide' });
    expect(oneWordApart(TIRED, TIRED)).toBeNull();
    expect(oneWordApart(TIRED, 'The dog was tired.')).toBeNull();
  });

  it('are read from an address, whoever wrote it', () => {
    expect(insteadOf('tired=wide')).toEqual({ old: 'tired', new: 'wide' });
    for (const wrong of ['', '=', 'tired=', '=wide', 'tired']) expect(insteadOf(wrong)).toBeNull();
    expect(namesOf('animal, street,,')).toEqual(['animal', 'street']);
  });
});

function reading(more: Partial<Reading> = {}): Reading {
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
        name: 'the pronoun follows',
        values: [1, 0],
        counted: true,
        points_to: 0,
        note: '12 of 12, 0 of 44',
      },
      { kind: 'pronoun', name: 'log p with it', values: [0, -7], counted: true, points_to: 0, note: '' },
    ],
    verdict: 0,
    votes: [2, 2],
    preference: 7,
    in_words: 'This model resolves it to animal.',
    ...more,
  };
}
const answer = (...readings: Reading[]): WhoFound => ({ found: false, tries: 84, readings });

describe('the table', () => {
  it('has a row a kind, with a gap where a sentence has none', () => {
    const rows = rowsOf(answer(reading(), reading({ evidence: reading().evidence.slice(0, 1) })));
    expect(rows.map(({ kind, of }) => [kind, of.map((row) => row !== null)])).toEqual([
      ['following', [true, true]],
      ['pronoun', [true, false]],
    ]);
    const [follows] = reading().evidence;
    if (!follows) throw new Error();
    expect([written(follows, 0), noteOf(follows, 0), noteOf(follows, 1)]).toEqual(['100 %', '12 of 12', '0 of 44']);
  });

  it('is redone from the scores', () => {
    expect(redone(reading())).toEqual({ preference: 7, pronouns: [0, -7] });
    expect(differenceOf(answer(reading()))).toBe(0);
    expect(differenceOf(answer(reading({ preference: 6.5 })))).toBe(0.5);
  });

  it('has no badge where there is nothing to redo', () => {
    const silent = reading({ scores: {}, own_pronouns: [null, null], evidence: [] });
    delete silent.pronoun;
    delete silent.preference;
    expect(differenceOf(answer(silent))).toBeNull();
  });
});

let seed = 3;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const some = (...shape: number[]): Tensor => ({
  values: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * chance() - 1),
  shape,
  axes: [],
});
function attention(heads: number, size: number): Tensor {
  const found = some(heads, size, size);
  for (let r = 0; r < heads * size; r++)
    found.values.set(softmax(found.values.slice(r * size, (r + 1) * size)), r * size);
  return found;
}

describe('what a word has of others', () => {
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
  it('is asked of its tokens, where they stand once', () => {
    expect(tokensOf(side, 'saw')).toEqual([1, 2]);
    expect(tokensOf(side, 'saw it')).toEqual([1, 2, 3]);
    expect(tokensOf(side, 'sa')).toBeNull();
    expect(tokensOf({ ...side, pieces: ['▁it', '▁sa', 'w', '▁it', '</s>'] }, 'it')).toBeNull();
  });

  it('is everything, over all keys', () => {
    const layers = [attention(2, 5), attention(2, 5), attention(2, 5)];
    for (const look of looks(layers[0] as Tensor, [1, 2], [0, 1, 2, 3, 4])) expect(look).toBeCloseTo(1, 6);
    expect(rollout(layers, [1, 2]).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 6);
  });

  it('is rolled out as the product of matrices says', () => {
    const layers = [attention(2, 4), attention(2, 4)];
    const half = (one: Tensor, q: number, k: number) =>
      ([0, 1].reduce((sum, h) => sum + (row(grid(part(one, h)), q)[k] as number), 0) / 2 + Number(q === k)) / 2;
    const product = (q: number, k: number) =>
      [0, 1, 2, 3].reduce((sum, i) => sum + half(layers[1] as Tensor, q, i) * half(layers[0] as Tensor, i, k), 0);
    rollout(layers, [2]).forEach((share, k) => expect(share).toBeCloseTo(product(2, k), 6));
  });

  it('weighs by what is looked at: without values nothing comes', () => {
    const [weights, values, out] = [attention(2, 4), some(2, 4, 3), grid(some(6, 6))];
    expect(weightedValues(weights, { ...values, values: values.values.map(() => 0) }, out, [1], [2])).toBe(0);
    const twice = { ...values, values: values.values.map((x) => 2 * x) };
    expect(weightedValues(weights, twice, out, [1], [2, 3])).toBeCloseTo(
      2 * weightedValues(weights, values, out, [1], [2, 3]),
      5,
    );
  });

  it('is compared only where the trace is of that sentence', async () => {
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
    const best = [looks(weights, [3], [0])[0] as number, looks(weights, [3], [1, 2])[0] as number];
    const evidence = [{ kind: 'word: best head', name: '', values: best, counted: true, note: '' }];
    const asked = reading({ source: side.text, word: 'it', candidates: ['It', 'saw'], evidence });
    expect(await insideDifference(exploration, asked)).toBe(0);
    expect(await insideDifference(exploration, { ...asked, source: 'Another one' })).toBeNull();
  });
});
