// The environment of the explorer: a server, a file that contains its trace, or a notebook.
import type { Selection } from '../state/selection';
import { httpApi, type Api } from './api';
import type { Manifest, ModelInfo } from './manifest';
import type { Source } from './source';

/** A trace that comes with the explorer, without a server. */
export interface SavedTrace {
  manifest: Manifest;
  model: ModelInfo;
  source: Source;
  /** Whether its numbers were rounded to float16. */
  half: boolean;
}

export interface Host {
  /** The server for other sentences and for changes; null for a saved trace. */
  api: Api | null;
  saved: (() => Promise<SavedTrace>) | null;
  /** The first selection, where the URL does not give one. */
  start: Partial<Selection>;
  /** Whether the explorer may set the URL, the title and the scroll position: not in a frame, nor in a notebook. */
  ownsWindow: boolean;
  /** Where key presses are handled: the whole window, or the explorer's own element. */
  keys: EventTarget;
}

export function serverHost(): Host {
  return { api: httpApi('.'), saved: null, start: {}, ownsWindow: true, keys: window };
}
