// Where a trace's numbers come from: a server, or a file that the page carries. Screens cannot tell which.
import type { Api, Cut } from './api';
import { cutOut } from './cutting';
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

/** A file of `Trace.save`: taps under their names, weights under `parameters.`, each once however often it is named. */
export function fileSource(file: File, shared: Record<string, string> = {}): Source {
  const same = (JSON.parse(file.metadata['glassformer.trace'] ?? '{}') as { same?: Record<string, string> }).same ?? {};
  return {
    live: false,
    tree: async () => treeOfFile(file),
    async tensor(name, cut) {
      const found = file.tensor(own(same, name));
      if (found === null) throw new Error(`The file does not hold ${name}.`);
      return cutOut(found, cut);
    },
    async weight(name, cut) {
      const found = file.tensor(`parameters.${own(shared, name)}`);
      return found && cutOut(found, cut);
    },
  };
}

const own = (names: Record<string, string>, name: string) =>
  Object.hasOwn(names, name) ? (names[name] as string) : name;
