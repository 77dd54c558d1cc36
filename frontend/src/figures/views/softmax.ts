// What may come next at one target position: the likeliest tokens as bars, all others as one.
import type { Drawing, Sheet } from '../sheet';
import { line, tag } from '../svg';
import { cut, isolated, shown, SIZE, text } from '../text';
import type { SoftmaxData } from '../types';
import { measure } from '../widths';
import { decimal, plural, probability, quoted } from '../words';

const ROW = 14;
const BAR = 9;

interface Row {
  label: string;
  probability: number;
  written: boolean;
  rest: boolean;
}

export function softmax(data: SoftmaxData, sheet: Sheet): Drawing {
  const rows: Row[] = data.likeliest.map((one) => ({
    label: shown(one.text),
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
  const before = data.before.map(shown);
  const last = data.before[data.before.length - 1] ?? '';
  return {
    title: `What comes next at target position ${data.position}, after ${quoted(last)}`,
    description: sentences(data),
    ...bars(rows, before, sheet),
  };
}

function sentences(data: SoftmaxData): string[] {
  const named = data.likeliest.slice(0, 3).map((one) => `${quoted(one.text)} ${probability(one.probability)}`);
  const rest = `${plural(data.rest.count, 'other token')} together ${probability(data.rest.probability)}`;
  return [
    `Position ${data.position} of ${data.positions}, counted from 0: ${named.join(', ')}; ${rest}.`,
    `Written: ${quoted(data.written)}, ${probability(data.writtenProbability)}.`,
    `Entropy ${decimal(data.entropy)} nats.`,
  ];
}

function bars(rows: Row[], before: string[], sheet: Sheet): { body: string; height: number } {
  const { theme } = sheet;
  const labels =
    Math.min(sheet.narrow ? 70 : 110, Math.max(...rows.map((row) => measure(row.label, SIZE, row.written)))) + 5;
  const room = sheet.width - labels - 74;
  const top = 26;
  const height = rows.length * ROW;
  let body = target(before, sheet);
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    const x = labels + tick * room;
    body += line(x, top - 2, x, top + height, theme.faint, 0.5);
    body += text(x, top - 5, String(tick), { fill: theme.quiet, anchor: 'middle' });
  }
  rows.forEach((row, place) => {
    const y = top + place * ROW + (ROW - BAR) / 2;
    const fill = row.written ? theme.roles.z.fill : theme.roles.memory.fill;
    const look = row.rest ? { fill: `url(#${sheet.hatch})`, stroke: theme.quiet, 'stroke-width': 0.5 } : { fill };
    if (row.rest) sheet.hatches = true;
    const ink = row.written ? theme.accent : row.rest ? theme.quiet : theme.text;
    const width = row.probability * room;
    const value = probability(row.probability) + (row.written ? ' written' : '');
    body += text(labels - 5, y + 7.2, cut(row.label, labels - 5, SIZE, row.written), {
      fill: ink,
      bold: row.written,
      anchor: 'end',
    });
    if (width > 0.05) body += tag('rect', { x: labels, y, width, height: BAR, ...look });
    body += text(labels + width + 4, y + 7.2, value, { fill: ink, bold: row.written, halo: theme.ground });
  });
  return { body: body + line(labels, top - 2, labels, top + height, theme.quiet, 0.8), height: top + height };
}

/** The target so far; its end is what matters, so a long one is cut at its beginning. */
function target(before: string[], sheet: Sheet): string {
  let tokens = before.map(isolated);
  const room = sheet.width - 8;
  while (tokens.length > 1 && measure(`so far: ${tokens.join(' ')} ▁`, SIZE) > room) {
    tokens = ['…', ...tokens.slice(tokens[0] === '…' ? 2 : 1)];
  }
  return text(0, 8, cut(`so far: ${tokens.join(' ')} _`, room), { fill: sheet.theme.quiet });
}
