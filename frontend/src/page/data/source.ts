// Source of a trace's tensors: a server or a file, behind one interface.
import type { Api, TensorSlice } from './api';
import { sliceTensor } from './tensorSlice';
import type { File } from './safetensors';
import type { Tensor } from './tensor';

export interface Source {
  /** Whether there is a server that can run the model again. */
  readonly live: boolean;
  tensor(name: string, slice?: TensorSlice): Promise<Tensor>;
  /** A weight of the model, or part of it; null if it is not available. */
  weight(name: string, slice?: TensorSlice): Promise<Tensor | null>;
  /** The tensors of the search tree: see `readTree`. */
  tree(): Promise<File>;
}

export function httpSource(api: Api, id: string): Source {
  return {
    live: true,
    tensor: (name, slice) => api.tensor(id, name, slice),
    weight: (name, slice) => api.weight(name, slice),
    tree: () => api.tree(id),
  };
}

/** A trace file: taps by name, weights under `parameters.`; what has several names (`same`, `shared`) is stored once. */
export function fileSource(file: File, same: Record<string, string> = {}, shared: Record<string, string> = {}): Source {
  return {
    live: false,
    tree: async () => file,
    async tensor(name, slice) {
      const tensor = file.tensor(stored(same, name));
      if (tensor === null) throw new Error(`The file does not contain ${name}.`);
      return sliceTensor(tensor, slice);
    },
    async weight(name, slice) {
      const tensor = file.tensor(`parameters.${stored(shared, name)}`);
      return tensor && sliceTensor(tensor, slice);
    },
  };
}

/** The name under which the numbers are stored. */
const stored = (names: Record<string, string>, name: string) =>
  Object.hasOwn(names, name) ? (names[name] as string) : name;
