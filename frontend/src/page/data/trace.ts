// One traced sentence: its tensors, each fetched when it is first needed and then cached.
import type { TensorSlice } from './api';
import { expandLayers, type TensorGroup, type Manifest } from './manifest';
import { placesOf, type AttentionPlace } from './places';
import type { Source } from './source';
import { grid, row, type Tensor } from './tensor';
import { readTree, type SearchTree } from './searchTree';

export type Side = 'source' | 'target';

export interface Sublayer {
  stack: 'encoder' | 'decoder';
  layer: number;
  part: string;
  name: string;
}

const SUBLAYER =
  /^(encoder|decoder)\.layers\.(\d+)\.(self_attention|cross_attention|feed_forward|recurrence)\.(output|weights)$/;

export class Exploration {
  readonly tensors: Map<string, TensorGroup>;
  readonly parameters: Map<string, TensorGroup>;
  readonly places: AttentionPlace[];
  private readonly cache = new Map<string, Promise<unknown>>();

  constructor(
    readonly manifest: Manifest,
    private readonly source: Source,
  ) {
    this.tensors = expandLayers(manifest.tensors);
    this.parameters = expandLayers(manifest.parameters);
    this.places = placesOf(this.tensors);
  }

  /** Whether the trace was saved with attention weights only. */
  get weightsOnly(): boolean {
    return !this.has('memory');
  }

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  async tensor(name: string): Promise<Tensor> {
    return this.cached(name, () => this.source.tensor(name));
  }

  /** In float16, for drawing only; not cached. */
  float16Tensor(name: string): Promise<Tensor> {
    return this.source.tensor(name, { half: '1' });
  }

  /** One row of a tensor with two axes, fetched alone where possible; null if the trace does not have the tensor. */
  async row(name: string, index: number): Promise<Float32Array | null> {
    if (!this.has(name)) return null;
    const tensor = await this.cached(`${name} ${index}`, () => this.source.tensor(name, { rows: String(index) }));
    const rows = grid(tensor);
    return row(rows, rows.rows === 1 ? 0 : index); // a source may give all rows
  }

  /** Several tensors, in order; null for those that this trace does not have. */
  several(...names: string[]): Promise<(Tensor | null)[]> {
    return Promise.all(names.map((name) => (this.has(name) ? this.tensor(name) : Promise.resolve(null))));
  }

  async weight(name: string, slice?: TensorSlice): Promise<Tensor | null> {
    if (!this.parameters.has(name)) return null;
    return this.cached(`weight ${name} ${JSON.stringify(slice ?? {})}`, () => this.source.weight(name, slice));
  }

  /** The search tree; null if the translation was given. */
  async tree(): Promise<SearchTree | null> {
    if (this.manifest.target_given) return null;
    return this.cached('search', async () => readTree(await this.source.tree(), this.manifest));
  }

  /** Whether there is a server that can run the model again. */
  get live(): boolean {
    return this.source.live;
  }

  private cached<T>(key: string, fetch: () => Promise<T>): Promise<T> {
    let value = this.cache.get(key) as Promise<T> | undefined;
    if (value === undefined) {
      value = fetch();
      this.cache.set(key, value);
      value.catch(() => this.cache.delete(key)); // a failure may be temporary
    }
    return value;
  }

  /** The parameter that holds a parameter's numbers: another one if they are shared. */
  storage(name: string): string {
    return this.manifest.shared[name] ?? name;
  }

  /** Display text of a target token; "#id" if it does not occur in the trace. */
  piece(id: number): string {
    return this.manifest.pieces?.[String(id)] ?? `#${id}`;
  }

  /** Input token of each position of a side; for the target, the decoder's input. */
  inputs(side: Side): string[] {
    const { source, target, start_token } = this.manifest;
    return side === 'source' ? source.pieces : [start_token, ...target.pieces.slice(0, -1)];
  }

  /** Everything that adds to the residual stream, in model order. */
  get sublayers(): Sublayer[] {
    const byName = new Map<string, Sublayer>();
    for (const name of this.tensors.keys()) {
      const match = SUBLAYER.exec(name);
      if (match) {
        const place = name.replace(/\.\w+$/, '');
        byName.set(place, {
          stack: match[1] as 'encoder' | 'decoder',
          layer: Number(match[2]),
          part: match[3] as string,
          name: place,
        });
      }
    }
    return [...byName.values()];
  }
}
