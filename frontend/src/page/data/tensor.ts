// Tensors with their shape, and views of them without a copy.

export interface Tensor {
  values: Float32Array;
  shape: number[];
}

/** A matrix in row-major order. */
export interface Grid {
  rows: number;
  cols: number;
  values: Float32Array;
}

/** The i-th slice along the first axis: head h of `H T S`. */
export function part(tensor: Tensor, index: number): Tensor {
  const shape = tensor.shape.slice(1);
  const size = shape.reduce((product, one) => product * one, 1);
  return { values: tensor.values.subarray(index * size, (index + 1) * size), shape };
}

/** A tensor with two axes as a grid; one axis gives a single row. */
export function grid(tensor: Tensor): Grid {
  const cols = tensor.shape[tensor.shape.length - 1] ?? 1;
  return { rows: cols === 0 ? 0 : tensor.values.length / cols, cols, values: tensor.values };
}

export function row(of: Grid, index: number): Float32Array {
  return of.values.subarray(index * of.cols, (index + 1) * of.cols);
}

/** `H T K` as T rows of H·K: the concatenated heads, as before W_O. */
export function joined(tensor: Tensor): Grid {
  const [heads = 0, rows = 0, width = 0] = tensor.shape;
  const values = new Float32Array(tensor.values.length);
  for (let h = 0; h < heads; h++) {
    for (let r = 0; r < rows; r++) {
      const from = (h * rows + r) * width;
      values.set(tensor.values.subarray(from, from + width), (r * heads + h) * width);
    }
  }
  return { rows, cols: heads * width, values };
}

export function transposed(of: Grid): Grid {
  const values = new Float32Array(of.values.length);
  for (let r = 0; r < of.rows; r++) {
    for (let c = 0; c < of.cols; c++) values[c * of.rows + r] = of.values[r * of.cols + c] as number;
  }
  return { rows: of.cols, cols: of.rows, values };
}
