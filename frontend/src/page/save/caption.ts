// What a saved view is of, for who finds it later: model, place, sentence, version and link.
import type { ModelInfo } from '../data/manifest';
import type { Exploration } from '../data/trace';
import { screenOf } from '../screens/registry';
import { placeOf } from '../state/fitting';
import { toHash, type Selection } from '../state/selection';
import { texts } from '../strings';

export interface Caption {
  model: string;
  version: string;
  view: string;
  place: string;
  source: string;
  target: string;
  link: string;
}

export function captionOf(exploration: Exploration, model: ModelInfo, selection: Selection, alone: boolean): Caption {
  const { manifest } = exploration;
  const place = selection.v === 'attention' ? placeOf(exploration, selection) : null;
  const served = alone && location.protocol !== 'file:'; // a file's place means nothing to others, nor does a notebook's
  const hash = toHash({ ...selection, s: served ? manifest.source.text : '' });
  return {
    model: model.name,
    version: manifest.version,
    view: screenOf(selection.v).title,
    place: place === null ? '' : `${texts.place(place.kind, place.layer)}, ${texts.head.toLowerCase()} ${selection.h}`,
    source: manifest.source.text,
    target: manifest.target.text,
    link: served ? location.href.replace(/#.*$/, '') + hash : hash,
  };
}

export function inWords({ model, version, view, place, source, target, link }: Caption): string {
  return `${view}${place === '' ? '' : ` · ${place}`}. “${source}” → “${target}”. ${model === '' ? '' : `${model}, `}glassformer ${version}. ${link}`;
}

/** A name for a file: the model, the view, and where. */
export function fileName({ model }: Caption, selection: Selection, what: string, ending: string): string {
  const where = selection.v === 'attention' ? [selection.at, `head${selection.h}`] : [];
  return [model || 'glassformer', what, ...where].join('-').replaceAll(/[^\w.-]+/g, '_') + `.${ending}`;
}
