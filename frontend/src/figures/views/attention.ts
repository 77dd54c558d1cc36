// View `attention`: the attention weights of one head, or of all heads side by side.
import type { Canvas, Drawing } from '../canvas';
import { cells, fitted, type Box } from '../cells';
import { attendsMostTo, attentionName, attentionNotes, capitalised, plural } from '../formatting';
import { ColumnLabels, RowLabels } from '../labels';
import { colour, probabilityScale, readableOn, type Scale } from '../scales';
import { tag } from '../svg';
import { isRightToLeft, text, tokenText } from '../text';
import type { AttentionData, Matrix, Token } from '../types';

const MIN_PRINTED_WEIGHT = 0.05;
const PANEL_GAP = 16;
const HEADING_HEIGHT = 12;
const MAX_DESCRIBED_HEADS = 4;

export function attention(given: AttentionData, canvas: Canvas): Drawing {
  const data = inReadingOrder(given, canvas);
  const weights = data.weights ?? [];
  const chosen = data.head === null ? weights : [weights[data.head] as Matrix];
  const scale = probabilityScale(chosen);
  for (const note of attentionNotes(data)) canvas.note(note);
  const panels =
    data.head === null ? allHeads(data, chosen, scale, canvas) : oneHead(data, chosen[0] as Matrix, scale, canvas);
  const name = capitalised(attentionName(data.place));
  const title =
    data.head === null
      ? `${name}: attention weights of ${plural(chosen.length, 'head')}`
      : `${name}, head ${data.head}: attention weights`;
  return { title, description: sentences(data, chosen), ...panels };
}

/** Keys of a right-to-left script are drawn from right to left, as the text is read. */
function inReadingOrder(data: AttentionData, canvas: Canvas): AttentionData {
  const rightToLeft = data.keys.filter((token) => isRightToLeft(token.after ?? token.text)).length;
  if (rightToLeft * 2 <= data.keys.length) return data;
  canvas.note('The columns run from right to left, as the text does.');
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
  const rows = data.token === null ? sharpestRows(data, chosen) : [[0, data.token] as [number, number]];
  if (data.head !== null) {
    const [, row] = rows[0] ?? [0, 0];
    return [`Head ${data.head} of ${attentionName(data.place)}: ${attendsTo(data, chosen[0] as Matrix, row)}.`];
  }
  const phrases = chosen.map((matrix, head) => {
    const row = data.token ?? (sharpestRows(data, [matrix])[0]?.[1] as number);
    return `head ${head}: ${attendsTo(data, matrix, row)}`;
  });
  const named = phrases.slice(0, MAX_DESCRIBED_HEADS);
  const rest = phrases.length - named.length;
  const more = rest > 0 ? `; and ${plural(rest, 'more head')}` : '';
  return [`${capitalised(attentionName(data.place))}. ${capitalised(named.join('; '))}${more}.`];
}

function attendsTo(data: AttentionData, matrix: Matrix, row: number): string {
  return attendsMostTo(data.queries[row] as Token, matrix, row, data.keys);
}

/** For each head, the word with the largest weight on a single position other than its own. */
export function sharpestRows(data: AttentionData, chosen: Matrix[]): [number, number][] {
  return chosen.map((matrix, head) => {
    let [largest, sharpest] = [-1, 0];
    matrix.values.forEach((value, index) => {
      const [row, col] = [Math.floor(index / matrix.cols), index % matrix.cols];
      const itself = data.place.kind === 'self' && row === col;
      const isWord = /\p{L}/u.test(data.queries[row]?.text ?? '') && !/^<.+>$/.test(data.queries[row]?.text ?? '');
      if (value !== null && !itself && isWord && value > largest) [largest, sharpest] = [value, row];
    });
    return [head, sharpest];
  });
}

function oneHead(data: AttentionData, matrix: Matrix, scale: Scale, canvas: Canvas): { body: string; height: number } {
  const rows = new RowLabels(canvas, data.queries, canvas.narrow ? 40 : 64);
  const columns = new ColumnLabels(
    canvas,
    data.keys.map((token) => tokenText(token.after ?? token.text)),
  );
  const room = canvas.width - rows.width - columns.overhang;
  const pitch = Math.min(24, room / matrix.cols);
  const height = Math.min(pitch, 15);
  const rowHeight = matrix.rows > 30 ? Math.min(height, 560 / matrix.rows) : height;
  const top = columns.height + 2;
  const box = { x: rows.width, y: top, width: pitch * matrix.cols, height: rowHeight * matrix.rows };
  const body =
    cells(canvas, fitted(canvas, matrix, box.width, box.height), box, scale) +
    frame(canvas, box) +
    (pitch >= 20 && rowHeight >= 9 ? numbers(matrix, box, scale, canvas) : '') +
    highlight(canvas, data.token, box, matrix.rows) +
    rows.draw(rows.width, top, rowHeight, data.token) +
    rows.heading(rows.width, top, rowHeight) +
    columns.draw(rows.width, top, pitch);
  return { body, height: top + box.height };
}

/** The larger weights as numbers, if the cells are large enough. */
function numbers(matrix: Matrix, box: Box, scale: Scale, canvas: Canvas): string {
  canvas.note(`Weights of ${MIN_PRINTED_WEIGHT} or more are printed as numbers.`);
  const [width, height] = [box.width / matrix.cols, box.height / matrix.rows];
  return matrix.values
    .map((value, index) => {
      if (value === null || value < MIN_PRINTED_WEIGHT) return '';
      const x = box.x + ((index % matrix.cols) + 0.5) * width;
      const y = box.y + (Math.floor(index / matrix.cols) + 0.5) * height + 2.8;
      const fill = readableOn(colour(value, scale, canvas.theme));
      return text(x, y, value > 0.995 ? '1' : value.toFixed(2).slice(1), { fill, anchor: 'middle' });
    })
    .join('');
}

function frame(canvas: Canvas, box: Box): string {
  return tag('rect', { ...box, fill: 'none', stroke: canvas.theme.quiet, 'stroke-width': 0.6 });
}

/** A frame around the highlighted row. */
function highlight(canvas: Canvas, row: number | null, box: Box, rows: number): string {
  if (row === null) return '';
  const height = box.height / rows;
  return tag('rect', {
    x: box.x - 1,
    y: box.y + row * height - 0.6,
    width: box.width + 2,
    height: height + 1.2,
    fill: 'none',
    stroke: canvas.theme.accent,
    'stroke-width': 1.4,
  });
}

/** Panels per line: as many as leave space for every label; long sentences are drawn small. */
function panelsPerLine(room: number, count: number, positions: number): number {
  const fitting = Math.floor((room + PANEL_GAP) / (Math.max(40, positions * 9) + PANEL_GAP));
  const least = count <= 2 ? count : count <= 4 ? 2 : count <= 9 ? 3 : 4;
  return Math.min(count, Math.max(least, Math.min(fitting, 6)));
}

function allHeads(
  data: AttentionData,
  panels: Matrix[],
  scale: Scale,
  canvas: Canvas,
): { body: string; height: number } {
  const rows = new RowLabels(canvas, data.queries, canvas.narrow ? 30 : 50);
  const columns = new ColumnLabels(
    canvas,
    data.keys.map((token) => tokenText(token.after ?? token.text)),
    46,
  );
  const room = canvas.width - rows.width - columns.overhang;
  const across = panelsPerLine(room, panels.length, data.keys.length);
  const width = Math.min(220, (room - (across - 1) * PANEL_GAP) / across);
  const pitch = width / data.keys.length;
  const rowHeight = Math.min(Math.max(pitch, 2), 12);
  const height = rowHeight * data.queries.length;
  let body = '';
  let y = 0;
  for (let first = 0; first < panels.length; first += across) {
    y += HEADING_HEIGHT + columns.height;
    body += rows.draw(rows.width, y, rowHeight, data.token) + rows.heading(rows.width, y, rowHeight);
    panels.slice(first, first + across).forEach((matrix, place) => {
      const box = { x: rows.width + place * (width + PANEL_GAP), y, width, height };
      body += text(box.x, y - columns.height - 2, `head ${first + place}`, { fill: canvas.theme.text, bold: true });
      body += cells(canvas, fitted(canvas, matrix, width, height), box, scale) + frame(canvas, box);
      body += highlight(canvas, data.token, box, matrix.rows) + columns.draw(box.x, y, pitch);
    });
    y += height + 8;
  }
  return { body, height: y - 8 };
}
