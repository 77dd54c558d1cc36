// Who is it: words by the names that the server finds them by, and what of the table the page redoes.
import { describe, expect, it } from 'vitest';
import type { Reading, WhoFound } from '../../src/page/data/who';
import { differenceOf, noteOf, redone, rowsOf, written } from '../../src/page/screens/who/table';
import { firstPronoun, insteadOf, namesOf, oneWordApart, wordsOf } from '../../src/page/screens/who/words';

const TIRED = "The animal didn't cross the street because it was too tired.";
const WIDE = "The animal didn't cross the street because it was too wide.";

describe('words of a sentence', () => {
  it('are named so that each is found again', () => {
    expect(wordsOf("It's said that it left; it's gone.").map(({ name }) => name)).toEqual(["It's", 'said', 'that', 'it#2', 'left', "it's#2", 'gone']);
    expect(wordsOf(TIRED).map(({ text }) => text).join(' ')).toBe(TIRED.slice(0, -1));
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
      { kind: 'following', name: 'the pronoun follows', values: [1, 0], counted: true, points_to: 0, note: '12 of 12, 0 of 44' },
      { kind: 'pronoun', name: 'log p with it', values: [0, -7], counted: true, points_to: 0, note: '' },
    ],
    verdict: 0,
    votes: [2, 2],
    preference: 7,
    in_words: 'This model takes it for animal.',
    ...more,
  };
}
const answer = (...readings: Reading[]): WhoFound => ({ found: false, tries: 84, readings });

describe('the table', () => {
  it('has a row a kind, with a gap where a sentence has none', () => {
    const rows = rowsOf(answer(reading(), reading({ evidence: reading().evidence.slice(0, 1) })));
    expect(rows.map(({ kind, of }) => [kind, of.map((row) => row !== null)])).toEqual([['following', [true, true]], ['pronoun', [true, false]]]);
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
