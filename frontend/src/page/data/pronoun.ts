// Request and response of `POST /api/pronoun`: `PronounRequest` and `PronounResponse` of `glassformer.server.schemas`.

export interface PronounRequest {
  text: string;
  word: string;
  candidates?: string[];
  swap?: { old: string; new: string };
}

export interface EvidenceRow {
  kind: string;
  name: string;
  /** One value per candidate; larger values speak for the candidate. */
  values: number[];
  counted: boolean;
  points_to?: number;
  note: string;
}

export interface PronounReading {
  source: string;
  translation: string;
  word: string;
  candidates: string[];
  /** Missing if no word of the translation changes with any candidate. */
  pronoun?: string;
  scores: Record<string, number>;
  own_pronouns: (string | null)[];
  evidence: EvidenceRow[];
  /** Index of the candidate; missing for "undecided". */
  verdict?: number;
  votes: [number, number];
  preference?: number;
  in_words: string;
}

export interface PronounResponse {
  swap?: [string, string];
  /** Whether the second sentence was searched for, rather than given. */
  swap_searched: boolean;
  tries: number;
  readings: PronounReading[];
}
