// What colours, frames and hatching mean: always there, one line or two.
import { palette, type Scale } from './scales';
import type { Sheet } from './sheet';
import { number, tag } from './svg';
import { text } from './text';
import { measure } from './widths';
import { decimal } from './words';

interface Item {
  width: number;
  draw: (x: number, y: number) => string;
}

const BAR = 54;
const GAP = 14;
const HEIGHT = 14;

/** The items in as many lines as they need. */
export function legend(sheet: Sheet): { body: string; height: number } {
  let [x, y] = [0, 0];
  let body = '';
  for (const item of items(sheet)) {
    if (x > 0 && x + item.width > sheet.width) [x, y] = [0, y + HEIGHT];
    body += item.draw(x, y);
    x += item.width + GAP;
  }
  return { body, height: body === '' ? 0 : y + HEIGHT };
}

function items(sheet: Sheet): Item[] {
  const found: Item[] = [];
  if (sheet.signed) found.push(bar(sheet, { kind: 'signed', limit: 1 }, '−', '+', 'value: below 0, 0, above 0'));
  if (sheet.probability !== null) {
    found.push(
      bar(
        sheet,
        sheet.probability,
        '0',
        `${sheet.probability.clipped ? '≥ ' : ''}${decimal(sheet.probability.limit)}`,
        'attention weight',
      ),
    );
  }
  const { theme } = sheet;
  if (sheet.activations) found.push(swatch(sheet, 'activation', { fill: theme.roles.none.fill }));
  if (sheet.weights) {
    found.push(swatch(sheet, 'weight', { fill: theme.mat, stroke: theme.roles.none.fill, 'stroke-width': 1.1 }));
  }
  if (sheet.masked) {
    found.push(swatch(sheet, 'masked', { fill: `url(#${sheet.hatch})`, stroke: theme.faint, 'stroke-width': 0.5 }));
  }
  if (sheet.missing) {
    const dashed = { fill: theme.mat, stroke: theme.quiet, 'stroke-dasharray': '3 2', 'stroke-width': 1 };
    found.push(swatch(sheet, 'numbers not saved with this trace', dashed));
  }
  return [...found, ...sheet.keys.map((key) => swatch(sheet, key.meaning, key.look))];
}

function bar(sheet: Sheet, scale: Scale, low: string, high: string, meaning: string): Item {
  const style = { fill: sheet.theme.quiet };
  const before = measure(low, 8) + 3;
  const after = measure(high, 8) + 6;
  const colours = palette(scale, sheet.theme);
  const shades = 36;
  return {
    width: before + BAR + 3 + after + measure(meaning, 8),
    draw: (x, y) => {
      const strips = Array.from({ length: shades }, (_, i) => {
        const shade = colours[Math.round((i / (shades - 1)) * (colours.length - 1))] ?? [0, 0, 0];
        const fill = `rgb(${shade.map(number).join(',')})`;
        return tag('rect', { x: x + before + (i * BAR) / shades, y, width: BAR / shades + 0.2, height: 8, fill });
      });
      return (
        text(x, y + 7, low, style) +
        tag('g', { 'shape-rendering': 'crispEdges' }, ...strips) +
        text(x + before + BAR + 3, y + 7, high, style) +
        text(x + before + BAR + 3 + after, y + 7, meaning, style)
      );
    },
  };
}

function swatch(sheet: Sheet, meaning: string, look: Record<string, string | number>): Item {
  return {
    width: 16 + measure(meaning, 8),
    draw: (x, y) =>
      tag('rect', { x: x + 0.5, y, width: 11, height: 8, rx: 1.5, ...look }) +
      text(x + 16, y + 7, meaning, { fill: sheet.theme.quiet }),
  };
}
