// Numbers and places in words.
import { isolated, shown } from './text';
import type { AttentionData, Matrix, Place, Token } from './types';

/** Three digits at most after the point, none that say nothing: 0.31, 2.1, 12. */
export function decimal(x: number): string {
  const size = Math.abs(x);
  const written = size >= 100 ? x.toFixed(0) : size >= 0.01 || size === 0 ? x.toFixed(2) : x.toPrecision(2);
  return written.includes('.') && !written.includes('e') ? written.replace(/0+$/, '').replace(/\.$/, '') : written;
}

/** A probability: two digits after the point, more where they say something. */
export function probability(p: number): string {
  if (p >= 0.9995) return p >= 1 ? '1.000' : '> 0.999';
  if (p < 0.00005) return p === 0 ? '0' : '< 0.0001';
  return p.toFixed(p < 0.01 ? 4 : p < 0.1 || p > 0.995 ? 3 : 2);
}

/** A token inside a sentence: signs and numbers stand in quotation marks, so that they are not read as its own. */
export function quoted(piece: string): string {
  const token = shown(piece);
  return isolated(/\p{L}/u.test(token) ? token : `“${token}”`);
}

export function placeName(place: Place): string {
  const kind = place.stack === 'encoder' || place.kind === 'self' ? 'self-attention' : 'cross-attention';
  return `${place.stack} layer ${place.layer}, ${kind}`;
}

export function capitalised(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

export function plural(count: number, word: string, many = `${word}s`): string {
  return `${count} ${count === 1 ? word : many}`;
}

/** A position as a sentence speaks of it: a target position stands after one token and predicts the next. */
export function spoken(token: Token): string {
  if (token.after === undefined) return quoted(token.text);
  return `after ${quoted(token.after)}, predicting ${quoted(token.text)},`;
}

/** What a key is called: of the target, the token that stands there. */
export function keyName(token: Token): string {
  return quoted(token.after ?? token.text);
}

/** "animal 0.31, The 0.12 and tired 0.1": where a row looks most. */
export function strongest(weights: Matrix, row: number, keys: Token[], count = 3): string {
  const values = weights.values.slice(row * weights.cols, (row + 1) * weights.cols);
  const order = values.map((_, index) => index).filter((index) => values[index] !== null);
  order.sort((a, b) => (values[b] as number) - (values[a] as number) || a - b);
  const named = order
    .slice(0, count)
    .filter((index, rank) => rank === 0 || (values[index] as number) >= 0.005)
    .map((index) => `${keyName(keys[index] as Token)} ${probability(values[index] as number)}`);
  return named.length < 2 ? named.join('') : `${named.slice(0, -1).join(', ')} and ${named[named.length - 1]}`;
}

/** Remarks under every picture of one attention, for comparison with the formula. */
export function remarksOn(data: AttentionData): string[] {
  const remarks = ['Layers and heads are counted from 0.'];
  if (data.positions === 'rotary' && data.place.kind === 'self') {
    remarks.push('Q and K are shown after they were turned by their positions (rotary).');
  }
  return remarks;
}
