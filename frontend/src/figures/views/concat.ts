// View `concat`: all Z concatenated, × W_O = output of the attention.
import type { Canvas, Drawing } from '../canvas';
import { attentionName, attentionNotes, capitalised, plural } from '../formatting';
import { RowLabels, rowPitch } from '../labels';
import { drawMatrix, SPACE_ABOVE, SPACE_BELOW } from '../matrix';
import { text } from '../text';
import type { AttentionData, Matrix, MaybeMatrix } from '../types';
import { sign } from './qkv';

const SIGN_WIDTH = 26;

export function concat(data: AttentionData, canvas: Canvas): Drawing {
  for (const note of attentionNotes(data)) canvas.note(note);
  const joined = concatenated(data.context as Matrix[]);
  const out = data.output as Matrix;
  const labels = new RowLabels(canvas, data.queries);
  const pitch = rowPitch(joined.rows, 220);
  const height = pitch * joined.rows;
  const room = canvas.width - labels.width - 2 * SIGN_WIDTH;
  const wide = Math.min(room / 3, 190);
  const weightHeight = Math.min(wide, 170);
  const lineHeight = Math.max(height, weightHeight);
  const top = SPACE_ABOVE;
  const middle = top + lineHeight / 2;
  const rows = middle - height / 2;

  let x = labels.width;
  let body = labels.draw(x, rows, pitch, data.token) + labels.heading(x, rows, pitch);
  const numbered = data.heads <= 8 && !canvas.narrow;
  const style = { role: 'z' as const, kind: 'activation' as const, parts: data.heads };
  const label = data.heads > 1 ? `Z_0 … Z_{${data.heads - 1}}` : 'Z_0';
  body += drawMatrix(canvas, joined, { x, y: rows, width: wide, height }, { ...style, label });
  if (numbered) body += headNumbers(canvas, x, rows + height + 9, wide, data.heads);
  x += wide;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '×');
  x += SIGN_WIDTH;
  const box = { x, y: middle - weightHeight / 2, width: wide, height: weightHeight };
  body += drawMatrix(canvas, data.wo as MaybeMatrix, box, { role: 'z', kind: 'weight', label: 'W_O' });
  x += wide;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '=');
  x += SIGN_WIDTH;
  body += drawMatrix(
    canvas,
    out,
    { x, y: rows, width: wide, height },
    { role: 'x', kind: 'activation', label: 'output' },
  );
  const bias = data.linearBias ? ' + b_O' : '';
  return {
    title: `${capitalised(attentionName(data.place))}: heads concatenated, times W_O`,
    description: [
      `${plural(data.heads, 'matrix', 'matrices')} Z with ${data.context?.[0]?.cols ?? 0} columns each, concatenated`,
      `(${joined.rows} × ${joined.cols}), × W_O (${joined.cols} × ${out.cols})${bias}`,
      `= output (${out.rows} × ${out.cols}): one row per token again.`,
    ],
    body,
    height: top + lineHeight + SPACE_BELOW + (numbered ? 11 : 0),
  };
}

function headNumbers(canvas: Canvas, x: number, y: number, width: number, heads: number): string {
  let labels = text(x - 4, y + 12, 'head', { fill: canvas.theme.roles.z.text, anchor: 'end' });
  for (let head = 0; head < heads; head++) {
    const middle = x + (width * (head + 0.5)) / heads;
    labels += text(middle, y + 12, String(head), { fill: canvas.theme.roles.z.text, anchor: 'middle' });
  }
  return labels;
}

/** Matrices side by side. */
export function concatenated(matrices: Matrix[]): Matrix {
  const rows = matrices[0]?.rows ?? 0;
  const values: (number | null)[] = [];
  for (let row = 0; row < rows; row++) {
    for (const one of matrices) values.push(...one.values.slice(row * one.cols, (row + 1) * one.cols));
  }
  return { rows, cols: matrices.reduce((sum, one) => sum + one.cols, 0), values };
}
