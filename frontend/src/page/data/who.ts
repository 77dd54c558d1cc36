// What is asked about a word, and what comes back: `PronounRequest` and `PronounResponse` of `glassformer.server.schemas`.

export interface AskWho {
  text: string;
  word: string;
  candidates?: string[];
  instead?: { old: string; new: string };
}

export interface EvidenceRow {
  kind: string;
  name: string;
  /** One a candidate, the larger the more. */
  values: number[];
  counted: boolean;
  points_to?: number;
  note: string;
}

export interface Reading {
  source: string;
  translation: string;
  word: string;
  candidates: string[];
  /** Not there where no word of the translation follows any candidate. */
  pronoun?: string;
  scores: Record<string, number>;
  own_pronouns: (string | null)[];
  evidence: EvidenceRow[];
  /** Not there for "undecided". */
  verdict?: number;
  votes: [number, number];
  preference?: number;
  in_words: string;
}

export interface WhoFound {
  swap?: [string, string];
  /** Whether the second sentence was looked for. */
  found: boolean;
  tries: number;
  readings: Reading[];
}
