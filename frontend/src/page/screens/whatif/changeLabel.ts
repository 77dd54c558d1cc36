// Label of a change, for its chip and for screen readers.
import { quoted } from '../../../figures/formatting';
import { keyLabel, queryLabel, tokensOf } from '../../data/places';
import type { Exploration } from '../../data/trace';
import type { Change } from '../../state/changes';
import { texts } from '../../strings';

const words = texts.screen.whatif.says;

/** "encoder 1 self" of encoder.layers.1.self_attention; a layer is "encoder 1". */
export function placeLabel(at: string): string {
  const [stack, , layer, part] = at.split('.');
  const kind = part === undefined ? '' : ` ${words.parts[part] ?? part}`;
  return `${stack} ${layer}${kind}`;
}

/** `now`: the trace that positions refer to. */
export function changeLabel(change: Change, now: Exploration | null): string {
  switch (change.kind) {
    case 'remove-head':
      return words.removed(placeLabel(change.at), change.head);
    case 'average-head':
      return words.averaged(placeLabel(change.at), change.head);
    case 'remove-edge':
      return words.edge(placeLabel(change.at), ...edgeLabels(change, now), change.head ?? null);
    case 'uniform-attention':
      return words.uniform(placeLabel(change.at), change.head ?? null);
    case 'skip-feed-forward':
      return words.skipped(placeLabel(change.at));
    case 'replace-matrices':
      return words.matrices(
        placeLabel(change.at),
        placeLabel(change.by),
        (change.which ?? ['k', 'v']).map((one) => one.toUpperCase()).join(', '),
      );
    case 'replace-word':
      return words.word(change.old, change.new);
    case 'replace-token':
      return words.tokens(change.position, change.ids.join(' '));
    case 'begin-with':
      return words.prefix(change.text);
    case 'force-prefix':
      return words.prefix(change.ids.join(' '));
  }
}

function edgeLabels(
  { at, query, key }: Extract<Change, { kind: 'remove-edge' }>,
  now: Exploration | null,
): [string, string] {
  const place = now?.places.find((one) => one.name === at);
  if (!now || !place) return [String(query), String(key)];
  const [from, on] = [tokensOf(now, place.queries)[query], tokensOf(now, place.keys)[key]];
  return [from === undefined ? String(query) : queryLabel(from), on === undefined ? String(key) : quoted(keyLabel(on))];
}
