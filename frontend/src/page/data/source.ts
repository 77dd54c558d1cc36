// Where a trace's numbers come from: a server, or a file that the page carries. Screens cannot tell which.
import type { Api, Cut } from './api';
import type { File } from './safetensors';
import type { Tensor } from './tensor';

export interface Source {
  tensor(name: string, cut?: Cut): Promise<Tensor>;
  /** A weight of the model, or part of it; null where it is not to be had. */
  weight(name: string, cut?: Cut): Promise<Tensor | null>;
}

export function httpSource(api: Api, id: string): Source {
  return {
    tensor: (name, cut) => api.tensor(id, name, cut),
    weight: (name, cut) => api.weight(name, cut),
  };
}

/** A file of `Trace.save`: taps under their names, weights under `parameters.`, whole. */
export function fileSource(file: File): Source {
  return {
    async tensor(name) {
      const found = file.tensor(name);
      if (found === null) throw new Error(`The file does not hold ${name}.`);
      return found;
    },
    async weight(name, cut) {
      const found = file.tensor(`parameters.${name}`);
      return found === null || cut?.to !== undefined || cut?.cols !== undefined ? null : rowsOf(found, cut?.rows);
    },
  };
}

function rowsOf(tensor: Tensor, rows: string | undefined): Tensor {
  if (rows === undefined) return tensor;
  const width = tensor.shape[tensor.shape.length - 1] ?? 1;
  const [first, last] = rows.split(':').map(Number) as [number, number | undefined];
  const values = tensor.values.subarray(first * width, (last ?? first + 1) * width);
  return { values, shape: [values.length / width, width], axes: tensor.axes };
}
