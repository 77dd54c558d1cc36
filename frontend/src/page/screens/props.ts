// Props of every screen: the trace, the selection, and functions to change it.
import type { Snippet } from 'svelte';
import type { Api } from '../data/api';
import type { ModelInfo } from '../data/manifest';
import type { Exploration } from '../data/trace';
import type { WhatIfState } from '../state/whatIf.svelte';
import type { Selection } from '../state/selection';

export interface ScreenProps {
  exploration: Exploration;
  selection: Selection;
  /** A change of the selection that Back undoes. */
  go: (patch: Partial<Selection>) => void;
  /** A small move, which adds no history entry. */
  move: (patch: Partial<Selection>) => void;
  /** The server; null for a saved trace. */
  api: Api | null;
  model: ModelInfo;
  /** A, the trace before the changes, if the difference is shown. */
  other?: Exploration | null;
  whatIf: WhatIfState;
  /** The screen of B, for when there is no difference to compute. */
  plain?: Snippet;
}
