// The attentions of a trace, found by tensor name, and the tokens of their rows and columns.
import type { Token } from '../../figures/types';
import { tokenText } from '../../figures/text';
import type { TensorGroup } from './manifest';
import type { Exploration, Side } from './trace';

export type Kind = 'encoder-self' | 'decoder-self' | 'cross';

export interface AttentionPlace {
  name: string;
  kind: Kind;
  layer: number;
  /** The side of the query tokens, and of the key tokens. */
  queries: Side;
  keys: Side;
}

const PATTERNS: [RegExp, Kind, Side, Side][] = [
  [/^(encoder\.layers\.(\d+)\.self_attention)\.weights$/, 'encoder-self', 'source', 'source'],
  [/^(decoder\.layers\.(\d+)\.self_attention)\.weights$/, 'decoder-self', 'target', 'target'],
  [/^(decoder\.layers\.(\d+)\.cross_attention)\.weights$/, 'cross', 'target', 'source'],
];

export function placesOf(tensors: Map<string, TensorGroup>): AttentionPlace[] {
  const places: AttentionPlace[] = [];
  for (const [pattern, kind, queries, keys] of PATTERNS) {
    for (const name of tensors.keys()) {
      const match = pattern.exec(name);
      if (match) places.push({ name: match[1] as string, kind, layer: Number(match[2]), queries, keys });
    }
  }
  return places;
}

/** The positions of a side. For the target: the input token, and the token to predict. */
export function tokensOf(exploration: Exploration, side: Side): Token[] {
  const { source, target } = exploration.manifest;
  if (side === 'source') return source.pieces.map((text) => ({ text }));
  const inputs = exploration.inputs('target');
  return target.pieces.map((text, t) => ({ text, after: inputs[t] as string }));
}

/** Label of a position as a key: its input token. */
export function keyLabel(token: Token): string {
  return tokenText(token.after ?? token.text);
}

/** Label of a position as a query: for the target, the input token and the token to predict. */
export function queryLabel(token: Token): string {
  return token.after === undefined ? tokenText(token.text) : `${tokenText(token.after)} → ${tokenText(token.text)}`;
}
