// The whole attention in one picture: X, each head's weights, Q, K, V, what it looks at, Z; then all Z × W_O = output.
import type { Box } from '../cells';
import { RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, commonScale, drawMatrix, type MatrixStyle } from '../matrix';
import { probabilityScale, type Scale } from '../scales';
import type { Drawing, Sheet } from '../sheet';
import { tag } from '../svg';
import { text } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, MaybeMatrix } from '../types';
import { capitalised, placeName, plural, remarksOn } from '../words';
import { sideBySide } from './concat';
import { sign } from './qkv';

const GAP = 7;
const BETWEEN = 17;
const MOST_HEADS = 8;

/** The heads that are drawn; null stands for those left out. */
export function drawnHeads(heads: number, most = MOST_HEADS): (number | null)[] {
  const all = Array.from({ length: heads }, (_, head) => head);
  return heads <= most ? all : [...all.slice(0, most - 2), null, heads - 1];
}

export function multiHead(data: AttentionData, sheet: Sheet): Drawing {
  for (const remark of remarksOn(data)) sheet.note(remark);
  const left = inputs(data, sheet);
  const lanes = laneRows(data, sheet, left.width);
  const height = Math.max(left.height, lanes.height);
  const join = bottom(data, sheet, height + 14);
  const cross = data.place.kind === 'cross' ? ' Q is made from X, K and V from the memory.' : '';
  return {
    title: `${capitalised(placeName(data.place))}: all of it, from tokens to output`,
    description: [
      `${plural(data.heads, 'head')}: each multiplies by its own W_Q, W_K and W_V,`,
      'compares Q with K, takes from V, and gives a Z;',
      `all Z side by side, times W_O, are the output (${data.output?.rows ?? 0} × ${data.output?.cols ?? 0}).${cross}`,
    ],
    body: left.draw(height) + lanes.draw(height, left.height) + join.body,
    height: join.height,
  };
}

/** X, and in cross-attention the memory below it. */
function inputs(data: AttentionData, sheet: Sheet): { width: number; height: number; draw: (room: number) => string } {
  const cross = data.place.kind === 'cross';
  const sides = [
    { matrix: data.input as Matrix, tokens: data.queries, role: 'x' as Role, label: 'X' },
    ...(cross ? [{ matrix: data.memory as Matrix, tokens: data.keys, role: 'memory' as Role, label: 'memory' }] : []),
  ];
  const labels = sides.map((side) => new RowLabels(sheet, side.tokens, sheet.narrow ? 22 : 40));
  const wide = sheet.narrow ? 40 : 66;
  const start = Math.max(...labels.map((one) => one.width));
  const heights = sides.map((side) => rowPitch(side.matrix.rows, 160, 8.8) * side.matrix.rows);
  const height = heights.reduce((sum, one) => sum + one + ABOVE + BELOW, 0);
  return {
    width: start + wide,
    height,
    draw: (room) => {
      let y = (room - height) / 2;
      let body = '';
      sides.forEach((side, place) => {
        const own = heights[place] as number;
        y += ABOVE;
        body += (labels[place] as RowLabels).draw(start, y, own / side.matrix.rows, place === 0 ? data.token : null);
        const box = { x: start, y, width: wide, height: own };
        body += drawMatrix(sheet, side.matrix, box, { role: side.role, kind: 'activation', label: side.label });
        y += own + BELOW;
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
  /** Room before it. */
  before: number;
  sign: string;
}

function laneRows(
  data: AttentionData,
  sheet: Sheet,
  left: number,
): { height: number; draw: (room: number, own: number) => string } {
  const shown = drawnHeads(data.heads);
  const tall = shown.length <= 4 ? 56 : 32;
  const pitch = tall + 22;
  const columns = columnsOf(data, sheet, sheet.width - left, tall);
  const height = shown.reduce<number>((sum, head) => sum + (head === null ? 16 : pitch), 0);
  return {
    height,
    draw: (room) => {
      let y = (room - height) / 2;
      let body = '';
      for (const head of shown) {
        if (head === null) {
          const rest = `⋮ ${plural(data.heads - shown.length + 1, 'more head')}`;
          body += text(left + BETWEEN + 8, y + 10, rest, { fill: sheet.theme.quiet });
          y += 16;
          continue;
        }
        body += lane(sheet, columns, head, left, y + 18, tall, room / 2);
        y += pitch;
      }
      return body;
    },
  };
}

function columnsOf(data: AttentionData, sheet: Sheet, room: number, tall: number): Column[] {
  const weights = data.weights as Matrix[];
  const letters = ['Q', 'K', 'V'] as const;
  const roles: Role[] = ['q', 'k', 'v'];
  const withWeights = !sheet.narrow;
  if (!withWeights) sheet.note('At this width the heads’ weights are left out.');
  const gaps = (withWeights ? 4 : 3) * BETWEEN + (withWeights ? 4 : 2) * GAP;
  const unit = (room - gaps) / (withWeights ? 9.2 : 5.6); // a weight is 1.2 wide, an activation 1, softmax 1.6
  const width = unit;
  const parts: Column[] = [];
  const activations = [data.q, data.k, data.v] as Matrix[][];
  if (withWeights) {
    ([data.wq, data.wk, data.wv] as MaybeMatrix[][]).forEach((matrices, place) => {
      const scale = commonScale(sheet, matrices, width * 1.2, tall);
      const letter = `W_${letters[place]}`;
      parts.push({
        letter,
        role: roles[place] as Role,
        kind: 'weight',
        matrices,
        scale,
        width: width * 1.2,
        before: place === 0 ? BETWEEN : GAP + 2,
        sign: '',
      });
    });
  }
  activations.forEach((matrices, place) => {
    const scale = commonScale(sheet, matrices, width, tall);
    parts.push({
      letter: letters[place] as string,
      role: roles[place] as Role,
      kind: 'activation',
      matrices,
      scale,
      width,
      before: place === 0 ? BETWEEN : GAP,
      sign: place === 0 && withWeights ? '→' : '',
    });
  });
  const square = width * 1.6;
  parts.push({
    letter: 'softmax',
    role: 'none',
    kind: 'activation',
    matrices: weights,
    scale: probabilityScale(weights),
    width: square,
    before: BETWEEN,
    sign: '→',
  });
  const context = data.context as Matrix[];
  parts.push({
    letter: 'Z',
    role: 'z',
    kind: 'activation',
    matrices: context,
    scale: commonScale(sheet, context, width, tall),
    width,
    before: BETWEEN,
    sign: '→',
  });
  return parts;
}

function lane(
  sheet: Sheet,
  columns: Column[],
  head: number,
  left: number,
  top: number,
  tall: number,
  centre: number,
): string {
  const middle = top + tall / 2;
  const stroke = sheet.theme.faint;
  const [from, to] = [left + 3, left + BETWEEN - 4];
  let body = tag('path', {
    d: `M${from} ${Math.round(centre)}L${Math.round(to)} ${Math.round(middle)}`,
    fill: 'none',
    stroke,
    'stroke-width': 1,
  });
  let x = left;
  for (const column of columns) {
    x += column.before;
    if (column.sign !== '') body += sign(sheet, x - BETWEEN / 2, middle, column.sign);
    const box: Box = { x, y: top, width: column.width, height: tall };
    const label =
      column.letter === 'softmax'
        ? ''
        : column.kind === 'weight'
          ? `${column.letter}^{${head}}`
          : `${column.letter}_{${head}}`;
    const style: MatrixStyle = { role: column.role, kind: column.kind, label, scale: column.scale, sizes: 'none' };
    body += drawMatrix(sheet, column.matrices[head] as MaybeMatrix, box, style);
    if (label === '')
      body += text(x + column.width / 2, top - 4, 'softmax', { fill: sheet.theme.quiet, anchor: 'middle' });
    x += column.width;
  }
  return body;
}

/** All Z × W_O = output. */
function bottom(data: AttentionData, sheet: Sheet, y: number): { body: string; height: number } {
  const joined = sideBySide(data.context as Matrix[]);
  const out = data.output as Matrix;
  const labels = new RowLabels(sheet, data.queries, sheet.narrow ? 22 : 40);
  const room = sheet.width - labels.width - 52;
  const wide = Math.min(room / 3, 150);
  const pitch = rowPitch(joined.rows, 150, 8.8);
  const height = pitch * joined.rows;
  const down = Math.min(wide, 130);
  const tall = Math.max(height, down);
  const middle = y + ABOVE + tall / 2;
  const rows = middle - height / 2;
  let x = labels.width;
  let body = labels.draw(x, rows, pitch, data.token);
  const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : 'Z_0';
  body += drawMatrix(
    sheet,
    joined,
    { x, y: rows, width: wide, height },
    { role: 'z', kind: 'activation', label, parts: data.heads },
  );
  x += wide;
  body += sign(sheet, x + 13, middle, '×');
  x += 26;
  body += drawMatrix(
    sheet,
    data.wo as MaybeMatrix,
    { x, y: middle - down / 2, width: wide, height: down },
    { role: 'z', kind: 'weight', label: 'W_O' },
  );
  x += wide;
  body += sign(sheet, x + 13, middle, '=');
  x += 26;
  body += drawMatrix(
    sheet,
    out,
    { x, y: rows, width: wide, height },
    { role: 'x', kind: 'activation', label: 'output' },
  );
  return { body, height: y + ABOVE + tall + BELOW };
}
