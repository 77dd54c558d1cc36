// Words of the source, as the server identifies them: by their text, and by their number among equal ones.
import type { TokenizedText } from '../../data/manifest';

export interface SourceWord {
  text: string;
  first: number;
  end: number;
  /** Its number among equal words, from 0. */
  which: number;
}

const textOf = (pieces: string[]) =>
  pieces
    .map((piece) => piece.replace(/[▁Ġ]/g, ' ').replace(/@@$|<\/w>$/, ''))
    .join('')
    .trim();

/** Positions of a text among tokens, found as by `Translator.replacing`: from the left, without overlaps. */
function positions(pieces: string[], text: string): number[] {
  const starts: number[] = [];
  for (let first = 0, free = 0; first < pieces.length; first++) {
    if (first < free) continue;
    for (let last = first + 1; last < pieces.length; last++) {
      const candidate = textOf(pieces.slice(first, last));
      if (candidate === text) {
        starts.push(first);
        free = last;
        break;
      }
      if (candidate.length > text.length) break;
    }
  }
  return starts;
}

export function sourceWords({ pieces, words }: Pick<TokenizedText, 'pieces' | 'words'>): SourceWord[] {
  const list: SourceWord[] = [];
  for (const [first, end] of words) {
    const text = textOf(pieces.slice(first, end));
    // The first token may begin with punctuation or a space: then the position found is that of the token.
    const which = positions(pieces, text).findLastIndex((at) => at <= first);
    if (text !== '' && which >= 0) list.push({ text, first, end, which });
  }
  return list;
}
