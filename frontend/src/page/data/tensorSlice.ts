// Slices and summaries of a tensor in memory, the same as the server's `tensor_slices.py` makes.
import type { TensorSlice } from './api';
import { grid, type Grid, type Tensor } from './tensor';

export function sliceTensor(tensor: Tensor, { rows, cols, to }: TensorSlice = {}): Tensor {
  if (to !== undefined) return summary(tensor, to);
  if (rows === undefined && cols === undefined) return tensor;
  const width = tensor.shape.at(-1) ?? 1;
  const height = tensor.shape.at(-2) ?? 1;
  const [[top, bottom], [left, right]] = [range(rows, height), range(cols, width)];
  const outer = tensor.values.length / (width * height) || 0;
  const values = new Float32Array(outer * (bottom - top) * (right - left));
  let at = 0;
  for (let block = 0; block < outer; block++) {
    for (let r = top; r < bottom; r++) {
      const from = (block * height + r) * width;
      values.set(tensor.values.subarray(from + left, from + right), at);
      at += right - left;
    }
  }
  return {
    values,
    shape: [...tensor.shape.slice(0, -2), ...(tensor.shape.length > 1 ? [bottom - top] : []), right - left],
  };
}

/** "3", "0:8", "8:" */
function range(text: string | undefined, size: number): [number, number] {
  if (text === undefined) return [0, size];
  const [first = '', last] = text.split(':');
  const from = Number(first);
  return [from, last === undefined ? from + 1 : last === '' ? size : Number(last)];
}

/** A smaller matrix: each cell is the number of largest magnitude in its block. */
function summary(tensor: Tensor, to: string): Tensor {
  const whole = grid(tensor);
  const [rows, cols] = to
    .split('x')
    .map((size, axis) => Math.min(Number(size), axis === 0 ? whole.rows : whole.cols)) as [number, number];
  const values = new Float32Array(rows * cols);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++)
      values[r * cols + c] = largestMagnitude(whole, block(r, rows, whole.rows), block(c, cols, whole.cols));
  }
  return { values, shape: [rows, cols] };
}

const block = (index: number, of: number, size: number): [number, number] => [
  Math.floor((index * size) / of),
  Math.floor(((index + 1) * size) / of),
];

function largestMagnitude(of: Grid, [top, bottom]: [number, number], [left, right]: [number, number]): number {
  let [high, low] = [-Infinity, Infinity];
  for (let r = top; r < bottom; r++) {
    for (let c = left; c < right; c++) {
      const value = of.values[r * of.cols + c] as number;
      if (value > high) high = value;
      if (value < low) low = value;
    }
  }
  return high >= -low ? high : low;
}
