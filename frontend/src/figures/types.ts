// What a figure is made from: plain numbers and tokens, as JSON carries them. Nothing here knows where they come from.

/** Values row by row; null where nothing may be looked at. */
export interface Matrix {
  rows: number;
  cols: number;
  values: (number | null)[];
  /** Rows and columns that one value is the mean of, where it was too large to be handed over whole. */
  perRow?: number;
  perCol?: number;
}

/** A matrix whose numbers were not saved: its shape is known, its cells are not. */
export interface Unknown {
  rows: number;
  cols: number;
  values?: undefined;
}

export type MaybeMatrix = Matrix | Unknown;

/** One position. Of the target: what went in (`after`), and what the position has to predict (`text`). */
export interface Token {
  text: string;
  after?: string;
}

export type Stack = 'encoder' | 'decoder';

/** Where an attention stands; layers are counted from 0. */
export interface Place {
  stack: Stack;
  layer: number;
  kind: 'self' | 'cross';
}

/** One attention. Every list has one matrix a head; what a view does not need is not there. */
export interface AttentionData {
  place: Place;
  heads: number;
  head: number | null;
  /** The query position that is looked at. */
  token: number | null;
  queries: Token[];
  keys: Token[];
  scaled: boolean;
  biased: boolean;
  linearBias: boolean;
  positions: string;
  causal: boolean;
  input?: Matrix;
  memory?: Matrix;
  q?: Matrix[];
  k?: Matrix[];
  v?: Matrix[];
  scores?: Matrix[];
  weights?: Matrix[];
  context?: Matrix[];
  share?: number[];
  output?: Matrix;
  wq?: MaybeMatrix[];
  wk?: MaybeMatrix[];
  wv?: MaybeMatrix[];
  wo?: MaybeMatrix;
}

/** One decoder layer's way from the memory to its own K and V. */
export interface Lane {
  layer: number;
  wk: MaybeMatrix;
  wv: MaybeMatrix;
  k: Matrix;
  v: Matrix;
  /** The name of the parameter whose numbers these are, where it is not their own. */
  kSharedWith: string | null;
  vSharedWith: string | null;
  /** Cosine with the encoder's top layer's; null where it cannot be said. */
  kCosine: number | null;
  vCosine: number | null;
}

export interface BridgeData {
  tokens: Token[];
  memory: Matrix;
  heads: number;
  encoderTop: { layer: number; wk: MaybeMatrix; wv: MaybeMatrix };
  lanes: Lane[];
}

export interface FilmData {
  layer: number;
  layers: number;
  heads: number;
  head: number;
  source: Token[];
  target: Token[];
  crossK: Matrix;
  /** Keys of the target, T × K; or with a recurrent decoder its cell, T × D. */
  selfK: Matrix;
  recurrent: boolean;
}

export type Fate = 'start' | 'kept' | 'ended' | 'outranked' | 'displaced' | 'abandoned';

export interface BeamNode {
  parent: number;
  text: string;
  probability: number;
  score: number;
  fate: Fate;
}

export interface BeamData {
  size: number;
  lengthPenalty: number;
  nodes: BeamNode[];
  /** The nodes that end a target, best first. */
  ended: number[];
  /** The end of the hypothesis that the trace follows. */
  followed: number | null;
}

export interface SoftmaxData {
  position: number;
  positions: number;
  before: string[];
  written: string;
  writtenProbability: number;
  likeliest: { text: string; probability: number; written: boolean }[];
  rest: { count: number; probability: number };
  entropy: number;
}

/** How a figure is to look. */
export interface Options {
  /** Millimetres: a column of a journal is 86, a page 178. */
  width?: number;
  dark?: boolean;
  /** Whether the sentences stand under the picture too, and not only in `<desc>`. */
  caption?: boolean;
}
