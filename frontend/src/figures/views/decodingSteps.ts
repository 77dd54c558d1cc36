// View `decoding-steps`: both key caches at every step. The target's gets one column per step, the source's is
// computed once.
import type { Canvas, Drawing } from '../canvas';
import { cells, fitted, type Box } from '../cells';
import { decimal, plural, quoted } from '../formatting';
import { ColumnLabels } from '../labels';
import { signedScale, type Scale } from '../scales';
import { tag } from '../svg';
import { FONT_SIZE, formula, text, tokenText, truncate } from '../text';
import { textWidth } from '../textWidth';
import type { DecodingStepsData, Matrix } from '../types';
import { transposed } from './selfAttention';

const MAX_STEPS = 14;
const STRIP_HEIGHT = 17;
const STEP_PITCH = 25;
const HEADING = 'input → output';

export function decodingSteps(data: DecodingStepsData, canvas: Canvas): Drawing {
  canvas.note('Layers, heads and steps are counted from 0.');
  const steps = chosenSteps(data.target.length);
  if (steps.length < data.target.length) canvas.note(`${steps.length} of ${data.target.length} steps are shown.`);
  const cache = data.recurrent ? 'state and cached keys' : 'cached keys';
  return {
    title: `Decoding step by step: ${cache} of decoder layer ${data.layer}, head ${data.head}`,
    description: sentences(data),
    ...strips(data, steps, canvas),
  };
}

/** The steps to draw: the first four, the last, and some in between. */
export function chosenSteps(count: number, max = MAX_STEPS): number[] {
  if (count <= max) return Array.from({ length: count }, (_, step) => step);
  const between = Array.from({ length: max - 4 }, (_, place) => 4 + Math.round((place * (count - 5)) / (max - 5)));
  return [0, 1, 2, 3, ...between.filter((step) => step > 3)];
}

function sentences(data: DecodingStepsData): string[] {
  const [steps, source] = [data.target.length, data.source.length];
  const recurrent = [
    `This decoder has no self-attention: each layer has one state vector of ${data.selfK.cols} numbers (SSRU)`,
    'and overwrites it in every step.',
  ];
  const growing = [
    'Each step adds one column to the keys and values of the target and reuses the others:',
    `${plural(steps, 'position')} computed instead of ${(steps * (steps + 1)) / 2}.`,
  ];
  const first = data.target[0];
  return [
    ...(data.recurrent ? recurrent : growing),
    `The keys and values of the ${source} source tokens are computed once, before the first step, and never change.`,
    data.layers > 1 ? `The same holds for each of the ${data.layers} layers.` : '',
    first === undefined ? '' : `The input of step 0 is ${quoted(first.after ?? '')}, its output ${quoted(first.text)}.`,
  ].filter((sentence) => sentence !== '');
}

function strips(data: DecodingStepsData, steps: number[], canvas: Canvas): { body: string; height: number } {
  const { theme } = canvas;
  const maxWidth = canvas.narrow ? 30 : 52;
  const columnWidth = (pick: 'after' | 'text') =>
    Math.min(maxWidth, Math.max(...data.target.map((token) => textWidth(tokenText(token[pick] ?? ''), FONT_SIZE))));
  const [before, after] = [columnWidth('after'), columnWidth('text')];
  const number = textWidth(String(data.target.length - 1), FONT_SIZE) + 6;
  const longestCount = data.recurrent ? 'overwritten' : `1 new, ${data.target.length - 1} reused`;
  const left =
    Math.max(number + before + 12 + after, number + textWidth(longestCount, FONT_SIZE), textWidth(HEADING, FONT_SIZE)) +
    8;
  const targetColumns = data.recurrent ? 3 : data.target.length;
  const targets = new ColumnLabels(
    canvas,
    data.recurrent ? [] : data.target.map((one) => tokenText(one.after ?? '')),
    40,
  );
  const sources = new ColumnLabels(
    canvas,
    data.source.map((one) => tokenText(one.text)),
    40,
  );
  const gap = 14;
  // Minimum width of the first strip, so that its heading does not run into the second one's.
  const headingWidths = data.recurrent ? { narrow: 84, wide: 190 } : { narrow: 50, wide: 150 };
  const headingWidth = canvas.narrow ? headingWidths.narrow : headingWidths.wide;
  const fitting = (canvas.width - left - gap - sources.overhang) / (targetColumns + data.source.length);
  const selfX = left;
  const crossX = left + Math.max(targetColumns * Math.min(14, fitting) + gap, headingWidth);
  const column = Math.min(14, fitting, (canvas.width - crossX - sources.overhang) / data.source.length);
  const top = Math.max(targets.height, sources.height) + 13;
  let body = '';
  body += targets.draw(selfX, top, column) + sources.draw(crossX, top, column);
  const selfK = transposed(data.selfK);
  const crossK = transposed(data.crossK);
  const scaleOf = (keys: Matrix) =>
    signedScale([fitted(canvas, keys, keys.cols * column, STRIP_HEIGHT, Math.min(4.8, column))]);
  const scales = { self: scaleOf(selfK), cross: scaleOf(crossK) };
  canvas.legendItems.push({
    meaning: 'computed in this step',
    style: { fill: 'none', stroke: theme.accent, 'stroke-width': 1.4 },
  });
  canvas.note('Pale columns are reused.');
  body += heading(data, canvas, selfX, crossX, decimal(scales.self.limit), decimal(scales.cross.limit));
  steps.forEach((step, place) => {
    const y = top + place * STEP_PITCH;
    const token = data.target[step];
    const x = number + before;
    body += text(number - 6, y + 8, String(step), { fill: theme.text, bold: true, anchor: 'end' });
    body += text(x, y + 8, truncate(tokenText(token?.after ?? ''), before + 0.01), {
      fill: theme.quiet,
      anchor: 'end',
    });
    body += text(x + 6, y + 8, '→', { fill: theme.quiet, anchor: 'middle' });
    body += text(x + 12, y + 8, truncate(tokenText(token?.text ?? ''), after + 0.01), { fill: theme.text });
    const count = data.recurrent ? 'overwritten' : `1 new${step > 0 ? `, ${step} reused` : ''}`;
    body += text(left - 8, y + 17.5, count, { fill: theme.roles.k.text, anchor: 'end' });
    body += data.recurrent
      ? stateVector(canvas, data, step, { x: selfX, y, width: 2.4 * column, height: STRIP_HEIGHT }, scales.self)
      : targetCache(canvas, selfK, step, selfX, y, column, data.target.length, scales.self);
    const box = { x: crossX, y, width: column * crossK.cols, height: STRIP_HEIGHT };
    const drawn = cells(
      canvas,
      fitted(canvas, crossK, box.width, STRIP_HEIGHT, Math.min(4.8, column)),
      box,
      scales.cross,
    );
    body += place === 0 ? drawn : tag('g', { opacity: '0.5' }, drawn);
    const stroke = place === 0 ? theme.accent : theme.roles.memory.fill;
    body += tag('rect', { ...box, fill: 'none', stroke, 'stroke-width': place === 0 ? 1.4 : 0.7 });
  });
  return { body, height: top + steps.length * STEP_PITCH - (STEP_PITCH - STRIP_HEIGHT) + 2 };
}

function heading(
  data: DecodingStepsData,
  canvas: Canvas,
  selfX: number,
  crossX: number,
  self: string,
  source: string,
): string {
  const { theme } = canvas;
  canvas.limits = true;
  const target = data.recurrent
    ? `${canvas.narrow ? '' : 'no self-attention: '}one vector, ±${self}`
    : canvas.narrow
      ? `self: ±${self}`
      : `self-attention: K so far, ±${self}`;
  const cross = canvas.narrow ? `cross: ±${source}` : `cross-attention: K, computed once, ±${source}`;
  return (
    text(0, 8, HEADING, { fill: theme.quiet }) +
    formula(selfX, 8, target, { fill: theme.roles.k.text, bold: true }) +
    formula(crossX, 8, truncate(cross, canvas.width - crossX, FONT_SIZE, true), {
      fill: theme.roles.memory.text,
      bold: true,
    })
  );
}

/** The cache of the target after a step: earlier columns pale, the new one framed, later ones empty. */
function targetCache(
  canvas: Canvas,
  keys: Matrix,
  step: number,
  x: number,
  y: number,
  column: number,
  total: number,
  scale: Scale,
): string {
  const { theme } = canvas;
  const columns = (from: number, to: number): string => {
    if (to <= from) return '';
    const values: (number | null)[] = [];
    for (let row = 0; row < keys.rows; row++)
      values.push(...keys.values.slice(row * keys.cols + from, row * keys.cols + to));
    const box = { x: x + from * column, y, width: (to - from) * column, height: STRIP_HEIGHT };
    return cells(
      canvas,
      fitted(canvas, { rows: keys.rows, cols: to - from, values }, box.width, STRIP_HEIGHT, Math.min(4.8, column)),
      box,
      scale,
    );
  };
  const outline = tag('rect', {
    x,
    y,
    width: total * column,
    height: STRIP_HEIGHT,
    fill: 'none',
    stroke: theme.faint,
    'stroke-dasharray': '2 2',
    'stroke-width': 0.6,
  });
  const newColumn = tag('rect', {
    x: x + step * column,
    y,
    width: column,
    height: STRIP_HEIGHT,
    fill: 'none',
    stroke: theme.accent,
    'stroke-width': 1.4,
  });
  return outline + tag('g', { opacity: '0.5' }, columns(0, step)) + columns(step, step + 1) + newColumn;
}

/** The state of a recurrent decoder after a step. */
function stateVector(canvas: Canvas, data: DecodingStepsData, step: number, box: Box, scale: Scale): string {
  const { cols, values } = data.selfK;
  const column: Matrix = { rows: cols, cols: 1, values: values.slice(step * cols, (step + 1) * cols) };
  const frame = tag('rect', { ...box, fill: 'none', stroke: canvas.theme.accent, 'stroke-width': 1.4 });
  return cells(canvas, fitted(canvas, column, box.width, box.height, 4.8), box, scale) + frame;
}
