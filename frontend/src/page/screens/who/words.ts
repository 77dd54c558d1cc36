// The words of a sentence, as `glassformer.coreference` finds them by name; and what one would ask about first.

const WORD = /[\p{L}\p{M}\p{N}_]+(?:['’-][\p{L}\p{M}\p{N}_]+)*/gu;
const LETTER = '[\\p{L}\\p{M}\\p{N}_]';

/** English words that stand for others; of other languages the word has to be chosen. */
const PRONOUNS = ['it', 'they', 'them', 'she', 'he', 'her', 'him', 'its', 'their'];

export interface Named {
  text: string;
  /** How it is asked for: "it", or "it#2" where it is the second of them. */
  name: string;
}

export function wordsOf(sentence: string): Named[] {
  return [...sentence.matchAll(WORD)].map((match) => ({
    text: match[0],
    name: nameOf(sentence, match[0], match.index),
  }));
}

function nameOf(sentence: string, word: string, start: number): string {
  const same = new RegExp(`(?<!${LETTER})${word}(?!${LETTER})`, 'giu');
  const place = [...sentence.matchAll(same)].findIndex((match) => match.index === start);
  return place > 0 ? `${word}#${place + 1}` : word;
}

/** The first word that stands for another; null where there is none of those known here. */
export function firstPronoun(sentence: string): string | null {
  const words = wordsOf(sentence);
  for (const pronoun of PRONOUNS) {
    const found = words.find((word) => word.text.toLowerCase() === pronoun);
    if (found) return found.name;
  }
  return null;
}

/** The one word in which another sentence differs: what stands here, and what stands there. */
export function oneWordApart(sentence: string, other: string): { old: string; new: string } | null {
  const [here, there] = [wordsOf(sentence), wordsOf(other)];
  const places = [...here.keys()].filter((i) => here[i]?.text !== there[i]?.text);
  const [place] = places;
  if (here.length !== there.length || places.length !== 1 || place === undefined) return null;
  const old = here[place] as Named;
  return { old: old.name, new: (there[place] as Named).text };
}

/** "tired=wide", as the address keeps it. */
export function insteadOf(written: string): { old: string; new: string } | null {
  const at = written.indexOf('=');
  return at <= 0 || at === written.length - 1 ? null : { old: written.slice(0, at), new: written.slice(at + 1) };
}

export function namesOf(written: string): string[] {
  return written
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}
