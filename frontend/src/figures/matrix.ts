// A matrix with its frame, its letter and its size. Weights are outlined on grey; activations carry a filled letter.
import { cells, fitted, type Box } from './cells';
import { signedScale, type Scale } from './scales';
import type { Sheet } from './sheet';
import { line, tag } from './svg';
import { formula, formulaWidth, SIZE, text } from './text';
import type { Role } from './theme';
import type { Matrix, MaybeMatrix } from './types';
import { decimal } from './words';

/** Room above a matrix for its letter and its size, and below it for where its colours end. */
export const ABOVE = 27;
export const BELOW = 12;

export interface MatrixStyle {
  role: Role;
  kind: 'weight' | 'activation';
  label: string;
  /** Shared with others that are compared with it; else its own. */
  scale?: Scale;
  /** Heads side by side: a line between them. */
  parts?: number;
  /** Greyed: not the one that is used. */
  pale?: boolean;
  /** Where "16 × 32" and "±2.1" are written: around it, all of it below, or nowhere. */
  sizes?: 'around' | 'below' | 'none';
}

export function hasCells(matrix: MaybeMatrix | undefined): matrix is Matrix {
  return matrix?.values !== undefined;
}

/** One scale for matrices that are compared, of those whose numbers are there, in bins as they are drawn. */
export function commonScale(sheet: Sheet, matrices: MaybeMatrix[], width: number, height: number): Scale {
  return signedScale(matrices.filter(hasCells).map((one) => fitted(sheet, one, width, height)));
}

/** The matrix with what is written around it; the box is that of its cells. */
export function drawMatrix(sheet: Sheet, matrix: MaybeMatrix, box: Box, style: MatrixStyle): string {
  const middle = box.x + box.width / 2;
  const sizes = style.sizes ?? 'around';
  const away = 3; // beyond the frame of weights, and of others as far, so that letters stand in line
  const quiet = { fill: sheet.theme.quiet, anchor: 'middle' as const };
  const shape = `${matrix.rows} × ${matrix.cols}`;
  const above = sizes === 'around' ? text(middle, box.y - 3.5 - away, shape, quiet) : '';
  const around = above + chip(sheet, middle, box.y - away - (sizes === 'around' ? 13.5 : 4), style);
  if (!hasCells(matrix)) {
    sheet.missing = true;
    return around + empty(sheet, box, style);
  }
  const drawn = fitted(sheet, matrix, box.width, box.height);
  const scale = style.scale ?? signedScale([drawn]);
  const limit = scale.kind === 'signed' ? `±${decimal(scale.limit)}` : '';
  const below = { around: limit, below: [shape, limit].filter((part) => part !== '').join(', '), none: '' }[sizes];
  if (below.includes('±')) sheet.limits = true;
  return (
    around +
    tag('g', style.pale ? { opacity: '0.4' } : {}, mat(sheet, box, style), cells(sheet, drawn, box, scale)) +
    frame(sheet, box, style) +
    (below === '' ? '' : text(middle, box.y + box.height + 8.5 + away, below, quiet))
  );
}

/** The grey behind weights. */
function mat(sheet: Sheet, box: Box, style: MatrixStyle): string {
  if (style.kind === 'activation') {
    sheet.activations = true;
    return '';
  }
  sheet.weights = true;
  return tag('rect', { ...grown(box, 2.5), fill: sheet.theme.mat });
}

function frame(sheet: Sheet, box: Box, style: MatrixStyle): string {
  const stroke = style.pale ? sheet.theme.quiet : sheet.theme.roles[style.role].fill;
  const around = style.kind === 'weight' ? grown(box, 2.5) : grown(box, 0.4);
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

function empty(sheet: Sheet, box: Box, style: MatrixStyle): string {
  const stroke = sheet.theme.roles[style.role].fill;
  return tag('rect', {
    ...grown(box, 2.5),
    fill: sheet.theme.mat,
    stroke,
    'stroke-dasharray': '3 2',
    'stroke-width': 1.1,
  });
}

export function grown(box: Box, by: number): Box {
  return { x: box.x - by, y: box.y - by, width: box.width + 2 * by, height: box.height + 2 * by };
}

/** The letter of a matrix: filled for activations, outlined for weights. `y` is the text's ground line. */
export function chip(
  sheet: Sheet,
  middle: number,
  y: number,
  style: Pick<MatrixStyle, 'role' | 'kind' | 'label' | 'pale'>,
): string {
  if (style.label === '') return '';
  const ink = sheet.theme.roles[style.role];
  const width = formulaWidth(style.label, SIZE, true) + 6;
  const box = { x: middle - width / 2, y: y - 7.8, width, height: 10.6, rx: 2 };
  const filled = style.kind === 'activation' && !style.pale;
  const stroke = style.pale ? sheet.theme.quiet : ink.fill;
  const ground = filled
    ? tag('rect', { ...box, fill: ink.fill })
    : tag('rect', { ...box, fill: sheet.theme.mat, stroke, 'stroke-width': 0.8 });
  const fill = filled ? ink.onFill : style.pale ? sheet.theme.quiet : ink.text;
  return ground + formula(middle, y, style.label, { fill, bold: true, anchor: 'middle' });
}
