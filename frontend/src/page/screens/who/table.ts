// The table of evidence: rows of both sentences put beside each other, and what of it the page can redo.
import type { EvidenceRow, Reading, WhoFound } from '../../data/who';
import { signed } from '../../parts/numbers';

export type Group = 'word' | 'pronoun' | 'cut' | 'does';

export interface TableRow {
  kind: string;
  group: Group;
  name: string;
  counted: boolean;
  /** One a reading; null where it has no such row. */
  of: (EvidenceRow | null)[];
}

export function rowsOf(found: WhoFound): TableRow[] {
  const kinds = [...new Set(found.readings.flatMap((reading) => reading.evidence.map((row) => row.kind)))];
  return kinds.map((kind) => {
    const of = found.readings.map((reading) => reading.evidence.find((row) => row.kind === kind) ?? null);
    const any = of.find((row) => row !== null) as EvidenceRow;
    return { kind, group: groupOf(kind), name: any.name.replace(/^attention of .*: /, ''), counted: any.counted, of };
  });
}

function groupOf(kind: string): Group {
  if (kind === 'following' || kind === 'pronoun') return 'does';
  if (kind.startsWith('cut')) return 'cut';
  return kind.startsWith('pronoun:') ? 'pronoun' : 'word';
}

/** A share, or a number with three digits behind the point. */
export function written(row: EvidenceRow, candidate: number): string {
  const value = row.values[candidate] ?? NaN;
  return row.kind === 'following' ? `${Math.round(100 * value)} %` : signed(value);
}

/** How often of how many, where that is said of each candidate. */
export function noteOf(row: EvidenceRow, candidate: number): string {
  const notes = row.note.split(', ');
  return notes.length === row.values.length ? (notes[candidate] ?? '') : '';
}

/** From the scores that the page shows: by how much the pronoun is ahead, and each candidate's behind the best. */
export function redone(reading: Reading): { preference: number | null; pronouns: number[] | null } {
  const scores = Object.values(reading.scores);
  const others = Object.entries(reading.scores).filter(([word]) => word !== reading.pronoun);
  const own = reading.pronoun === undefined ? undefined : reading.scores[reading.pronoun];
  const preference =
    own === undefined || others.length === 0 ? null : own - Math.max(...others.map(([, score]) => score));
  const pronouns = reading.own_pronouns.map((word) => (word === null ? undefined : reading.scores[word]));
  const known = pronouns.every((score) => score !== undefined);
  return { preference, pronouns: known ? pronouns.map((score) => score - Math.max(...scores)) : null };
}

/** The largest difference between what the page redoes and what came; null where nothing can be redone. */
export function differenceOf(found: WhoFound): number | null {
  const differences: number[] = [];
  for (const reading of found.readings) {
    const { preference, pronouns } = redone(reading);
    if (preference !== null && reading.preference !== undefined)
      differences.push(Math.abs(preference - reading.preference));
    const row = reading.evidence.find((one) => one.kind === 'pronoun');
    if (row && pronouns) row.values.forEach((value, i) => differences.push(Math.abs(value - (pronouns[i] as number))));
  }
  return differences.length === 0 ? null : Math.max(...differences);
}
