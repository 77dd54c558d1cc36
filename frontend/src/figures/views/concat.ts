// All Z side by side × W_O = the attention's output.
import { RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, drawMatrix } from '../matrix';
import type { Drawing, Sheet } from '../sheet';
import { text } from '../text';
import type { AttentionData, Matrix, MaybeMatrix } from '../types';
import { capitalised, placeName, plural, remarksOn } from '../words';
import { sign } from './qkv';

const SIGN = 26;

export function concat(data: AttentionData, sheet: Sheet): Drawing {
  for (const remark of remarksOn(data)) sheet.note(remark);
  const joined = sideBySide(data.context as Matrix[]);
  const out = data.output as Matrix;
  const labels = new RowLabels(sheet, data.queries);
  const pitch = rowPitch(joined.rows, 220);
  const height = pitch * joined.rows;
  const room = sheet.width - labels.width - 2 * SIGN;
  const wide = Math.min(room / 3, 190);
  const down = Math.min(wide, 170);
  const lane = Math.max(height, down);
  const top = ABOVE;
  const middle = top + lane / 2;
  const rows = middle - height / 2;

  let x = labels.width;
  let body = labels.draw(x, rows, pitch, data.token) + labels.heading(x, rows, pitch);
  const names = data.heads <= 8 && !sheet.narrow;
  const style = { role: 'z' as const, kind: 'activation' as const, parts: data.heads };
  const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : 'Z_0';
  body += drawMatrix(sheet, joined, { x, y: rows, width: wide, height }, { ...style, label });
  if (names) body += headNumbers(sheet, x, rows + height + 9, wide, data.heads);
  x += wide;
  body += sign(sheet, x + SIGN / 2, middle, '×');
  x += SIGN;
  const box = { x, y: middle - down / 2, width: wide, height: down };
  body += drawMatrix(sheet, data.wo as MaybeMatrix, box, { role: 'z', kind: 'weight', label: 'W_O' });
  x += wide;
  body += sign(sheet, x + SIGN / 2, middle, '=');
  x += SIGN;
  body += drawMatrix(
    sheet,
    out,
    { x, y: rows, width: wide, height },
    { role: 'x', kind: 'activation', label: 'output' },
  );
  const bias = data.linearBias ? ' + b_O' : '';
  return {
    title: `${capitalised(placeName(data.place))}: the heads side by side, times W_O`,
    description: [
      `${plural(data.heads, 'matrix', 'matrices')} Z of ${data.context?.[0]?.cols ?? 0} columns side by side`,
      `(${joined.rows} × ${joined.cols}) × W_O (${joined.cols} × ${out.cols})${bias}`,
      `= output (${out.rows} × ${out.cols}): again one row a token.`,
    ],
    body,
    height: top + lane + BELOW + (names ? 11 : 0),
  };
}

function headNumbers(sheet: Sheet, x: number, y: number, width: number, heads: number): string {
  let written = text(x - 4, y + 12, 'head', { fill: sheet.theme.roles.z.text, anchor: 'end' });
  for (let head = 0; head < heads; head++) {
    const middle = x + (width * (head + 0.5)) / heads;
    written += text(middle, y + 12, String(head), { fill: sheet.theme.roles.z.text, anchor: 'middle' });
  }
  return written;
}

export function sideBySide(matrices: Matrix[]): Matrix {
  const rows = matrices[0]?.rows ?? 0;
  const values: (number | null)[] = [];
  for (let row = 0; row < rows; row++) {
    for (const one of matrices) values.push(...one.values.slice(row * one.cols, (row + 1) * one.cols));
  }
  return { rows, cols: matrices.reduce((sum, one) => sum + one.cols, 0), values };
}
