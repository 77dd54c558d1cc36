// A matrix with frame, label and size. Weight matrices are outlined on grey; activations have a filled label.
import type { Canvas } from './canvas';
import { cells, fitted, type Box } from './cells';
import { decimal } from './formatting';
import { signedScale, type Scale } from './scales';
import { line, tag } from './svg';
import { FONT_SIZE, formula, formulaWidth, text } from './text';
import type { Role } from './theme';
import type { Matrix, MaybeMatrix } from './types';

/** Space above a matrix for its label and size, and below it for the limit of its colour scale, in points. */
export const SPACE_ABOVE = 27;
export const SPACE_BELOW = 12;

export interface MatrixStyle {
  role: Role;
  kind: 'weight' | 'activation';
  label: string;
  /** A scale shared with other matrices, for comparison; by default the matrix's own. */
  scale?: Scale;
  /** Number of heads side by side, separated by lines. */
  parts?: number;
  /** Greyed out: shown for comparison, not used in the computation. */
  pale?: boolean;
  /** Where the size ("16 × 32") and the limit ("±2.1") are written: above and below, both below, or not at all. */
  sizes?: 'around' | 'below' | 'none';
}

export function hasCells(matrix: MaybeMatrix | undefined): matrix is Matrix {
  return matrix?.values !== undefined;
}

/** One scale for matrices that are compared: of those with saved numbers, in bins as they are drawn. */
export function commonScale(canvas: Canvas, matrices: MaybeMatrix[], width: number, height: number): Scale {
  return signedScale(matrices.filter(hasCells).map((one) => fitted(canvas, one, width, height)));
}

/** Draws a matrix with the text around it; `box` is that of its cells. */
export function drawMatrix(canvas: Canvas, matrix: MaybeMatrix, box: Box, style: MatrixStyle): string {
  const middle = box.x + box.width / 2;
  const sizes = style.sizes ?? 'around';
  const away = 3; // outside the frame of weight matrices; the same for activations, so that labels align
  const quiet = { fill: canvas.theme.quiet, anchor: 'middle' as const };
  const shape = `${matrix.rows} × ${matrix.cols}`;
  const above = sizes === 'around' ? text(middle, box.y - 3.5 - away, shape, quiet) : '';
  const around = above + matrixLabel(canvas, middle, box.y - away - (sizes === 'around' ? 13.5 : 4), style);
  if (!hasCells(matrix)) {
    canvas.missing = true;
    return around + emptyFrame(canvas, box, style);
  }
  const drawn = fitted(canvas, matrix, box.width, box.height);
  const scale = style.scale ?? signedScale([drawn]);
  const limit = scale.kind === 'signed' ? `±${decimal(scale.limit)}` : '';
  const below = { around: limit, below: [shape, limit].filter((part) => part !== '').join(', '), none: '' }[sizes];
  if (below.includes('±')) canvas.limits = true;
  return (
    around +
    tag('g', style.pale ? { opacity: '0.4' } : {}, background(canvas, box, style), cells(canvas, drawn, box, scale)) +
    frame(canvas, box, style) +
    (below === '' ? '' : text(middle, box.y + box.height + 8.5 + away, below, quiet))
  );
}

/** The grey background of weight matrices. */
function background(canvas: Canvas, box: Box, style: MatrixStyle): string {
  if (style.kind === 'activation') {
    canvas.activations = true;
    return '';
  }
  canvas.weights = true;
  return tag('rect', { ...expanded(box, 2.5), fill: canvas.theme.mat });
}

function frame(canvas: Canvas, box: Box, style: MatrixStyle): string {
  const stroke = style.pale ? canvas.theme.quiet : canvas.theme.roles[style.role].fill;
  const around = style.kind === 'weight' ? expanded(box, 2.5) : expanded(box, 0.4);
  const parts = style.parts ?? 1;
  let between = '';
  for (let part = 1; part < parts; part++) {
    const x = box.x + (box.width * part) / parts;
    between += line(x, box.y, x, box.y + box.height, stroke, 0.6);
  }
  return (
    between + tag('rect', { ...around, fill: 'none', stroke, 'stroke-width': style.kind === 'weight' ? 1.1 : 0.8 })
  );
}

/** The frame of a matrix whose numbers were not saved. */
function emptyFrame(canvas: Canvas, box: Box, style: MatrixStyle): string {
  const stroke = canvas.theme.roles[style.role].fill;
  return tag('rect', {
    ...expanded(box, 2.5),
    fill: canvas.theme.mat,
    stroke,
    'stroke-dasharray': '3 2',
    'stroke-width': 1.1,
  });
}

function expanded(box: Box, by: number): Box {
  return { x: box.x - by, y: box.y - by, width: box.width + 2 * by, height: box.height + 2 * by };
}

/** The label of a matrix: filled for activations, outlined for weights. `y` is the baseline of the text. */
export function matrixLabel(
  canvas: Canvas,
  middle: number,
  y: number,
  style: Pick<MatrixStyle, 'role' | 'kind' | 'label' | 'pale'>,
): string {
  if (style.label === '') return '';
  const ink = canvas.theme.roles[style.role];
  const width = formulaWidth(style.label, FONT_SIZE, true) + 6;
  const box = { x: middle - width / 2, y: y - 7.8, width, height: 10.6, rx: 2 };
  const filled = style.kind === 'activation' && !style.pale;
  const stroke = style.pale ? canvas.theme.quiet : ink.fill;
  const background = filled
    ? tag('rect', { ...box, fill: ink.fill })
    : tag('rect', { ...box, fill: canvas.theme.mat, stroke, 'stroke-width': 0.8 });
  const fill = filled ? ink.onFill : style.pale ? canvas.theme.quiet : ink.text;
  return background + formula(middle, y, style.label, { fill, bold: true, anchor: 'middle' });
}
