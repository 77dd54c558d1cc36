// Where attentions stand, read from a trace's names; and what its rows and columns are.
import type { Token } from '../../figures/types';
import { shown } from '../../figures/text';
import type { Folded } from './manifest';
import type { Exploration, Side } from './trace';

export type Kind = 'encoder-self' | 'decoder-self' | 'cross';

export interface AttentionPlace {
  name: string;
  kind: Kind;
  layer: number;
  /** Whose tokens ask, and whose are looked at. */
  queries: Side;
  keys: Side;
}

const NAMES: [RegExp, Kind, Side, Side][] = [
  [/^(encoder\.layers\.(\d+)\.self_attention)\.weights$/, 'encoder-self', 'source', 'source'],
  [/^(decoder\.layers\.(\d+)\.self_attention)\.weights$/, 'decoder-self', 'target', 'target'],
  [/^(decoder\.layers\.(\d+)\.cross_attention)\.weights$/, 'cross', 'target', 'source'],
];

export function placesOf(tensors: Map<string, Folded>): AttentionPlace[] {
  const found: AttentionPlace[] = [];
  for (const [pattern, kind, queries, keys] of NAMES) {
    for (const name of tensors.keys()) {
      const match = pattern.exec(name);
      if (match) found.push({ name: match[1] as string, kind, layer: Number(match[2]), queries, keys });
    }
  }
  return found;
}

/** The positions of a side. Of the target: what went in, and what has to be predicted there. */
export function tokensOf(exploration: Exploration, side: Side): Token[] {
  const { source, target } = exploration.manifest;
  if (side === 'source') return source.pieces.map((text) => ({ text }));
  const before = exploration.inputs('target');
  return target.pieces.map((text, t) => ({ text, after: before[t] as string }));
}

/** A position as a key: what stands there. */
export function keyLabel(token: Token): string {
  return shown(token.after ?? token.text);
}

/** A position as a query: of the target, after what and before what. */
export function queryLabel(token: Token): string {
  return token.after === undefined ? shown(token.text) : `${shown(token.after)} → ${shown(token.text)}`;
}
