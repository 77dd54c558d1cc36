// softmax(Q Kᵀ / √K) V = Z for one head, in two lines: scores from Q and K, then Z from the weights and V.
import { ColumnLabels, RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, drawMatrix } from '../matrix';
import { probabilityScale } from '../scales';
import type { Drawing, Sheet } from '../sheet';
import { formula, shown } from '../text';
import type { AttentionData, Matrix, Token } from '../types';
import { capitalised, placeName, remarksOn, spoken, strongest } from '../words';
import { clearest } from './attention';
import { sign } from './qkv';

const SIGN = 24;

export function selfAttention(data: AttentionData, sheet: Sheet): Drawing {
  const head = data.head ?? 0;
  for (const remark of remarksOn(data)) sheet.note(remark);
  const picture = drawn(data, head, sheet);
  const weights = data.weights?.[head] as Matrix;
  const row = data.token ?? clearest(data, [weights])[0]?.[1] ?? 0;
  return {
    title: `${capitalised(placeName(data.place))}, head ${head}: from Q, K and V to Z`,
    description: [
      `Head ${head} of ${placeName(data.place)}:`,
      `${spoken(data.queries[row] as Token)} looks most at ${strongest(weights, row, data.keys)};`,
      `its row of Z is the mean of the rows of V, weighted so.`,
    ],
    ...picture,
  };
}

function drawn(data: AttentionData, head: number, sheet: Sheet): { body: string; height: number } {
  const [q, k, v, z] = [data.q, data.k, data.v, data.context].map((list) => list?.[head] as Matrix) as [
    Matrix,
    Matrix,
    Matrix,
    Matrix,
  ];
  const labels = new RowLabels(sheet, data.queries, sheet.narrow ? 26 : 54);
  const keyTexts = data.keys.map((token) => shown(token.after ?? token.text));
  const columns = new ColumnLabels(sheet, keyTexts, sheet.narrow ? 34 : 50);
  const keyLabels = new RowLabels(
    sheet,
    data.keys.map((token) => ({ text: token.after ?? token.text })),
    sheet.narrow ? 26 : 50,
  );

  const pitch = rowPitch(q.rows, 180);
  const height = pitch * q.rows;
  const room = sheet.width - labels.width - 2 * SIGN - columns.overhang;
  const narrow = Math.min(72, room * 0.22, Math.max(20, q.cols * 4));
  const square = Math.min(210, Math.max(room - 2 * narrow - keyLabels.width, room * 0.36), Math.max(k.rows * 14, 92));
  const column = square / k.rows;
  const down = narrow; // K is as tall here as Q is wide

  // The first line: Q × Kᵀ = scores.
  const first = Math.max(height, down + columns.height);
  const top = ABOVE + columns.height;
  const middle = top + height / 2;
  let x = labels.width;
  let body = labels.draw(x, top, pitch, data.token);
  if (!sheet.narrow) body += labels.heading(x, top, pitch); // else the size of Q stands there
  body += drawMatrix(
    sheet,
    q,
    { x, y: top, width: narrow, height },
    { role: 'q', kind: 'activation', label: `Q_${head}` },
  );
  x += narrow;
  body += sign(sheet, x + SIGN / 2, middle, '×');
  x += SIGN;
  const keyRoom = Math.min(square, room - narrow - square);
  const keyTop = Math.max(top, middle - down / 2);
  body += drawMatrix(
    sheet,
    transposed(k),
    { x, y: keyTop, width: keyRoom, height: down },
    { role: 'k', kind: 'activation', label: `K_${head}^T` },
  );
  x += keyRoom;
  body += sign(sheet, x + SIGN / 2, middle, '→');
  x += SIGN;
  const scores = { x, y: top, width: square, height };
  body += drawMatrix(sheet, data.scores?.[head] as Matrix, scores, {
    role: 'none',
    kind: 'activation',
    label: '',
    sizes: 'below',
  });
  body += columns.draw(x, top, column);
  body += formula(x, top - columns.height - 3, scoreName(data, q.cols), { fill: sheet.theme.text, bold: true });

  // The second line: softmax of them × V = Z.
  const second = top + first + BELOW + 6;
  const lower = second + ABOVE + columns.height;
  const keyPitch = rowPitch(v.rows, 180);
  const keyHeight = keyPitch * v.rows;
  const lane = Math.max(height, keyHeight);
  const centre = lower + lane / 2;
  const weightsTop = centre - height / 2;
  x = labels.width;
  const weights = data.weights?.[head] as Matrix;
  const scale = probabilityScale([weights]);
  body += labels.draw(x, weightsTop, pitch, data.token);
  body += drawMatrix(
    sheet,
    weights,
    { x, y: weightsTop, width: square, height },
    { role: 'none', kind: 'activation', label: '', scale, sizes: 'below' },
  );
  body += columns.draw(x, weightsTop, column);
  body += formula(x, weightsTop - columns.height - 3, 'softmax of each row', { fill: sheet.theme.text, bold: true });
  x += square;
  body += sign(sheet, x + SIGN / 2 + 2, centre, '×');
  x += SIGN + keyLabels.width;
  const valueTop = centre - keyHeight / 2;
  body += keyLabels.draw(x, valueTop, keyPitch);
  body += drawMatrix(
    sheet,
    v,
    { x, y: valueTop, width: narrow, height: keyHeight },
    { role: 'v', kind: 'activation', label: `V_${head}` },
  );
  x += narrow;
  body += sign(sheet, x + SIGN / 2, centre, '=');
  x += SIGN;
  body += drawMatrix(
    sheet,
    z,
    { x, y: weightsTop, width: narrow, height },
    { role: 'z', kind: 'activation', label: `Z_${head}` },
  );
  return { body, height: lower + lane + BELOW };
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
