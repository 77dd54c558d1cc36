// Who looks at whom: the weights of one head large, or of every head side by side.
import { cells, fitted, type Box } from '../cells';
import { ColumnLabels, RowLabels } from '../labels';
import { colour, probabilityScale, readableOn, type Scale } from '../scales';
import type { Drawing, Sheet } from '../sheet';
import { tag } from '../svg';
import { runsLeft, shown, text } from '../text';
import type { AttentionData, Matrix, Token } from '../types';
import { capitalised, placeName, remarksOn, spoken, strongest } from '../words';

const GAP = 16;
const HEADING = 12;

export function attention(given: AttentionData, sheet: Sheet): Drawing {
  const data = asRead(given, sheet);
  const weights = data.weights ?? [];
  const chosen = data.head === null ? weights : [weights[data.head] as Matrix];
  const scale = probabilityScale(chosen);
  for (const remark of remarksOn(data)) sheet.note(remark);
  const panels = data.head === null ? many(data, chosen, scale, sheet) : one(data, chosen[0] as Matrix, scale, sheet);
  const place = capitalised(placeName(data.place));
  const title = data.head === null ? `${place}: ${chosen.length} heads` : `${place}, head ${data.head}`;
  return { title, description: sentences(data, chosen), ...panels };
}

/** Keys of a script that runs to the left stand from right to left, as the text does. */
function asRead(data: AttentionData, sheet: Sheet): AttentionData {
  const leftward = data.keys.filter((token) => runsLeft(token.after ?? token.text)).length;
  if (leftward * 2 <= data.keys.length) return data;
  sheet.note('The columns run from right to left, as the text does.');
  const weights = (data.weights ?? []).map(mirrored);
  return { ...data, keys: [...data.keys].reverse(), weights };
}

function mirrored(matrix: Matrix): Matrix {
  const values: (number | null)[] = [];
  for (let row = 0; row < matrix.rows; row++) {
    values.push(...matrix.values.slice(row * matrix.cols, (row + 1) * matrix.cols).reverse());
  }
  return { ...matrix, values };
}

function sentences(data: AttentionData, chosen: Matrix[]): string[] {
  const rows = data.token === null ? clearest(data, chosen) : [[0, data.token] as [number, number]];
  if (data.head !== null) {
    const [, row] = rows[0] ?? [0, 0];
    return [`Head ${data.head} of ${placeName(data.place)}: ${looks(data, chosen[0] as Matrix, row)}.`];
  }
  const said = chosen.map((matrix, head) => {
    const row = data.token ?? (clearest(data, [matrix])[0]?.[1] as number);
    return `head ${head}: ${looks(data, matrix, row)}`;
  });
  const few = said.slice(0, 4);
  const more = said.length > few.length ? `; and ${said.length - few.length} more heads` : '';
  return [`${capitalised(placeName(data.place))}. ${capitalised(few.join('; '))}${more}.`];
}

function looks(data: AttentionData, matrix: Matrix, row: number): string {
  return `${spoken(data.queries[row] as Token)} looks most at ${strongest(matrix, row, data.keys)}`;
}

/** The word of each head that looks most sharply at one place other than its own. */
export function clearest(data: AttentionData, chosen: Matrix[]): [number, number][] {
  return chosen.map((matrix, head) => {
    let [best, found] = [-1, 0];
    matrix.values.forEach((value, index) => {
      const [row, col] = [Math.floor(index / matrix.cols), index % matrix.cols];
      const itself = data.place.kind === 'self' && row === col;
      const word = /\p{L}/u.test(data.queries[row]?.text ?? '') && !/^<.+>$/.test(data.queries[row]?.text ?? '');
      if (value !== null && !itself && word && value > best) [best, found] = [value, row];
    });
    return [head, found];
  });
}

function one(data: AttentionData, matrix: Matrix, scale: Scale, sheet: Sheet): { body: string; height: number } {
  const rows = new RowLabels(sheet, data.queries, sheet.narrow ? 40 : 64);
  const columns = new ColumnLabels(
    sheet,
    data.keys.map((token) => shown(token.after ?? token.text)),
  );
  const room = sheet.width - rows.width - columns.overhang;
  const pitch = Math.min(24, room / matrix.cols);
  const height = Math.min(pitch, 15);
  const down = matrix.rows > 30 ? Math.min(height, 560 / matrix.rows) : height;
  const top = columns.height + 2;
  const box = { x: rows.width, y: top, width: pitch * matrix.cols, height: down * matrix.rows };
  const body =
    cells(sheet, fitted(sheet, matrix, box.width, box.height), box, scale) +
    frame(sheet, box) +
    (pitch >= 20 && down >= 9 ? numbers(matrix, box, scale, sheet) : '') +
    marked(sheet, data.token, box, matrix.rows) +
    rows.draw(rows.width, top, down, data.token) +
    rows.heading(rows.width, top, down) +
    columns.draw(rows.width, top, pitch);
  return { body, height: top + box.height };
}

/** The larger weights as numbers, where cells are large enough to hold them. */
function numbers(matrix: Matrix, box: Box, scale: Scale, sheet: Sheet): string {
  sheet.note('Weights of 0.05 and more are written out.');
  const [width, height] = [box.width / matrix.cols, box.height / matrix.rows];
  return matrix.values
    .map((value, index) => {
      if (value === null || value < 0.05) return '';
      const x = box.x + ((index % matrix.cols) + 0.5) * width;
      const y = box.y + (Math.floor(index / matrix.cols) + 0.5) * height + 2.8;
      const fill = readableOn(colour(value, scale, sheet.theme));
      return text(x, y, value > 0.995 ? '1' : value.toFixed(2).slice(1), { fill, anchor: 'middle' });
    })
    .join('');
}

function frame(sheet: Sheet, box: Box): string {
  return tag('rect', { ...box, fill: 'none', stroke: sheet.theme.quiet, 'stroke-width': 0.6 });
}

function marked(sheet: Sheet, row: number | null, box: Box, rows: number): string {
  if (row === null) return '';
  const height = box.height / rows;
  return tag('rect', {
    x: box.x - 1,
    y: box.y + row * height - 0.6,
    width: box.width + 2,
    height: height + 1.2,
    fill: 'none',
    stroke: sheet.theme.accent,
    'stroke-width': 1.4,
  });
}

/** As many beside each other as leave every label its room; long sentences are drawn small. */
export function perLine(room: number, count: number, positions: number): number {
  const roomy = Math.floor((room + GAP) / (Math.max(40, positions * 9) + GAP));
  const least = count <= 2 ? count : count <= 4 ? 2 : count <= 9 ? 3 : 4;
  return Math.min(count, Math.max(least, Math.min(roomy, 6)));
}

function many(data: AttentionData, panels: Matrix[], scale: Scale, sheet: Sheet): { body: string; height: number } {
  const rows = new RowLabels(sheet, data.queries, sheet.narrow ? 30 : 50);
  const columns = new ColumnLabels(
    sheet,
    data.keys.map((token) => shown(token.after ?? token.text)),
    46,
  );
  const room = sheet.width - rows.width - columns.overhang;
  const across = perLine(room, panels.length, data.keys.length);
  const width = Math.min(220, (room - (across - 1) * GAP) / across);
  const pitch = width / data.keys.length;
  const down = Math.min(Math.max(pitch, 2), 12);
  const height = down * data.queries.length;
  let body = '';
  let y = 0;
  for (let first = 0; first < panels.length; first += across) {
    y += HEADING + columns.height;
    body += rows.draw(rows.width, y, down, data.token) + rows.heading(rows.width, y, down);
    panels.slice(first, first + across).forEach((matrix, place) => {
      const box = { x: rows.width + place * (width + GAP), y, width, height };
      body += text(box.x, y - columns.height - 2, `head ${first + place}`, { fill: sheet.theme.text, bold: true });
      body += cells(sheet, fitted(sheet, matrix, width, height), box, scale) + frame(sheet, box);
      body += marked(sheet, data.token, box, matrix.rows) + columns.draw(box.x, y, pitch);
    });
    y += height + 8;
  }
  return { body, height: y - 8 };
}
