// View `softmax`: next-token probabilities at one target position; the most likely tokens as bars, all others as one.
import type { Canvas, Drawing } from '../canvas';
import { decimal, plural, probability, quoted } from '../formatting';
import { line, tag } from '../svg';
import { FONT_SIZE, isolated, text, tokenText, truncate } from '../text';
import { textWidth } from '../textWidth';
import type { SoftmaxData } from '../types';

const ROW_HEIGHT = 14;
const BAR_HEIGHT = 9;

interface Row {
  label: string;
  probability: number;
  written: boolean;
  rest: boolean;
}

export function softmax(data: SoftmaxData, canvas: Canvas): Drawing {
  const rows: Row[] = data.likeliest.map((one) => ({
    label: tokenText(one.text),
    probability: one.probability,
    written: one.written,
    rest: false,
  }));
  if (data.rest.count > 0) {
    rows.push({
      label: plural(data.rest.count, 'other'),
      probability: data.rest.probability,
      written: false,
      rest: true,
    });
  }
  const before = data.before.map(tokenText);
  const last = data.before[data.before.length - 1] ?? '';
  return {
    title: `Next-token probabilities at target position ${data.position}, after ${quoted(last)}`,
    description: sentences(data),
    ...bars(rows, before, canvas),
  };
}

function sentences(data: SoftmaxData): string[] {
  const named = data.likeliest.slice(0, 3).map((one) => `${quoted(one.text)} ${probability(one.probability)}`);
  const rest = `${plural(data.rest.count, 'other token')} together ${probability(data.rest.probability)}`;
  return [
    `Position ${data.position} of ${data.positions}, counted from 0: ${named.join(', ')}; ${rest}.`,
    `Token written: ${quoted(data.written)} (${probability(data.writtenProbability)}).`,
    `Entropy ${decimal(data.entropy)} nats.`,
  ];
}

function bars(rows: Row[], before: string[], canvas: Canvas): { body: string; height: number } {
  const { theme } = canvas;
  const labels =
    Math.min(canvas.narrow ? 70 : 110, Math.max(...rows.map((row) => textWidth(row.label, FONT_SIZE, row.written)))) +
    5;
  const room = canvas.width - labels - 74;
  const top = 26;
  const height = rows.length * ROW_HEIGHT;
  let body = prefix(before, canvas);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    const x = labels + tick * room;
    body += line(x, top - 2, x, top + height, theme.faint, 0.5);
    body += text(x, top - 5, String(tick), { fill: theme.quiet, anchor: 'middle' });
  }
  rows.forEach((row, place) => {
    const y = top + place * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2;
    const fill = row.written ? theme.roles.z.fill : theme.roles.memory.fill;
    const style = row.rest ? { fill: `url(#${canvas.hatch})`, stroke: theme.quiet, 'stroke-width': 0.5 } : { fill };
    if (row.rest) canvas.hatches = true;
    const ink = row.written ? theme.accent : row.rest ? theme.quiet : theme.text;
    const width = row.probability * room;
    const value = probability(row.probability) + (row.written ? ' written' : '');
    body += text(labels - 5, y + 7.2, truncate(row.label, labels - 5, FONT_SIZE, row.written), {
      fill: ink,
      bold: row.written,
      anchor: 'end',
    });
    if (width > 0.05) body += tag('rect', { x: labels, y, width, height: BAR_HEIGHT, ...style });
    body += text(labels + width + 4, y + 7.2, value, { fill: ink, bold: row.written, halo: theme.ground });
  });
  return { body: body + line(labels, top - 2, labels, top + height, theme.quiet, 0.8), height: top + height };
}

/** The target so far; a long one is truncated at its beginning, because its end matters. */
function prefix(before: string[], canvas: Canvas): string {
  let tokens = before.map(isolated);
  const room = canvas.width - 8;
  while (tokens.length > 1 && textWidth(`target so far: ${tokens.join(' ')} ▁`, FONT_SIZE) > room) {
    tokens = ['…', ...tokens.slice(tokens[0] === '…' ? 2 : 1)];
  }
  return text(0, 8, truncate(`target so far: ${tokens.join(' ')} _`, room), { fill: canvas.theme.quiet });
}
