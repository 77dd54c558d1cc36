// Cells of a matrix: rectangles if there are few, one embedded image if there are many.
import { MAX_VECTOR_CELLS, type Canvas } from './canvas';
import { base64, png } from './png';
import { colour, palette, paletteIndex, type Rgb, type Scale } from './scales';
import { number, tag } from './svg';
import type { Matrix } from './types';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Minimum width of a cell, in points; narrower ones are combined into bins. */
const MIN_CELL_WIDTH = 1.2;

/** The means of bins of `perRow` × `perCol` cells. */
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

/** A matrix in bins that are large enough to be seen at this size; the caption mentions them. */
export function fitted(
  canvas: Canvas,
  given: Matrix,
  width: number,
  height: number,
  minWidth = MIN_CELL_WIDTH,
): Matrix {
  const matrix = asStored(given);
  const perCol = binSize(matrix.cols, (matrix.cols * minWidth) / width);
  const perRow = binSize(matrix.rows, (matrix.rows * minWidth * 0.5) / height); // tokens are binned later
  const [cols, rows] = [perCol * (given.perCol ?? 1), perRow * (given.perRow ?? 1)];
  if (cols > 1) canvas.noteBins(given.cols, 'columns', cols);
  if (rows > 1) canvas.noteBins(given.rows, 'rows', rows);
  return binned(matrix, perRow, perCol);
}

/** Size of a bin: at least `minimum`, and up to 1.6 times that if the last bin is then not smaller than the others. */
export function binSize(count: number, minimum: number): number {
  const needed = Math.max(1, Math.ceil(minimum - 1e-9));
  for (let size = needed; size <= needed * 1.6; size++) if (count % size === 0) return size;
  return needed;
}

/** The matrix with the shape of its stored values, which may already be means of bins. */
function asStored(matrix: Matrix): Matrix {
  const [rows, cols] = [Math.ceil(matrix.rows / (matrix.perRow ?? 1)), Math.ceil(matrix.cols / (matrix.perCol ?? 1))];
  return { rows, cols, values: matrix.values };
}

/** Draws the cells of a matrix in a box; masked cells are hatched. */
export function cells(canvas: Canvas, matrix: Matrix, box: Box, scale: Scale): string {
  canvas.cells += matrix.values.length;
  if (scale.kind === 'signed') canvas.signed = true;
  else canvas.probability = scale;
  const drawn = canvas.asImages ? image(canvas, matrix, box, scale) : rectangles(canvas, matrix, box, scale);
  return drawn + hatched(canvas, matrix, box);
}

/** One path per colour: a third of the bytes of separate rectangles. */
function rectangles(canvas: Canvas, matrix: Matrix, box: Box, scale: Scale): string {
  if (canvas.cells > MAX_VECTOR_CELLS) return ''; // will be drawn again, as images
  const width = box.width / matrix.cols;
  const height = box.height / matrix.rows;
  const size = `h${number(width)}v${number(height)}h${number(-width)}z`;
  const paths = new Map<string, string>();
  matrix.values.forEach((value, index) => {
    if (value === null) return;
    const fill = colour(value, scale, canvas.theme);
    const x = number(box.x + (index % matrix.cols) * width);
    const y = number(box.y + Math.floor(index / matrix.cols) * height);
    paths.set(fill, `${paths.get(fill) ?? ''}M${x} ${y}${size}`);
  });
  const drawn = [...paths].map(([fill, d]) => tag('path', { d, fill }));
  return tag('g', { 'shape-rendering': 'crispEdges' }, ...drawn);
}

function image(canvas: Canvas, matrix: Matrix, box: Box, scale: Scale): string {
  const colours = palette(scale, canvas.theme);
  const indices = new Map<number, number>(); // only colours that occur go into the file
  const used: Rgb[] = [[0, 0, 0]];
  const bytes = matrix.values.map((value) => {
    if (value === null) return 0;
    const shade = paletteIndex(value, scale);
    if (!indices.has(shade)) {
      indices.set(shade, used.length);
      used.push(colours[shade] as Rgb);
    }
    return indices.get(shade) as number;
  });
  return tag('image', {
    ...box,
    href: `data:image/png;base64,${base64(png(matrix.cols, matrix.rows, bytes, used, 0))}`,
    'image-rendering': 'optimizeSpeed',
    preserveAspectRatio: 'none',
    style: 'image-rendering:pixelated',
  });
}

/** Hatching over runs of masked cells, row by row. */
function hatched(canvas: Canvas, matrix: Matrix, box: Box): string {
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
        canvas.masked = canvas.hatches = true;
      } else {
        col++;
      }
    }
  }
  return drawn === '' ? '' : tag('g', { fill: `url(#${canvas.hatch})` }, drawn);
}
