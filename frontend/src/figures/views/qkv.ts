// X × W_Q = Q, X × W_K = K, X × W_V = V for one head. In cross-attention K and V are made from the memory.
import { RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, drawMatrix } from '../matrix';
import type { Drawing, Sheet } from '../sheet';
import { formula, formulaWidth, LINE, SIZE, text, wrap } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, MaybeMatrix, Token } from '../types';
import { capitalised, placeName, remarksOn } from '../words';

interface Line {
  letter: 'Q' | 'K' | 'V';
  role: Role;
  from: Matrix;
  fromRole: Role;
  fromLabel: string;
  tokens: Token[];
  weight: MaybeMatrix;
  made: Matrix;
}

const SIGN = 26;
const GAP = 16;
/** Room for the formula behind each line. */
const ASIDE = 122;

export function qkv(data: AttentionData, sheet: Sheet): Drawing {
  const head = data.head ?? 0;
  for (const remark of remarksOn(data)) sheet.note(remark);
  const lines = linesOf(data, head);
  let y = 0;
  let body = '';
  const left = Math.max(...lines.map((one) => new RowLabels(sheet, one.tokens).width)); // one below the other
  for (const one of lines) {
    const drawn = drawLine(one, data, head, left, y, sheet);
    body += drawn.body;
    y = drawn.bottom + 12;
  }
  return {
    title: `${capitalised(placeName(data.place))}, head ${head}: from X to Q, K and V`,
    description: sentences(data, head),
    body,
    height: y - 12,
  };
}

function linesOf(data: AttentionData, head: number): Line[] {
  const cross = data.place.kind === 'cross';
  const x = { from: data.input as Matrix, fromRole: 'x' as Role, fromLabel: 'X', tokens: data.queries };
  const memory = { from: data.memory as Matrix, fromRole: 'memory' as Role, fromLabel: 'memory', tokens: data.keys };
  const keys = cross ? memory : x;
  return [
    { letter: 'Q', role: 'q', ...x, weight: data.wq?.[head] as MaybeMatrix, made: data.q?.[head] as Matrix },
    { letter: 'K', role: 'k', ...keys, weight: data.wk?.[head] as MaybeMatrix, made: data.k?.[head] as Matrix },
    { letter: 'V', role: 'v', ...keys, weight: data.wv?.[head] as MaybeMatrix, made: data.v?.[head] as Matrix },
  ];
}

function sentences(data: AttentionData, head: number): string[] {
  const [rows, width] = [data.queries.length, data.input?.cols ?? 0];
  const columns = data.q?.[0]?.cols ?? 0;
  const source =
    data.place.kind === 'cross'
      ? `K and V are made from the encoder’s output (memory, ${data.keys.length} × ${width}) with this layer’s W_K and W_V.`
      : `Every row of X is a token; Q, K and V are made from the same X.`;
  return [
    `Head ${head} of ${placeName(data.place)}:`,
    `X (${rows} × ${width}) × W_Q (${width} × ${columns}) = Q (${rows} × ${columns}).`,
    source,
  ];
}

function drawLine(
  one: Line,
  data: AttentionData,
  head: number,
  left: number,
  y: number,
  sheet: Sheet,
): { body: string; bottom: number } {
  const labels = new RowLabels(sheet, one.tokens);
  const pitch = rowPitch(one.from.rows, 180);
  const height = pitch * one.from.rows;
  const room = sheet.width - left - 2 * SIGN - (sheet.narrow ? 0 : ASIDE);
  const wide = Math.min(Math.max(height, 96), sheet.narrow ? 100 : 140, room * 0.55);
  const narrow = Math.min(64, room * 0.22, Math.max(24, one.made.cols * 4));
  const lane = Math.max(height, wide);
  const top = y + ABOVE;
  const middle = top + lane / 2;
  const bias = data.linearBias ? ` + b_${one.letter}` : '';
  const turned = data.positions === 'rotary' && data.place.kind === 'self' && one.letter !== 'V';

  let x = left;
  const rowsTop = middle - height / 2;
  let body = labels.draw(x, rowsTop, pitch, one.letter === 'Q' || data.place.kind === 'self' ? data.token : null);
  body += labels.heading(x, rowsTop, pitch);
  body += drawMatrix(
    sheet,
    one.from,
    { x, y: rowsTop, width: wide, height },
    { role: one.fromRole, kind: 'activation', label: one.fromLabel },
  );
  x += wide;
  body += sign(sheet, x + SIGN / 2, middle, '×');
  x += SIGN;
  const box = { x, y: middle - wide / 2, width: narrow, height: wide };
  body += drawMatrix(sheet, one.weight, box, { role: one.role, kind: 'weight', label: `W_${one.letter}^{${head}}` });
  x += narrow;
  body += sign(sheet, x + SIGN / 2, middle, '=');
  x += SIGN;
  body += drawMatrix(
    sheet,
    one.made,
    { x, y: rowsTop, width: narrow, height },
    { role: one.role, kind: 'activation', label: `${one.letter}_${head}` },
  );
  x += narrow + GAP;
  const written = `${one.letter} = ${one.fromLabel} W_${one.letter}${bias}`;
  const ink = { fill: sheet.theme.roles[one.role].text, bold: true };
  if (x + formulaWidth(written, SIZE, true) <= sheet.width) body += formula(x, middle - 2, written, ink);
  const meaning = turned ? 'then turned by position' : USES[one.letter];
  wrap(meaning, sheet.width - x).forEach((said, place) => {
    if (sheet.width - x > 60) body += text(x, middle + 10 + place * LINE, said, { fill: sheet.theme.quiet });
  });
  return { body, bottom: top + lane + BELOW };
}

const USES = { Q: 'what a position asks for', K: 'what a position answers to', V: 'what a position hands on' };

export function sign(sheet: Sheet, x: number, y: number, content: string): string {
  return text(x, y + 5, content, { fill: sheet.theme.text, size: 14, anchor: 'middle' });
}
