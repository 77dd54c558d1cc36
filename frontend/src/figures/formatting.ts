// Formatting of numbers, tokens and attention names as text.
import { isolated, tokenText } from './text';
import type { AttentionData, Matrix, Place, Token } from './types';

/** Two decimals (none from 100, two significant digits below 0.01) without trailing zeros: 0.31, 2.1, 123. */
export function decimal(x: number): string {
  const magnitude = Math.abs(x);
  const digits =
    magnitude >= 100 ? x.toFixed(0) : magnitude >= 0.01 || magnitude === 0 ? x.toFixed(2) : x.toPrecision(2);
  return digits.includes('.') && !digits.includes('e') ? digits.replace(/0+$/, '').replace(/\.$/, '') : digits;
}

/** A probability: two decimals, more near 0 and 1. */
export function probability(p: number): string {
  if (p >= 0.9995) return p >= 1 ? '1.000' : '> 0.999';
  if (p < 0.00005) return p === 0 ? '0' : '< 0.0001';
  return p.toFixed(p < 0.01 ? 4 : p < 0.1 || p > 0.995 ? 3 : 2);
}

/** A token within a sentence; one without letters is quoted, to set it apart from the sentence's own punctuation. */
export function quoted(piece: string): string {
  const token = tokenText(piece);
  return isolated(/\p{L}/u.test(token) ? token : `“${token}”`);
}

export function attentionName(place: Place): string {
  const kind = place.stack === 'encoder' || place.kind === 'self' ? 'self-attention' : 'cross-attention';
  return `${place.stack} layer ${place.layer}, ${kind}`;
}

export function capitalised(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

export function plural(count: number, word: string, many = `${word}s`): string {
  return `${count} ${count === 1 ? word : many}`;
}

/** A position within a sentence: by its token; in the target, by its input token and the one it predicts. */
export function positionPhrase(token: Token): string {
  if (token.after === undefined) return quoted(token.text);
  return `after ${quoted(token.after)}, predicting ${quoted(token.text)},`;
}

/** The name of a key position; in the target, its input token. */
function keyName(token: Token): string {
  return quoted(token.after ?? token.text);
}

/** The keys with the largest weights of a row: "animal 0.31, The 0.12 and tired 0.1". */
function strongestKeys(weights: Matrix, row: number, keys: Token[], count = 3): string {
  const values = weights.values.slice(row * weights.cols, (row + 1) * weights.cols);
  const order = values.map((_, index) => index).filter((index) => values[index] !== null);
  order.sort((a, b) => (values[b] as number) - (values[a] as number) || a - b);
  const phrases = order
    .slice(0, count)
    .filter((index, rank) => rank === 0 || (values[index] as number) >= 0.005)
    .map((index) => `${keyName(keys[index] as Token)} ${probability(values[index] as number)}`);
  return phrases.length < 2
    ? phrases.join('')
    : `${phrases.slice(0, -1).join(', ')} and ${phrases[phrases.length - 1]}`;
}

/** The keys that a query position attends to most: "it attends most to animal 0.31, The 0.12 and tired 0.1". */
export function attendsMostTo(query: Token, weights: Matrix, row: number, keys: Token[]): string {
  const subject = query.after === undefined ? positionPhrase(query) : `the position ${positionPhrase(query)}`;
  return `${subject} attends most to ${strongestKeys(weights, row, keys)}`;
}

/** Caption notes for every figure of one attention. */
export function attentionNotes(data: AttentionData): string[] {
  const notes = ['Layers and heads are counted from 0.'];
  if (data.rotated) {
    notes.push('Q and K are shown after the rotary position encoding.');
  }
  return notes;
}
