// Where a trace's numbers come from: a server, or a file that the page carries. Screens cannot tell which.
import type { Api, Cut } from './api';
import type { File } from './safetensors';
import type { Tensor } from './tensor';
import { treeOfFile, type Tree } from './tree';

export interface Source {
  /** Whether there is a model behind it that can be asked anew. */
  readonly live: boolean;
  tensor(name: string, cut?: Cut): Promise<Tensor>;
  /** A weight of the model, or part of it; null where it is not to be had. */
  weight(name: string, cut?: Cut): Promise<Tensor | null>;
  /** The search that found the translation; null where that was given. */
  tree(): Promise<Tree | null>;
}

export function httpSource(api: Api, id: string): Source {
  return {
    live: true,
    tensor: (name, cut) => api.tensor(id, name, cut),
    weight: (name, cut) => api.weight(name, cut),
    tree: () => api.tree(id),
  };
}

/** A file of `Trace.save`: taps under their names, weights under `parameters.`, whole. */
export function fileSource(file: File): Source {
  return {
    live: false,
    tree: async () => treeOfFile(file),
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
