// Decoding step by step: the cache of the target grows by one column, that of the source is filled once.
import { cells, fitted, type Box } from '../cells';
import { ColumnLabels } from '../labels';
import { signedScale, type Scale } from '../scales';
import type { Drawing, Sheet } from '../sheet';
import { tag } from '../svg';
import { cut, formula, shown, SIZE, text } from '../text';
import type { FilmData, Matrix } from '../types';
import { decimal, plural, quoted } from '../words';
import { measure } from '../widths';
import { transposed } from './selfAttention';

const MOST_STEPS = 14;
const TALL = 17;
const PITCH = 25;
const HEADING = 'reads → writes';

export function film(data: FilmData, sheet: Sheet): Drawing {
  sheet.note('Layers, heads and steps are counted from 0.');
  const steps = chosenSteps(data.target.length);
  if (steps.length < data.target.length) sheet.note(`${steps.length} of ${data.target.length} steps are shown.`);
  return {
    title: `Decoding with two caches: decoder layer ${data.layer}, head ${data.head}`,
    description: sentences(data),
    ...strips(data, steps, sheet),
  };
}

/** The first few, the last, and some between. */
export function chosenSteps(count: number, most = MOST_STEPS): number[] {
  if (count <= most) return Array.from({ length: count }, (_, step) => step);
  const between = Array.from({ length: most - 4 }, (_, place) => 4 + Math.round((place * (count - 5)) / (most - 5)));
  return [0, 1, 2, 3, ...between.filter((step) => step > 3)];
}

function sentences(data: FilmData): string[] {
  const [steps, source] = [data.target.length, data.source.length];
  const recurrent = [
    `This decoder has no self-attention: each layer keeps one vector of ${data.selfK.cols} numbers (SSRU)`,
    'and overwrites it at every step.',
  ];
  const growing = [
    'At each step one column joins the keys and values of the target; the others are reused:',
    `${plural(steps, 'position')} computed instead of ${(steps * (steps + 1)) / 2}.`,
  ];
  const first = data.target[0];
  return [
    ...(data.recurrent ? recurrent : growing),
    `The keys and values of the ${source} source tokens are made once, before the first step, and never change.`,
    data.layers > 1 ? `The same in all ${data.layers} layers.` : '',
    first === undefined ? '' : `Step 0 reads ${quoted(first.after ?? '')} and writes ${quoted(first.text)}.`,
  ].filter((sentence) => sentence !== '');
}

function strips(data: FilmData, steps: number[], sheet: Sheet): { body: string; height: number } {
  const { theme } = sheet;
  const cap = sheet.narrow ? 30 : 52;
  const texts = (pick: 'after' | 'text') =>
    Math.min(cap, Math.max(...data.target.map((one) => measure(shown(one[pick] ?? ''), SIZE))));
  const [before, after] = [texts('after'), texts('text')];
  const number = measure(String(data.target.length - 1), SIZE) + 6;
  const counted = data.recurrent ? 'overwritten' : `1 new, ${data.target.length - 1} reused`;
  const left = Math.max(number + before + 12 + after, number + measure(counted, SIZE), measure(HEADING, SIZE)) + 8;
  const own = data.recurrent ? 3 : data.target.length;
  const targets = new ColumnLabels(sheet, data.recurrent ? [] : data.target.map((one) => shown(one.after ?? '')), 40);
  const sources = new ColumnLabels(
    sheet,
    data.source.map((one) => shown(one.text)),
    40,
  );
  const gap = 14;
  const headings = data.recurrent ? { narrow: 84, wide: 190 } : { narrow: 50, wide: 150 }; // beside each other
  const title = sheet.narrow ? headings.narrow : headings.wide;
  const roomy = (sheet.width - left - gap - sources.overhang) / (own + data.source.length);
  const selfX = left;
  const crossX = left + Math.max(own * Math.min(14, roomy) + gap, title);
  const column = Math.min(14, roomy, (sheet.width - crossX - sources.overhang) / data.source.length);
  const top = Math.max(targets.height, sources.height) + 13;
  let body = '';
  body += targets.draw(selfX, top, column) + sources.draw(crossX, top, column);
  const selfK = transposed(data.selfK);
  const crossK = transposed(data.crossK);
  const drawnAt = (keys: Matrix) => signedScale([fitted(sheet, keys, keys.cols * column, TALL, Math.min(4.8, column))]);
  const scales = { self: drawnAt(selfK), cross: drawnAt(crossK) };
  sheet.keys.push({
    meaning: 'computed in this step',
    look: { fill: 'none', stroke: theme.accent, 'stroke-width': 1.4 },
  });
  sheet.note('Pale columns are reused.');
  body += heading(data, sheet, selfX, crossX, decimal(scales.self.limit), decimal(scales.cross.limit));
  steps.forEach((step, place) => {
    const y = top + place * PITCH;
    const token = data.target[step];
    const x = number + before;
    body += text(number - 6, y + 8, String(step), { fill: theme.text, bold: true, anchor: 'end' });
    body += text(x, y + 8, cut(shown(token?.after ?? ''), before + 0.01), { fill: theme.quiet, anchor: 'end' });
    body += text(x + 6, y + 8, '→', { fill: theme.quiet, anchor: 'middle' });
    body += text(x + 12, y + 8, cut(shown(token?.text ?? ''), after + 0.01), { fill: theme.text });
    const said = data.recurrent ? 'overwritten' : `1 new${step > 0 ? `, ${step} reused` : ''}`;
    body += text(left - 8, y + 17.5, said, { fill: theme.roles.k.text, anchor: 'end' });
    body += data.recurrent
      ? cell(sheet, data, step, { x: selfX, y, width: 2.4 * column, height: TALL }, scales.self)
      : growing(sheet, selfK, step, selfX, y, column, data.target.length, scales.self);
    const box = { x: crossX, y, width: column * crossK.cols, height: TALL };
    const drawn = cells(sheet, fitted(sheet, crossK, box.width, TALL, Math.min(4.8, column)), box, scales.cross);
    body += place === 0 ? drawn : tag('g', { opacity: '0.5' }, drawn);
    const stroke = place === 0 ? theme.accent : theme.roles.memory.fill;
    body += tag('rect', { ...box, fill: 'none', stroke, 'stroke-width': place === 0 ? 1.4 : 0.7 });
  });
  return { body, height: top + steps.length * PITCH - (PITCH - TALL) + 2 };
}

function heading(data: FilmData, sheet: Sheet, selfX: number, crossX: number, self: string, source: string): string {
  const { theme } = sheet;
  sheet.limits = true;
  const own = data.recurrent
    ? `${sheet.narrow ? '' : 'no self-attention: '}one vector, ±${self}`
    : sheet.narrow
      ? `self: ±${self}`
      : `self-attention: K so far, ±${self}`;
  const cross = sheet.narrow ? `cross: ±${source}` : `cross-attention: K, made once, ±${source}`;
  return (
    text(0, 8, HEADING, { fill: theme.quiet }) +
    formula(selfX, 8, own, { fill: theme.roles.k.text, bold: true }) +
    formula(crossX, 8, cut(cross, sheet.width - crossX, SIZE, true), { fill: theme.roles.memory.text, bold: true })
  );
}

/** The cache of the target after a step: old columns pale, the new one framed, those to come empty. */
function growing(
  sheet: Sheet,
  keys: Matrix,
  step: number,
  x: number,
  y: number,
  column: number,
  total: number,
  scale: Scale,
): string {
  const { theme } = sheet;
  const part = (from: number, to: number): string => {
    if (to <= from) return '';
    const values: (number | null)[] = [];
    for (let row = 0; row < keys.rows; row++)
      values.push(...keys.values.slice(row * keys.cols + from, row * keys.cols + to));
    const box = { x: x + from * column, y, width: (to - from) * column, height: TALL };
    return cells(
      sheet,
      fitted(sheet, { rows: keys.rows, cols: to - from, values }, box.width, TALL, Math.min(4.8, column)),
      box,
      scale,
    );
  };
  const outline = tag('rect', {
    x,
    y,
    width: total * column,
    height: TALL,
    fill: 'none',
    stroke: theme.faint,
    'stroke-dasharray': '2 2',
    'stroke-width': 0.6,
  });
  const fresh = tag('rect', {
    x: x + step * column,
    y,
    width: column,
    height: TALL,
    fill: 'none',
    stroke: theme.accent,
    'stroke-width': 1.4,
  });
  return outline + tag('g', { opacity: '0.5' }, part(0, step)) + part(step, step + 1) + fresh;
}

function cell(sheet: Sheet, data: FilmData, step: number, box: Box, scale: Scale): string {
  const { cols, values } = data.selfK;
  const column: Matrix = { rows: cols, cols: 1, values: values.slice(step * cols, (step + 1) * cols) };
  const frame = tag('rect', { ...box, fill: 'none', stroke: sheet.theme.accent, 'stroke-width': 1.4 });
  return cells(sheet, fitted(sheet, column, box.width, box.height, 4.8), box, scale) + frame;
}
