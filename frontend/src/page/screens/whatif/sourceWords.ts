// The words of a source, as the server finds them again: by how they are written, and which of those that are so.
import type { SideOf } from '../../data/manifest';

export interface SourceWord {
  text: string;
  first: number;
  end: number;
  /** Of those that are so written, counted from 0. */
  which: number;
}

const read = (pieces: string[]) =>
  pieces
    .map((piece) => piece.replace(/[▁Ġ]/g, ' ').replace(/@@$|<\/w>$/, ''))
    .join('')
    .trim();

/** Where a text stands among tokens, as `Translator.replacing` looks for it: from the left, none inside another. */
function places(pieces: string[], text: string): number[] {
  const found: number[] = [];
  for (let first = 0, free = 0; first < pieces.length; first++) {
    if (first < free) continue;
    for (let last = first + 1; last < pieces.length; last++) {
      const here = read(pieces.slice(first, last));
      if (here === text) {
        found.push(first);
        free = last;
        break;
      }
      if (here.length > text.length) break;
    }
  }
  return found;
}

export function sourceWords({ pieces, words }: Pick<SideOf, 'pieces' | 'words'>): SourceWord[] {
  const found: SourceWord[] = [];
  for (const [first, end] of words) {
    const text = read(pieces.slice(first, end));
    // A sign before it may belong to the first token, as a space does: then the place found begins there.
    const which = places(pieces, text).findLastIndex((at) => at <= first);
    if (text !== '' && which >= 0) found.push({ text, first, end, which });
  }
  return found;
}
