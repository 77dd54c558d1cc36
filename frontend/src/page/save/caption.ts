// Caption of what is saved: model, attention, sentence, version and link.
import type { ModelInfo } from '../data/manifest';
import type { Exploration } from '../data/trace';
import { screenOf } from '../screens/registry';
import { selectedPlace } from '../state/validSelection';
import { toHash, type Selection } from '../state/selection';
import { texts } from '../strings';

export interface Caption {
  model: string;
  version: string;
  screen: string;
  place: string;
  source: string;
  target: string;
  link: string;
}

export function captionOf(
  exploration: Exploration,
  model: ModelInfo,
  selection: Selection,
  ownsWindow: boolean,
): Caption {
  const { manifest } = exploration;
  const place = selection.v === 'attention' ? selectedPlace(exploration, selection) : null;
  const served = ownsWindow && location.protocol !== 'file:'; // the URL of a file or a notebook means nothing to others
  const hash = toHash({ ...selection, s: served ? manifest.source.text : '' });
  return {
    model: model.name,
    version: manifest.version,
    screen: screenOf(selection.v).title,
    place: place === null ? '' : `${texts.place(place.kind, place.layer)}, ${texts.head.toLowerCase()} ${selection.h}`,
    source: manifest.source.text,
    target: manifest.target.text,
    link: served ? location.href.replace(/#.*$/, '') + hash : hash,
  };
}

export function inWords({ model, version, screen, place, source, target, link }: Caption): string {
  return `${screen}${place === '' ? '' : ` · ${place}`}. “${source}” → “${target}”. ${model === '' ? '' : `${model}, `}glassformer ${version}. ${link}`;
}

/** Name of a saved file: the model, the screen or view, and the attention and head. */
export function fileName({ model }: Caption, selection: Selection, what: string, ending: string): string {
  const where = selection.v === 'attention' ? [selection.at, `head${selection.h}`] : [];
  return [model || 'glassformer', what, ...where].join('-').replaceAll(/[^\w.-]+/g, '_') + `.${ending}`;
}
