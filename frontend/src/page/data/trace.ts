// One traced sentence: what it has, its numbers when somebody asks for them, each fetched once.
import type { Cut } from './api';
import { unfolded, type Folded, type Manifest } from './manifest';
import { placesOf, type AttentionPlace } from './places';
import type { Source } from './source';
import type { Tensor } from './tensor';
import type { Tree } from './tree';

export type Side = 'source' | 'target';

export interface Sublayer {
  stack: 'encoder' | 'decoder';
  layer: number;
  part: string;
  name: string;
}

const SUBLAYER = /^(encoder|decoder)\.layers\.(\d+)\.(self_attention|cross_attention|feed_forward|ssru)\.output$/;

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

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  async tensor(name: string): Promise<Tensor> {
    return (await this.once(name, () => this.source.tensor(name))) as Tensor;
  }

  /** In float16, for what only has to be drawn; not kept. */
  roughly(name: string): Promise<Tensor> {
    return this.source.tensor(name, { half: '1' });
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

  /** What stands at each position of a side; of the target, what goes into the decoder. */
  inputs(side: Side): string[] {
    const { source, target, first } = this.manifest;
    return side === 'source' ? source.pieces : [first, ...target.pieces.slice(0, -1)];
  }

  /** Everything that adds to the residual stream, in the order of the stacks. */
  get sublayers(): Sublayer[] {
    const found: Sublayer[] = [];
    for (const name of this.tensors.keys()) {
      const match = SUBLAYER.exec(name);
      if (match) {
        found.push({
          stack: match[1] as 'encoder' | 'decoder',
          layer: Number(match[2]),
          part: match[3] as string,
          name: name.replace(/\.output$/, ''),
        });
      }
    }
    return found;
  }
}
