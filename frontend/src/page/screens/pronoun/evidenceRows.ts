// Rows of the evidence table, with both sentences side by side, and their recomputation from the scores.
import type { EvidenceRow, PronounReading, PronounResponse } from '../../data/pronoun';
import { signed } from '../../parts/numbers';

export type Group = 'word' | 'pronoun' | 'cut' | 'behaviour';

export interface TableRow {
  kind: string;
  group: Group;
  name: string;
  counted: boolean;
  /** One row per reading; null if it has no such row. */
  of: (EvidenceRow | null)[];
}

export function rowsOf(response: PronounResponse): TableRow[] {
  const kinds = [...new Set(response.readings.flatMap((reading) => reading.evidence.map((row) => row.kind)))];
  return kinds.map((kind) => {
    const of = response.readings.map((reading) => reading.evidence.find((row) => row.kind === kind) ?? null);
    const any = of.find((row) => row !== null) as EvidenceRow;
    return { kind, group: groupOf(kind), name: any.name.replace(/^attention of .*: /, ''), counted: any.counted, of };
  });
}

function groupOf(kind: string): Group {
  if (kind === 'following' || kind === 'pronoun') return 'behaviour';
  if (kind.startsWith('cut')) return 'cut';
  return kind.startsWith('pronoun:') ? 'pronoun' : 'word';
}

/** A percentage, or a number with three decimals. */
export function formatValue(row: EvidenceRow, candidate: number): string {
  const value = row.values[candidate] ?? NaN;
  return row.kind === 'following' ? `${Math.round(100 * value)} %` : signed(value);
}

/** "12 of 12", if the note has a part for each candidate. */
export function noteOf(row: EvidenceRow, candidate: number): string {
  const notes = row.note.split(', ');
  return notes.length === row.values.length ? (notes[candidate] ?? '') : '';
}

/** From the scores: the lead of the pronoun, and each candidate's pronoun minus the best. */
export function recomputed(reading: PronounReading): { preference: number | null; pronouns: number[] | null } {
  const scores = Object.values(reading.scores);
  const others = Object.entries(reading.scores).filter(([word]) => word !== reading.pronoun);
  const pronounScore = reading.pronoun === undefined ? undefined : reading.scores[reading.pronoun];
  const preference =
    pronounScore === undefined || others.length === 0
      ? null
      : pronounScore - Math.max(...others.map(([, score]) => score));
  const pronouns = reading.own_pronouns.map((word) => (word === null ? undefined : reading.scores[word]));
  const known = pronouns.every((score) => score !== undefined);
  return { preference, pronouns: known ? pronouns.map((score) => score - Math.max(...scores)) : null };
}

/** The largest difference between recomputed and received values; null if nothing can be recomputed. */
export function differenceOf(response: PronounResponse): number | null {
  const differences: number[] = [];
  for (const reading of response.readings) {
    const { preference, pronouns } = recomputed(reading);
    if (preference !== null && reading.preference !== undefined)
      differences.push(Math.abs(preference - reading.preference));
    const row = reading.evidence.find((one) => one.kind === 'pronoun');
    if (row && pronouns) row.values.forEach((value, i) => differences.push(Math.abs(value - (pronouns[i] as number))));
  }
  return differences.length === 0 ? null : Math.max(...differences);
}
