// Heatmap cells on a canvas: one pixel per cell, scaled up by the browser without blurring.
import { palette, roundedUp, PALETTE_SIZE, type Rgb, type Scale } from '../../figures/scales';
import type { Theme } from '../../figures/theme';
import type { Grid } from '../data/tensor';

/** The limit is the 99.5th percentile of |x|, so that a few outliers do not wash out the rest. */
export function signedScale(...parts: ArrayLike<number>[]): Scale {
  const sizes = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let count = 0;
  for (const part of parts) {
    for (let i = 0; i < part.length; i++) {
      const size = Math.abs(part[i] as number);
      if (Number.isFinite(size)) sizes[count++] = size;
    }
  }
  const sorted = sizes.subarray(0, count).sort();
  const limit = roundedUp(sorted[Math.ceil(0.995 * (count - 1))] ?? 0);
  return { kind: 'signed', limit, clipped: (sorted[count - 1] ?? 0) > limit };
}

export const PROBABILITY: Scale = { kind: 'probability', limit: 1 };

const tables = new Map<string, Rgb[]>();

/** The 255 colours of a scale, cached. */
function coloursOf(kind: Scale['kind'], one: Theme): Rgb[] {
  const key = `${kind} ${one.name}`;
  let colours = tables.get(key);
  if (colours === undefined) tables.set(key, (colours = palette({ kind, limit: 1 }, one)));
  return colours;
}

export function paint(canvas: HTMLCanvasElement, grid: Grid, scale: Scale, theme: Theme): void {
  if (grid.rows === 0 || grid.cols === 0) return;
  canvas.width = grid.cols;
  canvas.height = grid.rows;
  const image = new ImageData(grid.cols, grid.rows);
  const colours = coloursOf(scale.kind, theme);
  const [slope, offset] = scale.kind === 'signed' ? [0.5, 0.5] : [1, 0];
  for (let i = 0; i < grid.values.length; i++) {
    const value = scale.limit === 0 ? 0 : (grid.values[i] as number) / scale.limit;
    const step = Math.round(Math.max(0, Math.min(1, value * slope + offset)) * (PALETTE_SIZE - 1));
    const [r, g, b] = colours[Number.isNaN(step) ? 0 : step] as [number, number, number];
    image.data.set([r, g, b, 255], 4 * i);
  }
  canvas.getContext('2d')?.putImageData(image, 0, 0);
}
