// One traced sentence: what it has, its numbers when somebody asks for them, each fetched once.
import type { Cut } from './api';
import { unfolded, type Folded, type Manifest } from './manifest';
import { placesOf, type AttentionPlace } from './places';
import type { Source } from './source';
import { grid, row, type Tensor } from './tensor';
import type { Tree } from './tree';

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
  readonly tensors: Map<string, Folded>;
  readonly parameters: Map<string, Folded>;
  readonly places: AttentionPlace[];
  private readonly kept = new Map<string, Promise<unknown>>();

  constructor(
    readonly manifest: Manifest,
    private readonly source: Source,
  ) {
    this.tensors = unfolded(manifest.tensors);
    this.parameters = unfolded(manifest.parameters);
    this.places = placesOf(this.tensors);
  }

  /** Whether it was saved with attention weights only. */
  get slim(): boolean {
    return !this.has('memory');
  }

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  async tensor(name: string): Promise<Tensor> {
    return this.once(name, () => this.source.tensor(name));
  }

  /** In float16, for what only has to be drawn; not kept. */
  roughly(name: string): Promise<Tensor> {
    return this.source.tensor(name, { half: '1' });
  }

  /** One row of a tensor with two axes, without the others where they need not be fetched; null where it has none. */
  async row(name: string, index: number): Promise<Float32Array | null> {
    if (!this.has(name)) return null;
    const found = await this.once(`${name} ${index}`, () => this.source.tensor(name, { rows: String(index) }));
    const rows = grid(found);
    return row(rows, rows.rows === 1 ? 0 : index); // a file gives all that it has
  }

  /** Several at once, in order; null for those that this trace does not have. */
  several(...names: string[]): Promise<(Tensor | null)[]> {
    return Promise.all(names.map((name) => (this.has(name) ? this.tensor(name) : Promise.resolve(null))));
  }

  async weight(name: string, cut?: Cut): Promise<Tensor | null> {
    if (!this.parameters.has(name)) return null;
    return this.once(`weight ${name} ${JSON.stringify(cut ?? {})}`, () => this.source.weight(name, cut));
  }

  /** The search that found the translation; null where that was given. */
  async tree(): Promise<Tree | null> {
    return this.manifest.given ? null : this.once('search', () => this.source.tree());
  }

  /** Whether there is a model that can be asked anew. */
  get live(): boolean {
    return this.source.live;
  }

  private once<T>(key: string, ask: () => Promise<T>): Promise<T> {
    let found = this.kept.get(key) as Promise<T> | undefined;
    if (found === undefined) {
      found = ask();
      this.kept.set(key, found);
      found.catch(() => this.kept.delete(key)); // a failure may be over the next time
    }
    return found;
  }

  /** The parameter whose numbers a name stands for; itself unless it is shared. */
  storage(name: string): string {
    return this.manifest.shared[name] ?? name;
  }

  /** A target token by its id; one that was never looked at, as its number. */
  piece(id: number): string {
    return this.manifest.pieces?.[String(id)] ?? `#${id}`;
  }

  /** What stands at each position of a side; of the target, what goes into the decoder. */
  inputs(side: Side): string[] {
    const { source, target, first } = this.manifest;
    return side === 'source' ? source.pieces : [first, ...target.pieces.slice(0, -1)];
  }

  /** Everything that adds to the residual stream, in the order of the stacks. */
  get sublayers(): Sublayer[] {
    const found = new Map<string, Sublayer>();
    for (const name of this.tensors.keys()) {
      const match = SUBLAYER.exec(name);
      if (match) {
        const place = name.replace(/\.\w+$/, '');
        found.set(place, {
          stack: match[1] as 'encoder' | 'decoder',
          layer: Number(match[2]),
          part: match[3] as string,
          name: place,
        });
      }
    }
    return [...found.values()];
  }
}
