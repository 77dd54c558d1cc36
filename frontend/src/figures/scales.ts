// Colour scales: values to a palette of 255 colours, so that a cell takes one byte and figures are reproducible.
import type { Theme } from './theme';
import type { Matrix } from './types';

export type Rgb = [number, number, number];

export interface Scale {
  kind: 'signed' | 'probability';
  /** The largest absolute value with a colour of its own. */
  limit: number;
  /** Whether some values exceed the limit. */
  clipped?: boolean;
}

export const PALETTE_SIZE = 255;

export function rgb(hex: string): Rgb {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)) as Rgb;
}

function hex(colour: Rgb): string {
  return `#${colour.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** The colour at `t`, from 0 to 1, of a table of colours, linearly interpolated. */
function interpolated(table: string[], t: number): Rgb {
  const position = Math.max(0, Math.min(1, t)) * (table.length - 1);
  const index = Math.min(Math.floor(position), table.length - 2);
  const low = rgb(table[index] as string);
  const high = rgb(table[index + 1] as string);
  return low.map((part, i) => Math.round(part + ((high[i] as number) - part) * (position - index))) as Rgb;
}

/** All colours of a scale; the middle one of a signed scale is that of 0. */
export function palette(scale: Scale, theme: Theme): Rgb[] {
  const table = scale.kind === 'signed' ? theme.diverging : theme.sequential;
  return Array.from({ length: PALETTE_SIZE }, (_, index) => interpolated(table, index / (PALETTE_SIZE - 1)));
}

/** Index of a value's colour in the palette. */
export function paletteIndex(value: number, scale: Scale): number {
  if (scale.limit === 0) return scale.kind === 'signed' ? (PALETTE_SIZE - 1) / 2 : 0;
  const t = scale.kind === 'signed' ? (value / scale.limit + 1) / 2 : value / scale.limit;
  return Math.round(Math.max(0, Math.min(1, t)) * (PALETTE_SIZE - 1));
}

export function colour(value: number, scale: Scale, theme: Theme): string {
  const table = scale.kind === 'signed' ? theme.diverging : theme.sequential;
  return hex(interpolated(table, paletteIndex(value, scale) / (PALETTE_SIZE - 1)));
}

/** Black or white, whichever has more contrast on a colour. */
export function readableOn(background: string): string {
  const [r, g, b] = rgb(background);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#000000' : '#ffffff';
}

/** The limit is the 99.5th percentile of |x|, rounded up to two digits, so that outliers do not wash out the rest. */
export function signedScale(matrices: Matrix[]): Scale {
  const magnitudes = sortedMagnitudes(matrices);
  const limit = magnitudes[Math.ceil(0.995 * (magnitudes.length - 1))] ?? 0;
  return { kind: 'signed', limit: roundedUp(limit) };
}

const PROBABILITY_LIMITS = [0.02, 0.05, 0.1, 0.2, 0.5, 1];

/** From 0 to the first round number that at most 0.5 % of the values exceed. */
export function probabilityScale(matrices: Matrix[]): Scale {
  const magnitudes = sortedMagnitudes(matrices);
  const quantile = magnitudes[Math.floor(0.995 * (magnitudes.length - 1))] ?? 1;
  const limit = PROBABILITY_LIMITS.find((bound) => quantile <= bound) ?? 1;
  return { kind: 'probability', limit, clipped: (magnitudes[magnitudes.length - 1] ?? 0) > limit };
}

function sortedMagnitudes(matrices: Matrix[]): number[] {
  const magnitudes: number[] = [];
  for (const matrix of matrices)
    for (const value of matrix.values) if (value !== null) magnitudes.push(Math.abs(value));
  return magnitudes.sort((a, b) => a - b);
}

/** Rounded up to two significant digits; without `Math.log10`, which differs between engines. */
export function roundedUp(x: number): number {
  if (!(x > 0)) return 0;
  let unit = 1;
  while (unit * 100 <= x) unit *= 10;
  while (unit * 10 > x && unit > 1e-12) unit /= 10;
  return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(2));
}
