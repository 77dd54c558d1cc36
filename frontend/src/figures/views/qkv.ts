// View `qkv`: X × W_Q = Q, X × W_K = K, X × W_V = V for one head; in cross-attention K and V come from the memory.
import type { Canvas, Drawing } from '../canvas';
import { attentionName, attentionNotes, capitalised } from '../formatting';
import { RowLabels, rowPitch } from '../labels';
import { drawMatrix, SPACE_ABOVE, SPACE_BELOW } from '../matrix';
import { FONT_SIZE, formula, formulaWidth, LINE_HEIGHT, text, wrap } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, MaybeMatrix, Token } from '../types';

/** One equation, drawn as one line. */
interface Equation {
  letter: 'Q' | 'K' | 'V';
  role: Role;
  from: Matrix;
  fromRole: Role;
  fromLabel: string;
  tokens: Token[];
  weight: MaybeMatrix;
  result: Matrix;
}

const SIGN_WIDTH = 26;
const GAP = 16;
/** Space for the formula after each line. */
const FORMULA_WIDTH = 122;

export function qkv(data: AttentionData, canvas: Canvas): Drawing {
  const head = data.head ?? 0;
  for (const note of attentionNotes(data)) canvas.note(note);
  const equations = equationsOf(data, head);
  let y = 0;
  let body = '';
  const left = Math.max(...equations.map((equation) => new RowLabels(canvas, equation.tokens).width)); // aligned
  for (const equation of equations) {
    const drawn = drawEquation(equation, data, head, left, y, canvas);
    body += drawn.body;
    y = drawn.bottom + 12;
  }
  return {
    title: `${capitalised(attentionName(data.place))}, head ${head}: from X to Q, K and V`,
    description: sentences(data, head),
    body,
    height: y - 12,
  };
}

function equationsOf(data: AttentionData, head: number): Equation[] {
  const cross = data.place.kind === 'cross';
  const x = { from: data.input as Matrix, fromRole: 'x' as Role, fromLabel: 'X', tokens: data.queries };
  const memory = { from: data.memory as Matrix, fromRole: 'memory' as Role, fromLabel: 'memory', tokens: data.keys };
  const keys = cross ? memory : x;
  return [
    { letter: 'Q', role: 'q', ...x, weight: data.wq?.[head] as MaybeMatrix, result: data.q?.[head] as Matrix },
    { letter: 'K', role: 'k', ...keys, weight: data.wk?.[head] as MaybeMatrix, result: data.k?.[head] as Matrix },
    { letter: 'V', role: 'v', ...keys, weight: data.wv?.[head] as MaybeMatrix, result: data.v?.[head] as Matrix },
  ];
}

function sentences(data: AttentionData, head: number): string[] {
  const [rows, width] = [data.queries.length, data.input?.cols ?? 0];
  const columns = data.q?.[0]?.cols ?? 0;
  const source =
    data.place.kind === 'cross'
      ? `K and V are computed from the encoder’s output (memory, ${data.keys.length} × ${width}) with this layer’s W_K and W_V.`
      : 'Each row of X is one token; Q, K and V are computed from the same X.';
  return [
    `Head ${head} of ${attentionName(data.place)}:`,
    `X (${rows} × ${width}) × W_Q (${width} × ${columns}) = Q (${rows} × ${columns}).`,
    source,
  ];
}

function drawEquation(
  equation: Equation,
  data: AttentionData,
  head: number,
  left: number,
  y: number,
  canvas: Canvas,
): { body: string; bottom: number } {
  const labels = new RowLabels(canvas, equation.tokens);
  const pitch = rowPitch(equation.from.rows, 180);
  const height = pitch * equation.from.rows;
  const room = canvas.width - left - 2 * SIGN_WIDTH - (canvas.narrow ? 0 : FORMULA_WIDTH);
  const wide = Math.min(Math.max(height, 96), canvas.narrow ? 100 : 140, room * 0.55);
  const narrow = Math.min(64, room * 0.22, Math.max(24, equation.result.cols * 4));
  const lineHeight = Math.max(height, wide);
  const top = y + SPACE_ABOVE;
  const middle = top + lineHeight / 2;
  const bias = data.linearBias ? ` + b_${equation.letter}` : '';
  const rotated = data.rotated && equation.letter !== 'V';

  let x = left;
  const rowsTop = middle - height / 2;
  let body = labels.draw(x, rowsTop, pitch, equation.letter === 'Q' || data.place.kind === 'self' ? data.token : null);
  body += labels.heading(x, rowsTop, pitch);
  body += drawMatrix(
    canvas,
    equation.from,
    { x, y: rowsTop, width: wide, height },
    { role: equation.fromRole, kind: 'activation', label: equation.fromLabel },
  );
  x += wide;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '×');
  x += SIGN_WIDTH;
  const box = { x, y: middle - wide / 2, width: narrow, height: wide };
  body += drawMatrix(canvas, equation.weight, box, {
    role: equation.role,
    kind: 'weight',
    label: `W_${equation.letter}^{${head}}`,
  });
  x += narrow;
  body += sign(canvas, x + SIGN_WIDTH / 2, middle, '=');
  x += SIGN_WIDTH;
  body += drawMatrix(
    canvas,
    equation.result,
    { x, y: rowsTop, width: narrow, height },
    { role: equation.role, kind: 'activation', label: `${equation.letter}_${head}` },
  );
  x += narrow + GAP;
  const equationText = `${equation.letter} = ${equation.fromLabel} W_${equation.letter}${bias}`;
  const ink = { fill: canvas.theme.roles[equation.role].text, bold: true };
  if (x + formulaWidth(equationText, FONT_SIZE, true) <= canvas.width)
    body += formula(x, middle - 2, equationText, ink);
  const meaning = rotated ? 'then rotated by position' : MEANINGS[equation.letter];
  wrap(meaning, canvas.width - x).forEach((words, place) => {
    if (canvas.width - x > 60) body += text(x, middle + 10 + place * LINE_HEIGHT, words, { fill: canvas.theme.quiet });
  });
  return { body, bottom: top + lineHeight + SPACE_BELOW };
}

const MEANINGS = { Q: 'queries, compared with keys', K: 'keys, compared with queries', V: 'values, summed by weight' };

/** An operator between matrices. */
export function sign(canvas: Canvas, x: number, y: number, content: string): string {
  return text(x, y + 5, content, { fill: canvas.theme.text, size: 14, anchor: 'middle' });
}
