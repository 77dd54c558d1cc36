// Legend: the meaning of colours, frames and hatching, below every figure.
import type { Canvas } from './canvas';
import { decimal } from './formatting';
import { palette, type Scale } from './scales';
import { number, tag } from './svg';
import { text } from './text';
import { textWidth } from './textWidth';

interface LegendEntry {
  width: number;
  draw: (x: number, y: number) => string;
}

const BAR_WIDTH = 54;
const SHADES = 36;
const ENTRY_GAP = 14;
const ROW_HEIGHT = 14;

/** The entries in as many rows as they need. */
export function legend(canvas: Canvas): { body: string; height: number } {
  let [x, y] = [0, 0];
  let body = '';
  for (const entry of entries(canvas)) {
    if (x > 0 && x + entry.width > canvas.width) [x, y] = [0, y + ROW_HEIGHT];
    body += entry.draw(x, y);
    x += entry.width + ENTRY_GAP;
  }
  return { body, height: body === '' ? 0 : y + ROW_HEIGHT };
}

function entries(canvas: Canvas): LegendEntry[] {
  const list: LegendEntry[] = [];
  if (canvas.signed)
    list.push(colourBar(canvas, { kind: 'signed', limit: 1 }, '−', '+', 'value: negative, 0, positive'));
  if (canvas.probability !== null) {
    list.push(
      colourBar(
        canvas,
        canvas.probability,
        '0',
        `${canvas.probability.clipped ? '≥ ' : ''}${decimal(canvas.probability.limit)}`,
        'attention weight',
      ),
    );
  }
  const { theme } = canvas;
  if (canvas.activations) list.push(swatch(canvas, 'activation', { fill: theme.roles.none.fill }));
  if (canvas.weights) {
    list.push(swatch(canvas, 'weight matrix', { fill: theme.mat, stroke: theme.roles.none.fill, 'stroke-width': 1.1 }));
  }
  if (canvas.masked) {
    list.push(swatch(canvas, 'masked', { fill: `url(#${canvas.hatch})`, stroke: theme.faint, 'stroke-width': 0.5 }));
  }
  if (canvas.missing) {
    const dashed = { fill: theme.mat, stroke: theme.quiet, 'stroke-dasharray': '3 2', 'stroke-width': 1 };
    list.push(swatch(canvas, 'numbers not saved with this trace', dashed));
  }
  return [...list, ...canvas.legendItems.map((item) => swatch(canvas, item.meaning, item.style))];
}

function colourBar(canvas: Canvas, scale: Scale, low: string, high: string, meaning: string): LegendEntry {
  const style = { fill: canvas.theme.quiet };
  const lowWidth = textWidth(low, 8) + 3;
  const highWidth = textWidth(high, 8) + 6;
  const colours = palette(scale, canvas.theme);
  return {
    width: lowWidth + BAR_WIDTH + 3 + highWidth + textWidth(meaning, 8),
    draw: (x, y) => {
      const strips = Array.from({ length: SHADES }, (_, i) => {
        const shade = colours[Math.round((i / (SHADES - 1)) * (colours.length - 1))] ?? [0, 0, 0];
        const fill = `rgb(${shade.map(number).join(',')})`;
        return tag('rect', {
          x: x + lowWidth + (i * BAR_WIDTH) / SHADES,
          y,
          width: BAR_WIDTH / SHADES + 0.2,
          height: 8,
          fill,
        });
      });
      return (
        text(x, y + 7, low, style) +
        tag('g', { 'shape-rendering': 'crispEdges' }, ...strips) +
        text(x + lowWidth + BAR_WIDTH + 3, y + 7, high, style) +
        text(x + lowWidth + BAR_WIDTH + 3 + highWidth, y + 7, meaning, style)
      );
    },
  };
}

function swatch(canvas: Canvas, meaning: string, style: Record<string, string | number>): LegendEntry {
  return {
    width: 16 + textWidth(meaning, 8),
    draw: (x, y) =>
      tag('rect', { x: x + 0.5, y, width: 11, height: 8, rx: 1.5, ...style }) +
      text(x + 16, y + 7, meaning, { fill: canvas.theme.quiet }),
  };
}
