// From a value to a colour: 255 steps of a table, so that a cell is one byte and a figure repeats.
import type { Matrix } from './types';
import type { Theme } from './theme';

export type Rgb = [number, number, number];

export interface Scale {
  kind: 'signed' | 'probability';
  /** Where the colours end. */
  limit: number;
  /** Whether some values lie beyond. */
  clipped?: boolean;
}

export const STEPS = 255;

export function rgb(hex: string): Rgb {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)) as Rgb;
}

function hex(colour: Rgb): string {
  return `#${colour.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** The colour at `t` from 0 to 1 of a table of colours, straight between its neighbours. */
function between(table: string[], t: number): Rgb {
  const place = Math.max(0, Math.min(1, t)) * (table.length - 1);
  const index = Math.min(Math.floor(place), table.length - 2);
  const low = rgb(table[index] as string);
  const high = rgb(table[index + 1] as string);
  return low.map((part, i) => Math.round(part + ((high[i] as number) - part) * (place - index))) as Rgb;
}

/** Every colour of a scale; the middle one of a signed scale is exactly 0's. */
export function palette(scale: Scale, theme: Theme): Rgb[] {
  const table = scale.kind === 'signed' ? theme.diverging : theme.sequential;
  return Array.from({ length: STEPS }, (_, step) => between(table, step / (STEPS - 1)));
}

/** Which colour of the palette a value has. */
export function step(value: number, scale: Scale): number {
  if (scale.limit === 0) return scale.kind === 'signed' ? (STEPS - 1) / 2 : 0;
  const t = scale.kind === 'signed' ? (value / scale.limit + 1) / 2 : value / scale.limit;
  return Math.round(Math.max(0, Math.min(1, t)) * (STEPS - 1));
}

export function colour(value: number, scale: Scale, theme: Theme): string {
  const table = scale.kind === 'signed' ? theme.diverging : theme.sequential;
  return hex(between(table, step(value, scale) / (STEPS - 1)));
}

/** Black or white, whichever reads better on a colour. */
export function readableOn(ground: string): string {
  const [r, g, b] = rgb(ground);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#000000' : '#ffffff';
}

/** |x| below which 99.5 % of the values lie, rounded up to two digits: a few large ones must not whiten the rest. */
export function signedScale(matrices: Matrix[]): Scale {
  const sizes = sorted(matrices);
  const size = sizes[Math.ceil(0.995 * (sizes.length - 1))] ?? 0;
  return { kind: 'signed', limit: roundedUp(size) };
}

const PROBABILITY_LIMITS = [0.02, 0.05, 0.1, 0.2, 0.5, 1];

/** From 0 to the first round number that hardly any value exceeds. */
export function probabilityScale(matrices: Matrix[]): Scale {
  const sizes = sorted(matrices);
  const most = sizes[Math.floor(0.995 * (sizes.length - 1))] ?? 1;
  const limit = PROBABILITY_LIMITS.find((one) => most <= one) ?? 1;
  return { kind: 'probability', limit, clipped: (sizes[sizes.length - 1] ?? 0) > limit };
}

function sorted(matrices: Matrix[]): number[] {
  const sizes: number[] = [];
  for (const matrix of matrices) for (const value of matrix.values) if (value !== null) sizes.push(Math.abs(value));
  return sizes.sort((a, b) => a - b);
}

/** Two digits, not smaller. Powers are multiplied up, because `Math.log10` is not the same everywhere. */
export function roundedUp(x: number): number {
  if (!(x > 0)) return 0;
  let unit = 1;
  while (unit * 100 <= x) unit *= 10;
  while (unit * 10 > x && unit > 1e-12) unit /= 10;
  return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(2));
}
