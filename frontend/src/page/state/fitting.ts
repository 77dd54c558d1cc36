// A selection made to fit a trace: an address may speak of another model's layers.
import type { AttentionPlace } from '../data/places';
import type { Exploration } from '../data/trace';
import type { Selection } from './selection';

export function placeOf(exploration: Exploration, selection: Selection): AttentionPlace | null {
  return exploration.places.find((place) => place.name === selection.at) ?? exploration.places[0] ?? null;
}

export function fitted(selection: Selection, exploration: Exploration): Selection {
  const place = placeOf(exploration, selection);
  if (place === null) return selection;
  const { source, target, config } = { ...exploration.manifest };
  const sizes = { source: source.pieces.length, target: target.pieces.length };
  const least = (index: number, size: number) => Math.max(0, Math.min(index, size - 1));
  return {
    ...selection,
    at: place.name,
    tab: exploration.slim && selection.tab === 'word' ? 'matrix' : selection.tab,
    h: least(selection.h, config.n_heads),
    q: least(selection.q, sizes[place.queries]),
    k: selection.k === null ? null : least(selection.k, sizes[place.keys]),
  };
}

/** The same attention so many layers further up; itself where there is none. */
export function layerBeside(exploration: Exploration, place: AttentionPlace, by: number): AttentionPlace {
  return exploration.places.find((one) => one.kind === place.kind && one.layer === place.layer + by) ?? place;
}
