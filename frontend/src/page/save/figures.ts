// The figures that the server can draw for a screen, and their options.
import type { FigureCatalogue } from '../data/manifest';
import type { Exploration } from '../data/trace';
import { selectedPlace } from '../state/validSelection';
import type { Selection } from '../state/selection';

/** A view by its name, with the options that `glassformer.inspection.figures` takes. */
export interface FigureRequest {
  view: string;
  summary: string;
  options: Record<string, string>;
}

/** Tabs that show all heads. */
const ALL_HEADS = ['heads', 'compare'];

/** Options of the story page: the selected attention, head and position. */
export function storyOf(exploration: Exploration, selection: Selection, dark: string): Record<string, string> {
  const place = selectedPlace(exploration, selection);
  return { dark, ...(place === null ? {} : { at: place.name, head: String(selection.h), token: String(selection.q) }) };
}

export function figuresOf(
  exploration: Exploration,
  selection: Selection,
  catalogue: FigureCatalogue | undefined,
): FigureRequest[] {
  const screen = selection.v === 'attention' ? selection.tab : selection.v;
  const place = selectedPlace(exploration, selection);
  const values = {
    at: place?.name,
    head: ALL_HEADS.includes(screen) ? undefined : String(selection.h),
    token: String(selection.q),
  };
  const searched = exploration.manifest.tree != null;
  return (catalogue?.screens[screen] ?? [])
    .filter((view) => view !== 'beam' || searched)
    .map((view) => {
      const { summary, options, of_attention } = catalogue?.views[view] as FigureCatalogue['views'][string];
      // Other views than those of an attention are of the decoder: an attention of the source does not apply.
      const applies = of_attention || place?.queries === 'target';
      const given = Object.entries(values).filter(
        ([name, value]) => options.includes(name) && value !== undefined && (applies || name === 'head'),
      );
      return { view, summary, options: Object.fromEntries(given) as Record<string, string> };
    });
}
