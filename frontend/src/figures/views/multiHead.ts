// View `multi-head`: one whole attention. X; for each head W, Q, K, V, attention weights and Z; all Z × W_O = output.
import type { Canvas, Drawing } from '../canvas';
import type { Box } from '../cells';
import { attentionName, attentionNotes, capitalised, plural } from '../formatting';
import { RowLabels, rowPitch } from '../labels';
import { commonScale, drawMatrix, SPACE_ABOVE, SPACE_BELOW, type MatrixStyle } from '../matrix';
import { probabilityScale, type Scale } from '../scales';
import { tag } from '../svg';
import { text } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, MaybeMatrix } from '../types';
import { concatenated } from './concat';
import { sign } from './qkv';

const GAP = 7;
const ARROW_SPACE = 17;
const MAX_HEADS = 8;

/** Indices of the heads (or layers) to draw; null stands for those left out, before the last. */
export function drawnIndices(count: number, max = MAX_HEADS): (number | null)[] {
  const all = Array.from({ length: count }, (_, index) => index);
  return count <= max ? all : [...all.slice(0, max - 2), null, count - 1];
}

export function multiHead(data: AttentionData, canvas: Canvas): Drawing {
  for (const note of attentionNotes(data)) canvas.note(note);
  const left = inputs(data, canvas);
  const headRows = drawHeads(data, canvas, left.width);
  const height = Math.max(left.height, headRows.height);
  const outputRow = drawOutput(data, canvas, height + 14);
  const cross = data.place.kind === 'cross' ? ' Q is computed from X, K and V from the memory.' : '';
  return {
    title: `${capitalised(attentionName(data.place))}: from input to output`,
    description: [
      `${plural(data.heads, 'head')}: each computes Q, K and V with its own W_Q, W_K and W_V,`,
      'attention weights from Q and K, and Z as the weighted sum of V;',
      `all Z concatenated, times W_O, are the output (${data.output?.rows ?? 0} × ${data.output?.cols ?? 0}).${cross}`,
    ],
    body: left.draw(height) + headRows.draw(height) + outputRow.body,
    height: outputRow.height,
  };
}

/** X, and in cross-attention the memory below it. */
function inputs(
  data: AttentionData,
  canvas: Canvas,
): { width: number; height: number; draw: (room: number) => string } {
  const cross = data.place.kind === 'cross';
  const sides = [
    { matrix: data.input as Matrix, tokens: data.queries, role: 'x' as Role, label: 'X' },
    ...(cross ? [{ matrix: data.memory as Matrix, tokens: data.keys, role: 'memory' as Role, label: 'memory' }] : []),
  ];
  const labels = sides.map((side) => new RowLabels(canvas, side.tokens, canvas.narrow ? 22 : 40));
  const wide = canvas.narrow ? 40 : 66;
  const start = Math.max(...labels.map((one) => one.width));
  const heights = sides.map((side) => rowPitch(side.matrix.rows, 160, 8.8) * side.matrix.rows);
  const height = heights.reduce((sum, one) => sum + one + SPACE_ABOVE + SPACE_BELOW, 0);
  return {
    width: start + wide,
    height,
    draw: (room) => {
      let y = (room - height) / 2;
      let body = '';
      sides.forEach((side, place) => {
        const matrixHeight = heights[place] as number;
        y += SPACE_ABOVE;
        body += (labels[place] as RowLabels).draw(
          start,
          y,
          matrixHeight / side.matrix.rows,
          place === 0 ? data.token : null,
        );
        const box = { x: start, y, width: wide, height: matrixHeight };
        body += drawMatrix(canvas, side.matrix, box, { role: side.role, kind: 'activation', label: side.label });
        y += matrixHeight + SPACE_BELOW;
      });
      return body;
    },
  };
}

interface Column {
  letter: string;
  role: Role;
  kind: 'weight' | 'activation';
  matrices: MaybeMatrix[];
  scale: Scale;
  width: number;
  /** Space before it. */
  before: number;
  sign: string;
}

/** One line per head. */
function drawHeads(
  data: AttentionData,
  canvas: Canvas,
  left: number,
): { height: number; draw: (room: number) => string } {
  const shown = drawnIndices(data.heads);
  const matrixHeight = shown.length <= 4 ? 56 : 32;
  const pitch = matrixHeight + 22;
  const columns = columnsOf(data, canvas, canvas.width - left, matrixHeight);
  const height = shown.reduce<number>((sum, head) => sum + (head === null ? 16 : pitch), 0);
  return {
    height,
    draw: (room) => {
      let y = (room - height) / 2;
      let body = '';
      for (const head of shown) {
        if (head === null) {
          const rest = `⋮ ${plural(data.heads - shown.length + 1, 'more head')}`;
          body += text(left + ARROW_SPACE + 8, y + 10, rest, { fill: canvas.theme.quiet });
          y += 16;
          continue;
        }
        body += drawHead(canvas, columns, head, left, y + 18, matrixHeight, room / 2);
        y += pitch;
      }
      return body;
    },
  };
}

function columnsOf(data: AttentionData, canvas: Canvas, room: number, matrixHeight: number): Column[] {
  const weights = data.weights as Matrix[];
  const letters = ['Q', 'K', 'V'] as const;
  const roles: Role[] = ['q', 'k', 'v'];
  const withWeights = !canvas.narrow;
  if (!withWeights) canvas.note('At this width W_Q, W_K and W_V are left out.');
  const gaps = (withWeights ? 4 : 3) * ARROW_SPACE + (withWeights ? 4 : 2) * GAP;
  // Widths in units: a weight matrix 1.2, an activation 1, the attention weights 1.6.
  const unit = (room - gaps) / (withWeights ? 9.2 : 5.6);
  const width = unit;
  const columns: Column[] = [];
  const activations = [data.q, data.k, data.v] as Matrix[][];
  if (withWeights) {
    ([data.wq, data.wk, data.wv] as MaybeMatrix[][]).forEach((matrices, place) => {
      const scale = commonScale(canvas, matrices, width * 1.2, matrixHeight);
      const letter = `W_${letters[place]}`;
      columns.push({
        letter,
        role: roles[place] as Role,
        kind: 'weight',
        matrices,
        scale,
        width: width * 1.2,
        before: place === 0 ? ARROW_SPACE : GAP + 2,
        sign: '',
      });
    });
  }
  activations.forEach((matrices, place) => {
    const scale = commonScale(canvas, matrices, width, matrixHeight);
    columns.push({
      letter: letters[place] as string,
      role: roles[place] as Role,
      kind: 'activation',
      matrices,
      scale,
      width,
      before: place === 0 ? ARROW_SPACE : GAP,
      sign: place === 0 && withWeights ? '→' : '',
    });
  });
  const square = width * 1.6;
  columns.push({
    letter: 'softmax',
    role: 'none',
    kind: 'activation',
    matrices: weights,
    scale: probabilityScale(weights),
    width: square,
    before: ARROW_SPACE,
    sign: '→',
  });
  const context = data.context as Matrix[];
  columns.push({
    letter: 'Z',
    role: 'z',
    kind: 'activation',
    matrices: context,
    scale: commonScale(canvas, context, width, matrixHeight),
    width,
    before: ARROW_SPACE,
    sign: '→',
  });
  return columns;
}

function drawHead(
  canvas: Canvas,
  columns: Column[],
  head: number,
  left: number,
  top: number,
  matrixHeight: number,
  centre: number,
): string {
  const middle = top + matrixHeight / 2;
  const stroke = canvas.theme.faint;
  const [from, to] = [left + 3, left + ARROW_SPACE - 4];
  let body = tag('path', {
    d: `M${from} ${Math.round(centre)}L${Math.round(to)} ${Math.round(middle)}`,
    fill: 'none',
    stroke,
    'stroke-width': 1,
  });
  let x = left;
  for (const column of columns) {
    x += column.before;
    if (column.sign !== '') body += sign(canvas, x - ARROW_SPACE / 2, middle, column.sign);
    const box: Box = { x, y: top, width: column.width, height: matrixHeight };
    const label =
      column.letter === 'softmax'
        ? ''
        : column.kind === 'weight'
          ? `${column.letter}^{${head}}`
          : `${column.letter}_{${head}}`;
    const style: MatrixStyle = { role: column.role, kind: column.kind, label, scale: column.scale, sizes: 'none' };
    body += drawMatrix(canvas, column.matrices[head] as MaybeMatrix, box, style);
    if (label === '')
      body += text(x + column.width / 2, top - 4, 'softmax', { fill: canvas.theme.quiet, anchor: 'middle' });
    x += column.width;
  }
  return body;
}

/** All Z × W_O = output. */
function drawOutput(data: AttentionData, canvas: Canvas, y: number): { body: string; height: number } {
  const joined = concatenated(data.context as Matrix[]);
  const out = data.output as Matrix;
  const labels = new RowLabels(canvas, data.queries, canvas.narrow ? 22 : 40);
  const room = canvas.width - labels.width - 52;
  const wide = Math.min(room / 3, 150);
  const pitch = rowPitch(joined.rows, 150, 8.8);
  const height = pitch * joined.rows;
  const weightHeight = Math.min(wide, 130);
  const lineHeight = Math.max(height, weightHeight);
  const middle = y + SPACE_ABOVE + lineHeight / 2;
  const rows = middle - height / 2;
  let x = labels.width;
  let body = labels.draw(x, rows, pitch, data.token);
  const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : 'Z_0';
  body += drawMatrix(
    canvas,
    joined,
    { x, y: rows, width: wide, height },
    { role: 'z', kind: 'activation', label, parts: data.heads },
  );
  x += wide;
  body += sign(canvas, x + 13, middle, '×');
  x += 26;
  body += drawMatrix(
    canvas,
    data.wo as MaybeMatrix,
    { x, y: middle - weightHeight / 2, width: wide, height: weightHeight },
    { role: 'z', kind: 'weight', label: 'W_O' },
  );
  x += wide;
  body += sign(canvas, x + 13, middle, '=');
  x += 26;
  body += drawMatrix(
    canvas,
    out,
    { x, y: rows, width: wide, height },
    { role: 'x', kind: 'activation', label: 'output' },
  );
  return { body, height: y + SPACE_ABOVE + lineHeight + SPACE_BELOW };
}
