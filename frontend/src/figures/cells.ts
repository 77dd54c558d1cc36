// The cells of a matrix: rectangles while they are few, one embedded picture when they are many.
import { base64, png } from './png';
import { colour, palette, step, type Rgb, type Scale } from './scales';
import { LARGEST_VECTOR, type Sheet } from './sheet';
import { number, tag } from './svg';
import type { Matrix } from './types';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The narrowest cell that is drawn, in points; narrower ones share a bin. */
const NARROWEST = 1.2;

/** Rows and columns put together so that no cell is narrower than can be seen; the mean stands for them. */
export function binned(matrix: Matrix, perRow: number, perCol: number): Matrix {
  if (perRow === 1 && perCol === 1) return matrix;
  const rows = Math.ceil(matrix.rows / perRow);
  const cols = Math.ceil(matrix.cols / perCol);
  const values: (number | null)[] = [];
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) values.push(meanOf(matrix, row * perRow, col * perCol, perRow, perCol));
  }
  return { rows, cols, values };
}

function meanOf(matrix: Matrix, top: number, left: number, perRow: number, perCol: number): number | null {
  let sum = 0;
  let count = 0;
  for (let row = top; row < Math.min(top + perRow, matrix.rows); row++) {
    for (let col = left; col < Math.min(left + perCol, matrix.cols); col++) {
      const value = matrix.values[row * matrix.cols + col];
      if (value === null || value === undefined) continue;
      sum += value;
      count += 1;
    }
  }
  return count === 0 ? null : sum / count;
}

/** A matrix as it can be drawn in so much room; says in the caption what was put together. */
export function fitted(sheet: Sheet, given: Matrix, width: number, height: number, narrowest = NARROWEST): Matrix {
  const matrix = held(given);
  const perCol = even(matrix.cols, (matrix.cols * narrowest) / width);
  const perRow = even(matrix.rows, (matrix.rows * narrowest * 0.5) / height); // tokens stay apart longer
  const [cols, rows] = [perCol * (given.perCol ?? 1), perRow * (given.perRow ?? 1)];
  if (cols > 1) sheet.binned(given.cols, 'columns', cols);
  if (rows > 1) sheet.binned(given.rows, 'rows', rows);
  return binned(matrix, perRow, perCol);
}

/** How many go together where at least so many must: a number that leaves no smaller bin at the end, if one is near. */
export function even(count: number, least: number): number {
  const needed = Math.max(1, Math.ceil(least - 1e-9));
  for (let size = needed; size <= needed * 1.6; size++) if (count % size === 0) return size;
  return needed;
}

/** The values that are there, which may be means already. */
function held(matrix: Matrix): Matrix {
  const [rows, cols] = [Math.ceil(matrix.rows / (matrix.perRow ?? 1)), Math.ceil(matrix.cols / (matrix.perCol ?? 1))];
  return { rows, cols, values: matrix.values };
}

/** The cells of a matrix in a box. What is masked is hatched. */
export function cells(sheet: Sheet, matrix: Matrix, box: Box, scale: Scale): string {
  sheet.cells += matrix.values.length;
  if (scale.kind === 'signed') sheet.signed = true;
  else sheet.probability = scale;
  const drawn = sheet.pictures ? picture(sheet, matrix, box, scale) : rectangles(sheet, matrix, box, scale);
  return drawn + hatched(sheet, matrix, box);
}

/** Rectangles of one colour are one path: a third of the bytes. */
function rectangles(sheet: Sheet, matrix: Matrix, box: Box, scale: Scale): string {
  if (sheet.cells > LARGEST_VECTOR) return ''; // it will be drawn again, with pictures
  const width = box.width / matrix.cols;
  const height = box.height / matrix.rows;
  const size = `h${number(width)}v${number(height)}h${number(-width)}z`;
  const paths = new Map<string, string>();
  matrix.values.forEach((value, index) => {
    if (value === null) return;
    const fill = colour(value, scale, sheet.theme);
    const x = number(box.x + (index % matrix.cols) * width);
    const y = number(box.y + Math.floor(index / matrix.cols) * height);
    paths.set(fill, `${paths.get(fill) ?? ''}M${x} ${y}${size}`);
  });
  const drawn = [...paths].map(([fill, d]) => tag('path', { d, fill }));
  return tag('g', { 'shape-rendering': 'crispEdges' }, ...drawn);
}

function picture(sheet: Sheet, matrix: Matrix, box: Box, scale: Scale): string {
  const every = palette(scale, sheet.theme);
  const places = new Map<number, number>(); // only the colours that occur go into the file
  const used: Rgb[] = [[0, 0, 0]];
  const bytes = matrix.values.map((value) => {
    if (value === null) return 0;
    const shade = step(value, scale);
    if (!places.has(shade)) {
      places.set(shade, used.length);
      used.push(every[shade] as Rgb);
    }
    return places.get(shade) as number;
  });
  return tag('image', {
    ...box,
    href: `data:image/png;base64,${base64(png(matrix.cols, matrix.rows, bytes, used, 0))}`,
    'image-rendering': 'optimizeSpeed',
    preserveAspectRatio: 'none',
    style: 'image-rendering:pixelated',
  });
}

/** Runs of masked cells, hatched, row by row. */
function hatched(sheet: Sheet, matrix: Matrix, box: Box): string {
  const width = box.width / matrix.cols;
  const height = box.height / matrix.rows;
  let drawn = '';
  for (let row = 0; row < matrix.rows; row++) {
    let col = 0;
    while (col < matrix.cols) {
      const start = col;
      while (col < matrix.cols && matrix.values[row * matrix.cols + col] === null) col++;
      if (col > start) {
        const x = box.x + start * width;
        drawn += tag('rect', { x, y: box.y + row * height, width: (col - start) * width, height });
        sheet.masked = sheet.hatches = true;
      } else {
        col++;
      }
    }
  }
  return drawn === '' ? '' : tag('g', { fill: `url(#${sheet.hatch})` }, drawn);
}
