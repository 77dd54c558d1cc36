// A selection limited to what a trace has: a URL may name layers, heads or positions of another model.
import type { AttentionPlace } from '../data/places';
import type { Exploration } from '../data/trace';
import type { Selection } from './selection';

/** The selected attention; the first one if the selected name does not exist. */
export function selectedPlace(exploration: Exploration, selection: Selection): AttentionPlace | null {
  return exploration.places.find((place) => place.name === selection.at) ?? exploration.places[0] ?? null;
}

export function validSelection(selection: Selection, exploration: Exploration): Selection {
  const place = selectedPlace(exploration, selection);
  if (place === null) return selection;
  const { source, target, config } = { ...exploration.manifest };
  const sizes = { source: source.pieces.length, target: target.pieces.length };
  const clamp = (index: number, size: number) => Math.max(0, Math.min(index, size - 1));
  return {
    ...selection,
    at: place.name,
    tab: exploration.weightsOnly && selection.tab === 'token' ? 'matrix' : selection.tab,
    h: clamp(selection.h, config.n_heads),
    q: clamp(selection.q, sizes[place.queries]),
    k: selection.k === null ? null : clamp(selection.k, sizes[place.keys]),
  };
}

/** The same kind of attention `by` layers up; itself if there is none. */
export function adjacentLayer(exploration: Exploration, place: AttentionPlace, by: number): AttentionPlace {
  return exploration.places.find((one) => one.kind === place.kind && one.layer === place.layer + by) ?? place;
}
