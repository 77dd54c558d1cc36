// View `self-attention`: softmax(Q Kᵀ / √K) V = Z for one head: scores from Q and K, then Z from weights and V.
import type { Canvas, Drawing } from '../canvas';
import { attendsMostTo, attentionName, attentionNotes, capitalised } from '../formatting';
import { ColumnLabels, RowLabels, rowPitch } from '../labels';
import { drawMatrix, SPACE_ABOVE, SPACE_BELOW } from '../matrix';
import { probabilityScale } from '../scales';
import { formula, tokenText } from '../text';
import type { AttentionData, Matrix, Token } from '../types';
import { sharpestRows } from './attention';
import { sign } from './qkv';

const SIGN_WIDTH = 24;

export function selfAttention(data: AttentionData, canvas: Canvas): Drawing {
  const head = data.head ?? 0;
  for (const note of attentionNotes(data)) canvas.note(note);
  const drawing = draw(data, head, canvas);
  const weights = data.weights?.[head] as Matrix;
  const row = data.token ?? sharpestRows(data, [weights])[0]?.[1] ?? 0;
  return {
    title: `${capitalised(attentionName(data.place))}, head ${head}: from Q, K and V to Z`,
    description: [
      `Head ${head} of ${attentionName(data.place)}:`,
      `${attendsMostTo(data.queries[row] as Token, weights, row, data.keys)};`,
      'its row of Z is the sum of the rows of V, each times its weight.',
    ],
    ...drawing,
  };
}

function draw(data: AttentionData, head: number, canvas: Canvas): { body: string; height: number } {
  const [q, k, v, z] = [data.q, data.k, data.v, data.context].map((list) => list?.[head] as Matrix) as [
    Matrix,
    Matrix,
    Matrix,
    Matrix,
  ];
  const labels = new RowLabels(canvas, data.queries, canvas.narrow ? 26 : 54);
  const keyTexts = data.keys.map((token) => tokenText(token.after ?? token.text));
  const columns = new ColumnLabels(canvas, keyTexts, canvas.narrow ? 34 : 50);
  const keyLabels = new RowLabels(
    canvas,
    data.keys.map((token) => ({ text: token.after ?? token.text })),
    canvas.narrow ? 26 : 50,
  );

  const pitch = rowPitch(q.rows, 180);
  const height = pitch * q.rows;
  const room = canvas.width - labels.width - 2 * SIGN_WIDTH - columns.overhang;
  const narrow = Math.min(72, room * 0.22, Math.max(20, q.cols * 4));
  const square = Math.min(210, Math.max(room - 2 * narrow - keyLabels.width, room * 0.36), Math.max(k.rows * 14, 92));
  const column = square / k.rows;
  const keyHeightTransposed = narrow; // Kᵀ is as tall as Q is wide

  // The first line: Q × Kᵀ = scores.
  const first = Math.max(height, keyHeightTransposed + columns.height);
  const top = SPACE_ABOVE + columns.height;
  const middle = top + height / 2;
  let x = labels.width;
  let body = labels.draw(x, top, pitch, data.token);
  if (!canvas.narrow) body += labels.heading(x, top, pitch); // else the size of Q is written there
  body += drawMatrix(
    canvas,
    q,
    { x, y: top, width: narrow, height },
    { role: 'q', kind: 'activation', label: `Q_${head}` },
  );
  x += narrow;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '×');
  x += SIGN_WIDTH;
  const keyRoom = Math.min(square, room - narrow - square);
  const keyTop = Math.max(top, middle - keyHeightTransposed / 2);
  body += drawMatrix(
    canvas,
    transposed(k),
    { x, y: keyTop, width: keyRoom, height: keyHeightTransposed },
    { role: 'k', kind: 'activation', label: `K_${head}^T` },
  );
  x += keyRoom;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '→');
  x += SIGN_WIDTH;
  const scores = { x, y: top, width: square, height };
  body += drawMatrix(canvas, data.scores?.[head] as Matrix, scores, {
    role: 'none',
    kind: 'activation',
    label: '',
    sizes: 'below',
  });
  body += columns.draw(x, top, column);
  body += formula(x, top - columns.height - 3, scoreName(data, q.cols), { fill: canvas.theme.text, bold: true });

  // The second line: softmax of the scores × V = Z.
  const second = top + first + SPACE_BELOW + 6;
  const lower = second + SPACE_ABOVE + columns.height;
  const keyPitch = rowPitch(v.rows, 180);
  const keyHeight = keyPitch * v.rows;
  const lineHeight = Math.max(height, keyHeight);
  const centre = lower + lineHeight / 2;
  const weightsTop = centre - height / 2;
  x = labels.width;
  const weights = data.weights?.[head] as Matrix;
  const scale = probabilityScale([weights]);
  body += labels.draw(x, weightsTop, pitch, data.token);
  body += drawMatrix(
    canvas,
    weights,
    { x, y: weightsTop, width: square, height },
    { role: 'none', kind: 'activation', label: '', scale, sizes: 'below' },
  );
  body += columns.draw(x, weightsTop, column);
  body += formula(x, weightsTop - columns.height - 3, 'softmax of each row', { fill: canvas.theme.text, bold: true });
  x += square;
  body += sign(canvas, x + SIGN_WIDTH / 2 + 2, centre, '×');
  x += SIGN_WIDTH + keyLabels.width;
  const valueTop = centre - keyHeight / 2;
  body += keyLabels.draw(x, valueTop, keyPitch);
  body += drawMatrix(
    canvas,
    v,
    { x, y: valueTop, width: narrow, height: keyHeight },
    { role: 'v', kind: 'activation', label: `V_${head}` },
  );
  x += narrow;
  body += sign(canvas, x + SIGN_WIDTH / 2, centre, '=');
  x += SIGN_WIDTH;
  body += drawMatrix(
    canvas,
    z,
    { x, y: weightsTop, width: narrow, height },
    { role: 'z', kind: 'activation', label: `Z_${head}` },
  );
  return { body, height: lower + lineHeight + SPACE_BELOW };
}

function scoreName(data: AttentionData, width: number): string {
  return `Q K^T${data.scaled ? ` / √${width}` : ''}${data.biased ? ' + bias' : ''}`;
}

export function transposed(matrix: Matrix): Matrix {
  const values: (number | null)[] = [];
  for (let col = 0; col < matrix.cols; col++) {
    for (let row = 0; row < matrix.rows; row++) values.push(matrix.values[row * matrix.cols + col] as number | null);
  }
  return { rows: matrix.cols, cols: matrix.rows, values };
}
