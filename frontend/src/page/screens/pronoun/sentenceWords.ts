// Words of a sentence, named as in `glassformer.inspection.coreference`, and the defaults of the form.

const WORD = /[\p{L}\p{M}\p{N}_]+(?:['’-][\p{L}\p{M}\p{N}_]+)*/gu;
const LETTER = '[\\p{L}\\p{M}\\p{N}_]';

/** English pronouns; in other languages the word has to be selected. */
const PRONOUNS = ['it', 'they', 'them', 'she', 'he', 'her', 'him', 'its', 'their'];

export interface SentenceWord {
  text: string;
  /** Its name in requests: "it", or "it#2" for the second occurrence. */
  name: string;
}

export function wordsOf(sentence: string): SentenceWord[] {
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

/** The first known pronoun; null if there is none. */
export function firstPronoun(sentence: string): string | null {
  const words = wordsOf(sentence);
  for (const pronoun of PRONOUNS) {
    const match = words.find((word) => word.text.toLowerCase() === pronoun);
    if (match) return match.name;
  }
  return null;
}

/** The only word in which two sentences differ: here and in the other; null if there is not exactly one. */
export function singleWordDifference(sentence: string, other: string): { old: string; new: string } | null {
  const [here, there] = [wordsOf(sentence), wordsOf(other)];
  const places = [...here.keys()].filter((i) => here[i]?.text !== there[i]?.text);
  const [place] = places;
  if (here.length !== there.length || places.length !== 1 || place === undefined) return null;
  const old = here[place] as SentenceWord;
  return { old: old.name, new: (there[place] as SentenceWord).text };
}

/** "tired=wide", as in the URL. */
export function parseSwap(text: string): { old: string; new: string } | null {
  const at = text.indexOf('=');
  return at <= 0 || at === text.length - 1 ? null : { old: text.slice(0, at), new: text.slice(at + 1) };
}

export function parseCandidates(text: string): string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}
